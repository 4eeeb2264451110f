"""The smoke test of an SDK on a device: unpacked and run there as a user would, through the C++ command and Python.

The programs' exit codes are not trusted alone: their reports must show every output of every case of the archive within
its limit, and the expected class.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from .. import log
from ..errors import DeviceError
from .base import Device, Result, check, failure, python_tag
from .sdk_archive import SdkArchive, SmokeCase

_ARCHIVE = "sdk.tar.gz"
_SITE = "python-site"

# How both programs report an output (case, output, relative error) and the class of a case (case, class found).
_ERROR_LINE = re.compile(r"^(\S+)\s+output '(.*)'\s+relative error (\S+) ")
_CLASS_LINE = re.compile(r"^(\S+)\s+top-1 is (\d+)\b")


@dataclass(frozen=True, kw_only=True)
class CaseOutcome:
    """`error` is the largest relative error over the outputs; `top1` says which class was found, if one is expected."""

    case: str
    error: float
    limit: float
    top1: str | None
    passed: bool


@dataclass(frozen=True, kw_only=True)
class Run:
    """One of the two programs. `seconds` is its whole time there: loading, building kernels, all cases."""

    program: str
    seconds: float
    output: str
    cases: tuple[CaseOutcome, ...]


@dataclass(frozen=True, kw_only=True)
class SmokeReport:
    """`driver` is what `malisdk devices` printed."""

    device: str
    driver: str
    python: str
    runs: tuple[Run, ...]

    @property
    def passed(self) -> bool:
        return all(case.passed for run in self.runs for case in run.cases)


@dataclass(kw_only=True)
class _Clock:
    """The time left of a limit for everything together."""

    limit_s: float
    start: float = field(default_factory=time.perf_counter)

    def left_s(self) -> float:
        return max(1.0, self.limit_s - (time.perf_counter() - self.start))


def smoke(device: Device, archive: SdkArchive, *, timeout_s: float) -> SmokeReport:
    """Run the smoke test on an open device; `timeout_s` is for all of it.

    Raises DeviceError: wrong machine, no OpenCL device, no Python or no wheel for it, a program that fails without a
    report. Wrong results are no error here but in the report.
    """
    clock = _Clock(limit_s=timeout_s)
    _check_machine(device, archive, clock)
    with log.step(f"unpack {archive.path.name} on {device.name}"):
        device.push(archive.path, _ARCHIVE)
        result = device.run(["tar", "-xzf", _ARCHIVE], timeout_s=clock.left_s())
        check(device, result, f"cannot unpack {archive.path.name} with tar")
    sdk = archive.folder
    env = _fresh_caches(device)
    listing = device.run(["bin/malisdk", "devices"], timeout_s=clock.left_s(), env=env, cwd=sdk)
    if listing.code != 0:
        raise _no_opencl(device, listing)
    command = ["bin/malisdk", "smoke", archive.model, "smoke/cases"]
    with log.step(f"C++ command on {device.name}"):
        native = device.run(command, timeout_s=clock.left_s(), env=env, cwd=sdk)
        native_run = _judge(device, "bin/malisdk smoke", native, archive)
    tag = _install_wheel(device, archive, clock)
    with log.step(f"Python {tag} on {device.name}"):
        env = {**env, "PYTHONPATH": f"{device.folder}/{_SITE}", "PYTHONDONTWRITEBYTECODE": "1"}
        words = [device.python, "smoke/smoke.py"]
        python = device.run(words, timeout_s=clock.left_s(), env=env, cwd=sdk)
        python_run = _judge(device, "smoke/smoke.py", python, archive)
    return SmokeReport(device=device.name, driver=listing.output.rstrip(), python=tag, runs=(native_run, python_run))


def _check_machine(device: Device, archive: SdkArchive, clock: _Clock) -> None:
    result = device.run(["uname", "-m"], timeout_s=clock.left_s())
    check(device, result, "uname does not run")
    machine = result.output.split()[-1] if result.output.split() else "nothing"
    if machine != archive.machine:
        hint = "use --device emulator, or a board by ssh://user@host" if archive.machine == "aarch64" else None
        raise DeviceError(
            f"{device.name}: wrong machine for {archive.path.name}, got {machine}; expected {archive.machine}",
            hint=hint,
        )


def _fresh_caches(device: Device) -> Mapping[str, str]:
    """Kernels are built anew in every smoke test: a cache would hide that they no longer build."""
    caches = f"{device.folder}/caches"
    return {"XDG_CACHE_HOME": caches, "POCL_CACHE_DIR": f"{caches}/pocl", "MALISDK_CACHE_DIR": f"{caches}/malisdk"}


def _no_opencl(device: Device, result: Result) -> DeviceError:
    e = failure(device, result, f"no usable OpenCL, `malisdk devices` ended with {result.code}; expected a device")
    hint = e.hint or "install the board's OpenCL driver: its vendor's libmali, or Mesa's rusticl (mesa-opencl-icd)"
    return DeviceError(str(e.args[0]), hint=hint)


def _install_wheel(device: Device, archive: SdkArchive, clock: _Clock) -> str:
    """Put the wheel for the device's Python into a folder of its own, by pip if there is one; returns the tag."""
    tag = python_tag(device, timeout_s=clock.left_s())
    wheel = archive.wheels.get(tag)
    if wheel is None:
        known = ", ".join(sorted(archive.wheels)) or "none"
        raise DeviceError(
            f"{device.name}: no wheel for its Python in {archive.path.name}, got {tag}; expected one of {known}",
            hint="scons sdk python_headers=DIR with the headers of that Python",
        )
    path = f"{archive.folder}/{wheel}"
    pip = [device.python, "-m", "pip"]
    if device.run([*pip, "--version"], timeout_s=clock.left_s()).code == 0:
        words = [*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", "--target", _SITE, path]
    else:
        words = [device.python, "-m", "zipfile", "-e", path, _SITE]
    check(device, device.run(words, timeout_s=clock.left_s()), f"cannot install {wheel}")
    return tag


def _judge(device: Device, program: str, result: Result, archive: SdkArchive) -> Run:
    errors, classes = _parse(result.output)
    if not errors:
        raise failure(device, result, f"{program} reported no case, got exit code {result.code}; expected 0")
    cases = tuple(_outcome(case, errors, classes) for case in archive.cases)
    if result.code != 0 and all(case.passed for case in cases):
        raise failure(device, result, f"{program} failed after its cases, got exit code {result.code}; expected 0")
    return Run(program=program, seconds=result.seconds, output=result.output, cases=cases)


def _outcome(case: SmokeCase, errors: Mapping[tuple[str, str], float], classes: Mapping[str, int]) -> CaseOutcome:
    """An output that was not reported counts as infinitely wrong."""
    found = {output: errors.get((case.name, output), float("inf")) for output in case.limits}
    passed = all(found[output] <= limit for output, limit in case.limits.items())
    top1 = None
    if case.top1 is not None:
        index, label = case.top1
        best = classes.get(case.name)
        passed = passed and best == index
        top1 = label if best == index else "not reported" if best is None else f"class {best}, expected {label}"
    error = max((e if e == e else float("inf") for e in found.values()), default=float("inf"))
    return CaseOutcome(
        case=case.name, error=error, limit=min(case.limits.values(), default=0.0), top1=top1, passed=passed
    )


def _parse(output: str) -> tuple[dict[tuple[str, str], float], dict[str, int]]:
    """Relative error by (case, output), and class found by case."""
    errors: dict[tuple[str, str], float] = {}
    classes: dict[str, int] = {}
    for line in output.splitlines():
        if found := _ERROR_LINE.match(line):
            errors[found[1], found[2]] = float(found[3])
        elif found := _CLASS_LINE.match(line):
            classes[found[1]] = int(found[2])
    return errors, classes
