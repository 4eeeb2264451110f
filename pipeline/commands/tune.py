"""Search rules and knobs for the convolutions of models, predicted by the oracle; stop and go on at any time."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..shapes import OPTION_HELP, parse_shapes
from ..targets import DTYPES, TARGETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..schedules.facts import Conv2dFacts
    from ..tuning.log import Record

SUMMARY = "search rules and knobs for a model's convolutions"
_LOG = Path("build", "tuning", "mali_t860.jsonl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="+", metavar="MODEL", help="ONNX file, folder of `models build`, or a name out of `models list`"
    )
    parser.add_argument("--target", choices=tuple(TARGETS), default="rk3399", help="platform (rk3399)")
    parser.add_argument(
        "--dtype", choices=DTYPES, action="append", help="what tensors are stored in; repeatable (float32)"
    )
    parser.add_argument("--shape", action="append", default=[], metavar="NAME:DIMS", help=OPTION_HELP)
    parser.add_argument("--cut", action="append", metavar="TENSOR", help="make this tensor an output (repeatable)")
    parser.add_argument("--log", type=Path, default=_LOG, metavar="FILE.jsonl", help=f"is appended to ({_LOG})")
    parser.add_argument("--best", type=Path, metavar="FILE.jsonl", help="then write the best of each workload here")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="compilers at once (2)")
    parser.add_argument("--device", metavar="DEVICE", help="then measure there: ssh://user@host, host, emulator, ...")
    parser.add_argument("--sdk", type=Path, metavar="ARCHIVE", help="with --device: any SDK for it, for its runtime")
    parser.add_argument("--top", type=int, default=3, metavar="N", help="with --device: candidates a workload (3)")


def main(args: argparse.Namespace) -> int:
    from .. import files, log
    from ..bench.models import find_model
    from ..compile import convolutions
    from ..devices import parse_device
    from ..devices.sdk_archive import read_sdk_archive
    from ..errors import ConfigError
    from ..oracle.progress import Progress
    from ..passes.choose_conv2d import Choice
    from ..targets import find_target
    from ..tuning import log as tuning_log
    from ..tuning.measure import best_predicted, unpacked
    from ..tuning.search import Search, open_workloads

    if args.processes < 1:
        raise ConfigError(f"--processes: not a number of compilers, got {args.processes}; expected 1 or more")
    if args.top < 1:
        raise ConfigError(f"--top: not a number of candidates, got {args.top}; expected 1 or more")
    if (args.device is None) != (args.sdk is None):
        raise ConfigError("--device and --sdk: one without the other; expected both", hint="scons sdk makes an SDK")
    device = None if args.device is None else parse_device(args.device)
    archive = None if args.sdk is None else read_sdk_archive(args.sdk)
    shapes = parse_shapes(args.shape)
    workloads = []
    for text in args.models:
        model = find_model(text)
        for dtype in args.dtype or ["float32"]:
            with log.step(f"read {model.name}, {dtype}"):
                workloads += convolutions(model.onnx, target=args.target, dtype=dtype, shapes=shapes, outputs=args.cut)
    left = open_workloads(workloads, args.log)
    different = len({w.key for w in workloads})
    print(f"{different} workloads, {different - len(left)} of them finished in {args.log}")
    with Progress("tune", len(left), unit="workloads") as progress:

        def report(facts: "Conv2dFacts", records: "Sequence[Record]") -> None:
            progress.advance()
            print(_line(facts, records), flush=True)

        target = find_target(args.target)
        Search(log=args.log, target=target, processes=args.processes, report=report).run(left)
    if device is not None and archive is not None:
        candidates = best_predicted(tuning_log.read(args.log), workloads, args.top)
        with Progress("measure", len(candidates), unit="candidates") as progress, unpacked(device, archive) as bench:
            for c in candidates:
                choice = Choice(rule=c.rule, knobs=c.knobs)
                record = bench.time(c.workload, choice, find_target(args.target))
                tuning_log.append(args.log, [record])
                progress.advance()
                print(_line(c.workload, [record]), flush=True)
    if args.best is not None:
        best = tuning_log.best(tuning_log.read(args.log))
        files.write_text(args.best, "".join(record.line() for record in best))
        print(f"{args.best} {len(best)}")
    return 0


def _line(facts: "Conv2dFacts", records: "Sequence[Record]") -> str:
    timed = [r for r in records if r.time_us is not None]
    if not timed:
        return f"{facts.key}: none of {len(records)} candidates works: {records[0].failure}"
    first = min(timed, key=lambda r: r.time_us or 0.0)
    knobs = " ".join(f"{k}={v}" for k, v in first.knobs.items())
    default = records[0].time_us
    before = f", the default {default:.0f}" if default is not None else ""
    return f"{facts.key}: {first.rule} {knobs}, {first.time_us:.0f} us {first.how} (best of {len(records)}{before})"
