"""Write any model that is taken as one ONNX file with static shapes, for other tools and for the build's own steps."""

import argparse
from pathlib import Path

from ..shapes import OPTION_HELP

SUMMARY = "write a model as ONNX with static shapes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, help="an MXNet symbol, its parameters or their prefix, or an ONNX file")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME:DIMS", help=OPTION_HELP)
    parser.add_argument("--cut", action="append", metavar="TENSOR", help="make this tensor an output (repeatable)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.onnx")


def main(args: argparse.Namespace) -> int:
    from .. import files
    from ..errors import BundleError, ConfigError
    from ..importers.model_import import as_onnx
    from ..shapes import parse_shapes

    if args.out.is_dir():
        raise ConfigError(f"{args.out}: is a folder; expected a file name", hint=f"--out {args.out / 'model.onnx'}")
    model = as_onnx(args.model, shapes=parse_shapes(args.shape), outputs=args.cut)
    try:
        files.write_bytes(args.out, model.SerializeToString(deterministic=True))
    except OSError as e:
        raise BundleError(f"{args.out}: cannot be written ({e.strerror})", hint="name another file with --out") from e
    print(f"{args.out} {args.out.stat().st_size}")
    return 0
