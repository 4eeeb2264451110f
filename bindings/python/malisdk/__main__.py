"""`python3 -m malisdk run|bench|info|smoke|devices`: what the malisdk command does, from Python.

Exit code 0: fine; 1: a smoke case failed; 2: wrong arguments; 3: a file, device or run failed.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional

import numpy as np

from . import __version__, cases
from ._errors import Error, Status
from ._model import Model, devices, load

_SMOKE_FAILED = 1
_FAILED = 3
_WARM_UP_RUNS = 3


def main(argv: Optional[List[str]] = None) -> int:
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
    run.add_argument("--input", action="append", default=[], metavar="[NAME=]FILE.npy", help="in the model's order, or named")
    run.add_argument("--output-dir", required=True, type=Path, metavar="DIR", help="gets one .npy file an output")
    bench = add("bench", _bench, "measure how long a run takes")
    bench.add_argument("--runs", type=_positive, default=50, metavar="N", help="measured runs (default: %(default)s)")
    bench.add_argument("--profile", action="store_true", help="print the time of every kernel too")
    add("info", _info, "print a model's inputs, outputs and sizes")
    smoke = add("smoke", _smoke, "run smoke cases and compare with their expected outputs")
    smoke.add_argument("cases", type=Path, metavar="DIR", help="folder of cases")
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
        inputs: Dict[str, np.ndarray] = {}
        names = [spec.name for spec in model.inputs]
        for position, word in enumerate(args.input):
            name, separator, file = word.partition("=")
            if not separator:
                if position >= len(names):
                    raise Error(f"--input {word}: too many, got {len(args.input)}; expected {len(names)}", Status.INVALID_ARGUMENT)
                name, file = names[position], word
            inputs[name] = _read_array(Path(file))
        outputs = model.run(inputs, outputs={s.name: np.empty(s.shape, s.dtype) for s in model.outputs})
        if not isinstance(outputs, dict):
            outputs = {model.outputs[0].name: outputs}
    args.output_dir.mkdir(parents=True, exist_ok=True)
    for name, value in outputs.items():
        path = args.output_dir / (re.sub(r"[^A-Za-z0-9._-]", "_", name) + ".npy")
        np.save(path, value)
        print(f"{name}: {value.dtype} {value.shape} -> {path}")
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
        print(f"{info.name} on {info.device} ({info.platform})")
        print(f"load {(loaded - start) * 1e3:.1f} ms ({info.kernels_from_cache} of {info.kernel_count} kernels from the cache)")
        print(f"first run {(first - loaded) * 1e3:.1f} ms")
        low, median, high = np.percentile(times_ms, [0, 50, 95])
        print(f"{args.runs} runs: min {low:.3f}, median {median:.3f}, p95 {high:.3f} ms; {1e3 / np.mean(times_ms):.1f} a second")
        if args.profile:
            print(model.profile())
    return 0


def _info(args: argparse.Namespace) -> int:
    with _load(args) as model:
        info = model.info
        print(f"{info.name}, compiled for {info.target}, {info.dtype} activations")
        print(f"device {info.device} ({info.platform})")
        for kind, specs in (("input", model.inputs), ("output", model.outputs)):
            for spec in specs:
                print(f"{kind} {spec}")
        print(f"{info.kernel_count} kernels, {info.launch_count} launches")
        print(f"weights {info.weights_bytes} bytes, arena {info.arena_bytes} bytes")
    return 0


def _smoke(args: argparse.Namespace) -> int:
    with _load(args) as model:
        return 0 if cases.smoke(model, args.cases) else _SMOKE_FAILED


def _devices(args: argparse.Namespace) -> int:
    for device in devices(args.opencl_library):
        kind = "GPU" if device.is_gpu else "no GPU"
        half = "fp16" if device.has_fp16 else "no fp16"
        print(f"{device.name} ({kind}, {device.compute_units} units, {device.global_memory_bytes >> 20} MiB, {half})")
        print(f"  {device.platform}, {device.version}, driver {device.driver}, work-groups up to {device.max_work_group}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
