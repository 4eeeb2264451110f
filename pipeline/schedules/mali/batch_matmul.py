"""Matrix products of any number of rows, in batches or with a constant matrix: a register-tiled tile a work-item."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.tirx.function import IndexMap

from ...codegen.keep import KEEP
from ...codegen.pointers import ADVANCE
from ...targets import TargetSpec
from ..base import extent, knobs_of
from ..facts import blocks_of
from .relayout import schedule_over
from .tiles import LANES, anchor_attributes, bind_tile, fuse_epilogue, unroll_copies

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class MatmulFacts:
    """y (batch, rows, columns) = a (batch, rows, reduced) b (batch, reduced, columns), row-major.

    `shared`: one b for all batches; `packed`: b is a constant in the layout of `pack_weight`, and `batch` is 1. The
    result has the shape `out`, whose leading axes are those of the batch, or of batch and rows where b is packed.
    """

    batch: int
    rows: int
    reduced: int
    columns: int
    out: tuple[int, ...]
    shared: bool
    packed: bool
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Rows of the result that a work-item computes, of four columns; `flat` is 1 where all leading axes are rows."""

    rows: int
    flat: int


class BatchMatmul:
    """y[b, m, n] = sum over k of a[b, m, k] b[b, k, n], four k a round: a's vectors along k, b's along n.

    What lies beyond the last k is read as zero, what lies beyond the last row or column repeats it and is not stored.
    """

    name = "batch_matmul"

    @staticmethod
    def accepts(facts: MatmulFacts) -> bool:
        sizes = (facts.batch, facts.rows, facts.reduced, facts.columns)
        return min(sizes) > 0 and facts.dtype in ("float32", "float16")

    @staticmethod
    def config(facts: MatmulFacts) -> Tile:
        # 4 x 4: 16 mads a round from 4 + 4 vectors, the tile of conv2d_1x1
        return Tile(rows=min(4, facts.rows), flat=int(facts.packed))

    @staticmethod
    def pack_weight(weight: Array) -> Array:
        """(K, N) to (N/4, K/4, 4, 4), zeros beyond the last row and column."""
        k, n = weight.shape
        padded = np.zeros((blocks_of(k) * LANES, blocks_of(n) * LANES), weight.dtype)
        padded[:k, :n] = weight
        packed = padded.reshape(blocks_of(k), LANES, blocks_of(n), LANES).transpose(2, 0, 1, 3)
        return np.ascontiguousarray(packed)

    @classmethod
    def compute(cls, facts: MatmulFacts, tile: Tile, a: te.Tensor, b: te.Tensor) -> te.Tensor:
        rows = blocks_of(facts.rows, tile.rows) * tile.rows
        steps, columns = blocks_of(facts.reduced), blocks_of(facts.columns)
        zero = tirx.const(0, "float32")

        def left(n: Any, m: Any, k: Any, c: Any) -> Any:
            if rows != facts.rows:
                m = tirx.min(m, facts.rows - 1)
            index = _unflatten(a.shape[:-1] if facts.packed else a.shape[:-2], m if facts.packed else n)
            value = a[(*index, *(() if facts.packed else (m,)), k * LANES + c)].astype("float32")
            if steps * LANES == facts.reduced:
                return value
            return tirx.if_then_else(k * LANES + c < facts.reduced, value, zero)

        def right(n: Any, k: Any, c: Any, j: Any, v: Any) -> Any:
            if facts.packed:
                return b[j, k, c, v].astype("float32")
            index = _unflatten(b.shape[:-2], 0 if facts.shared else n)
            n = j * LANES + v
            if columns * LANES != facts.columns:
                n = tirx.min(n, facts.columns - 1)
            value = b[(*index, k * LANES + c, n)].astype("float32")
            if steps * LANES == facts.reduced:
                return value
            return tirx.if_then_else(k * LANES + c < facts.reduced, value, zero)

        column = te.compute((facts.batch, rows, steps, LANES), left, name="data_column")
        vector = te.compute((facts.batch, steps, LANES, columns, LANES), right, name="weight_vector")
        k = te.reduce_axis((0, steps), "k")
        c = te.reduce_axis((0, LANES), "c")
        sums = te.compute(
            (facts.batch, rows, columns, LANES),
            lambda n, m, j, v: te.sum(column[n, m, k, c] * vector[n, k, c, j, v], axis=[k, c]),
            name="matmul",
            attrs=anchor_attributes(
                cls.name,
                multiply_adds=facts.batch * facts.rows * facts.reduced * facts.columns,
                rows=tile.rows,
                flat=tile.flat,
            ),
        )

        def result(*i: Any) -> Any:
            row = _flatten(facts.out[:-1], i[:-1]) if facts.packed else i[-2]
            batch = 0 if facts.packed else _flatten(facts.out[:-2], i[:-2])
            return sums[batch, row, i[-1] // LANES, i[-1] % LANES].astype(facts.dtype)

        return te.compute(facts.out, result, name="result")

    def match(self, func: tirx.PrimFunc) -> Tile | None:
        knobs = knobs_of(func, self.name)
        return None if knobs is None else Tile(**knobs)

    def apply(self, sch: Schedule, facts: Tile, target: TargetSpec) -> str:
        # 1. sums in registers, epilogue in one block over (batch, rows, columns) or (rows, columns)
        last = fuse_epilogue(sch, "matmul")
        shape = [int(d) for d in sch.get(last).writes[0].source.ty.shape]
        kept = 1 if facts.flat else 2

        def matrices(*i: Any) -> tuple[Any, ...]:
            return (_flatten(shape[:-kept], i[:-kept]), *i[-kept:]) if len(shape) > kept else i

        axes = IndexMap.from_func(matrices, ndim=len(shape), index_dtype="int64")
        schedule_over(sch, last, axes, lambda s, block: self._tile(s, block, facts, target))
        return f"batch_matmul_{facts.rows}x{LANES}"

    @staticmethod
    def _tile(sch: Schedule, last: Any, facts: Tile, target: TargetSpec) -> None:
        # 2. a work-item a few rows of four columns; neighbours in x read the same rows
        if len(sch.get_loops(last)) == 2:
            sch.add_unit_loop(sch.get_loops(last)[0])
        b, m, n = sch.get_loops(last)
        whole = extent(sch, n) % LANES == 0
        m_tile, mi = sch.split(m, [None, facts.rows])
        n_tile, v = sch.split(n, [None, LANES])
        sch.reorder(b, m_tile, n_tile, mi, v)
        item = bind_tile(sch, n_tile, m_tile, b, target, flat=True)
        sch.unroll(mi)
        if whole:
            sch.vectorize(v)
        else:
            sch.unroll(v)
        # 3. four k a round
        sums = sch.get_sblock("matmul")
        sch.compute_at(sums, item, preserve_unit_loops=True)
        depth = len(sch.get_loops(last)) - 2
        *unit, sm, sj, sv, k, c = sch.get_loops(sums)[depth:]
        sch.reorder(k, c, *unit, sm, sj, sv)
        for name, at, inner in (("data_column", k, depth + 1), ("weight_vector", c, depth + 2)):
            copy = sch.get_sblock(name)
            sch.set_scope(copy, 0, "local")
            sch.compute_at(copy, at, preserve_unit_loops=False)
            unroll_copies(sch, copy, inner)
        for loop in (c, sm):
            sch.unroll(loop)
        sch.vectorize(sv)
        if extent(sch, k) > 1:
            for annotation in (KEEP, ADVANCE):
                sch.annotate(k, annotation, 1)
        sch.decompose_reduction(sums, k)


def _flatten(shape: Any, index: Any) -> Any:
    """The place of an element in row-major order."""
    pairs = list(zip((int(d) for d in shape), index, strict=True))
    return functools.reduce(lambda place, pair: place * pair[0] + pair[1], pairs, 0)


def _unflatten(shape: Any, place: Any) -> tuple[Any, ...]:
    sizes = [int(d) for d in shape]
    return tuple(place // math.prod(sizes[axis + 1 :]) % size for axis, size in enumerate(sizes))
