"""An OpenCL device on this machine that computes in half: Mesa's rusticl on llvmpipe, from Debian's packages.

Boards with mainline Linux have the same front end (rusticl) on the Mali's own driver; pocl has no cl_khr_fp16.
"""

import os

from .. import debian
from ..debian_root import RootRecipe
from .guest import GuestDevice
from .qemu import Runner

SUITE = "trixie"
# What the smoke test needs (a shell, tar, Python with numpy) beside the driver.
_PACKAGES = (
    *("base-files", "bash", "coreutils", "dash", "gzip", "libc-bin", "tar"),
    *("python3", "python3-numpy"),
    *("clinfo", "mesa-opencl-icd", "ocl-icd-libopencl1"),
)
_ENV = {
    "RUSTICL_ENABLE": "llvmpipe",
    "RUSTICL_FEATURES": "fp16",
    # The package has a second, older driver.
    "OCL_ICD_VENDORS": "/etc/OpenCL/vendors/rusticl.icd",
}


def recipe() -> RootRecipe:
    """The root for this machine's architecture. Raises ToolchainError if Debian's name of it is not known here."""
    architecture = debian.own_architecture()
    return RootRecipe(
        area=f"rusticl-{architecture.name}",
        title=f"Mesa's OpenCL for {architecture.name}",
        suite=SUITE,
        packages=_PACKAGES,
        architecture=architecture,
    )


class RusticlDevice(GuestDevice):
    """Programs of this machine run there as they are, in a newer userland than most machines have."""

    def __init__(self) -> None:
        super().__init__("rusticl", recipe(), _ENV)

    def _find_runner(self) -> Runner:
        return Runner(interpreter=None, user_namespace=os.geteuid() != 0)
