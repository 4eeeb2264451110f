"""The headers of the target's Python, alone in a folder of their own.

Only Python's headers are taken: the target's libc headers come with the cross compiler, and a second set beside them
breaks the build.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from . import debian, files, log
from .errors import ToolchainError


@dataclass(frozen=True, kw_only=True)
class TargetPython:
    """A CPython whose headers Debian has. `version` is e.g. 3.11, `suite` the Debian release it belongs to."""

    version: str
    suite: str

    @property
    def tag(self) -> str:
        return "cp" + self.version.replace(".", "")

    def ext_suffix(self, architecture: debian.Architecture) -> str:
        """What the name of an extension module ends with, as this Python's importlib expects it."""
        return f".cpython-{self.version.replace('.', '')}-{architecture.multiarch}.so"


PYTHONS = (
    TargetPython(version="3.9", suite="bullseye"),
    TargetPython(version="3.11", suite="bookworm"),
    TargetPython(version="3.13", suite="trixie"),
)


def python_headers(python: TargetPython, out: Path, architecture: debian.Architecture = debian.ARM64) -> None:
    """Write `out`/Python.h and the rest of an architecture's Python headers, and `out`/python.json that describes them.

    python.json: {"version": "3.11", "tag": "cp311", "ext_suffix": ".cpython-311-aarch64-linux-gnu.so"}.
    Raises ToolchainError: apt is missing, no mirror, or the mirror does not carry the suite.
    """
    package = f"libpython{python.version}-dev"
    title = f"headers of Python {python.version} for {architecture.name} from Debian {python.suite}"
    unpack_here = TemporaryDirectory(prefix="malisdk-headers-")
    with log.step(title), debian.private_apt(python.suite, architecture) as apt, unpack_here as unpacked:
        debian.unpack(debian.download(apt, [package], dependencies=False), Path(unpacked))
        include = Path(unpacked, "usr", "include")
        headers = include / f"python{python.version}"
        # The one beside Python.h only chooses among architectures; this one holds the target's settings.
        settings = include / architecture.multiarch / headers.name / "pyconfig.h"
        for needed in (headers / "Python.h", settings):
            if not needed.is_file():
                raise ToolchainError(f"{package} ({apt.suite}): it has no {needed.relative_to(unpacked)}")
        with files.atomic_folder(out, marker="Python.h") as temporary:
            shutil.copytree(headers, temporary, dirs_exist_ok=True)
            shutil.copyfile(settings, temporary / "pyconfig.h")
            describe = {"version": python.version, "tag": python.tag, "ext_suffix": python.ext_suffix(architecture)}
            (temporary / "python.json").write_text(json.dumps(describe, indent=2) + "\n")
