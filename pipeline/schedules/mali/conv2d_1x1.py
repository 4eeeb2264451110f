"""Pointwise conv2d (1x1, stride 1, no pad) in NCHW4c: a register-tiled matrix product over all pixels of an image."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from tvm import te, tirx
from tvm.s_tir import Schedule

from ...codegen.keep import IN_ORDER
from ...codegen.pointers import ADVANCE
from ...targets import TargetSpec
from ..base import knobs_of, largest_divisor
from ..facts import Conv2dFacts
from .conv2d_direct import Conv2dDirect
from .tiles import (
    LANES,
    anchor_attributes,
    bind_tile,
    crop,
    fuse_epilogue,
    keep,
    unroll_copies,
    weight_vectors,
    whole_blocks,
    widths,
)


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Pixels and blocks of four output channels that a work-item computes.

    step: 0, the pixels of a block of input channels stay in registers and the weights pass; else the weights stay and
    that many pixels pass at a time. advance: pointers are made before the loop; it costs two registers. half: 0, or of
    how many blocks of input channels, at most, the products are summed in half before they join the sums in float.
    """

    pixels: int
    blocks: int
    step: int
    advance: int
    half: int = 0


class Conv2d1x1:
    """out[n, o, p, :] = sum over i, c of data[n, i, p, c] * weight[o, i, c, :], p over all H W pixels.

    Shapes: data (N, I/4, H, W, 4), weight (O/4, I/4, 1, 1, 4, 4).
    """

    name = "conv2d_1x1"

    @staticmethod
    def config(facts: Conv2dFacts) -> Tile:
        # Cycles of a core a vector mad, none spills: 7 x 4 0.61, 8 x 4 0.64, 5 x 4 0.65, 4 x 4 0.69; 5 x 4 is the best
        # with guards for the end of the image, 0.73. Mesa 25.0.7 for the T860.
        pixels = facts.out_height * facts.out_width
        if facts.dtype == "float16":
            # 4 x 4 with 16 products in half: 0.57, 0.62 with guards; wider tiles spill
            return Tile(pixels=min(4, pixels), blocks=1, step=0 if pixels % 4 else 1, advance=1, half=4)
        if pixels < 5:
            return Tile(pixels=pixels, blocks=1, step=0, advance=1)
        best = next((p for p in (7, 8, 5, 4) if pixels % p == 0), 5)
        return Tile(pixels=best, blocks=1, step=0 if best == 4 else 1, advance=0 if best == 8 else 1)

    @staticmethod
    def space(facts: Conv2dFacts) -> tuple[Tile, ...]:
        """Every tile that may be best, `config` first; all are right for any layer."""
        pixels = facts.out_height * facts.out_width
        tiles = [
            Tile(pixels=p, blocks=blocks, step=step, advance=advance, half=half)
            for blocks in whole_blocks(facts.out_channels)
            for p in widths(pixels, (2, 3, 4, 5, 6, 7, 8))
            for step in (0, 1)
            for advance in (0, 1)
            for half in ((0, 2, 4, 8) if facts.dtype == "float16" else (0,))
            if p * blocks <= 8 and (step or p * blocks <= 4)
        ]
        return tuple(dict.fromkeys([Conv2d1x1.config(facts), *tiles]))

    pack_weight = staticmethod(Conv2dDirect.pack_weight)

    @classmethod
    def compute(cls, facts: Conv2dFacts, tile: Tile, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        out_blocks, in_blocks, _, _, lanes, _ = (int(d) for d in weight.shape)
        real = facts.in_height * facts.in_width
        pixels = -(-real // tile.pixels) * tile.pixels
        width = facts.in_width
        tile = tile if facts.dtype == "float16" else replace(tile, half=0)
        element = "float16" if tile.half else "float32"

        def pixel(n: Any, i: Any, p: Any, c: Any) -> Any:
            value = data[n, i, p // width, p % width, c].astype(element)
            if pixels == real:
                return value
            return tirx.if_then_else(p < real, value, tirx.const(0, element))

        column = te.compute((facts.batch, in_blocks, pixels, LANES), pixel, name="data_column")
        i = te.reduce_axis((0, in_blocks), "i")
        c = te.reduce_axis((0, lanes), "c")
        vector = weight_vectors(weight, element)
        attributes = anchor_attributes(cls.name, multiply_adds=facts.multiply_adds, **asdict(tile))
        shape = (facts.batch, out_blocks, pixels, LANES)
        if tile.half:
            size = largest_divisor(in_blocks, tile.half)
            part = te.reduce_axis((0, size), "part")
            parts = te.compute(
                (*shape[:3], in_blocks // size, LANES),
                lambda n, o, p, g, v: te.sum(
                    column[n, g * size + part, p, c] * vector[o, g * size + part, 0, 0, c, v], axis=[part, c]
                ),
                name="half_sums",
            )
            g = te.reduce_axis((0, in_blocks // size), "g")
            sums = te.compute(
                shape,
                lambda n, o, p, v: te.sum(parts[n, o, p, g, v].astype("float32"), axis=g),
                name="conv2d",
                attrs=attributes,
            )
        else:
            sums = te.compute(
                shape,
                lambda n, o, p, v: te.sum(column[n, i, p, c] * vector[o, i, 0, 0, c, v], axis=[i, c]),
                name="conv2d",
                attrs=attributes,
            )
        return crop(sums, facts, facts.dtype)

    def match(self, func: tirx.PrimFunc) -> Tile | None:
        knobs = knobs_of(func, self.name)
        return None if knobs is None else Tile(**knobs)

    def apply(self, sch: Schedule, facts: Tile, target: TargetSpec) -> str:
        # 1. sums in registers, epilogue in one block whose rows and columns are one axis of pixels
        last = fuse_epilogue(sch, "conv2d")
        width = int(sch.get(last).writes[0].source.ty.shape[3])
        sch.transform_block_layout(last, lambda n, o, y, x, v: (n, o, y * width + x, v))
        n, o, p, v = sch.get_loops(last)
        # 2. a work-item computes `pixels` pixels of `blocks` channel blocks
        p_tile, pi = sch.split(p, [None, facts.pixels])
        o_tile, oi = sch.split(o, [None, facts.blocks])
        sch.reorder(n, o_tile, p_tile, oi, pi, v)
        item = bind_tile(sch, p_tile, o_tile, n, target)
        sch.unroll(oi)
        sch.unroll(pi)
        sch.vectorize(v)
        # 3. one block of input channels a round, in which either weights or data pass
        sums = sch.get_sblock("conv2d")
        sch.compute_at(sums, item, preserve_unit_loops=True)
        depth = len(sch.get_loops(last)) - 3
        loops = sch.get_loops(sums)[depth:]
        products, outer = sums, None
        if facts.half:
            *unit, sp, sv, outer = loops
            sch.reorder(outer, *unit, sp, sv)
            products = sch.get_sblock("half_sums")
            sch.set_scope(products, 0, "local")
            sch.compute_at(products, outer, preserve_unit_loops=True)
            for loop in (*unit, sp):
                sch.unroll(loop)
            sch.vectorize(sv)
            depth += 1
            sn, so, sp, _, sv, i, c = sch.get_loops(products)[depth:]
        else:
            sn, so, sp, sv, i, c = loops
        column, weight = sch.get_sblock("data_column"), sch.get_sblock("weight_vector")
        for copy in (weight, column):
            sch.set_scope(copy, 0, "local")
        if facts.step:
            passing, inner = sch.split(sp, [None, facts.step])
            sch.reorder(i, passing, c, sn, so, inner, sv)
            sch.compute_at(weight, i, preserve_unit_loops=False)
            sch.compute_at(column, passing, preserve_unit_loops=False)
            unroll_copies(sch, weight, depth + 1)
            unroll_copies(sch, column, depth + 2)
            unrolled = [passing, c, so, inner]
        else:
            sch.reorder(i, c, sn, so, sp, sv)
            sch.compute_at(column, i, preserve_unit_loops=False)
            sch.compute_at(weight, c, preserve_unit_loops=False)
            unroll_copies(sch, column, depth + 1)
            unroll_copies(sch, weight, depth + 2)
            unrolled = [c, so, sp]
        for loop in unrolled:
            sch.unroll(loop)
        sch.vectorize(sv)
        if outer is not None:
            sch.unroll(i)
            sch.decompose_reduction(products, i)
        rounds = i if outer is None else outer
        keep(sch, rounds)
        if facts.step:
            sch.annotate(rounds, IN_ORDER, 1)
        if facts.advance:
            sch.annotate(rounds, ADVANCE, 1)
        sch.decompose_reduction(sums, rounds)
        return f"conv2d_nchw4c_1x1_{facts.pixels}x{facts.blocks * LANES}"
