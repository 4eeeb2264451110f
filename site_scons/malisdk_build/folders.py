"""Commands that write a whole folder: SCons follows one file beside it, which lists every file's hash.

What is in such a folder is known only after its command ran, so its files cannot be declared. The listing
`<folder>.sha256` changes exactly when something in the folder does.
"""

import hashlib
from pathlib import Path
from typing import Any

LISTING_SUFFIX = ".sha256"


def listing_text(folder: Path) -> str:
    """`<sha256>  <path>` of every file below the folder, sorted by path, as sha256sum writes it."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return "".join(f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(folder).as_posix()}\n" for p in files)


def write_listing(target: list[Any], source: list[Any], env: Any) -> None:
    """SCons action: list the folder whose listing the first target is."""
    listing = Path(str(target[0]))
    listing.write_text(listing_text(folder_of(listing)))


def folder_of(listing: Path) -> Path:
    return listing.with_suffix("")


def is_complete(listing: Path) -> bool:
    """Whether all files are there that the listing names; what they hold is not looked at."""
    if not listing.is_file():
        return False
    folder = folder_of(listing)
    return all((folder / line.partition("  ")[2]).is_file() for line in listing.read_text().splitlines())
