"""The Python wheel of the runtime: `import malisdk` for one Python and one machine."""

import base64
import csv
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import __version__
from ..errors import BundleError, ConfigError
from .elf import Elf, read_elf
from .zips import write_zip

PACKAGE = "malisdk"
LIBRARY_FOLDER = f"{PACKAGE}/_lib"
OLDEST_PYTHON = (3, 8)
# What pybind11 and the package use of numpy is older than this; it is the first with wheels and tests for aarch64.
NUMPY_REQUIREMENT = "numpy>=1.19"
_SOURCES = ("*.py", "*.pyi", "py.typed")
# elftools' name of the machine, by what wheel tags call it.
_MACHINES = {"aarch64": "AArch64", "x86_64": "x64"}


@dataclass(frozen=True, kw_only=True)
class WheelTag:
    """`cp311` and `linux_aarch64` (any glibc) or `manylinux_2_27_aarch64`."""

    python: str
    platform: str

    def __post_init__(self) -> None:
        version = re.fullmatch(r"cp3(\d+)", self.python)
        if version is None or int(version[1]) < OLDEST_PYTHON[1]:
            oldest = "".join(map(str, OLDEST_PYTHON))
            raise ConfigError(f"python tag, got {self.python}; expected cp{oldest} or newer, such as cp311")
        if re.fullmatch(rf"(linux|manylinux_2_\d+)_({'|'.join(_MACHINES)})", self.platform) is None:
            raise ConfigError(
                f"platform tag, got {self.platform}; expected linux_aarch64, manylinux_2_27_aarch64 or linux_x86_64"
            )

    @property
    def architecture(self) -> str:
        return next(a for a in _MACHINES if self.platform.endswith(a))

    @property
    def python_version(self) -> str:
        return f"3.{self.python.removeprefix('cp3')}"

    @property
    def extension_suffix(self) -> str:
        """EXT_SUFFIX of the target Python, which is the only name it imports the extension by."""
        return f".cpython-{self.python.removeprefix('cp')}-{self.architecture}-linux-gnu.so"

    @property
    def glibc_limit(self) -> tuple[int, ...] | None:
        """The newest glibc version that may be asked for; none for plain linux tags, which promise nothing."""
        found = re.match(r"manylinux_(\d+)_(\d+)_", self.platform)
        return (int(found[1]), int(found[2])) if found else None

    def __str__(self) -> str:
        return f"{self.python}-{self.python}-{self.platform}"


def wheel_name(tag: WheelTag) -> str:
    return f"{PACKAGE}-{__version__}-{tag}.whl"


def make_wheel(
    out: Path,
    *,
    tag: WheelTag,
    extension: Path,
    library: Path,
    sources: Path,
    licences: Mapping[str, Path],
) -> Path:
    """Write the wheel to `out`, a .whl file or a folder, and return its path.

    sources: the folder that holds the package and its README.md.
    licences: files by the name they get inside the wheel.
    Raises BundleError for an extension or a library that the tag's Python could not load, ConfigError for a wrong name.
    """
    name = wheel_name(tag)
    path = out if out.suffix == ".whl" else out / name
    if path.name != name:
        raise ConfigError(f"{path}: wrong name for this wheel, got {path.name}; expected {name}")
    library_elf = _check_library(library, tag)
    _check_extension(extension, tag, str(library_elf.soname))

    entries: dict[str, bytes] = {}
    for file in _package_files(sources / PACKAGE):
        entries[f"{PACKAGE}/{file.relative_to(sources / PACKAGE).as_posix()}"] = file.read_bytes()
    entries[f"{PACKAGE}/_core{tag.extension_suffix}"] = extension.read_bytes()
    entries[f"{LIBRARY_FOLDER}/{library_elf.soname}"] = library.read_bytes()
    info = f"{PACKAGE}-{__version__}.dist-info"
    metadata = {f"{info}/METADATA": _metadata(sources / "README.md"), f"{info}/WHEEL": _wheel_file(tag)}
    for licence_name, file in licences.items():
        metadata[f"{info}/licenses/{licence_name}"] = file.read_bytes()
    ordered = dict(sorted(entries.items())) | dict(sorted(metadata.items()))
    record = f"{info}/RECORD"
    ordered[record] = _record(ordered, record)
    write_zip(path, ordered)
    return path


