"""The system that the oracle runs: Debian's arm64 Mesa, which compiles for Mali without one, and its warm caches."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import debian, files
from ..debian_root import RootRecipe, ensure_root, has_root, lock, place_of
from ..errors import ToolchainError
from .emulator import can_emulate, ensure_emulator
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

_WARM_MARKER = "driver.json"


def is_ready(gpu: Gpu) -> bool:
    """Whether everything is there, so that nothing has to be loaded or converted first."""
    return can_emulate() and has_root(RECIPE) and has_warm_cache(gpu)


def ensure_system() -> Path:
    """The unpacked system, loaded first with its emulator if not in the cache (164 MB to load, 520 MB on disk).

    Raises ToolchainError: an emulator, apt or a mirror is missing.
    """
    ensure_emulator()
    root = ensure_root(RECIPE)
    if not (root / SHIM.lstrip("/")).exists():
        raise ToolchainError(f"{root}: no {SHIM} in it; expected it from the package mesa-drm-shim")
    return root


def warm_cache(gpu: Gpu) -> Path:
    """Mesa's cache folder with its OpenCL library converted for one GPU, which takes Mesa about a minute."""
    return place_of(RECIPE) / f"cache-{gpu.name}"


def has_warm_cache(gpu: Gpu) -> bool:
    return (warm_cache(gpu) / _WARM_MARKER).is_file()


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
