"""Our kernels against plain TVM's, on the OpenCL of this machine or, as a folder to copy, of another one."""

import argparse
from pathlib import Path

from ..targets import DTYPES, TARGETS

SUMMARY = "compare our kernels with plain TVM's on a GPU's OpenCL"
_NETWORKS = ("efficientnet_lite0", "squeezenet1_1", "mobilenet_v1", "mobilenet_v2", "resnet18")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", metavar="MODEL", help="ONNX file, model folder or name (the benchmarks')")
    parser.add_argument("--target", choices=tuple(TARGETS), default="host", help="platform of the compiled models")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="what tensors are stored in")
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="folder of pairs to make")
    parser.add_argument(
        "--weight-bits", type=int, default=24, metavar="N", help="round weights, for a small archive (24: as they are)"
    )
    parser.add_argument("--run", type=Path, metavar="MALISDK", help="then run the pairs here with this `malisdk`")
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="timed runs a model (20)")
    parser.add_argument("--device", default="auto", help="OpenCL device to run on (auto)")


def main(args: argparse.Namespace) -> int:
    import subprocess
    import sys

    from ..bench.models import find_model
    from ..bench.pairs import SCRIPT, PairOptions, write_pairs
    from ..errors import ConfigError

    if args.run is not None and not args.run.is_file():
        raise ConfigError(
            f"--run: no such program, got {args.run}; expected `malisdk`", hint="scons native target=host"
        )
    models = [find_model(m) for m in args.models or _NETWORKS]
    options = PairOptions(target=args.target, dtype=args.dtype, weight_bits=args.weight_bits)
    write_pairs(models, args.out, options)
    print(args.out)
    if args.run is None:
        return 0
    argv = [sys.executable, str(args.out / SCRIPT), "--malisdk", str(args.run.resolve())]
    argv += ["--runs", str(args.runs), "--device", args.device, "--json", str(args.out / "results.json")]
    return subprocess.run(argv, check=False).returncode
