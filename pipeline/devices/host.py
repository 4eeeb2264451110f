"""The build machine itself as a device."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp

from .. import files
from ..errors import DeviceError
from . import local
from .base import Result, Session


class HostDevice(Session):
    """Programs run here, in a temporary folder. Its Python is the one that runs the pipeline."""

    python = sys.executable

    def __init__(self) -> None:
        self.name = "host"
        self._folder: Path | None = None

    @property
    def folder(self) -> str:
        return str(self._opened())

    def open(self) -> None:
        self._folder = Path(mkdtemp(prefix="malisdk-host-"))

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def push(self, local: Path, remote: str) -> None:
        copy(self.name, local, self._opened() / remote)

    def pull(self, remote: str, local: Path) -> None:
        with files.atomic_path(local) as temporary:
            copy(self.name, self._opened() / remote, temporary)

    def run(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, cwd: str = "."
    ) -> Result:
        folder = self._opened() / cwd
        # A relative program is meant from `cwd`; the system would look from the caller's folder.
        program = str(folder / argv[0]) if "/" in argv[0] else argv[0]
        try:
            return local.run(
                [program, *argv[1:]],
                name=self.name,
                timeout_s=timeout_s,
                env={**os.environ, **(env or {})},
                cwd=folder,
                echo=argv,
            )
        except FileNotFoundError:
            return Result(code=127, output=f"{argv[0]}: not found\n", seconds=0.0)
        except OSError as e:
            return Result(code=126, output=f"{argv[0]}: {e.strerror}\n", seconds=0.0)

    def _opened(self) -> Path:
        if self._folder is None:
            raise DeviceError(f"{self.name}: device is not open")
        return self._folder


def copy(name: str, source: Path, destination: Path) -> None:
    """Copy a file with its mode. Raises DeviceError with the device's name."""
    try:
        shutil.copy(source, destination)
    except OSError as e:
        raise DeviceError(f"{name}: cannot copy {source} to {destination}: {e.strerror or e}") from e
