"""conv2d in NCHW as a matrix product over unfolded windows (im2col): what spatial packing is compared with.

Source: the comparison that TVM's report of 2018 on Mali makes (tvm.apache.org/2018/01/16/opt-mali-gpu); the tiles and
the layouts are this project's.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule

from ...errors import ScheduleError
from ...targets import TargetSpec
from ..base import extent, knobs_of, largest_divisor
from ..facts import Conv2dFacts, blocks_of
from .tiles import anchor_attributes, bind_tile, unroll_copies

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class GemmTile:
    """What a work-item of the product makes, channels x pixels, and how many products a round each of them sums."""

    channels: int
    pixels: int
    k_unroll: int


class Im2colGemm:
    """columns[n, i, kh, kw, q] = the window's element at pixel q; y[n, o, q] = sum of weight * columns: two kernels.

    Shapes: data (N, I, H, W), weight (O/T, I, KH, KW, T) with T = tile.channels and zeros in the last block's padding,
    columns (N, I, KH, KW, Q) with Q = OH * OW rounded up to whole tiles; all of one dtype, sums too.
    """

    name = "im2col_gemm"

    @staticmethod
    def config(facts: Conv2dFacts) -> GemmTile:
        # 4 vectors of 128 bits of sums, as many for a round's data and weights; more unrolling only lengthens the text
        taps = facts.in_channels * facts.kernel[0] * facts.kernel[1]
        pixels = 8 if facts.dtype == "float16" else 4
        return GemmTile(channels=4, pixels=pixels, k_unroll=largest_divisor(taps, 4))

    @staticmethod
    def accepts(facts: Conv2dFacts, tile: GemmTile) -> bool:
        taps = facts.in_channels * facts.kernel[0] * facts.kernel[1]
        vectors = tile.pixels in (2, 4, 8, 16) and tile.channels in (2, 4, 8, 16)
        return facts.groups == 1 and vectors and taps % tile.k_unroll == 0

    @staticmethod
    def pack_weight(weight: Array, tile: GemmTile) -> Array:
        """OIHW to (O/T, I, KH, KW, T)."""
        o, i, h, w = weight.shape
        blocks = blocks_of(o, tile.channels)
        padded = np.zeros((blocks * tile.channels, i, h, w), weight.dtype)
        padded[:o] = weight
        return np.ascontiguousarray(padded.reshape(blocks, tile.channels, i, h, w).transpose(0, 2, 3, 4, 1))

    @classmethod
    def compute(cls, facts: Conv2dFacts, tile: GemmTile, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        if not cls.accepts(facts, tile):
            raise ScheduleError(
                f"{cls.name}: the tile does not fit the layer, got {tile}; expected vectors of 2 to 16 channels and "
                f"pixels, k_unroll a divisor of {facts.in_channels} x {facts.kernel}, and no groups"
            )
        pixels, width = facts.out_height * facts.out_width, facts.out_width
        columns = _columns(facts, data, blocks_of(pixels, tile.pixels) * tile.pixels)
        i = te.reduce_axis((0, facts.in_channels), "i")
        h = te.reduce_axis((0, facts.kernel[0]), "h")
        w = te.reduce_axis((0, facts.kernel[1]), "w")
        channels = tile.channels
        sums = te.compute(
            (facts.batch, int(weight.shape[0]) * channels, int(columns.shape[4])),
            lambda n, o, q: te.sum(
                weight[o // channels, i, h, w, o % channels] * columns[n, i, h, w, q], axis=[i, h, w]
            ),
            name="conv2d",
            attrs=anchor_attributes(cls.name, multiply_adds=facts.multiply_adds, **vars(tile)),
        )
        flat = te.compute((facts.batch, facts.out_channels, pixels), lambda *index: sums[index], name="pixels")
        shape = (facts.batch, facts.out_channels, facts.out_height, facts.out_width)
        return te.compute(shape, lambda n, o, y, x: flat[n, o, y * width + x], name="result")

    def match(self, func: tirx.PrimFunc) -> GemmTile | None:
        knobs = knobs_of(func, self.name)
        return None if knobs is None else GemmTile(**knobs)

    def apply(self, sch: Schedule, facts: GemmTile, target: TargetSpec) -> str:
        # 1. columns: a work-item a vector of pixels at one place of the window
        columns = sch.get_sblock("columns")
        n, i, h, w, q = sch.get_loops(columns)
        q, lane = sch.split(q, [None, facts.pixels])
        bind_tile(sch, q, sch.fuse(h, w), sch.fuse(n, i), target)
        sch.vectorize(lane)
        # 2. products: a work-item a tile
        sch.reverse_compute_inline(sch.get_sblock("result"))
        n, o, q = sch.get_loops(sch.get_sblock("pixels"))
        whole = extent(sch, q) % facts.pixels == 0
        o, oi = sch.split(o, [None, facts.channels])
        q, qi = sch.split(q, [None, facts.pixels])
        sch.reorder(n, o, q, oi, qi)
        item = bind_tile(sch, q, o, n, target)
        sch.unroll(oi)
        if whole:
            sch.vectorize(qi)
        else:
            sch.unroll(qi)
        # 3. its sums in registers; one vector of pixels and one of weights at a time
        sums = sch.get_sblock("conv2d")
        sch.set_scope(sums, 0, "local")
        sch.compute_at(sums, item, preserve_unit_loops=True)
        depth = len(sch.get_loops(sums)) - 6
        _, oi, qi, i, h, w = sch.get_loops(sums)[depth:]
        k, inner = sch.split(sch.fuse(i, h, w), [None, facts.k_unroll])
        sch.reorder(k, inner, oi, qi)
        for index in (0, 1):
            copy = sch.cache_read(sums, index, "local")
            sch.compute_at(copy, inner)
            unroll_copies(sch, copy, len(sch.get_loops(sums)) - 2)
        for loop in (inner, oi):
            sch.unroll(loop)
        sch.vectorize(qi)
        sch.decompose_reduction(sums, k)
        return f"im2col_gemm_nchw_{facts.channels}x{facts.pixels}"


def _columns(facts: Conv2dFacts, data: te.Tensor, pixels: int) -> te.Tensor:
    """The windows' elements, zeros for padding; beyond the last pixel whatever the last row's neighbourhood holds."""
    width = facts.out_width
    top, left, _, _ = facts.pad
    last = facts.out_height * width - 1

    def value(n: Any, i: Any, h: Any, w: Any, q: Any) -> Any:
        pixel = q if pixels == last + 1 else tirx.min(q, last)
        y = pixel // width * facts.stride[0] + h * facts.dilation[0]
        x = pixel % width * facts.stride[1] + w * facts.dilation[1]
        if not any(facts.pad):
            return data[n, i, y, x]
        inside = tirx.all(y >= top, y < facts.in_height + top, x >= left, x < facts.in_width + left)
        return tirx.if_then_else(inside, data[n, i, y - top, x - left], tirx.const(0, data.dtype))

    shape = (facts.batch, facts.in_channels, *facts.kernel, pixels)
    return te.compute(shape, value, name="columns")
