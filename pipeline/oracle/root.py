"""The system that the oracle runs: Debian's arm64 Mesa, which compiles for Mali without one, and its warm caches."""

import json
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import debian, files
from ..debian_root import RootRecipe, ensure_root, has_root, lock, place_of
from ..errors import ToolchainError
from .gpus import Gpu

# mesa-drm-shim stands for the kernel side of the GPU driver. trixie's Mesa is the first of Debian's with OpenCL for
# Panfrost.
RECIPE = RootRecipe(
    area="oracle",
    title="Mesa's compiler for Mali",
    suite="trixie",
    packages=("mesa-opencl-icd", "mesa-drm-shim", "ocl-icd-libopencl1", "python3-minimal", "libpython3-stdlib"),
)
SHIM = f"/usr/lib/{debian.ARM64.multiarch}/libpanfrost_noop_drm_shim.so"

_QEMU_NAMES = ("qemu-aarch64-static", "qemu-aarch64")
_WARM_MARKER = "driver.json"


def is_ready(gpu: Gpu) -> bool:
    """Whether everything is in the cache, so that nothing has to be loaded or converted first."""
    return has_root(RECIPE) and (warm_cache(gpu) / _WARM_MARKER).is_file()


def find_qemu() -> Path:
    """The emulator for arm64 programs. Raises ToolchainError without one."""
    for name in _QEMU_NAMES:
        if found := shutil.which(name):
            return Path(found)
    raise ToolchainError(
        f"{_QEMU_NAMES[0]}: program not found on PATH; the oracle runs Mesa for arm64 with it on {platform.machine()}",
        hint="apt install qemu-user-static",
    )


def ensure_system() -> Path:
    """The unpacked system, loaded first if it is not in the cache (93 MB to load, 500 MB on disk).

    Raises ToolchainError: qemu, apt or a mirror is missing.
    """
    find_qemu()
    root = ensure_root(RECIPE)
    if not (root / SHIM.lstrip("/")).exists():
        raise ToolchainError(f"{root}: no {SHIM} in it; expected it from the package mesa-drm-shim")
    return root


def warm_cache(gpu: Gpu) -> Path:
    """Mesa's cache folder with its OpenCL library converted for one GPU, which takes Mesa about a minute."""
    return place_of(RECIPE) / f"cache-{gpu.name}"


def keep_warm_cache(gpu: Gpu, filled: Path, driver: Mapping[str, str | int]) -> None:
    """Keep a folder that Mesa filled at its first start, and what its driver said of itself, for later starts."""
    place = warm_cache(gpu)
    with lock(place.parent):
        if not (place / _WARM_MARKER).is_file():
            with files.atomic_folder(place, marker=_WARM_MARKER) as temporary:
                shutil.copytree(filled, temporary, dirs_exist_ok=True)
                (temporary / _WARM_MARKER).write_text(json.dumps(driver) + "\n")


def kept_driver(gpu: Gpu) -> dict[str, Any]:
    """What the driver said of itself when its cache was filled; only where is_ready."""
    described: dict[str, Any] = json.loads((warm_cache(gpu) / _WARM_MARKER).read_text())
    return described
