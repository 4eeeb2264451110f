"""What the package tells about models, devices and kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, List

import numpy as np


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a model; in memory its elements are in C order, without gaps."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} {self.shape}"


@dataclass(frozen=True)
class Device:
    """An OpenCL device, as its driver describes it. `name` or `platform` select it in `malisdk.load(device=...)`."""

    platform: str
    name: str
    version: str
    driver: str
    is_gpu: bool
    has_fp16: bool
    compute_units: int
    global_memory_bytes: int
    max_work_group: int


@dataclass(frozen=True)
class ModelInfo:
    """A loaded model and where it runs.

    dtype: what activations are stored in. kernels_from_cache: kernels that did not have to be compiled.
    """

    name: str
    target: str
    device: str
    platform: str
    dtype: np.dtype
    kernel_count: int
    launch_count: int
    weights_bytes: int
    arena_bytes: int
    kernels_from_cache: int


@dataclass(frozen=True)
class KernelTime:
    """One launch of a profiled run. device_us: microseconds on the device. flops: 2 a multiply-add, or 0."""

    kernel: str
    layer: str
    rule: str
    device_us: float
    flops: int
    bytes: int


class Profile(List[KernelTime]):
    """The launches of one run in their order.

    total_us: the host's microseconds for the whole run.
    has_device_times: False where the driver cannot time kernels; every `device_us` is 0 then.
    """

    def __init__(self, launches: Iterable[KernelTime], total_us: float) -> None:
        super().__init__(launches)
        self.total_us = total_us

    @property
    def device_us(self) -> float:
        """Microseconds of all launches on the device."""
        return sum(launch.device_us for launch in self)

    @property
    def has_device_times(self) -> bool:
        return any(launch.device_us > 0 for launch in self)

    def __str__(self) -> str:
        lines = [f"{'us':>10} {'GFLOP/s':>8} {'GB/s':>7}  kernel (layer)"]
        for launch in self:
            us = launch.device_us
            rates = f"{launch.flops / us / 1e3:8.2f} {launch.bytes / us / 1e3:7.2f}" if us > 0 else f"{'-':>8} {'-':>7}"
            layer = f" ({launch.layer})" if launch.layer else ""
            lines.append(f"{us:10.1f} {rates}  {launch.kernel}{layer}")
        told = f"{self.device_us:.1f} us on the device" if self.has_device_times else "the driver does not time kernels"
        return "\n".join(lines) + f"\n{len(self)} launches: {told}, {self.total_us:.1f} us on the host"
