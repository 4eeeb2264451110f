"""What kernels cost inside a Mali GPU, told by Mesa's compiler for it (Debian's arm64 packages; no GPU is needed), and
the cost model that makes times of it."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..oracle import Gpu, Outcome

SUMMARY = "show what kernels cost inside a Mali GPU"
_ACTIONS = ("setup", "check", "report", "fit")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="+",
        metavar="setup | check FILE.mali ... | report LOG ... | fit LOG ... | FILE.cl ... | FILE.mali ...",
        help="setup: load the compiler (164 MB) into the cache; check: try every kernel of a compiled model on the "
        "driver; report: judge the cost model on an AutoTVM log, network by network, with fits to the others, where "
        "further logs only help to fit; fit: report, and write the constants of a fit to all of it; files alone: "
        "registers, spills, bundles and threads of their kernels",
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="fit: where to write the constants")
    parser.add_argument("--gpu", default="T860", help="T860 (default), T720, T760, T820, T830, T880, G31, G52, ...")
    parser.add_argument("--option", action="append", default=[], metavar="-DX=1", help="for the OpenCL compiler")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="compilers at once (2)")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S", help="seconds a kernel may take (300)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def main(args: argparse.Namespace) -> int:
    from ..errors import ConfigError
    from ..oracle import find_gpu

    if not args.timeout > 0:
        raise ConfigError(f"--timeout: not a time limit, got {args.timeout:g}; expected seconds above 0")
    if args.processes < 1:
        raise ConfigError(f"--processes: not a number of compilers, got {args.processes}; expected 1 or more")
    gpu = find_gpu(args.gpu)
    action, paths = (args.words[0], args.words[1:]) if args.words[0] in _ACTIONS else ("", args.words)
    if action == "setup":
        if paths:
            raise ConfigError(f"oracle setup: takes no files, got {paths[0]}; expected nothing more")
        return _setup(gpu)
    if not paths:
        expected = "FILE.mali" if action == "check" else "an AutoTVM log"
        raise ConfigError(f"oracle {action}: no file; expected {expected}")
    files = [Path(path) for path in paths]
    if (args.out is not None) != (action == "fit"):
        raise ConfigError(f"--out: got {args.out or 'nothing'}; expected a file with `oracle fit`, and only there")
    for file in files:
        if not file.is_file():
            raise ConfigError(f"{file}: no such file; expected OpenCL C text or a .mali file, or {_known()}")
    if action == "check":
        return _check(files, gpu, as_json=args.json)
    if action in ("report", "fit"):
        return _report(files, gpu, args)
    return _costs(files, gpu, args)


def _known() -> str:
    return " or ".join(f"`oracle {action}`" for action in _ACTIONS)


def _setup(gpu: "Gpu") -> int:
    from ..oracle.compiler import prepare
    from ..oracle.root import ensure_system, warm_cache

    # Everything can be there but the fast emulator, where an installed one has served so far.
    ensure_system()
    driver = prepare(gpu)
    print(f"{driver.name}, {driver.version}, driver {driver.driver}: {warm_cache(gpu).parent}")
    return 0


def _check(files: list[Path], gpu: "Gpu", *, as_json: bool) -> int:
    from dataclasses import asdict

    from .. import container
    from ..errors import DeviceError
    from ..oracle.check import check_plan

    checks = {str(file): check_plan(container.read(file), gpu) for file in files}
    if as_json:
        print(json.dumps({name: asdict(check) for name, check in checks.items()}, indent=2))
    else:
        for name, check in checks.items():
            print(f"{name}: {check}")
    failed = [name for name, check in checks.items() if not check.passed]
    if failed:
        raise DeviceError(f"{', '.join(failed)}: not all kernels would run on Mesa's driver; expected all")
    return 0


def _report(logs: list[Path], gpu: "Gpu", args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from .. import files, log
    from ..oracle.judge import judge, verdicts_text
    from ..oracle.refit import refit
    from ..tuning.measured import samples_of

    measured = samples_of(logs, gpu, timeout_s=args.timeout, processes=args.processes)
    for failure in measured.failures:
        log.info(f"no sample: {failure}")
    made = refit(measured.samples, measured.older, fitted_on=", ".join(file.name for file in logs))
    verdicts = judge(measured.samples, made.held_out_us, measured.older)
    if args.json:
        print(json.dumps({"model": asdict(made.model), "verdicts": [asdict(v) for v in verdicts]}, indent=2))
    else:
        total = len(measured.samples) + len(measured.failures)
        print(f"{len(measured.samples)} of {total} records replay and compile")
        print(verdicts_text(verdicts))
        print(f"a fit to all: {made.model.label}")
    if args.out is not None:
        files.write_text(args.out, made.model.to_json())
    return 0


def _costs(files: list[Path], gpu: "Gpu", args: argparse.Namespace) -> int:
    from .. import container
    from ..errors import NothingToDo
    from ..oracle import NoData, measure
    from ..oracle.report import kernels_text, outcome_json, plan_text

    plans = {file: container.read(file) for file in files if file.suffix == ".mali"}
    sources: list[str] = []
    first: dict[Path, int] = {}
    for file in files:
        first[file] = len(sources)
        sources += [k.source for k in plans[file].kernels] if file in plans else [_read(file)]
    outcomes = measure(
        sources,
        gpu,
        options=" ".join(args.option),
        processes=args.processes,
        timeout_s=args.timeout,
    )
    if not any(outcomes):
        raise NothingToDo(f"{files[0]}: no kernels in it; expected __kernel functions")
    found: dict[Path, list[list[Outcome]]] = {
        file: outcomes[first[file] : first[file] + (len(plans[file].kernels) if file in plans else 1)] for file in first
    }
    if args.json:
        kernels = {str(file): [outcome_json(o) for group in groups for o in group] for file, groups in found.items()}
        print(json.dumps({"gpu": gpu.name, "files": kernels}, indent=2))
    else:
        for file, groups in found.items():
            print(f"{file} on Mali-{gpu.name}, counted by Mesa's compiler (not Arm's)")
            if file in plans:
                print(plan_text(plans[file], groups))
            else:
                print(kernels_text(o for group in groups for o in group))
    return 1 if any(isinstance(o, NoData) for group in outcomes for o in group) else 0


def _read(file: Path) -> str:
    from ..errors import ConfigError

    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"{file}: cannot be read as text: {e}") from e
