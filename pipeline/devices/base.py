"""What every device can do: keep a folder, take and give files, run programs within a time limit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from ..errors import DeviceError

_TAIL_LINES = 20
DISK_FULL = "No space left on device"


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a program ended. `code` is its exit code, 128 + n after signal n; `output` is stdout and stderr together."""

    code: int
    output: str
    seconds: float

    @property
    def tail(self) -> str:
        return "\n".join(self.output.rstrip().splitlines()[-_TAIL_LINES:])


class Device(Protocol):
    """A machine that programs of an SDK run on. Use it in a `with` block; the folder is gone after it.

    Remote paths are relative to `folder`, or absolute. All methods raise DeviceError when the device cannot be used
    (not reachable, refused, full); a program that fails is no error but a Result.
    """

    name: str
    python: str
    """The device's Python 3, as a program name to run there."""

    @property
    def folder(self) -> str:
        """Absolute path of this session's folder on the device."""

    def open(self) -> None: ...

    def close(self) -> None: ...

    def push(self, local: Path, remote: str) -> None:
        """Copy one file to the device."""

    def pull(self, remote: str, local: Path) -> None:
        """Copy one file from the device; `local` appears whole or not at all."""

    def run(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, cwd: str = "."
    ) -> Result:
        """Run a program; `env` is added to the device's environment.

        Raises DeviceTimeoutError after `timeout_s`; the program and its children are killed then.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Session:
    """The `with` block of a device, and what is made of its methods."""

    name: str
    python = "python3"

    def open(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class DeviceTimeoutError(DeviceError):
    """A program on a device ran past its time limit and was killed."""


def check(device: Device, result: Result, what: str) -> None:
    """Raise DeviceError with the end of the program's output unless it ended with 0."""
    if result.code != 0:
        raise failure(device, result, f"{what}, got exit code {result.code}; expected 0")


def failure(device: Device, result: Result, what: str) -> DeviceError:
    hint = None
    if DISK_FULL in result.output:
        hint = f"free some space on the device (its folder was {device.folder})"
    return DeviceError(f"{device.name}: {what}\n{result.tail}".rstrip(), hint=hint)


def python_tag(device: Device, *, timeout_s: float) -> str:
    """The device's Python as wheels name it, e.g. "cp311". Raises DeviceError if it has no Python 3."""
    code = "import sys; print('python-tag cp%d%d' % sys.version_info[:2])"
    result = device.run([device.python, "-c", code], timeout_s=timeout_s)
    for line in result.output.splitlines():
        if result.code == 0 and line.startswith("python-tag "):
            return line.partition(" ")[2].strip()
    raise failure(device, result, f"{device.python} does not run, got exit code {result.code}; expected Python 3")
