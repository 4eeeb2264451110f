"""The licence texts of everything that ends up inside the shipped binaries."""

import importlib.metadata
from pathlib import Path

from SCons.Errors import UserError

from .zig import find_zig

_VENDORED = {
    "flatbuffers": "native/third_party/flatbuffers/LICENSE",
    "OpenCL-headers": "native/third_party/CL/LICENSE",
    "xxHash": "native/third_party/xxhash/LICENSE",
}
# C++ library, start files and compiler support come with the cross compiler.
_ZIG = {
    "LLVM-libc++": "lib/libcxx/LICENSE.TXT",
    "LLVM-libc++abi": "lib/libcxxabi/LICENSE.TXT",
    "LLVM-libunwind": "lib/libunwind/LICENSE.TXT",
    "glibc": "lib/libc/glibc/LICENSES",
    "zig": "LICENSE",
}


def third_party() -> dict[str, Path]:
    """Licence file by the name that it gets in the bundle, `<name>.txt`. Raises UserError for one that is missing."""
    zig_folder = find_zig()
    found = {name: Path(file) for name, file in _VENDORED.items()}
    found |= {name: zig_folder / file for name, file in _ZIG.items()}
    found["pybind11"] = _distribution_licence("pybind11")
    for name, file in found.items():
        if not file.is_file():
            raise UserError(f"{file}: licence of {name}, got no such file; expected it\nhint: reinstall: ./dev")
    return {f"{name}.txt": file for name, file in sorted(found.items())}


def _distribution_licence(name: str) -> Path:
    try:
        files = importlib.metadata.distribution(name).files or []
    except importlib.metadata.PackageNotFoundError:
        raise UserError(f"{name}: got no such Python package; expected it installed\nhint: ./dev") from None
    texts = [Path(str(f.locate())) for f in files if f.name.upper().startswith("LICENSE")]
    return texts[0] if texts else Path(name, "LICENSE")
