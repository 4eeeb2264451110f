"""Unpacked Debian systems, kept in the cache: what the emulator, the oracle and the rusticl device run.

No maintainer script runs, so the few things that they would do are done here. A root is used only once complete: it is
made beside its place and moved there. Its place's name has a hash of its recipe, so a changed recipe makes a new root.
"""

import fcntl
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import debian, files, log
from .errors import ConfigError

_LISTING = "packages.txt"
_LINKED_TO_USR = ("bin", "sbin", "lib")
_EMPTY_FOLDERS = ("dev", "proc", "sys", "tmp", "root", "run", "usr/lib64")


@dataclass(frozen=True, kw_only=True)
class RootRecipe:
    """What goes into a root. `area` is its folder in the cache, for one architecture only.

    `version` counts changes in how it is made.
    """

    area: str
    title: str
    suite: str
    packages: tuple[str, ...]
    architecture: debian.Architecture = debian.ARM64
    version: int = 1

    @property
    def folder_name(self) -> str:
        content = {"packages": self.packages, "suite": self.suite, "version": self.version}
        text = json.dumps(content, sort_keys=True)
        return f"{self.suite}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def place_of(recipe: RootRecipe) -> Path:
    return files.cache_dir() / recipe.area / recipe.folder_name


def has_root(recipe: RootRecipe) -> bool:
    """Whether the root is in the cache, complete."""
    return (place_of(recipe) / _LISTING).is_file()


def ensure_root(recipe: RootRecipe) -> Path:
    """The unpacked root of a recipe, made if it is not in the cache yet (about 20 s, 110 MB to load, 580 MB on disk).

    Raises ToolchainError (apt missing, mirror not reachable), ConfigError (cache not writable).
    """
    place = place_of(recipe)
    if not has_root(recipe):
        with lock(place.parent):
            if not has_root(recipe):
                _make(recipe, place)
    return place / "root"


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """One process at a time makes something in `folder`. Raises ConfigError if it is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = (folder / ".lock").open("w")
    except OSError as e:
        raise ConfigError(
            f"{folder}: cannot write to the cache: {e.strerror}", hint="set MALISDK_CACHE_DIR to a folder of yours"
        ) from e
    with held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _make(recipe: RootRecipe, place: Path) -> None:
    title = f"{recipe.title} from Debian {recipe.suite}"
    with log.step(title), debian.private_apt(recipe.suite, recipe.architecture) as apt:
        packages = debian.download(apt, recipe.packages, dependencies=True)
        with files.atomic_folder(place, marker=_LISTING) as temporary:
            root = temporary / "root"
            for name in _LINKED_TO_USR:
                (root / "usr" / name).mkdir(parents=True)
                (root / name).symlink_to(f"usr/{name}")
            for name in _EMPTY_FOLDERS:
                (root / name).mkdir(exist_ok=True)
            debian.unpack(packages, root)
            _configure(root, recipe.architecture)
            (temporary / _LISTING).write_text("".join(f"{p.stem}\n" for p in packages))


def _configure(root: Path, architecture: debian.Architecture) -> None:
    """What the packages' own scripts would have done."""
    libraries = root / "usr/lib" / architecture.multiarch
    for library in ("blas", "lapack"):
        for file in sorted((libraries / library).glob("lib*.so.*")):
            link = libraries / file.name
            if not link.exists():
                link.symlink_to(f"{library}/{file.name}")
    if architecture.loader is not None:
        if not (root / "lib64").exists():
            (root / "lib64").symlink_to("usr/lib64")
        loader = root / "usr/lib64" / architecture.loader
        if not loader.exists():
            loader.symlink_to(f"../lib/{architecture.multiarch}/{architecture.loader}")
    if not (root / "usr/bin/sh").exists():
        (root / "usr/bin/sh").symlink_to("dash")
    (root / "etc/passwd").write_text("root:x:0:0:root:/tmp/home:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
