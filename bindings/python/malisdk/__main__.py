"""`python3 -m malisdk run|bench|info|smoke|warmup|devices`: what the malisdk command does, from Python.

Exit code 0: fine; 1: a smoke case failed; 2: wrong arguments; 3: a file, device or run failed.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

import numpy as np

from . import __version__, cases
from ._errors import Error, Status
from ._model import Model, devices, load

_SMOKE_FAILED = 1
_FAILED = 3
_WARM_UP_RUNS = 2


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    try:
        return int(args.command(args))
    except (Error, OSError) as e:
        status = f" ({e.status})" if isinstance(e, Error) else ""
        print(f"error: {e}{status}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m malisdk", description="Run compiled networks (.mali files).")
    parser.add_argument("--version", action="version", version=f"malisdk {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="name")
    commands.required = True

    def add(name: str, function: object, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(command=function)
        if name != "devices":
            command.add_argument("model", metavar="MODEL", help=".mali file")
            command.add_argument("--device", default="auto", help="auto, gpu, cpu or a part of a device's name")
            command.add_argument("--cache-dir", help="folder for built kernels; '' keeps none")
        command.add_argument("--opencl-library", metavar="FILE", help="the OpenCL library to use")
        return command

    run = add("run", _run, "run a model once on .npy files")
    run.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE.npy",
        help="an input; the name may be left out if there is one",
    )
    run.add_argument("--output-dir", required=True, type=Path, metavar="DIR", help="gets one .npy file an output")
    bench = add("bench", _bench, "measure how long a run takes")
    bench.add_argument("--runs", type=_positive, default=20, metavar="N", help="timed runs (default: %(default)s)")
    bench.add_argument("--profile", action="store_true", help="also time every kernel on the device")
    add("info", _info, "print a model's inputs, outputs and sizes")
    smoke = add("smoke", _smoke, "run smoke cases and compare with their expected outputs")
    smoke.add_argument("cases", type=Path, metavar="DIR", help="folder of cases")
    add("warmup", _warmup, "build a model's kernels for this device and fill the kernel cache")
    add("devices", _devices, "list the OpenCL devices")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"got {value}; expected at least 1")
    return value


def _load(args: argparse.Namespace, profile: bool = False) -> Model:
    return load(args.model, args.device, args.cache_dir, args.opencl_library, profile)


def _run(args: argparse.Namespace) -> int:
    with _load(args) as model:
        inputs: dict[str, np.ndarray] = {}
        for word in args.input:
            name, separator, file = word.partition("=")
            if not (name and separator):
                if len(model.inputs) != 1:
                    raise Error(
                        f"--input: got {word!r}; expected NAME=FILE.npy, as the model has {len(model.inputs)} inputs\n"
                        f"hint: python3 -m malisdk info {args.model}",
                        Status.INVALID_ARGUMENT,
                    )
                name, file = model.inputs[0].name, word
            inputs[name] = _read_array(Path(file))
        outputs = {spec.name: np.empty(spec.shape, spec.dtype) for spec in model.outputs}
        model.run(inputs, outputs)
    args.output_dir.mkdir(parents=True, exist_ok=True)
    used: set[str] = set()
    for name, value in outputs.items():
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        stem = "_" + stem if stem[:1] in ("", ".") else stem
        while stem in used:
            stem += "_"
        used.add(stem)
        path = args.output_dir / f"{stem}.npy"
        np.save(path, value)
        print(f"{path}  {value.dtype} {value.shape}")
    return 0


def _read_array(path: Path) -> np.ndarray:
    try:
        return np.load(path, allow_pickle=False)
    except ValueError as e:
        raise Error(f"{path}: not a readable .npy file ({e})", Status.DAMAGED_FILE) from e


def _bench(args: argparse.Namespace) -> int:
    start = time.perf_counter()
    with _load(args, args.profile) as model:
        loaded = time.perf_counter()
        rng = np.random.RandomState(0)
        inputs = {s.name: rng.uniform(-1, 1, s.shape).astype(s.dtype) for s in model.inputs}
        model.run(inputs)
        first = time.perf_counter()
        for _ in range(_WARM_UP_RUNS):
            model.run(inputs)
        times_ms = []
        for _ in range(args.runs):
            begin = time.perf_counter()
            model.run(inputs)
            times_ms.append((time.perf_counter() - begin) * 1e3)
        info = model.info
        low, median, high, most = np.percentile(times_ms, [0, 50, 95, 100])
        cached = f"{info.kernels_from_cache} of {info.kernel_count} kernels from the cache"
        print(f"model       {info.name}, {info.dtype}, {info.launch_count} launches")
        print(f"device      {info.device} ({info.platform})")
        print(f"load        {(loaded - start) * 1e3:.1f} ms ({cached})")
        print(f"first run   {(first - loaded) * 1e3:.3f} ms")
        print(f"latency     min {low:.3f}  median {median:.3f}  p95 {high:.3f}  max {most:.3f} ms  ({args.runs} runs)")
        print(f"throughput  {1e3 / np.mean(times_ms):.2f} runs/s")
        print(f"memory      weights {_megabytes(info.weights_bytes)}, arena {_megabytes(info.arena_bytes)}")
        if args.profile:
            print(model.profile())
    return 0


def _info(args: argparse.Namespace) -> int:
    with _load(args) as model:
        info = model.info
        for name in ("model", "target", "dtype", "device", "platform"):
            print(f"{name:<9} {info.name if name == 'model' else getattr(info, name)}")
        for kind, specs in (("input", model.inputs), ("output", model.outputs)):
            for spec in specs:
                print(f"{kind:<9} '{spec.name}'  {spec.dtype} {spec.shape}")
        print(f"kernels   {info.kernel_count} ({info.kernels_from_cache} from the cache)")
        print(f"launches  {info.launch_count}")
        print(f"weights   {_megabytes(info.weights_bytes)}")
        print(f"arena     {_megabytes(info.arena_bytes)}")
    return 0


def _warmup(args: argparse.Namespace) -> int:
    with _load(args) as model:
        info = model.info
        built = info.kernel_count - info.kernels_from_cache
        print(f"{info.name} on {info.device}: {built} kernels built, {info.kernels_from_cache} came from the cache")
    return 0


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.2f} MB"


def _smoke(args: argparse.Namespace) -> int:
    with _load(args) as model:
        return 0 if cases.smoke(model, args.cases) else _SMOKE_FAILED


def _devices(args: argparse.Namespace) -> int:
    found = devices(args.opencl_library)
    if not found:
        raise Error(
            "OpenCL: the library offers no device\n"
            "hint: install the board's driver; Mesa's rusticl shows its devices only with RUSTICL_ENABLE=panfrost",
            Status.NO_DEVICE,
        )
    for device in found:
        print(device.name)
        print(f"  platform       {device.platform}")
        print(f"  version        {device.version}, driver {device.driver}")
        print(f"  type           {'GPU' if device.is_gpu else 'CPU or other'}, {device.compute_units} compute units")
        print(f"  fp16           {'yes' if device.has_fp16 else 'no'}")
        print(f"  memory         {_megabytes(device.global_memory_bytes)}")
        print(f"  work-group     at most {device.max_work_group} work-items")
    return 0


if __name__ == "__main__":
    sys.exit(main())
