"""What a kernel costs inside a Mali GPU, told by Mesa's own compiler for it; no GPU is needed.

Debian's arm64 Mesa runs under qemu, with the kernel side of its driver stubbed, and prints what it makes of OpenCL C.
"""

from .batch import measure
from .cost import Bundles, KernelCost, Loop, NoData, Outcome
from .gpus import DEFAULT_GPU, GPUS, Gpu, find_gpu

__all__ = ["DEFAULT_GPU", "GPUS", "Bundles", "Gpu", "KernelCost", "Loop", "NoData", "Outcome", "find_gpu", "measure"]
