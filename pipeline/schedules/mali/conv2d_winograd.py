"""3x3 conv2d of stride 1 by Winograd's minimal filtering, F(2x2, 3x3) and F(4x4, 3x3), in NCHW4c.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015 (the matrices below are theirs).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule

from ...codegen.keep import IN_ORDER, KEEP
from ...codegen.pointers import ADVANCE
from ...targets import TargetSpec
from ..base import LAUNCH, knobs_of
from ..facts import Conv2dFacts, blocks_of
from .tiles import LANES, anchor_attributes, bind_tile, crop, fuse_epilogue, unroll_copies
from .winograd_matrices import MATRICES, Matrices, input_points, lookup, outputs

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Tile:
    """F(size x size, 3x3); `pixels` tiles of the image that a work-item of the product multiplies."""

    size: int
    pixels: int


# Cycles of a core for a vector mad of the product, by the tiles of a work-item; none spills (Mesa 25.0.7 for the T860).
# 7 has 0.61 itself and costs the transforms divisions by 7.
_PRODUCT_MAD = {8: 0.60, 7: 0.63, 5: 0.65, 4: 0.69}

_NO_TAP = 100  # no coefficient of a transform is that large


class Conv2dWinograd:
    """Y = A^T [ (G g G^T) . (B^T d B) ] A a tile, summed over input channels: three kernels, two scratch tensors.

    Shapes: data (N, I/4, H, W, 4); weight (a a, O/4, I/4, 4 input channels, 4 output channels) with a = size + 2;
    row_table (a, taps) and output_table (size, a), the coefficients of B^T and A^T that differ between work-items.
    Scratch: transformed input (a a, T/P, I/4, P, 4), a stream of its own for each work-item of the product, and
    products (a, O/4, T/P, a, P, 4), T tiles of all images. Scratch is of the weight's dtype; sums are in float.

    Accuracy, relative to the largest output of one layer with 64 to 512 input channels (numpy, ReLU-like inputs):
    float 2e-7 for F(2x2) and 6e-6 for F(4x4); half scratch and weights 6e-4 and 9e-3, where rounding the output
    alone is 5e-4. So F(4x4) keeps scratch and weights in float in half networks too.
    """

    name = "conv2d_winograd"

    @staticmethod
    def accepts(facts: Conv2dFacts) -> bool:
        unit = facts.stride == facts.dilation == (1, 1)
        return facts.kernel == (3, 3) and unit and facts.groups == 1 and facts.dtype in ("float32", "float16")

    @staticmethod
    def config(facts: Conv2dFacts, size: int) -> Tile:
        tiles = _tiles(facts, size)
        least = min(tiles, 4)
        return min(
            (Tile(size=size, pixels=p) for p in (*_PRODUCT_MAD, least) if p <= tiles),
            key=lambda t: blocks_of(tiles, t.pixels) * t.pixels * _PRODUCT_MAD.get(t.pixels, 1.0),
        )

    @staticmethod
    def pack_weight(weight: Array, size: int) -> Array:
        """OIHW to G g G^T in (a a, O/4, I/4, 4, 4), zeros in the padding channels; computed in float64."""
        g = MATRICES[size].g
        o, i, _, _ = weight.shape
        transformed = np.einsum("xr,oirc,yc->xyoi", g, weight.astype(np.float64), g)
        points = len(g) ** 2
        padded = np.zeros((points, blocks_of(o) * LANES, blocks_of(i) * LANES), scratch_dtype(str(weight.dtype), size))
        padded[:, :o, :i] = transformed.reshape(points, o, i)
        blocked = padded.reshape(points, blocks_of(o), LANES, blocks_of(i), LANES)
        return np.ascontiguousarray(blocked.transpose(0, 1, 3, 4, 2))

    @staticmethod
    def tables(size: int) -> tuple[Array, Array]:
        """(row_table, output_table), both float32."""
        m = MATRICES[size]
        return m.taps().astype(np.float32), m.a.astype(np.float32)

    @classmethod
    def compute(
        cls,
        facts: Conv2dFacts,
        tile: Tile,
        data: te.Tensor,
        weight: te.Tensor,
        row_table: te.Tensor,
        output_table: te.Tensor,
    ) -> te.Tensor:
        m = MATRICES[tile.size]
        transformed = _transform_input(facts, tile, m, data, row_table, str(weight.dtype))
        products = _multiply(transformed, weight, tile)
        sums = _transform_output(facts, tile, products, output_table)
        return crop(sums, facts, facts.dtype)

    def match(self, func: tirx.PrimFunc) -> Tile | None:
        knobs = knobs_of(func, self.name)
        return None if knobs is None else Tile(**knobs)

    def apply(self, sch: Schedule, facts: Tile, target: TargetSpec) -> str:
        _schedule_input(sch, facts, target)
        _schedule_product(sch, facts, target)
        _schedule_output(sch, facts, target)
        return f"conv2d_nchw4c_winograd_{facts.size}x3_{facts.pixels}x{LANES}"


def scratch_dtype(dtype: str, size: int) -> str:
    """Half only where it costs no accuracy (see Conv2dWinograd)."""
    return dtype if size == 2 else "float32"


def _tiles(facts: Conv2dFacts, size: int) -> int:
    return facts.batch * -(-facts.out_height // size) * -(-facts.out_width // size)


def _transform_input(
    facts: Conv2dFacts,
    tile: Tile,
    m: Matrices,
    data: te.Tensor,
    row_table: te.Tensor,
    dtype: str,
) -> te.Tensor:
    """B^T d B. A work-item makes one row of a tile's points: it needs `taps` rows of the tile, not all."""
    size, pixels = tile.size, tile.pixels
    points, taps = size + 2, m.row_taps
    in_blocks = int(data.shape[1])
    rows, columns = -(-facts.out_height // size), -(-facts.out_width // size)
    tiles = _tiles(facts, size)
    groups = blocks_of(tiles, pixels)

    def place(g: Any, p: Any) -> tuple[Any, Any, Any]:
        """(image, first row, first column) of a tile; what is beyond the last tile repeats it."""
        index = g * pixels + p
        if groups * pixels != tiles:
            index = tirx.min(index, tiles - 1)
        y, x = index // columns % rows, index % columns
        return index // (rows * columns), y * size - facts.pad[0], x * size - facts.pad[1]

    def tap_row(e: Any, k: Any, g: Any, p: Any) -> Any:
        return place(g, p)[1] + lookup(m.tap_rows, e, k)

    def tap(e: Any, k: Any, g: Any, p: Any) -> Any:
        y = tap_row(e, k, g, p)
        return tirx.Select(tirx.all(y >= 0, y < facts.in_height), row_table[e, k], tirx.const(0, "float32"))

    def pixel(e: Any, k: Any, c: Any, g: Any, i: Any, p: Any, v: Any) -> Any:
        n, _, x = place(g, p)
        y = tap_row(e, k, g, p)
        inside_y = tirx.max(tirx.min(y, facts.in_height - 1), 0)
        inside_x = tirx.max(tirx.min(x + c, facts.in_width - 1), 0)
        return data[n, i, inside_y, inside_x, v].astype("float32")

    tap_of = te.compute((points, taps, groups, pixels), tap, name="row_tap")
    patch = te.compute((points, taps, points, groups, in_blocks, pixels, LANES), pixel, name="data_patch")

    def row(e: Any, c: Any, g: Any, i: Any, p: Any, v: Any) -> Any:
        total = tap_of[e, 0, g, p] * patch[e, 0, c, g, i, p, v]
        for k in range(1, taps):
            total = total + tap_of[e, k, g, p] * patch[e, k, c, g, i, p, v]
        x = place(g, p)[2] + c
        # The last condition always holds, which the compiler cannot know: it may not move the loads of all columns to
        # the front, where they have no registers.
        inside = tirx.all(x >= 0, x < facts.in_width, tap_of[e, 1, g, p] != tirx.Cast("float32", c + _NO_TAP))
        return tirx.if_then_else(inside, total, tirx.const(0, "float32"))

    half = te.compute((points, points, groups, in_blocks, pixels, LANES), row, name="row_transformed")

    def point(t: Any, g: Any, i: Any, p: Any, v: Any) -> Any:
        values = input_points(size, lambda c: half[t // points, c, g, i, p, v])
        return _choose(t % points, values).astype(dtype)

    return te.compute((points * points, groups, in_blocks, pixels, LANES), point, name="input_transformed")


def _multiply(transformed: te.Tensor, weight: te.Tensor, tile: Tile) -> te.Tensor:
    points = tile.size + 2
    _, groups, in_blocks, pixels, _ = (int(d) for d in transformed.shape)
    out_blocks = int(weight.shape[1])
    column = te.compute(transformed.shape, lambda *i: transformed[i].astype("float32"), name="data_column")
    vector = te.compute(weight.shape, lambda *i: weight[i].astype("float32"), name="weight_vector")
    i = te.reduce_axis((0, in_blocks), "i")
    c = te.reduce_axis((0, LANES), "c")
    sums = te.compute(
        (points, out_blocks, groups, points, pixels, LANES),
        lambda e, o, g, f, p, v: te.sum(
            column[e * points + f, g, i, p, c] * vector[e * points + f, o, i, c, v], axis=[i, c]
        ),
        name="product",
    )
    return te.compute(sums.shape, lambda *i: sums[i].astype(str(weight.dtype)), name="product_stored")


def _transform_output(facts: Conv2dFacts, tile: Tile, products: te.Tensor, table: te.Tensor) -> te.Tensor:
    """A^T m A. A work-item makes a row of a tile's outputs: sums over the rows of points, then the columns."""
    size, points = tile.size, tile.size + 2
    out_blocks = int(products.shape[1])
    rows, columns = -(-facts.out_height // size), -(-facts.out_width // size)

    def product(e: Any, f: Any, n: Any, o: Any, y: Any, x: Any, v: Any) -> Any:
        index = (n * rows + y) * columns + x
        return products[e, o, index // tile.pixels, f, index % tile.pixels, v].astype("float32")

    row = te.compute((points, points, facts.batch, out_blocks, rows, columns, LANES), product, name="product_row")
    e = te.reduce_axis((0, points), "e")
    sums = te.compute(
        (points, facts.batch, out_blocks, rows * size, columns, LANES),
        lambda f, n, o, y, x, v: te.sum(row[e, f, n, o, y // size, x, v] * table[y % size, e], axis=e),
        name="row_sum",
        attrs={
            **anchor_attributes(Conv2dWinograd.name, multiply_adds=facts.multiply_adds, size=size, pixels=tile.pixels),
            LAUNCH: 1,
        },
    )

    def output(n: Any, o: Any, y: Any, x: Any, v: Any) -> Any:
        return _choose(x % size, outputs(size, lambda f: sums[f, n, o, y, x // size, v]))

    return te.compute((facts.batch, out_blocks, rows * size, columns * size, LANES), output, name="conv2d")


def _choose(index: Any, values: list[Any]) -> Any:
    """values[index]; the index is a constant once the loop over it is unrolled."""
    chosen = values[-1]
    for i in range(len(values) - 2, -1, -1):
        chosen = tirx.if_then_else(index == i, values[i], chosen)
    return chosen


def _schedule_input(sch: Schedule, facts: Tile, target: TargetSpec) -> None:
    # 1. a work-item a row of points of one tile and channel block; neighbours in x are tiles side by side
    points = facts.size + 2
    block = sch.get_sblock("input_transformed")
    t, g, i, p, v = sch.get_loops(block)
    e, f = sch.split(t, [None, points])
    sch.reorder(g, p, i, e, f, v)
    item = bind_tile(sch, sch.fuse(g, p), i, e, target)
    sch.unroll(f)
    sch.vectorize(v)
    # 2. the rows of data that it needs, one column at a time
    depth = len(sch.get_loops(block)) - 2
    half = sch.get_sblock("row_transformed")
    sch.set_scope(half, 0, "local")
    sch.compute_at(half, item, preserve_unit_loops=True)
    _, column, *_, lane = sch.get_loops(half)[depth:]
    sch.unroll(column)
    sch.vectorize(lane)
    tap = sch.get_sblock("row_tap")
    sch.set_scope(tap, 0, "local")
    sch.compute_at(tap, item, preserve_unit_loops=False)
    for loop in sch.get_loops(tap)[depth:]:
        sch.unroll(loop)
    sch.compute_inline(sch.get_sblock("data_patch"))


def _schedule_product(sch: Schedule, facts: Tile, target: TargetSpec) -> None:
    # 1. a work-item `pixels` tiles of one block of output channels
    stored = sch.get_sblock("product_stored")
    e, o, g, f, p, v = sch.get_loops(stored)
    sch.reorder(e, f, o, g, p, v)
    item = bind_tile(sch, g, o, sch.fuse(e, f), target, flat=True)
    sch.unroll(p)
    sch.vectorize(v)
    sums = sch.get_sblock("product")
    sch.set_scope(sums, 0, "local")
    sch.compute_at(sums, item, preserve_unit_loops=True)
    depth = len(sch.get_loops(stored)) - 2
    *unit, sp, sv, i, c = sch.get_loops(sums)[depth:]
    # 2. one block of input channels a round: its weights stay, the tiles pass one at a time
    sch.reorder(i, sp, c, *unit, sv)
    for name, at, inner in (("weight_vector", i, depth + 1), ("data_column", sp, depth + 2)):
        copy = sch.get_sblock(name)
        sch.set_scope(copy, 0, "local")
        sch.compute_at(copy, at, preserve_unit_loops=False)
        unroll_copies(sch, copy, inner)
    for loop in (sp, c):
        sch.unroll(loop)
    sch.vectorize(sv)
    for annotation in (KEEP, ADVANCE, IN_ORDER):
        sch.annotate(i, annotation, 1)
    sch.decompose_reduction(sums, i)


def _schedule_output(sch: Schedule, facts: Tile, target: TargetSpec) -> None:
    # 1. a work-item a row of a tile's outputs with the epilogue
    last = fuse_epilogue(sch, "row_sum")
    n, o, y, x, v = sch.get_loops(last)
    x_tile, xi = sch.split(x, [None, facts.size])
    sch.reorder(n, o, y, x_tile, xi, v)
    item = bind_tile(sch, x_tile, y, sch.fuse(n, o), target, flat=True)
    sch.unroll(xi)
    sch.vectorize(v)
    depth = len(sch.get_loops(last)) - 2
    # 2. a row of points at a time
    sums = sch.get_sblock("row_sum")
    sch.compute_at(sums, item, preserve_unit_loops=True)
    sf, sn, so, sy, sx, sv, e = sch.get_loops(sums)[depth:]
    sch.reorder(e, sf, sn, so, sy, sx, sv)
    row = sch.get_sblock("product_row")
    sch.set_scope(row, 0, "local")
    sch.compute_at(row, sf, preserve_unit_loops=False)
    unroll_copies(sch, row, depth + 2)
    sch.unroll(sf)
    sch.vectorize(sv)
    for annotation in (KEEP, ADVANCE, IN_ORDER):
        sch.annotate(e, annotation, 1)
    sch.decompose_reduction(sums, e)
