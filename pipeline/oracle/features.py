"""What the cost model knows of one launch: counts of Mesa's compiler, of the kernel's text, and its geometry."""

import math
from dataclasses import dataclass

from ..errors import ScheduleError
from .clc import read_kernel
from .cost import KernelCost
from .loops import Executed, executed
from .walk import Region, walk

# A T860 core holds 256 threads of 4 registers, 128 of 8, 64 of 16.
_MOST_THREADS = 256


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
    """Of one launch. Counts are of one work-item unless said otherwise.

    mads, operations: float multiply-adds and other operations in the text, in bundles of 128 bits, as Arm's compiler
    makes them; loads, stores: those in the text, of 128 bits at most; resident: threads that a core holds at once.
    """

    items: int
    groups: int
    group: int
    resident: int
    executed: Executed
    mads: float
    operations: float
    loads: float
    stores: float
    bytes: int
    spilled: int
    is_half: bool

    @property
    def busiest_share(self) -> float:
        """Work-items on the core that gets most groups, as a share of all on all four cores; 0.25 is the ideal."""
        return math.ceil(self.groups / 4) / self.groups


def features_of(launched: Launched) -> Features:
    """Raises ScheduleError if the text holds something that its reader does not know."""
    cost = launched.cost
    if cost.bundles is None:
        raise ScheduleError(f"{cost.name}: no counts of bundles, expected those of a Midgard GPU such as T860")
    root = walk(
        read_kernel(launched.source, cost.name), global_size=launched.global_size, local_size=launched.local_size
    )
    group = math.prod(launched.local_size)
    loads, stores = _accesses(root)
    return Features(
        items=math.prod(launched.global_size),
        groups=max(1, math.prod(launched.global_size) // group),
        group=group,
        resident=max(group, cost.threads or _MOST_THREADS),
        executed=executed(cost, root),
        mads=_floats(root, kind="mads"),
        operations=_floats(root, kind="operations") + _calls(root),
        loads=loads,
        stores=stores,
        bytes=launched.bytes_read + launched.bytes_written,
        spilled=cost.spills + cost.fills,
        is_half=launched.dtype == "float16",
    )


def _floats(region: Region, *, kind: str) -> float:
    """Bundles of 128 bits: a float8 takes two, a half8 one, and a scalar one."""
    counts: dict[tuple[str, int], float] = getattr(region, kind)
    own = sum(n * max(1.0, lanes * _BYTES.get(scalar, 4) / 16) for (scalar, lanes), n in counts.items())
    return region.trips * (own + sum(_floats(loop, kind=kind) for loop in region.loops))


_BYTES = {"half": 2, "float": 4, "double": 8}


def _calls(region: Region) -> float:
    return region.trips * (region.calls + sum(_calls(loop) for loop in region.loops))


def _accesses(region: Region) -> tuple[float, float]:
    """Loads and stores."""
    sums = [0.0, 0.0]
    for access in region.accesses:
        sums[access.is_store] += access.weight * max(1.0, access.size_bytes / 16)
    for loop in region.loops:
        loads, stores = _accesses(loop)
        sums[0] += loads
        sums[1] += stores
    return region.trips * sums[0], region.trips * sums[1]