def _package_files(package: Path) -> Sequence[Path]:
    found = [f for pattern in _SOURCES for f in package.rglob(pattern)]
    if package / "__init__.py" not in found:
        raise BundleError(f"{package}: no Python package, got no __init__.py; expected the sources of {PACKAGE}")
    return found


def _check_file(path: Path, tag: WheelTag) -> Elf:
    elf = read_elf(path)
    machine = _MACHINES[tag.architecture]
    if elf.machine != machine:
        raise BundleError(f"{path}: machine, got {elf.machine}; expected {machine} for {tag.platform}")
    if tag.glibc_limit is not None and elf.glibc > tag.glibc_limit:
        got, limit = (".".join(map(str, version)) for version in (elf.glibc, tag.glibc_limit))
        raise BundleError(f"{path}: glibc version, got {got}; expected at most {limit} for {tag.platform}")
    return elf


def _check_library(path: Path, tag: WheelTag) -> Elf:
    elf = _check_file(path, tag)
    if elf.soname is None or not re.fullmatch(r"libmalisdk\.so(\.\d+)?", elf.soname):
        raise BundleError(f"{path}: soname, got {elf.soname}; expected libmalisdk.so.<number>")
    return elf


def _check_extension(path: Path, tag: WheelTag, library_soname: str) -> None:
    name = f"_core{tag.extension_suffix}"
    if path.name not in ("_core.so", name):
        raise BundleError(f"{path}: suffix, got {path.name}; expected {name} (or _core.so) for {tag}")
    elf = _check_file(path, tag)
    if library_soname not in elf.needed:
        got = ", ".join(elf.needed)
        raise BundleError(f"{path}: needed libraries, got {got}; expected {library_soname} among them")
    if "$ORIGIN/_lib" not in elf.search_paths:
        got = ":".join(elf.search_paths) or "none"
        raise BundleError(f"{path}: library search path, got {got}; expected $ORIGIN/_lib")
    # pybind11 puts the Python it was compiled for into the module, to refuse any other at import.
    built_for = [v.decode() for v in re.findall(rb"\0(3\.\d{1,2})(?=\0)", path.read_bytes())]
    if tag.python_version not in built_for:
        got = ", ".join(built_for) or "none"
        raise BundleError(f"{path}: Python version, got {got}; expected {tag.python_version} for {tag.python}")


def _metadata(readme: Path) -> bytes:
    header = [
        "Metadata-Version: 2.1",
        f"Name: {PACKAGE}",
        f"Version: {__version__}",
        "Summary: Runs compiled networks on OpenCL devices such as the Mali-T860 of an RK3399",
        "License: Apache-2.0",
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Programming Language :: Python :: 3",
        "Classifier: Typing :: Typed",
        f"Requires-Python: >={'.'.join(map(str, OLDEST_PYTHON))}",
        f"Requires-Dist: {NUMPY_REQUIREMENT}",
        "Description-Content-Type: text/markdown",
    ]
    return ("\n".join(header) + "\n\n" + readme.read_text(encoding="utf-8")).encode()


def _wheel_file(tag: WheelTag) -> bytes:
    lines = [
        "Wheel-Version: 1.0",
        f"Generator: malisdk-pipeline {__version__}",
        "Root-Is-Purelib: false",
        f"Tag: {tag}",
    ]
    return ("\n".join(lines) + "\n").encode()


def _record(entries: Mapping[str, bytes], record: str) -> bytes:
    """Name, digest and size of every file, as pip checks them; RECORD itself comes last and without either."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for name, data in entries.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(data)])
    rows.writerow([record, "", ""])
    return text.getvalue().encode()
