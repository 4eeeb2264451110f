"""The arm64 systems that the emulator runs: which Debian packages are in them."""

import difflib

from ..debian_root import RootRecipe
from ..errors import ConfigError

# What a board's system has that an SDK's user needs: a shell, tar, Python with numpy, an OpenCL driver.
_PACKAGES = (
    *("base-files", "bash", "coreutils", "dash", "findutils", "grep", "gzip", "libc-bin", "sed", "tar"),
    *("python3", "python3-numpy"),
    *("clinfo", "ocl-icd-libopencl1", "pocl-opencl-icd"),
)

# bookworm comes first: the Python (3.11) and, among those with it, the glibc (2.36) nearest to boards' images.
# The others run the wheels of their own Python: 3.9 and 3.13.
RECIPES = tuple(
    RootRecipe(area="emulator", title="emulated arm64 system", suite=suite, packages=_PACKAGES)
    for suite in ("bookworm", "bullseye", "trixie")
)

# Seen with pocl 1.6: an argument that is a sub-buffer becomes the whole buffer from a kernel's second launch on, unless
# it is set again. pocl 3.1 and 6.0 are right.
DEFECTS = {"bullseye": "its OpenCL driver (pocl 1.6) mixes up sub-buffers, so only the first run of a session is right"}


def find_recipe(suite: str | None) -> RootRecipe:
    """The recipe of a Debian suite; the default one for None. Raises ConfigError for an unknown suite."""
    names = [r.suite for r in RECIPES]
    if suite is None:
        return RECIPES[0]
    if suite not in names:
        near = difflib.get_close_matches(suite, names, 1)
        hint = f"did you mean emulator:{near[0]}?" if near else None
        raise ConfigError(f"emulator: unknown Debian suite, got {suite}; expected {', '.join(names)}", hint=hint)
    return RECIPES[names.index(suite)]
