"""Tar archives whose bytes depend on nothing but what is put into them."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from .. import files
from ..errors import BundleError

# 2000-01-01: tools warn about files from 1970.
_DATE_S = 946_684_800


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One file of an archive: its bytes, or the relative path that it is a symbolic link to."""

    data: bytes = b""
    executable: bool = False
    link: str | None = None


def write_archive(path: Path, *, root: str, entries: Mapping[str, Entry]) -> None:
    """Write a .tar.gz with all entries below one folder `root`, sorted by name, whole or not at all.

    Raises BundleError for a name that leads out of the folder, or an archive that cannot be written.
    """
    for name in entries:
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or name != str(PurePosixPath(name)):
            raise BundleError(f"{path}: file name, got {name!r}; expected a plain path inside the archive")
    folders = {root} | {f"{root}/{folder}" for name in entries for folder in _folders(name)}
    members = {folder: tarfile.TarInfo(folder) for folder in folders}
    for member in members.values():
        member.type, member.mode = tarfile.DIRTYPE, 0o755
    for name, entry in entries.items():
        member = members[f"{root}/{name}"] = tarfile.TarInfo(f"{root}/{name}")
        member.mode = 0o755 if entry.executable else 0o644
        if entry.link is None:
            member.size = len(entry.data)
        else:
            member.type, member.linkname, member.mode = tarfile.SYMTYPE, entry.link, 0o777
    try:
        with (
            files.atomic_path(path) as temporary,
            temporary.open("wb") as f,
            gzip.GzipFile(filename="", fileobj=f, mode="wb", compresslevel=6, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
        ):
            for name in sorted(members):
                members[name].mtime = _DATE_S
                members[name].uname = members[name].gname = "root"
                archive.addfile(
                    members[name],
                    io.BytesIO(entries[name.removeprefix(f"{root}/")].data) if name not in folders else None,
                )
    except OSError as e:
        raise BundleError(f"{path}: cannot be written: {e.strerror or e}") from e


def _folders(name: str) -> list[str]:
    """a/b/c.txt -> a, a/b."""
    return [str(folder) for folder in PurePosixPath(name).parents if folder.parts]
