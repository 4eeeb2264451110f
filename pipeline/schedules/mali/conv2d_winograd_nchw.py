"""3x3 conv2d by Winograd's filtering in NCHW as TVM scheduled it for Mali in 2018, with its AutoTVM template's knobs.

Source: apache/tvm@9a620c696f topi/python/topi/mali/conv2d.py, what its winograd template computes and how it is bound;
the matrices are Lavin and Gray's (Fast Algorithms for Convolutional Neural Networks, 2015).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule

from ...errors import ScheduleError
from ...targets import TargetSpec
from ..base import LAUNCH, knobs_of
from ..facts import Conv2dFacts
from .tiles import anchor_attributes
from .winograd_matrices import MATRICES

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class WinogradKnobs:
    """`tile` outputs a side; the product makes bna channels x bnb tiles a work-item, c_unroll input channels a round.

    Work-items in a group: t1 of the input's transform, yt of the product, t2 of the output's transform.
    """

    tile: int
    bna: int
    bnb: int
    t1: int
    t2: int
    c_unroll: int
    yt: int


class Conv2dWinogradNchw:
    """F(2x2, 3x3) or F(4x4, 3x3), Y = A^T [ (G g G^T) . (B^T d B) ] A a tile: three kernels, two scratch tensors.

    Shapes, a = tile + 2, P tiles of all images in whole groups of bnb: data (N, I, H, W), weight (a, a, O/bna, I, bna),
    transformed input (a, a, P/bnb, I, bnb), products (a, a, O, P); all of one dtype, sums too.
    The transforms are not separated: an element of B^T d B is one sum of up to 16 terms with constant factors.
    """

    name = "conv2d_winograd_nchw"

    @staticmethod
    def tile_of(facts: Conv2dFacts) -> int:
        """Outputs a side as the template chose them."""
        return 4 if facts.in_height % 4 == 0 else 2

    @staticmethod
    def accepts(facts: Conv2dFacts, knobs: WinogradKnobs) -> bool:
        unit = facts.stride == facts.dilation == (1, 1) and facts.kernel == (3, 3) and facts.groups == 1
        whole = facts.out_channels % knobs.bna == 0 and facts.in_channels % knobs.c_unroll == 0
        return unit and whole and knobs.tile in MATRICES

    @staticmethod
    def pack_weight(weight: Array, knobs: WinogradKnobs) -> Array:
        """OIHW to G g G^T in (a, a, O/bna, I, bna); computed in float64."""
        g = MATRICES[knobs.tile].g
        o, i, _, _ = weight.shape
        transformed = np.einsum("xr,oirc,yc->xyoi", g, weight.astype(np.float64), g)
        blocked = transformed.reshape(len(g), len(g), o // knobs.bna, knobs.bna, i).transpose(0, 1, 2, 4, 3)
        return np.ascontiguousarray(blocked, weight.dtype)

    @classmethod
    def compute(cls, facts: Conv2dFacts, knobs: WinogradKnobs, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        if not cls.accepts(facts, knobs):
            raise ScheduleError(
                f"{cls.name}: knobs do not fit the layer, got {knobs}; expected a 3x3 convolution of stride 1 whose "
                f"{facts.out_channels} output and {facts.in_channels} input channels bna and c_unroll divide"
            )
        transformed = _transform_input(facts, knobs, data)
        channels = te.reduce_axis((0, facts.in_channels), "i")
        points, bna, bnb = knobs.tile + 2, knobs.bna, knobs.bnb
        products = te.compute(
            (points, points, facts.out_channels, int(transformed.shape[2]) * bnb),
            lambda e, f, o, p: te.sum(
                weight[e, f, o // bna, channels, o % bna] * transformed[e, f, p // bnb, channels, p % bnb],
                axis=channels,
            ),
            name="product",
            attrs={
                **anchor_attributes(cls.name, multiply_adds=facts.multiply_adds, **vars(knobs)),
                LAUNCH: 1,
            },
        )
        return _transform_output(facts, knobs, products)

    def match(self, func: tirx.PrimFunc) -> WinogradKnobs | None:
        knobs = knobs_of(func, self.name)
        return None if knobs is None else WinogradKnobs(**knobs)

    def apply(self, sch: Schedule, facts: WinogradKnobs, target: TargetSpec) -> str:
        _schedule_input(sch, facts)
        _schedule_product(sch, facts)
        _schedule_output(sch, facts)
        return f"conv2d_nchw_winograd_{facts.tile}x3_{facts.bna}x{facts.bnb}"


def _tiles(facts: Conv2dFacts, tile: int) -> tuple[int, int]:
    """Tiles of an image in (rows, columns)."""
    return -(-facts.out_height // tile), -(-facts.out_width // tile)


def _transform_input(facts: Conv2dFacts, knobs: WinogradKnobs, data: te.Tensor) -> te.Tensor:
    tile, bnb = knobs.tile, knobs.bnb
    points = tile + 2
    rows, columns = _tiles(facts, tile)
    count = facts.batch * rows * columns
    groups = -(-count // bnb)
    zero = tirx.const(0, data.dtype)
    top, left = facts.pad[0], facts.pad[1]

    def pixel(i: Any, b: Any, e: Any, f: Any, p: Any) -> Any:
        index = b * bnb + p
        y = index // columns % rows * tile + e
        x = index % columns * tile + f
        inside = tirx.all(y >= top, y < facts.in_height + top, x >= left, x < facts.in_width + left)
        padded = tirx.if_then_else(inside, data[index // (rows * columns), i, y - top, x - left], zero)
        return padded if groups * bnb == count else tirx.if_then_else(index < count, padded, zero)

    patch = te.compute((facts.in_channels, groups, points, points, bnb), pixel, name="data_patch")
    b = MATRICES[tile].b

    def point(e: Any, f: Any, g: Any, i: Any, p: Any) -> Any:
        sums = [
            _weighted(np.outer(b[row], b[column]), lambda r, c: patch[i, g, r, c, p], data.dtype)
            for row in range(points)
            for column in range(points)
        ]
        return _choose(e * points + f, sums)

    shape = (points, points, groups, facts.in_channels, bnb)
    transformed = te.compute(shape, point, name="point_transformed")
    return te.compute(shape, lambda *i: transformed[i], name="input_transformed")


def _transform_output(facts: Conv2dFacts, knobs: WinogradKnobs, products: te.Tensor) -> te.Tensor:
    tile = knobs.tile
    rows, columns = _tiles(facts, tile)
    a = MATRICES[tile].a

    def pixel(o: Any, p: Any, y: Any, x: Any) -> Any:
        sums = [
            _weighted(np.outer(a[row], a[column]), lambda r, c: products[r, c, o, p], products.dtype)
            for row in range(tile)
            for column in range(tile)
        ]
        return _choose(y * tile + x, sums)

    shape = (facts.out_channels, facts.batch * rows * columns, tile, tile)
    transformed = te.compute(shape, pixel, name="output_transformed")
    return te.compute(
        (facts.batch, facts.out_channels, facts.out_height, facts.out_width),
        lambda n, o, y, x: transformed[o, n * (rows * columns) + y // tile * columns + x // tile, y % tile, x % tile],
        name="result",
    )


def _weighted(factors: Array, value: Any, dtype: str) -> Any:
    """The sum of factors[r, c] * value(r, c), row after row, zeros left out."""
    total: Any = None
    for r, c in zip(*np.nonzero(factors), strict=True):
        factor = float(factors[r, c])
        term = value(int(r), int(c)) if factor == 1 else value(int(r), int(c)) * tirx.const(factor, dtype)
        total = term if total is None else total + term
    return total


def _choose(index: Any, values: list[Any]) -> Any:
    """values[index]; the index is a constant once the loops over it are unrolled."""
    chosen = values[-1]
    for i in range(len(values) - 2, -1, -1):
        chosen = tirx.if_then_else(index == i, values[i], chosen)
    return chosen


def _schedule_input(sch: Schedule, facts: WinogradKnobs) -> None:
    # 1. a work-item bnb tiles of one channel
    stored = sch.get_sblock("input_transformed")
    e, f, g, i, p = sch.get_loops(stored)
    sch.reorder(g, i, e, f, p)
    group, item = sch.split(sch.fuse(g, i), [None, facts.t1])
    sch.bind(group, "blockIdx.x")
    sch.bind(item, "threadIdx.x")
    _unroll_and_vectorize(sch, e, f, p)
    # 2. its pixels in private memory, in loops, then all its points
    for name in ("point_transformed", "data_patch"):
        block = sch.get_sblock(name)
        sch.set_scope(block, 0, "local")
        sch.compute_at(block, item, preserve_unit_loops=True)
        if name == "point_transformed":
            e, f, _, _, p = sch.get_loops(block)[-5:]
            _unroll_and_vectorize(sch, e, f, p)


def _schedule_product(sch: Schedule, facts: WinogradKnobs) -> None:
    # 1. a work-item bna output channels x bnb tiles of one point
    sums = sch.get_sblock("product")
    stored = sch.cache_write(sums, 0, "local")
    e, f, o, p = sch.get_loops(stored)
    o_tile, oi = sch.split(o, [None, facts.bna])
    p_tile, pi = sch.split(p, [None, facts.bnb])
    point = sch.fuse(e, f)
    group, item = sch.split(o_tile, [None, facts.yt])
    sch.reorder(point, group, p_tile, item, oi, pi)
    for loop, axis in ((point, "blockIdx.z"), (group, "blockIdx.y"), (p_tile, "blockIdx.x"), (item, "threadIdx.y")):
        sch.bind(loop, axis)
    _unroll_and_vectorize(sch, oi, pi)
    # 2. the sums in registers, c_unroll input channels a round
    sch.compute_at(sums, item, preserve_unit_loops=True)
    *_, oi, pi, i = sch.get_loops(sums)
    i, inner = sch.split(i, [None, facts.c_unroll])
    sch.reorder(i, inner, oi, pi)
    sch.unroll(inner)
    _unroll_and_vectorize(sch, oi, pi)
    sch.decompose_reduction(sums, i)


def _schedule_output(sch: Schedule, facts: WinogradKnobs) -> None:
    # 1. a work-item a tile of outputs
    result = sch.get_sblock("result")
    n, o, y, x = sch.get_loops(result)
    y_tile, yi = sch.split(y, [None, facts.tile])
    x_tile, xi = sch.split(x, [None, facts.tile])
    sch.reorder(n, o, y_tile, x_tile, yi, xi)
    group, item = sch.split(sch.fuse(n, o, y_tile, x_tile), [None, facts.t2])
    sch.bind(group, "blockIdx.x")
    sch.bind(item, "threadIdx.x")
    sch.unroll(yi)
    sch.unroll(xi)
    # 2. all of them from the tile's products
    transformed = sch.get_sblock("output_transformed")
    sch.set_scope(transformed, 0, "local")
    sch.compute_at(transformed, item, preserve_unit_loops=True)
    for loop in sch.get_loops(transformed)[-2:]:
        sch.unroll(loop)


def _unroll_and_vectorize(sch: Schedule, *loops: Any) -> None:
    """Unroll the loops but the last, which becomes a vector unless it has one round."""
    for loop in loops[:-1]:
        sch.unroll(loop)
    if int(sch.get(loops[-1]).extent) > 1:
        sch.vectorize(loops[-1])
    else:
        sch.unroll(loops[-1])
