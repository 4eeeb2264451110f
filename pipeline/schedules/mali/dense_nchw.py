"""Dense layer as TVM scheduled it for Mali in 2018, with the knobs of its AutoTVM template.

Source: apache/tvm@9a620c696f topi/python/topi/mali/dense.py, what it computes and how it is bound.
"""

from dataclasses import dataclass

from tvm import te, tirx
from tvm.s_tir import Schedule

from ...errors import ScheduleError
from ...targets import TargetSpec
from ..base import knobs_of
from .dense import DenseFacts
from .tiles import anchor_attributes

_VECTOR_SIZES = (1, 2, 4, 8, 16)  # lanes that OpenCL has and the template allows
_MAX_UNROLL = 32  # of a work-item's rows


@dataclass(frozen=True, kw_only=True)
class DenseKnobs:
    """Splits of rows and columns are (work-groups, work-items, outputs a work-item); k_unroll products a round."""

    tile_y: tuple[int, int, int]
    tile_x: tuple[int, int, int]
    k_unroll: int


class DenseNchw:
    """y = x w^T + bias in one kernel; a work-item sums a few outputs in registers.

    Shapes: data (R, K), weight (C, K), bias (C,) or none, all of one dtype, sums too.
    """

    name = "dense_nchw"

    @staticmethod
    def accepts(facts: DenseFacts, knobs: DenseKnobs) -> bool:
        whole = all(
            tile[0] * tile[1] * tile[2] == size
            for tile, size in ((knobs.tile_y, facts.rows), (knobs.tile_x, facts.columns))
        )
        return whole and facts.reduced % knobs.k_unroll == 0

    @classmethod
    def compute(
        cls, facts: DenseFacts, knobs: DenseKnobs, data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None
    ) -> te.Tensor:
        if not cls.accepts(facts, knobs):
            raise ScheduleError(
                f"{cls.name}: knobs do not fit the layer, got {knobs}; expected splits of {facts.rows} rows and "
                f"{facts.columns} columns and a divisor of {facts.reduced}"
            )
        k = te.reduce_axis((0, facts.reduced), "k")
        numbers = {f"{axis}{i}": size for axis in "yx" for i, size in enumerate(getattr(knobs, f"tile_{axis}"))}
        sums = te.compute(
            (facts.rows, facts.columns),
            lambda r, c: te.sum(data[r, k] * weight[c, k], axis=k),
            name="dense",
            attrs=anchor_attributes(
                cls.name,
                multiply_adds=facts.rows * facts.reduced * facts.columns,
                k_unroll=knobs.k_unroll,
                **numbers,
            ),
        )
        return te.compute(sums.shape, lambda r, c: sums[r, c] if bias is None else sums[r, c] + bias[c], name="result")

    def match(self, func: tirx.PrimFunc) -> DenseKnobs | None:
        knobs = knobs_of(func, self.name)
        if knobs is None:
            return None
        y, x = ((knobs[f"{axis}0"], knobs[f"{axis}1"], knobs[f"{axis}2"]) for axis in "yx")
        return DenseKnobs(tile_y=y, tile_x=x, k_unroll=knobs["k_unroll"])

    def apply(self, sch: Schedule, facts: DenseKnobs, target: TargetSpec) -> str:
        # 1. outputs: blocks and threads as the splits say
        result = sch.get_sblock("result")
        y, x = sch.get_loops(result)
        y_group, y_item, yi = sch.split(y, list(facts.tile_y))
        x_group, x_item, xi = sch.split(x, list(facts.tile_x))
        sch.reorder(y_group, x_group, y_item, x_item, yi, xi)
        for axis, group, item in (("y", y_group, y_item), ("x", x_group, x_item)):
            sch.bind(group, f"blockIdx.{axis}")
            sch.bind(item, f"threadIdx.{axis}")
        self._inner(sch, facts, yi, xi)
        # 2. their sums in registers, k_unroll products a round
        sums = sch.get_sblock("dense")
        sch.set_scope(sums, 0, "local")
        sch.compute_at(sums, x_item, preserve_unit_loops=True)
        *_, yi, xi, k = sch.get_loops(sums)
        k, inner = sch.split(k, [None, facts.k_unroll])
        sch.reorder(k, inner, yi, xi)
        sch.unroll(inner)
        self._inner(sch, facts, yi, xi)
        sch.decompose_reduction(sums, k)
        return f"dense_nchw_{facts.tile_y[2]}x{facts.tile_x[2]}"

    @staticmethod
    def _inner(sch: Schedule, facts: DenseKnobs, yi: object, xi: object) -> None:
        if facts.tile_y[2] < _MAX_UNROLL:
            sch.unroll(yi)
        if facts.tile_x[2] in _VECTOR_SIZES and facts.tile_x[2] > 1:
            sch.vectorize(xi)
