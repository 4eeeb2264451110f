"""The rule for everything without a rule of its own: one work-item an output element (or vector), no shared memory."""

import itertools
import math
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir import ScheduleError as TvmScheduleError
from tvm.s_tir.dlight.analysis import SBlockInfo, normalize_prim_func

from ...errors import ScheduleError
from ...targets import TargetSpec
from ..base import extent


class Generic:
    """Matches any function; legal for any shape."""

    name = "generic"

    def match(self, func: tirx.PrimFunc) -> tirx.PrimFunc | None:
        return func

    def apply(self, sch: Schedule, facts: tirx.PrimFunc, target: TargetSpec) -> str:
        # 1. inline what can be inlined
        infos = normalize_prim_func(sch)
        if infos is None:
            raise ScheduleError("the function is not a sequence of loop nests over blocks")
        infos = _inline(sch, infos)
        names = [sch.get(i.block_rv).name_hint for i in infos]
        kinds = {sch.get(i.block_rv).name_hint: i.dom_kind() for i in infos}
        # 2. an elementwise block behind a reduction runs in the reduction's work-item
        epilogue_of: dict[str, str] = {}
        for first, second in itertools.pairwise(names):
            if _reduces(sch, first) and not _reduces(sch, second) and _feeds_only(sch, first, second):
                epilogue_of[first] = second
        # 3. bind the rest, vectorise where rows are whole vectors, accumulate in registers
        for name in names:
            if name not in epilogue_of.values():
                _bind(sch, name, kinds[name], epilogue_of.get(name), target)
        return "_".join(dict.fromkeys(_base(n) for n in names))


def _inline(sch: Schedule, infos: list[SBlockInfo]) -> list[SBlockInfo]:
    """Inline blocks into their readers; returns those that stay.

    Never the other way round: TVM's reverse inlining takes a reduction over one element for elementwise and applies
    what is inlined to the initial value too.
    """
    left = []
    for info in infos:
        try:
            sch.compute_inline(info.block_rv)
        except TvmScheduleError:
            left.append(info)
    return left


def _reduces(sch: Schedule, name: str) -> bool:
    """Whether the block sums up something, if only one element (then no loop of it is left)."""
    return sch.get(sch.get_sblock(name)).init is not None


def _feeds_only(sch: Schedule, producer: str, consumer: str) -> bool:
    block = sch.get_sblock(producer)
    readers = sch.get_consumers(block)
    if len(readers) != 1 or sch.get(readers[0]).name_hint != consumer:
        return False
    output = sch.get(block).writes[0].source
    region = [r for r in sch.get(readers[0]).reads if r.source.same_as(output)]
    written = sch.get(readers[0]).writes[0]
    return (
        len(region) == 1
        and len(sch.get(block).writes) == 1
        and all(int(r.extent) == 1 for r in region[0].region if isinstance(r.extent, tirx.IntImm))
        and [str(r.min) for r in region[0].region] == [str(r.min) for r in written.region]
        # zeros appended behind the producer's elements have no work-item of it
        and [str(d) for d in output.ty.shape] == [str(d) for d in written.source.ty.shape]
    )


def _bind(sch: Schedule, name: str, kinds: str, epilogue: str | None, target: TargetSpec) -> None:
    block = sch.get_sblock(name)
    loops = sch.get_loops(block)
    if len(loops) != len(kinds):
        raise ScheduleError(f"{name}: got {len(loops)} loops for {len(kinds)} axes")
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "S"]
    reduced = [loop for loop, kind in zip(loops, kinds, strict=True) if kind != "S"]
    if not spatial:
        spatial = [sch.add_unit_loop(reduced[0] if reduced else block)]
    if not reduced and _reduces(sch, name):
        reduced = [sch.add_unit_loop(block)]
    if reduced:
        _bind_reduction(sch, block, spatial, reduced, epilogue, target)
        return
    lanes = target.vector_lanes if _whole_vectors(sch, block, target) else 1
    items = math.prod(extent(sch, loop) for loop in spatial) // lanes
    row = int(sch.get(block).writes[0].source.ty.shape[-1]) if lanes > 1 else 0
    if lanes > 1 and extent(sch, spatial[-1]) == row:
        # the vector apart from the other axes, so that their conditions (a concat's parts) stay free of its lane
        blocks, vector = sch.split(spatial[-1], [None, lanes])
        outer, inner = sch.split(sch.fuse(*spatial[:-1], blocks), [None, _group(items, target.max_work_group)])
        sch.vectorize(vector)
    else:
        outer, inner = sch.split(sch.fuse(*spatial), [None, _group(items * lanes, target.max_work_group)])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")


def _bind_reduction(
    sch: Schedule, block: Any, spatial: list[Any], reduced: list[Any], epilogue: str | None, target: TargetSpec
) -> None:
    # the channels of a pixel in NCHW4c are one vector
    shape = [int(d) for d in sch.get(block).writes[0].source.ty.shape]
    blocked = len(shape) == 5 and shape[-1] == target.vector_lanes and extent(sch, spatial[-1]) == shape[-1]
    vector = spatial.pop() if blocked and len(spatial) > 1 else None
    items = math.prod(extent(sch, loop) for loop in spatial)
    sch.reorder(*spatial, *reduced)
    outer, inner = sch.split(sch.fuse(*spatial), [None, _group(items, target.max_work_group)])
    if vector is not None:
        sch.reorder(outer, inner, *reduced, vector)
        sch.vectorize(vector)
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    result = None
    if epilogue is not None:
        sch.set_scope(block, 0, "local")
        result = sch.get_sblock(epilogue)
    elif len(sch.get(block).writes) == 1:
        result = sch.cache_write(block, 0, "local")
    if result is not None:
        sch.reverse_compute_at(result, inner, preserve_unit_loops=True)
        if vector is not None:
            sch.vectorize(sch.get_loops(result)[-1])
    sch.decompose_reduction(block, reduced[0])


def _group(items: int, limit: int) -> int:
    """A divisor of `items` near the limit saves the bounds check; a poor one costs more than the check."""
    best = max(d for d in range(1, limit + 1) if items % d == 0)
    return best if best >= limit // 2 or items <= limit else limit


def _whole_vectors(sch: Schedule, block: Any, target: TargetSpec) -> bool:
    written = sch.get(block).writes[0].source
    shape = [int(d) for d in written.ty.shape]
    if not shape or len(sch.get(block).writes) != 1:
        return False
    if str(written.ty.dtype) not in ("float32", "float16"):
        return False
    return shape[-1] % target.vector_lanes == 0


def _base(name: str) -> str:
    return name.removeprefix("T_").rstrip("0123456789_") or name
