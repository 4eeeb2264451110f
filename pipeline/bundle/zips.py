"""Zip files whose bytes depend on nothing but what is put into them."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

from .. import files

# The earliest date that a zip file can hold.
_DATE = (1980, 1, 1, 0, 0, 0)
_REGULAR_FILE = 0o100000
_UNIX = 3


def write_zip(path: Path, entries: Mapping[str, bytes]) -> None:
    """Write the files in the order of the mapping; shared libraries are executable, everything else is plain."""
    with files.atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, data in entries.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = _UNIX
            mode = 0o755 if ".so" in Path(name).suffixes else 0o644
            entry.external_attr = (_REGULAR_FILE | mode) << 16
            archive.writestr(entry, data)
