"""Depthwise conv2d (one filter a channel) in NCHW4c: rows of pixels in registers, four channels at a time."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule

from ...codegen.clip import CLIP
from ...codegen.keep import IN_ORDER
from ...codegen.pointers import ADVANCE
from ...targets import TargetSpec
from ..base import extent, knobs_of
from ..facts import Conv2dFacts, blocks_of
from .tiles import (
    HALF_PRODUCTS,
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
    widths,
)


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Pixels of a row that a work-item computes.

    in_order: loads stay where they are. advance: pointers are made before the loop over kernel rows. half: 1, all is
    summed in half.
    """

    width: int
    in_order: int
    advance: int
    half: int = 0


class DepthwiseConv2d:
    """out[n, b, y, x, :] = sum over ky, kx of data[n, b, y s + ky d - p, x s + kx d - p, :] * weight[b, ky, kx, :].

    Shapes: data (N, C/4, H, W, 4), weight (C/4, KH, KW, 4).
    """

    name = "depthwise_conv2d"

    @staticmethod
    def config(facts: Conv2dFacts) -> Tile:
        # The widest that do not spill, cycles of a core a vector mad: 3x3 of stride 1 1.65 and of stride 2 1.9, 5x5 1.4
        # and 1.6 (Mesa 25.0.7 for the T860); most layers wait for memory longer than that.
        small = facts.kernel[1] <= 3
        if max(_halves(facts)):
            # 1.1 and 1.2, 5x5 0.85 and 1.1
            most = 7 if small or facts.stride[1] == 1 else 4
            return Tile(width=pick_width(facts.out_width, most), in_order=0, advance=1, half=1)
        if facts.stride[1] > 1:
            return Tile(width=min(2, facts.out_width), in_order=0 if small else 1, advance=1)
        if small:
            return Tile(width=pick_width(facts.out_width, 4), in_order=0, advance=0)
        return Tile(width=min(3, facts.out_width), in_order=1, advance=1)

    @staticmethod
    def space(facts: Conv2dFacts) -> tuple[Tile, ...]:
        """Every tile that may be best, `config` first; all are right for any layer."""
        tiles = [
            Tile(width=width, in_order=in_order, advance=advance, half=half)
            for width in widths(facts.out_width, (2, 3, 4, 5, 7))
            for in_order in (0, 1)
            for advance in (0, 1)
            for half in _halves(facts)
        ]
        return tuple(dict.fromkeys([DepthwiseConv2d.config(facts), *tiles]))

    @staticmethod
    def pack_weight(weight: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """(C, 1, KH, KW) to (C/4, KH, KW, 4), zeros in the padding channels."""
        c, _, kh, kw = weight.shape
        padded = np.zeros((blocks_of(c) * LANES, kh, kw), weight.dtype)
        padded[:c] = weight[:, 0]
        return np.ascontiguousarray(padded.reshape(-1, LANES, kh, kw).transpose(0, 2, 3, 1))

    @classmethod
    def compute(cls, facts: Conv2dFacts, tile: Tile, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        width = -(-facts.out_width // tile.width) * tile.width
        tile = tile if facts.dtype == "float16" else replace(tile, half=0)
        element = "float16" if tile.half else "float32"
        row = padded_input(data, facts, width, element)
        blocks, kh, kw, _ = (int(d) for d in weight.shape)
        ky = te.reduce_axis((0, kh), "ky")
        kx = te.reduce_axis((0, kw), "kx")
        (sy, sx), (dy, dx) = facts.stride, facts.dilation
        vector = weight_vectors(weight, element)
        sums = te.compute(
            (facts.batch, blocks, facts.out_height, width, LANES),
            lambda n, b, y, x, v: te.sum(
                row[n, b, y * sy + ky * dy, x * sx + kx * dx, v] * vector[b, ky, kx, v],
                axis=[ky, kx],
            ),
            name="conv2d",
            attrs=anchor_attributes(cls.name, multiply_adds=facts.multiply_adds, **asdict(tile)),
        )
        return crop(sums, facts, facts.dtype)

    def match(self, func: tirx.PrimFunc) -> Tile | None:
        knobs = knobs_of(func, self.name)
        return None if knobs is None else Tile(**knobs)

    def apply(self, sch: Schedule, facts: Tile, target: TargetSpec) -> str:
        # 1. sums in registers, epilogue in one block
        last = fuse_epilogue(sch, "conv2d")
        n, b, y, x, v = sch.get_loops(last)
        # 2. a work-item computes `width` pixels of one channel block
        x_tile, xi = sch.split(x, [None, facts.width])
        sch.reorder(n, b, y, x_tile, xi, v)
        item = bind_tile(sch, x_tile, y, sch.fuse(n, b), target)
        sch.unroll(xi)
        sch.vectorize(v)
        # 3. one row of data for all kernel columns, one weight vector at a time
        sums = sch.get_sblock("conv2d")
        sch.compute_at(sums, item, preserve_unit_loops=True)
        depth = len(sch.get_loops(last)) - 2
        sn, sb, sy, sx, sv, ky, kx = sch.get_loops(sums)[depth:]
        sch.reorder(ky, kx, sn, sb, sy, sx, sv)
        row = sch.get_sblock("data_row")
        weight = sch.get_sblock("weight_vector")
        sch.set_scope(weight, 0, "local")
        sch.set_scope(row, 0, "local")
        sch.compute_at(row, ky, preserve_unit_loops=False)
        sch.compute_at(weight, kx, preserve_unit_loops=False)
        unroll_copies(sch, row, depth + 1)
        unroll_copies(sch, weight, depth + 2)
        for loop in (kx, sx):
            sch.unroll(loop)
        sch.vectorize(sv)
        sch.annotate(ky, CLIP, 1)
        keep(sch, ky)
        if facts.in_order:
            sch.annotate(ky, IN_ORDER, 1)
        if facts.advance:
            sch.annotate(ky, ADVANCE, 1)
        sch.decompose_reduction(sums, ky)
        return f"depthwise_conv2d_nchw4c_{extent(sch, ky)}x{extent(sch, kx)}_{facts.width}x{LANES}"


def _halves(facts: Conv2dFacts) -> tuple[int, ...]:
    """What the knob `half` may be."""
    taps = facts.kernel[0] * facts.kernel[1]
    return (0, 1) if facts.dtype == "float16" and taps <= HALF_PRODUCTS else (0,)
