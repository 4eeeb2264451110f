"""The arm64 system that the emulator runs: Debian packages, unpacked into a folder of the cache.

No maintainer script runs, so the few things that they would do are done here. A root is used only once complete: it is
made beside its place and moved there. Its place's name has a hash of its recipe, so a changed recipe makes a new root.
"""

import difflib
import fcntl
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from .. import debian, files, log
from ..errors import ConfigError

_LISTING = "packages.txt"
_LINKED_TO_USR = ("bin", "sbin", "lib")
_EMPTY_FOLDERS = ("dev", "proc", "sys", "tmp", "root", "run", "usr/lib64")
_LIBRARIES = f"usr/lib/{debian.MULTIARCH}"


@dataclass(frozen=True, kw_only=True)
class RootRecipe:
    """What goes into a root. `version` counts changes in how it is made."""

    suite: str
    packages: tuple[str, ...]
    version: int = 1

    @property
    def folder_name(self) -> str:
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{self.suite}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


# What a board's system has that an SDK's user needs: a shell, tar, Python with numpy, an OpenCL driver.
_PACKAGES = (
    *("base-files", "bash", "coreutils", "dash", "findutils", "grep", "gzip", "libc-bin", "sed", "tar"),
    *("python3", "python3-numpy"),
    *("clinfo", "ocl-icd-libopencl1", "pocl-opencl-icd"),
)

# bookworm comes first: the Python (3.11) and, among those with it, the glibc (2.36) nearest to boards' images.
# The others run the wheels of their own Python: 3.9 and 3.13.
RECIPES = tuple(RootRecipe(suite=suite, packages=_PACKAGES) for suite in ("bookworm", "bullseye", "trixie"))

# Seen with pocl 1.6: an argument that is a sub-buffer becomes the whole buffer from a kernel's second launch on, unless
# it is set again. pocl 3.1 and 6.0 are right.
DEFECTS = {"bullseye": "its OpenCL driver (pocl 1.6) mixes up sub-buffers, so only the first run of a session is right"}


def find_recipe(suite: str | None) -> RootRecipe:
    """The recipe of a Debian suite; the default one for None. Raises ConfigError for an unknown suite."""
    names = [r.suite for r in RECIPES]
    if suite is None:
        return RECIPES[0]
    if suite not in names:
        near = difflib.get_close_matches(suite, names, 1)
        hint = f"did you mean emulator:{near[0]}?" if near else None
        raise ConfigError(f"emulator: unknown Debian suite, got {suite}; expected {', '.join(names)}", hint=hint)
    return RECIPES[names.index(suite)]


def place_of(recipe: RootRecipe) -> Path:
    return files.cache_dir() / "emulator" / recipe.folder_name


def ensure_root(recipe: RootRecipe) -> Path:
    """The unpacked root of a recipe, made if it is not in the cache yet (about 20 s, 110 MB to load, 580 MB on disk).

    Raises ToolchainError (apt missing, mirror not reachable), ConfigError (cache not writable).
    """
    place = place_of(recipe)
    if not (place / _LISTING).is_file():
        with _lock(place.parent):
            if not (place / _LISTING).is_file():
                _make(recipe, place)
    return place / "root"


def _make(recipe: RootRecipe, place: Path) -> None:
    title = f"emulated arm64 system from Debian {recipe.suite}"
    with log.step(title), debian.private_apt(recipe.suite) as apt:
        packages = debian.download(apt, recipe.packages, dependencies=True)
        with files.atomic_folder(place, marker=_LISTING) as temporary:
            root = temporary / "root"
            for name in _LINKED_TO_USR:
                (root / "usr" / name).mkdir(parents=True)
                (root / name).symlink_to(f"usr/{name}")
            for name in _EMPTY_FOLDERS:
                (root / name).mkdir(exist_ok=True)
            debian.unpack(packages, root)
            _configure(root)
            (temporary / _LISTING).write_text("".join(f"{p.stem}\n" for p in packages))


def _configure(root: Path) -> None:
    """What the packages' own scripts would have done."""
    for library in ("blas", "lapack"):
        for file in sorted((root / _LIBRARIES / library).glob("lib*.so.*")):
            link = root / _LIBRARIES / file.name
            if not link.exists():
                link.symlink_to(f"{library}/{file.name}")
    if not (root / "usr/bin/sh").exists():
        (root / "usr/bin/sh").symlink_to("dash")
    (root / "etc/passwd").write_text("root:x:0:0:root:/tmp/home:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One process at a time makes roots in `folder`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as e:
        raise ConfigError(
            f"{folder}: cannot write to the cache: {e.strerror}", hint="set MALISDK_CACHE_DIR to a folder of yours"
        ) from e
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
