"""What an ELF file needs from the machine it runs on, and whether a board of ours has it."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..errors import BundleError

ELF_MAGIC = b"\x7fELF"
# Boards run distributions as old as Ubuntu 18.04.
GLIBC_LIMIT = (2, 27)
LIBRARY_LIMIT_BYTES = 1024 * 1024
# Nothing else is on every board. libOpenCL is opened at run time: a missing driver is a message, no loader error.
ALLOWED_LIBRARIES = (
    "libmalisdk",
    "libc",
    "libm",
    "libdl",
    "libpthread",
    "librt",
    "ld-linux-aarch64",
    "ld-linux-x86-64",
)


@dataclass(frozen=True, kw_only=True)
class Elf:
    """The loader's view of one ELF file."""

    machine: str  # "AArch64", "x86-64", ... as elftools names them
    soname: str | None
    needed: tuple[str, ...]
    search_paths: tuple[str, ...]  # RPATH and RUNPATH, split at the colons
    versions: tuple[str, ...]  # symbol versions asked of other libraries, such as GLIBC_2.17
    text_relocations: bool

    @property
    def glibc(self) -> tuple[int, ...]:
        """The newest glibc version that is asked for; empty when none is."""
        found = [re.fullmatch(r"GLIBC_(\d+(?:\.\d+)*)", v) for v in self.versions]
        return max((tuple(int(n) for n in m[1].split(".")) for m in found if m), default=())


def read_elf(path: Path) -> Elf:
    """Read the dynamic section and the version needs; raises BundleError for anything that is no whole ELF file."""
    try:
        with path.open("rb") as f:
            return parse_elf(f, name=str(path))
    except OSError as e:
        raise BundleError(f"{path}: cannot be read: {e.strerror or e}") from e


def parse_elf(stream: BinaryIO, *, name: str) -> Elf:
    """The same of an open file; `name` is what an error calls it."""
    from elftools.common.exceptions import ELFError
    from elftools.construct import ConstructError
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile
    from elftools.elf.gnuversions import GNUVerNeedSection

    try:
        elf = ELFFile(stream)
        tags = [t for s in elf.iter_sections() if isinstance(s, DynamicSection) for t in s.iter_tags()]
        needs = [s for s in elf.iter_sections() if isinstance(s, GNUVerNeedSection)]
        paths = [getattr(t, t.entry.d_tag[3:].lower()) for t in tags if t.entry.d_tag in ("DT_RPATH", "DT_RUNPATH")]
        return Elf(
            machine=elf.get_machine_arch(),
            soname=next((t.soname for t in tags if t.entry.d_tag == "DT_SONAME"), None),
            needed=tuple(t.needed for t in tags if t.entry.d_tag == "DT_NEEDED"),
            search_paths=tuple(p for joined in paths for p in joined.split(":")),
            versions=tuple(
                sorted({a.name for s in needs for _, auxiliaries in s.iter_versions() for a in auxiliaries})
            ),
            text_relocations=any(
                t.entry.d_tag == "DT_TEXTREL" or (t.entry.d_tag == "DT_FLAGS" and t.entry.d_val & 4) for t in tags
            ),
        )
    except (ELFError, ConstructError, AttributeError, TypeError, ValueError, KeyError) as e:
        raise BundleError(f"{name}: not a readable ELF file ({e})") from e


def faults(elf: Elf, *, machine: str) -> list[str]:
    """Everything that keeps the file from loading on a board, as `<what>, got <value>; expected <values>`."""
    found = []
    if elf.machine != machine:
        found.append(f"machine, got {elf.machine}; expected {machine}")
    if elf.glibc > GLIBC_LIMIT:
        limit = ".".join(map(str, GLIBC_LIMIT))
        found.append(f"glibc version, got {'.'.join(map(str, elf.glibc))}; expected at most {limit}")
    for name in elf.needed:
        if name.partition(".so")[0] not in ALLOWED_LIBRARIES:
            found.append(f"needed library, got {name}; expected only libmalisdk and glibc's own")
    for path in elf.search_paths:
        if path != "$ORIGIN" and not path.startswith("$ORIGIN/"):
            found.append(f"library search path, got {path}; expected one that begins with $ORIGIN")
    foreign = [v for v in elf.versions if v.startswith(("GLIBCXX", "CXXABI"))]
    if foreign:
        found.append(f"symbol versions, got {', '.join(foreign)}; expected glibc's only")
    if elf.text_relocations:
        found.append("text relocations, got some; expected none")
    return found


def check_elf(stream: BinaryIO, *, name: str, machine: str, limit_bytes: int | None = None) -> Elf:
    """Read and judge one file; raises BundleError with every fault."""
    elf = parse_elf(stream, name=name)
    found = faults(elf, machine=machine)
    size_bytes = stream.seek(0, os.SEEK_END)
    if limit_bytes is not None and size_bytes > limit_bytes:
        found.append(f"size, got {size_bytes} bytes; expected at most {limit_bytes}")
    if found:
        raise BundleError("\n".join(f"{name}: {f}" for f in found))
    return elf
