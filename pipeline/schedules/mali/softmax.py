"""Softmax over the last axis without shared memory: rows in parts, whose maxima and sums each work-item combines."""

from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.s_tir import Schedule

from ...targets import TargetSpec
from ..base import extent, knobs_of
from .tiles import LANES, anchor_attributes

# One work-item reads at most about this many elements in a row; long rows are cut into about as many parts.
_LONGEST_PART = 40


@dataclass(frozen=True, kw_only=True)
class SoftmaxFacts:
    """x (rows, length) of `dtype`; sums and exponentials are in float."""

    rows: int
    length: int
    dtype: str

    @property
    def parts(self) -> int:
        return max(1, -(-self.length // _LONGEST_PART)) if self.rows < 256 else 1


@dataclass(frozen=True, kw_only=True)
class _Facts:
    parts: int


class Softmax:
    """y[r, i] = exp(x[r, i] - m[r]) / s[r], with m and s from the maxima and sums of the row's parts.

    The combination is that of Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.
    """

    name = "softmax"

    @classmethod
    def compute(cls, facts: SoftmaxFacts, data: te.Tensor) -> te.Tensor:
        rows, length, parts = facts.rows, facts.length, facts.parts
        part = -(-length // parts)
        lowest = tirx.min_value("float32")

        def value(r: Any, i: Any) -> Any:
            x = data[r, i].astype("float32")
            return x if part * parts == length else tirx.if_then_else(i < length, x, lowest)

        k, j = te.reduce_axis((0, part), "k"), te.reduce_axis((0, part), "j")
        maxima = te.compute((rows, parts), lambda r, p: te.max(value(r, p * part + k), axis=k), name="softmax_part_max")
        sums = te.compute(
            (rows, parts),
            lambda r, p: te.sum(te.exp(value(r, p * part + j) - maxima[r, p]), axis=j),
            name="softmax_part_sum",
            attrs=anchor_attributes(cls.name, multiply_adds=0, parts=parts),
        )
        p, q = te.reduce_axis((0, parts), "p"), te.reduce_axis((0, parts), "q")
        highest = te.compute((rows, length), lambda r, i: te.max(maxima[r, p], axis=p), name="softmax_max")
        total = te.compute(
            (rows, length),
            lambda r, i: te.sum(sums[r, q] * te.exp(maxima[r, q] - highest[r, i]), axis=q),
            name="softmax_sum",
        )
        return te.compute(
            (rows, length),
            lambda r, i: (te.exp(data[r, i].astype("float32") - highest[r, i]) / total[r, i]).astype(facts.dtype),
            name="softmax",
        )

    def match(self, func: tirx.PrimFunc) -> _Facts | None:
        knobs = knobs_of(func, self.name)
        return None if knobs is None else _Facts(**knobs)

    def apply(self, sch: Schedule, facts: _Facts, target: TargetSpec) -> str:
        # 1. maxima, then sums: a work-item a part
        for name in ("softmax_part_max", "softmax_part_sum"):
            block = sch.get_sblock(name)
            r, p, k = sch.get_loops(block)
            items = sch.fuse(r, p)
            group, item = sch.split(items, [None, min(target.max_work_group, extent(sch, items))])
            sch.bind(group, "blockIdx.x")
            sch.bind(item, "threadIdx.x")
            sch.reverse_compute_at(sch.cache_write(block, 0, "local"), item)
            sch.decompose_reduction(block, k)
        # 2. the result: a work-item a vector, or an element where rows are no whole vectors
        last = sch.get_sblock("softmax")
        while consumers := sch.get_consumers(last):
            sch.compute_inline(last)
            last = consumers[0]
        r, i = sch.get_loops(last)[:2] if len(sch.get_loops(last)) == 2 else (None, sch.fuse(*sch.get_loops(last)))
        lanes = LANES if extent(sch, i) % LANES == 0 and r is not None else 1
        outer, lane = sch.split(i, [None, lanes])
        items = outer if r is None else sch.fuse(r, outer)
        group, item = sch.split(items, [None, min(target.max_work_group, extent(sch, items))])
        sch.bind(group, "blockIdx.x")
        sch.bind(item, "threadIdx.x")
        if lanes > 1:
            sch.vectorize(lane)
        for name in ("softmax_sum", "softmax_max"):
            block = sch.get_sblock(name)
            sch.set_scope(block, 0, "local")
            sch.compute_at(block, item, preserve_unit_loops=True)
            part = sch.get_loops(block)[-1]
            sch.decompose_reduction(block, part)
        return f"softmax_{facts.parts}"
