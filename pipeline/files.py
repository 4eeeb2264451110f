"""Files that appear whole or not at all, their hashes, and where downloads are kept."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import ConfigError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that replaces it when the block ends well and is removed when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def sha256(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def cache_dir() -> Path:
    """Where downloads and unpacked device roots are kept: $MALISDK_CACHE_DIR, else the user's cache folder."""
    if named := os.environ.get("MALISDK_CACHE_DIR"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "malisdk"


@contextmanager
def atomic_folder(path: Path, *, marker: str) -> Iterator[Path]:
    """A new empty folder beside `path` that takes its place when the block ends well and is removed when it does not.

    A folder that is there already is replaced if it is empty or something in it matches the glob pattern `marker`;
    otherwise ConfigError is raised, so that a mistyped path costs nobody their files.
    """
    if path.exists() and not (path.is_dir() and (not any(path.iterdir()) or any(path.glob(marker)))):
        raise ConfigError(
            f"{path}: output folder holds something else; expected a new, empty or earlier output folder ({marker})",
            hint="--out a folder that does not exist yet",
        )
    suffix = f"{os.getpid()}.{secrets.token_hex(4)}"
    new, old = path.with_name(f".{path.name}.{suffix}.tmp"), path.with_name(f".{path.name}.{suffix}.old")
    try:
        new.mkdir(parents=True)
    except OSError as e:
        raise ConfigError(f"{path}: output folder cannot be made: {e.strerror or e}") from e
    try:
        yield new
        if path.exists():
            path.rename(old)
        new.rename(path)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
