"""conv2d in NCHW4c without groups, any kernel, stride, pad and dilation: rows of pixels in registers."""

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
    whole_blocks,
    widths,
)


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Pixels of a row and blocks of four output channels that a work-item computes.

    columns: 1, kernel columns are a loop too, which needs fewer registers; 0, they are unrolled. step: 0, the data of a
    round stay in registers and the weights pass; else the weights of a kernel column stay and the data of that many
    pixels pass at a time. in_order: loads stay where they are. advance: pointers are made before the loop. half: 1, the
    products of a row of the kernel are summed in half before they join the sums in float.
    """

    width: int
    blocks: int
    columns: int
    step: int
    in_order: int
    advance: int
    half: int = 0


class Conv2dDirect:
    """out[n, o, y, x, :] = sum over i, ky, kx, c of data[n, i, y s + ky d - p, x s + kx d - p, c] * weight[...].

    Shapes: data (N, I/4, H, W, 4), weight (O/4, I/4, KH, KW, 4 input channels, 4 output channels); with fewer than four
    input channels the fifth axis of the weights is that many, and the padding lanes of the data are never read.
    """

    name = "conv2d_direct"

    @staticmethod
    def config(facts: Conv2dFacts) -> Tile:
        # 2 pixels x 8 channels: 0.65 cycles of a core a vector mad of a 3x3 kernel, 4 x 4 0.75; of stride 2 0.62, where
        # 4 x 4 spills. Kernels of one column have nothing to share. Mesa 25.0.7 for the T860.
        half = max(_halves(facts))
        if facts.kernel[1] > 1 and blocks_of(facts.out_channels) % 2 == 0:
            return Tile(width=min(2, facts.out_width), blocks=2, columns=0, step=0, in_order=1, advance=1, half=half)
        if half:
            return Tile(width=min(4, facts.out_width), blocks=1, columns=0, step=0, in_order=1, advance=1, half=half)
        width = pick_width(facts.out_width, 4 if facts.stride[1] == 1 or facts.kernel[1] == 1 else 2)
        return Tile(width=width, blocks=1, columns=0, step=0, in_order=1, advance=0)

    @staticmethod
    def space(facts: Conv2dFacts) -> tuple[Tile, ...]:
        """Every tile that may be best, `config` first; all are right for any layer."""
        # Sums, a row of data and weights have 16 registers; only with columns in a loop may a tile be wide.
        tiles = [
            Tile(width=width, blocks=blocks, columns=columns, step=step, in_order=1, advance=advance, half=half)
            for blocks in whole_blocks(facts.out_channels)
            for width in widths(facts.out_width, (2, 3, 4, 5, 7, 8))
            for columns in ((0, 1) if facts.kernel[1] > 1 else (0,))
            for step in ((0, 1) if blocks == 1 and (columns or facts.kernel[1] == 1) else (0,))
            for advance in (0, 1)
            for half in _halves(facts)
            if width * blocks <= (8 if step or half else 6) and not (half and columns)
        ]
        return tuple(dict.fromkeys([Conv2dDirect.config(facts), *tiles]))

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
        tile = tile if facts.dtype == "float16" else replace(tile, half=0)
        element = "float16" if tile.half else "float32"
        row = padded_input(data, facts, width, element)
        out_blocks, in_blocks, kh, kw, lanes, _ = (int(d) for d in weight.shape)
        i = te.reduce_axis((0, in_blocks), "i")
        ky = te.reduce_axis((0, kh), "ky")
        kx = te.reduce_axis((0, kw), "kx")
        c = te.reduce_axis((0, lanes), "c")
        (sy, sx), (dy, dx) = facts.stride, facts.dilation
        vector = weight_vectors(weight, element)
        attributes = anchor_attributes(cls.name, multiply_adds=facts.multiply_adds, **asdict(tile))
        shape = (facts.batch, out_blocks, facts.out_height, width, LANES)

        def product(n: Any, o: Any, y: Any, x: Any, v: Any, i: Any, ky: Any) -> Any:
            return row[n, i, y * sy + ky * dy, x * sx + kx * dx, c] * vector[o, i, ky, kx, c, v]

        if tile.half:
            parts = te.compute(
                (*shape[:4], in_blocks, kh, LANES),
                lambda n, o, y, x, i, ky, v: te.sum(product(n, o, y, x, v, i, ky), axis=[kx, c]),
                name="half_sums",
            )
            sums = te.compute(
                shape,
                lambda n, o, y, x, v: te.sum(parts[n, o, y, x, i, ky, v].astype("float32"), axis=[i, ky]),
                name="conv2d",
                attrs=attributes,
            )
        else:
            sums = te.compute(
                shape,
                lambda n, o, y, x, v: te.sum(product(n, o, y, x, v, i, ky), axis=[i, ky, kx, c]),
                name="conv2d",
                attrs=attributes,
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
        # 3. input blocks and kernel rows stay loops, and the columns if asked; the rest is unrolled
        sums = sch.get_sblock("conv2d")
        sch.compute_at(sums, item, preserve_unit_loops=True)
        depth = len(sch.get_loops(last)) - 3
        loops = sch.get_loops(sums)[depth:]
        products = sums
        if facts.half:
            *unit, sx, sv, i, ky = loops
            sch.reorder(i, ky, *unit, sx, sv)
            products = sch.get_sblock("half_sums")
            sch.set_scope(products, 0, "local")
            sch.compute_at(products, ky, preserve_unit_loops=True)
            for loop in (*unit, sx):
                sch.unroll(loop)
            sch.vectorize(sv)
            sn, so, sy, sx, _, _, sv, kx, c = sch.get_loops(products)[depth + 2 :]
            rows: tuple[Any, ...] = ()
        else:
            sn, so, sy, sx, sv, i, ky, kx, c = loops
            rows = (i, ky)
        row, weight = sch.get_sblock("data_row"), sch.get_sblock("weight_vector")
        for copy in (weight, row):
            sch.set_scope(copy, 0, "local")
        if facts.step:
            passing, inner = sch.split(sx, [None, facts.step])
            sch.reorder(*rows, kx, passing, c, sn, so, sy, inner, sv)
            places = ((row, passing, 4), (weight, kx, 3))
            unrolled = [passing, c, so, inner]
        else:
            sch.reorder(*rows, kx, c, sn, so, sy, sx, sv)
            places = ((row, kx, 3) if facts.columns else (row, ky, 2), (weight, c, 4))
            unrolled = [c, so, sx]
        for copy, at, below in places:
            sch.compute_at(copy, at, preserve_unit_loops=False)
            unroll_copies(sch, copy, depth + below)
        kept = [i, ky, kx] if facts.columns else [i, ky]
        for loop in unrolled if facts.columns else [kx, *unrolled]:
            sch.unroll(loop)
        sch.vectorize(sv)
        sch.annotate(ky, CLIP, 1)
        keep(sch, *kept)
        innermost = [loop for loop in kept if extent(sch, loop) > 1][-1:]
        for loop in innermost:
            if facts.in_order:
                sch.annotate(loop, IN_ORDER, 1)
            if facts.advance:
                sch.annotate(loop, ADVANCE, 1)
        if facts.half:
            sch.decompose_reduction(products, kx)
        sch.decompose_reduction(sums, i)
        kernel = f"{extent(sch, ky)}x{extent(sch, kx)}"
        return f"conv2d_nchw4c_{kernel}_{facts.width}x{facts.blocks * LANES}"


def _halves(facts: Conv2dFacts) -> tuple[int, ...]:
    """What the knob `half` may be."""
    products = facts.kernel[1] * min(facts.in_channels, LANES)
    return (0, 1) if facts.dtype == "float16" and products <= HALF_PRODUCTS else (0,)
