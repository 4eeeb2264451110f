"""Try an SDK on a device: unpack it there, run its smoke cases through the C++ command and through Python."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..devices.sdk_archive import SdkArchive
    from ..devices.smoke import SmokeReport
    from ..oracle.check import DriverCheck

SUMMARY = "run an SDK's smoke test on a device"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="the SDK archive (.tar.gz)")
    parser.add_argument(
        "--device",
        required=True,
        metavar="DEVICE",
        help="host, rusticl, emulator, emulator:SUITE or ssh://user@host[:port]",
    )
    parser.add_argument("--timeout", type=float, default=1800.0, metavar="S", help="seconds for all of it (1800)")
    parser.add_argument(
        "--check-driver",
        action=argparse.BooleanOptionalAction,
        help="also build every kernel with Mesa's driver for the Mali-T860, which mainline boards use "
        "(default: on the emulator, where that driver can be had)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the result as JSON")


def main(args: argparse.Namespace) -> int:
    from .. import files
    from ..devices import parse_device
    from ..devices.sdk_archive import read_sdk_archive
    from ..devices.smoke import smoke
    from ..errors import ConfigError, DeviceError

    if not args.timeout > 0:
        raise ConfigError(f"--timeout: not a time limit, got {args.timeout:g}; expected seconds above 0")
    device = parse_device(args.device)
    archive = read_sdk_archive(args.bundle)
    check = _check_driver(archive, args.check_driver, device.name)
    with device:
        report = smoke(device, archive, timeout_s=args.timeout)
    print(_text(report))
    if check is not None:
        print(f"\ndry run on Mesa's driver: {check}")
    if check is not None and not check.passed:
        raise DeviceError(f"{args.bundle.name}: not all kernels would run on {check.driver.name}; expected all")
    if not report.passed:
        raise DeviceError(
            f"{args.bundle.name}: smoke test failed on {report.device}; expected every case within its limit"
        )
    if args.out is not None:
        result = {**asdict(report), "driver_check": None if check is None else asdict(check)}
        files.write_text(args.out, json.dumps(result, indent=2) + "\n")
    return 0


def _check_driver(archive: "SdkArchive", wanted: bool | None, device: str) -> "DriverCheck | None":
    """None if it is not wanted, or if nobody asked for it and this machine cannot have the driver."""
    from .. import log
    from ..errors import ToolchainError
    from ..oracle import DEFAULT_GPU, find_gpu
    from ..oracle.check import check_archive

    if not (device.startswith("emulator") if wanted is None else wanted):
        return None
    try:
        with log.step("dry run on Mesa's driver"):
            return check_archive(archive.path, f"{archive.folder}/{archive.model}", find_gpu(DEFAULT_GPU))
    except ToolchainError as e:
        if wanted:
            raise
        log.warning(f"no dry run on Mesa's driver: {e}")
        return None


def _text(report: "SmokeReport") -> str:
    lines = [f"OpenCL on {report.device}:", report.driver, ""]
    for run in report.runs:
        lines += [f"{run.program}:", run.output.rstrip(), ""]
    rows = [("program", "case", "relative error", "limit", "top 1", "result", "seconds")]
    for run in report.runs:
        for i, case in enumerate(run.cases):
            seconds = f"{run.seconds:.1f}" if i == 0 else ""
            verdict = "ok" if case.passed else "FAILED"
            top1 = "-" if case.top1 is None else case.top1
            rows.append((run.program, case.case, f"{case.error:.2e}", f"{case.limit:.0e}", top1, verdict, seconds))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)
