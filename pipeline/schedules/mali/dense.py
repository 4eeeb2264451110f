"""Dense layer (a few rows times a constant matrix): bandwidth-bound, split over the reduced axis, no shared memory."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule

from ...targets import TargetSpec
from ..base import extent, knobs_of, largest_divisor
from ..facts import blocks_of
from .tiles import LANES, anchor_attributes, fuse_epilogue

# A matrix's columns alone give too few work-items to cover main memory's latency; this many in all keep the T860's
# four cores busy (64 threads a core and about twice that in flight).
_WANTED_ITEMS = 1024


@dataclass(frozen=True, kw_only=True)
class DenseFacts:
    """y = x w: x (rows, reduced), w (reduced, columns)."""

    rows: int
    reduced: int
    columns: int
    dtype: str


@dataclass(frozen=True, kw_only=True)
class _Facts:
    parts: int


class Dense:
    """partial[s, r, b, :] = sum over the s-th part of k of x[r, k] * w[b, k, :]; y = sum over s of partial.

    Shapes: x (R, K), w (C/4, K, 4), partial (S, R, C/4, 4), y (R, C).
    """

    name = "dense"

    @staticmethod
    def accepts(facts: DenseFacts) -> bool:
        return facts.rows <= 16 and facts.columns % LANES == 0 and facts.dtype in ("float32", "float16")

    @staticmethod
    def parts(facts: DenseFacts) -> int:
        items = facts.rows * blocks_of(facts.columns)
        wanted = max(1, -(-_WANTED_ITEMS // items))
        return largest_divisor(facts.reduced, min(wanted, max(1, facts.reduced // 32)))

    @staticmethod
    def pack_weight(weight: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """(K, C) to (C/4, K, 4)."""
        k, c = weight.shape
        return np.ascontiguousarray(weight.reshape(k, c // LANES, LANES).transpose(1, 0, 2))

    @classmethod
    def compute(cls, facts: DenseFacts, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        parts = cls.parts(facts)
        length = facts.reduced // parts
        k = te.reduce_axis((0, length), "k")
        partial = te.compute(
            (parts, facts.rows, facts.columns // LANES, LANES),
            lambda s, r, b, v: te.sum(
                data[r, s * length + k].astype("float32") * weight[b, s * length + k, v].astype("float32"), axis=k
            ),
            name="dense",
            attrs=anchor_attributes(cls.name, multiply_adds=facts.rows * facts.reduced * facts.columns, parts=parts),
        )
        s = te.reduce_axis((0, parts), "s")
        total = te.compute(
            (facts.rows, facts.columns),
            lambda r, c: te.sum(partial[s, r, c // LANES, c % LANES], axis=s),
            name="dense_sum",
        )
        return te.compute((facts.rows, facts.columns), lambda r, c: total[r, c].astype(facts.dtype), name="result")

    def match(self, func: tirx.PrimFunc) -> _Facts | None:
        knobs = knobs_of(func, self.name)
        return None if knobs is None else _Facts(**knobs)

    def apply(self, sch: Schedule, facts: _Facts, target: TargetSpec) -> str:
        # 1. partial sums: a work-item a vector of columns and part, four reduced elements a round
        partial = sch.get_sblock("dense")
        s, r, b, v, k = sch.get_loops(partial)
        step = 4 if extent(sch, k) % 4 == 0 else 1
        items = sch.fuse(s, r, b)
        k_outer, k_inner = sch.split(k, [None, step])
        count = extent(sch, items)
        group, item = sch.split(items, [None, min(target.max_work_group, count)])
        sch.reorder(group, item, k_outer, k_inner, v)
        sch.bind(group, "blockIdx.x")
        sch.bind(item, "threadIdx.x")
        sums = sch.cache_write(partial, 0, "local")
        sch.reverse_compute_at(sums, item)
        sch.vectorize(sch.get_loops(sums)[-1])
        row = sch.cache_read(partial, 0, "local")
        sch.compute_at(row, k_outer)
        if step > 1:
            sch.vectorize(sch.get_loops(row)[-1])
        sch.unroll(k_inner)
        sch.vectorize(v)
        sch.decompose_reduction(partial, k_outer)
        # 2. their sum and the epilogue: a work-item a vector of columns
        last = fuse_epilogue(sch, "dense_sum")
        total = sch.get_sblock("dense_sum")
        columns = sch.fuse(*sch.get_loops(last))
        count = extent(sch, columns) // LANES
        group, item, lane = sch.split(columns, [None, min(target.max_work_group, count), LANES])
        sch.bind(group, "blockIdx.x")
        sch.bind(item, "threadIdx.x")
        sch.vectorize(lane)
        sch.compute_at(total, item, preserve_unit_loops=True)
        _, _, lanes, part = sch.get_loops(total)[-4:]
        sch.reorder(part, lanes)
        sch.vectorize(lanes)
        sch.decompose_reduction(total, part)
        return f"dense_{facts.parts}x{LANES}"
