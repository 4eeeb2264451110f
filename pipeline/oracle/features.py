"""What the cost model knows of one launch: counts of Mesa's compiler, of the kernel's text, and its geometry."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from ..errors import ScheduleError
from .clc import SCALAR_BYTES, read_kernel
from .cost import KernelCost
from .loops import executed
from .traffic import fetched_lines, footprint
from .walk import Region, walk

# A T860 core holds 256 threads of 4 registers, 128 of 8, 64 of 16.
_MOST_THREADS = 256
_ACCESS_BYTES = 16
# A core's first-level cache is said to have 16 KiB: 256 lines; all four share 256 KiB.
_FIRST_LEVEL_LINES = 256
_SECOND_LEVEL_LINES = 1024


@dataclass(frozen=True, kw_only=True)
class Launched:
    """One kernel launch to be timed.

    cost: what Mesa says of the kernel (its counts are those of a Midgard GPU); source: the text it was compiled from;
    sizes in work-items, `global_size` a multiple of `local_size`; bytes_read, bytes_written: of the buffers, each byte
    once, as the caches' best case; dtype: "float32" or "float16", what the kernel computes in.
    """

    cost: KernelCost
    source: str
    global_size: tuple[int, int, int]
    local_size: tuple[int, int, int]
    bytes_read: int
    bytes_written: int
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Features:
    """Of one launch; counts are those of one work-item, with all rounds of its loops, unless said otherwise.

    items, groups, group: work-items and work-groups in all, work-items of a group. threads: work-items that a core
    holds at once. alu, load_store, mesa_mads: bundles by Mesa's count, and the vec4 multiply-adds in them. mads:
    multiply-adds of the text in vectors of 128 bits, as Arm's compiler makes them (a half8 is one, Mesa makes two of
    it); part_mads: those of fewer bits; operations: other float operations, likewise. accesses: loads and stores of
    the text, of 128 bits at most. lines, far_lines: cache lines that a work-item brings into the first and into the
    second cache (its share of its group's). bytes: of all buffers, once. spilled: spills and fills in the code. sure: 1
    if all loops' rounds are known, else 0.
    """

    items: float
    groups: float
    group: float
    threads: float
    registers: float
    alu: float
    load_store: float
    mesa_mads: float
    mads: float
    part_mads: float
    operations: float
    accesses: float
    lines: float
    far_lines: float
    bytes: float
    spilled: float
    is_half: float
    sure: float


def features_of(launched: Launched) -> Features:
    """Raises ScheduleError if the text holds something that its reader does not know."""
    cost = launched.cost
    if cost.bundles is None:
        raise ScheduleError(f"{cost.name}: no counts of bundles, expected those of a Midgard GPU such as T860")
    root = walk(
        read_kernel(launched.source, cost.name), global_size=launched.global_size, local_size=launched.local_size
    )
    group = math.prod(launched.local_size)
    items = math.prod(launched.global_size)
    counts = executed(cost, root)
    touched = footprint(root, group)
    return Features(
        items=items,
        groups=max(1, items // group),
        group=group,
        threads=max(group, cost.threads or _MOST_THREADS),
        registers=cost.registers or 0,
        alu=counts.alu,
        load_store=counts.load_store,
        mesa_mads=counts.vec4_mads,
        mads=_mads(root, whole=True),
        part_mads=_mads(root, whole=False),
        operations=_operations(root),
        accesses=_accesses(root),
        lines=fetched_lines(touched, fits=_FIRST_LEVEL_LINES) / group,
        far_lines=fetched_lines(touched, fits=_SECOND_LEVEL_LINES) / group,
        bytes=launched.bytes_read + launched.bytes_written,
        spilled=cost.spills + cost.fills,
        is_half=float(launched.dtype == "float16"),
        sure=float(counts.is_sure),
    )


def columns(features: Sequence[Features]) -> dict[str, np.ndarray]:
    """Field name -> its values, (launches,) float64."""
    return {f.name: np.array([getattr(x, f.name) for x in features], dtype=np.float64) for f in fields(Features)}


def _mads(region: Region, *, whole: bool) -> float:
    """Multiply-adds of 128 bits and more, in vectors of 128 bits, or the number of those with fewer."""
    own = 0.0
    for (scalar, lanes), count in region.mads.items():
        vectors = lanes * SCALAR_BYTES.get(scalar, 4) / _ACCESS_BYTES
        if (vectors >= 1.0) == whole:
            own += count * (vectors if whole else 1.0)
    return region.trips * (own + sum(_mads(loop, whole=whole) for loop in region.loops))


def _operations(region: Region) -> float:
    own = sum(
        max(0.0, count) * max(1.0, lanes * SCALAR_BYTES.get(scalar, 4) / _ACCESS_BYTES)
        for (scalar, lanes), count in region.operations.items()
    )
    return region.trips * (own + sum(map(_operations, region.loops)))


def _accesses(region: Region) -> float:
    own = sum(a.weight * max(1.0, a.size_bytes / _ACCESS_BYTES) for a in region.accesses)
    return region.trips * (own + sum(map(_accesses, region.loops)))
