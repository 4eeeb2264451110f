"""conv2d in NCHW4c without groups, any kernel, stride, pad and dilation: rows of pixels in registers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule

from ...codegen.clip import CLIP
from ...targets import TargetSpec
from ..base import extent, knobs_of
from ..facts import Conv2dFacts, blocks_of
from .tiles import (
    LANES,
    anchor_attributes,
    bind_tile,
    crop,
    fuse_epilogue,
    keep,
    padded_input,
    pick_width,
    unroll_copies,
    weight_vectors,
)


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Pixels of a row and blocks of four output channels that a work-item computes."""

    width: int
    blocks: int


class Conv2dDirect:
    """out[n, o, y, x, :] = sum over i, ky, kx, c of data[n, i, y s + ky d - p, x s + kx d - p, c] * weight[...].

    Shapes: data (N, I/4, H, W, 4), weight (O/4, I/4, KH, KW, 4 input channels, 4 output channels); with fewer than four
    input channels the fifth axis of the weights is that many, and the padding lanes of the data are never read.
    """

    name = "conv2d_direct"

    @staticmethod
    def config(facts: Conv2dFacts) -> Tile:
        # 4 pixels: their sums, the row of data (6 vectors for a 3x3) and a weight vector take 11 of 16 registers
        return Tile(width=pick_width(facts.out_width, 4), blocks=1)

    @staticmethod
    def pack_weight(weight: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """OIHW to (O/4, I/4, KH, KW, 4, 4), zeros in the padding channels."""
        o, i, kh, kw = weight.shape
        lanes = min(i, LANES)
        padded = np.zeros((blocks_of(o) * LANES, blocks_of(i, lanes) * lanes, kh, kw), weight.dtype)
        padded[:o, :i] = weight
        packed = padded.reshape(blocks_of(o), LANES, blocks_of(i, lanes), lanes, kh, kw).transpose(0, 2, 4, 5, 3, 1)
        return np.ascontiguousarray(packed)

    @classmethod
    def compute(cls, facts: Conv2dFacts, tile: Tile, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        width = -(-facts.out_width // tile.width) * tile.width
        row = padded_input(data, facts, width)
        out_blocks, in_blocks, kh, kw, lanes, _ = (int(d) for d in weight.shape)
        i = te.reduce_axis((0, in_blocks), "i")
        ky = te.reduce_axis((0, kh), "ky")
        kx = te.reduce_axis((0, kw), "kx")
        c = te.reduce_axis((0, lanes), "c")
        (sy, sx), (dy, dx) = facts.stride, facts.dilation
        vector = weight_vectors(weight)
        sums = te.compute(
            (facts.batch, out_blocks, facts.out_height, width, LANES),
            lambda n, o, y, x, v: te.sum(
                row[n, i, y * sy + ky * dy, x * sx + kx * dx, c] * vector[o, i, ky, kx, c, v],
                axis=[i, ky, kx, c],
            ),
            name="conv2d",
            attrs=anchor_attributes(cls.name, multiply_adds=facts.multiply_adds, width=tile.width, blocks=tile.blocks),
        )
        return crop(sums, facts, facts.dtype)

    def match(self, func: tirx.PrimFunc) -> Tile | None:
        knobs = knobs_of(func, self.name)
        return None if knobs is None else Tile(**knobs)

    def apply(self, sch: Schedule, facts: Tile, target: TargetSpec) -> str:
        # 1. sums in registers, epilogue in one block
        last = fuse_epilogue(sch, "conv2d")
        n, o, y, x, v = sch.get_loops(last)
        # 2. a work-item computes `width` pixels of `blocks` channel blocks
        x_tile, xi = sch.split(x, [None, facts.width])
        o_tile, oi = sch.split(o, [None, facts.blocks])
        sch.reorder(n, o_tile, y, x_tile, oi, xi, v)
        item = bind_tile(sch, x_tile, y, sch.fuse(n, o_tile), target)
        sch.unroll(oi)
        sch.unroll(xi)
        sch.vectorize(v)
        # 3. reduction: input blocks and kernel rows stay loops, the rest is unrolled around the row of data
        sums = sch.get_sblock("conv2d")
        sch.compute_at(sums, item, preserve_unit_loops=True)
        depth = len(sch.get_loops(last)) - 3
        sn, so, sy, sx, sv, i, ky, kx, c = sch.get_loops(sums)[depth:]
        sch.reorder(i, ky, kx, c, sn, so, sy, sx, sv)
        # 4. one row of data for all kernel columns; one weight vector at a time
        row = sch.get_sblock("data_row")
        weight = sch.get_sblock("weight_vector")
        sch.set_scope(weight, 0, "local")
        sch.set_scope(row, 0, "local")
        sch.compute_at(row, ky, preserve_unit_loops=False)
        sch.compute_at(weight, c, preserve_unit_loops=False)
        unroll_copies(sch, row, depth + 2)
        unroll_copies(sch, weight, depth + 4)
        for loop in (kx, c, so, sx):
            sch.unroll(loop)
        sch.vectorize(sv)
        sch.annotate(ky, CLIP, 1)
        keep(sch, i, ky)
        sch.decompose_reduction(sums, i)
        kernel = f"{extent(sch, ky)}x{extent(sch, kx)}"
        return f"conv2d_nchw4c_{kernel}_{facts.width}x{facts.blocks * LANES}"
