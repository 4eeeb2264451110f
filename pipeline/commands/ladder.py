"""The steps of 2018 from a naive convolution to a fast one on Mali, with what each should bring."""

import argparse
from pathlib import Path

from ..targets import DTYPES

SUMMARY = "show what each step of the 2018 schedules brings"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dtype", choices=DTYPES, action="append", help="repeatable (both)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="report, IR before and after, kernels")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="compilers at once (2)")


def main(args: argparse.Namespace) -> int:
    from .. import log
    from ..bench.ladder import layer, predicted, report, rungs
    from ..errors import ConfigError
    from ..files import atomic_folder
    from ..oracle import DEFAULT_GPU, find_gpu

    if args.processes < 1:
        raise ConfigError(f"--processes: not a number of compilers, got {args.processes}; expected 1 or more")
    facts = [layer(dtype) for dtype in args.dtype or DTYPES]
    with log.step("schedule and print kernels"):
        steps = [rung for f in facts for rung in rungs(f)]
    text = report(predicted(steps, find_gpu(DEFAULT_GPU), processes=args.processes))
    with atomic_folder(args.out, marker="ladder.txt") as folder:
        for rung in steps:
            name = f"{rung.name}-{rung.dtype}"
            (folder / f"{name}.before.py").write_text(rung.before)
            (folder / f"{name}.after.py").write_text(rung.after)
            (folder / f"{name}.cl").write_text("\n".join(k.source for k in rung.replayed.kernels))
        (folder / "ladder.txt").write_text(text + "\n")
    print(facts[0].key.removesuffix(f" {facts[0].dtype}"))
    print(text)
    return 0
