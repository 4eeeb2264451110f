"""conv2d in several groups of several channels, and depthwise with a channel multiplier, in NCHW4c."""

import math
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

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Groups:
    """How groups are put together so that each begins and ends with a whole vector of channels.

    `merged` groups of the operator make one group of the kernel, whose weights between them are zeros: one where a
    group's channels are multiples of four, else two or four, which is how many times the work grows.
    """

    merged: int
    count: int
    in_blocks: int
    out_blocks: int

    @classmethod
    def of(cls, groups: int, inside: int, outside: int) -> "Groups":
        """`inside` input and `outside` output channels a group."""
        merged = min(groups, math.lcm(LANES // math.gcd(LANES, inside), LANES // math.gcd(LANES, outside)))
        return cls(
            merged=merged,
            count=blocks_of(groups, merged),
            in_blocks=blocks_of(merged * inside),
            out_blocks=blocks_of(merged * outside),
        )


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Pixels of a row that a work-item computes, of one block of four output channels."""

    width: int


class GroupedConv2d:
    """out[n, o, y, x, :] = sum over i, ky, kx, c of data[n, first block of o's group + i, ...] * weight[...].

    Shapes: data (N, C/4, H, W, 4), weight (O/4, input blocks of a group, KH, KW, 4, 4).
    """

    name = "grouped_conv2d"

    @staticmethod
    def accepts(facts: Conv2dFacts) -> bool:
        return facts.groups > 1 and not facts.is_depthwise and facts.dtype in ("float32", "float16")

    @staticmethod
    def config(facts: Conv2dFacts) -> Tile:
        return Tile(width=pick_width(facts.out_width, 4))

    @staticmethod
    def pack_groups(weight: Array, count: int) -> Array:
        """(O, I/count, KH, KW) to (O/4, blocks, KH, KW, 4, 4), zeros between the groups that are put together."""
        channels, inside, *kernel = weight.shape
        outside = channels // count
        groups = Groups.of(count, inside, outside)
        spread = np.zeros((blocks_of(channels) * LANES, groups.in_blocks * LANES, *kernel), weight.dtype)
        for g in range(count):
            first = g % groups.merged * inside
            spread[g * outside : (g + 1) * outside, first : first + inside] = weight[g * outside : (g + 1) * outside]
        o, i, kh, kw = spread.shape
        packed = spread.reshape(o // LANES, LANES, i // LANES, LANES, kh, kw).transpose(0, 2, 4, 5, 3, 1)
        return np.ascontiguousarray(packed)

    @classmethod
    def compute(cls, facts: Conv2dFacts, tile: Tile, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        groups = Groups.of(facts.groups, facts.in_channels // facts.groups, facts.out_channels // facts.groups)
        width = -(-facts.out_width // tile.width) * tile.width
        row = padded_input(data, facts, width)
        out_blocks, in_blocks, kh, kw, lanes, _ = (int(d) for d in weight.shape)
        i = te.reduce_axis((0, in_blocks), "i")
        ky = te.reduce_axis((0, kh), "ky")
        kx = te.reduce_axis((0, kw), "kx")
        c = te.reduce_axis((0, lanes), "c")
        (sy, sx), (dy, dx) = facts.stride, facts.dilation
        vector = weight_vectors(weight)
        last = int(data.shape[1]) - 1

        def block(o: Any, i: Any) -> Any:
            own = o // groups.out_blocks * in_blocks + i
            # the last group may be short of channels; their weights are zeros
            return own if groups.count * in_blocks - 1 <= last else tirx.min(own, last)

        sums = te.compute(
            (facts.batch, out_blocks, facts.out_height, width, LANES),
            lambda n, o, y, x, v: te.sum(
                row[n, block(o, i), y * sy + ky * dy, x * sx + kx * dx, c] * vector[o, i, ky, kx, c, v],
                axis=[i, ky, kx, c],
            ),
            name="conv2d",
            attrs=anchor_attributes(cls.name, multiply_adds=facts.multiply_adds, width=tile.width),
        )
        return crop(sums, facts, facts.dtype)

    def match(self, func: tirx.PrimFunc) -> Tile | None:
        knobs = knobs_of(func, self.name)
        return None if knobs is None else Tile(**knobs)

    def apply(self, sch: Schedule, facts: Tile, target: TargetSpec) -> str:
        # 1. sums in registers, epilogue in one block; a work-item `width` pixels of a channel block
        last = fuse_epilogue(sch, "conv2d")
        n, o, y, x, v = sch.get_loops(last)
        x_tile, xi = sch.split(x, [None, facts.width])
        sch.reorder(n, o, y, x_tile, xi, v)
        item = bind_tile(sch, x_tile, y, sch.fuse(n, o), target)
        sch.unroll(xi)
        sch.vectorize(v)
        # 2. input blocks and kernel rows stay loops, the rest is unrolled around the row of data
        sums = sch.get_sblock("conv2d")
        sch.compute_at(sums, item, preserve_unit_loops=True)
        depth = len(sch.get_loops(last)) - 2
        height, width = reduce_by_rows(sch, sums, depth)
        return f"grouped_conv2d_nchw4c_{height}x{width}_{facts.width}x{LANES}"


def reduce_by_rows(sch: Schedule, sums: Any, depth: int) -> tuple[int, int]:
    """The loops of sums over (i, ky, kx, c) of one row of data_row and one weight_vector; returns the kernel's size."""
    *unit, sx, sv, i, ky, kx, c = sch.get_loops(sums)[depth:]
    sch.reorder(i, ky, kx, c, *unit, sx, sv)
    for name, at, inner in (("data_row", ky, depth + 2), ("weight_vector", c, depth + 4)):
        copy = sch.get_sblock(name)
        sch.set_scope(copy, 0, "local")
        sch.compute_at(copy, at, preserve_unit_loops=False)
        unroll_copies(sch, copy, inner)
    for loop in (kx, c, sx):
        sch.unroll(loop)
    sch.vectorize(sv)
    sch.annotate(ky, CLIP, 1)
    keep(sch, i, ky)
    kernel = (extent(sch, ky), extent(sch, kx))
    sch.decompose_reduction(sums, i)
    return kernel
