"""Make the kernels of an AutoTVM log's records again, and try whether they compute right."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..tuning.autotvm import Record
    from ..tuning.check import Checked
    from ..tuning.replay import Replayed

SUMMARY = "make and check the kernels of an AutoTVM log"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", type=Path, metavar="LOG", help="AutoTVM records for Mali, as TopHub publishes them")
    parser.add_argument(
        "--kernels", type=Path, metavar="DIR", help="write <line>.cl and <line>.json (launches, buffers) of each record"
    )
    parser.add_argument("--check", action="store_true", help="run the kernels and compare with onnxruntime")
    parser.add_argument(
        "--device",
        choices=("host", "rusticl"),
        default="host",
        help="where --check runs float32 (host); float16 runs on rusticl, Mesa's OpenCL, which computes in it",
    )
    parser.add_argument("--dtype", choices=("float32", "float16"), help="only records of this dtype")
    parser.add_argument("--operator", metavar="NAME", help="only records of this operator, e.g. dense")


def main(args: argparse.Namespace) -> int:
    from .. import log
    from ..errors import ConfigError, NothingToDo, ScheduleError
    from ..tuning.autotvm import OPERATORS, read_log
    from ..tuning.replay import replay

    if args.operator is not None and args.operator not in OPERATORS:
        raise ConfigError(f"--operator: unknown, got {args.operator}; expected one of {', '.join(OPERATORS)}")
    records = [r for r in read_log(args.log) if args.dtype in (None, r.dtype) and args.operator in (None, r.operator)]
    if not records:
        raise NothingToDo(f"{args.log}: no record to replay; expected some of --dtype and --operator")
    replays: list[tuple[Record, Replayed]] = []
    problems: dict[int, str] = {}
    with log.step(f"replay {len(records)} records"):
        for record in records:
            try:
                replays.append((record, replay(record)))
            except ScheduleError as e:
                problems[record.line] = str(e)
                _print_problem(record, problems)
    if args.kernels is not None:
        _write(args.kernels, replays)
    errors: dict[int, float] = {}
    if args.check:
        for checked in _check(replays, args.device):
            if checked.error is not None:
                errors[checked.record.line] = checked.error
            if checked.problem:
                problems[checked.record.line] = checked.problem
                _print_problem(checked.record, problems)
    _report(records, problems, errors, "right" if args.check else "replayed")
    if problems:
        lines = ", ".join(map(str, sorted(problems)[:5])) + (", ..." if len(problems) > 5 else "")
        raise ScheduleError(f"{args.log}: records that do not replay, got lines {lines}; expected none")
    return 0


def _check(replays: "Sequence[tuple[Record, Replayed]]", device: str) -> "Iterator[Checked]":
    """float16 goes to rusticl, since host drivers have none."""
    from ..devices import parse_device
    from ..devices.runtime import host_library
    from ..oracle.progress import Progress
    from ..tuning.check import check

    library = host_library()
    with Progress("check", len(replays), unit="records") as progress:
        for name in ("host", "rusticl"):
            there = [(r, k) for r, k in replays if (device if r.dtype == "float32" else "rusticl") == name]
            if not there:
                continue
            with parse_device(name) as opened:
                for checked in check(there, opened, library=library):
                    progress.advance()
                    yield checked


def _print_problem(record: "Record", problems: dict[int, str]) -> None:
    print(f"line {record.line}: {problems[record.line].splitlines()[0]}", flush=True)


def _report(records: "Sequence[Record]", problems: dict[int, str], errors: dict[int, float], verdict: str) -> None:
    for operator, dtype in sorted({(r.operator, r.dtype) for r in records}):
        lines = [r.line for r in records if (r.operator, r.dtype) == (operator, dtype)]
        good = sum(line not in problems for line in lines)
        found = [errors[line] for line in lines if line in errors]
        error = f", largest error {max(found):.1e} of the largest output (measured)" if found else ""
        print(f"{operator} {dtype}: {good} of {len(lines)} {verdict}{error}")
    good = len(records) - len(problems)
    print(f"all: {good} of {len(records)} {verdict}, {good / len(records):.1%}")


def _write(folder: Path, replays: "Sequence[tuple[Record, Replayed]]") -> None:
    """Sizes in bytes and work-items; buffers as ReplayedKernel says."""
    from ..files import write_text

    for record, replayed in replays:
        kernels = [asdict(k) for k in replayed.kernels]
        sources = [k.pop("source") for k in kernels]
        facts = {**asdict(record), "multiply_adds": replayed.multiply_adds, "kernels": kernels}
        write_text(folder / f"{record.line}.json", json.dumps(facts, indent=1) + "\n")
        write_text(folder / f"{record.line}.cl", "\n".join(sources))
