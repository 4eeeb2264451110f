"""The emulator that the oracle's arm64 Mesa runs in: Debian trixie's qemu, which every machine gets for itself.

qemu 7 (Debian bookworm, Ubuntu 22.04) is 4 to 7 times slower at this: a kernel that spills takes it 4.0 to 6.3 s of a
core, and qemu 10 takes 0.6 to 1.6 s, with the same counts.
"""

import platform
import shutil
from pathlib import Path

from .. import debian, files, log
from ..debian_root import lock
from ..errors import ToolchainError

_SUITE = "trixie"
_PACKAGE = "qemu-user"
_PROGRAM = "qemu-aarch64"
_INSTALLED = ("qemu-aarch64-static", _PROGRAM)


def _place() -> Path:
    return files.cache_dir() / "oracle" / f"qemu-{_SUITE}-{platform.machine()}" / _PROGRAM


def can_emulate() -> bool:
    return _place().is_file() or _installed() is not None


def find_emulator() -> Path:
    """The cached emulator, else the one that is installed. Raises ToolchainError without one."""
    if _place().is_file():
        return _place()
    if installed := _installed():
        return installed
    raise ToolchainError(
        f"{_INSTALLED[0]}: program not found on PATH; the oracle runs Mesa for arm64 with it on {platform.machine()}",
        hint="apt install qemu-user-static",
    )


def ensure_emulator() -> Path:
    """The emulator, loaded first if it is not in the cache (71 MB to load, 17 MB on disk).

    Where it cannot be loaded, the installed one serves, slower. Raises ToolchainError if there is none either.
    """
    if _place().is_file():
        return _place()
    try:
        with lock(_place().parent.parent):
            if not _place().is_file():
                _load(_place())
    except ToolchainError as e:
        installed = find_emulator()
        log.info(f"{installed} serves, if slower, since Debian's {_PACKAGE} of {_SUITE} cannot be loaded: {e}")
    return find_emulator()


def _installed() -> Path | None:
    return next((Path(found) for found in map(shutil.which, _INSTALLED) if found), None)


def _load(place: Path) -> None:
    with log.step(f"{_PROGRAM} from Debian {_SUITE}"), debian.private_apt(_SUITE, debian.own_architecture()) as apt:
        (package,) = debian.download(apt, [_PACKAGE], dependencies=False)
        program = debian.read_file(package, f"./usr/bin/{_PROGRAM}")
        with files.atomic_path(place) as temporary:
            temporary.write_bytes(program)
            temporary.chmod(0o755)
