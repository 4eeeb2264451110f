"""Depthwise conv2d in NCHW as TVM scheduled it for Mali in 2018, with the knobs of its AutoTVM template.

Source: apache/tvm@9a620c696f topi/python/topi/mali/depthwise_conv2d.py, what it computes and how it is bound.
"""

from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.s_tir import Schedule

from ...errors import ScheduleError
from ...targets import TargetSpec
from ..base import knobs_of
from ..facts import Conv2dFacts
from .tiles import anchor_attributes

ANNOTATIONS = ("none", "unroll", "vec")
_VECTOR_SIZES = (1, 2, 4, 8, 16)  # lanes that OpenCL has and the template allows
_MAX_UNROLL = 16


@dataclass(frozen=True, kw_only=True)
class DepthwiseKnobs:
    """Splits are (work-groups, work-items, outputs a work-item); annotation is that of the outputs in a row."""

    tile_c: tuple[int, int, int]
    tile_y: tuple[int, int, int]
    tile_x: tuple[int, int, int]
    annotation: str


class DepthwiseConv2dNchw:
    """y[n, c, h, w] = sum over i, j of x[n, c, h s + i, w s + j] * k[c, 0, i, j]: two kernels.

    Shapes: data (N, C, H, W), weight (C, 1, KH, KW), all of one dtype, sums too. The padded input is a tensor in
    memory, written by a kernel of its own, unless nothing is padded. A work-item sums a row of tile_x[2] outputs in
    registers; it goes through tile_c[2] channels and tile_y[2] rows one after the other.
    """

    name = "depthwise_conv2d_nchw"

    @staticmethod
    def accepts(facts: Conv2dFacts, knobs: DepthwiseKnobs) -> bool:
        sizes = (facts.out_channels, facts.out_height, facts.out_width)
        tiles = (knobs.tile_c, knobs.tile_y, knobs.tile_x)
        whole = all(t[0] * t[1] * t[2] == size for t, size in zip(tiles, sizes, strict=True))
        row = knobs.tile_x[2]
        fits = {"none": True, "unroll": row <= _MAX_UNROLL, "vec": row in _VECTOR_SIZES}
        return facts.is_depthwise and whole and fits[knobs.annotation]

    @classmethod
    def compute(cls, facts: Conv2dFacts, knobs: DepthwiseKnobs, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        if not cls.accepts(facts, knobs):
            raise ScheduleError(
                f"{cls.name}: knobs do not fit the layer, got {knobs}; expected splits of (C, H, W) = "
                f"({facts.out_channels}, {facts.out_height}, {facts.out_width}) and an annotation that its row allows"
            )
        padded = padded_nchw(data, facts) if any(facts.pad) else data
        i = te.reduce_axis((0, facts.kernel[0]), "i")
        j = te.reduce_axis((0, facts.kernel[1]), "j")
        (stride_y, stride_x), (dilation_y, dilation_x) = facts.stride, facts.dilation
        return te.compute(
            (facts.batch, facts.out_channels, facts.out_height, facts.out_width),
            lambda n, c, y, x: te.sum(
                padded[n, c, y * stride_y + i * dilation_y, x * stride_x + j * dilation_x] * weight[c, 0, i, j],
                axis=[i, j],
            ),
            name="conv2d",
            attrs=anchor_attributes(cls.name, multiply_adds=facts.multiply_adds, **_as_numbers(knobs)),
        )

    def match(self, func: tirx.PrimFunc) -> DepthwiseKnobs | None:
        knobs = knobs_of(func, self.name)
        return None if knobs is None else _from_numbers(knobs)

    def apply(self, sch: Schedule, facts: DepthwiseKnobs, target: TargetSpec) -> str:
        # 1. the padded input: a work-item an element
        padded = [b for b in sch.get_child_blocks(sch.get_sblock("root")) if sch.get(b).name_hint == "padded_input"]
        for block in padded:
            n, c, y, x = sch.get_loops(block)
            channel, item = sch.split(sch.fuse(n, c), [None, facts.tile_c[1]])
            sch.reorder(channel, y, x, item)
            for loop, axis in ((channel, "blockIdx.z"), (y, "blockIdx.y"), (x, "blockIdx.x"), (item, "threadIdx.z")):
                sch.bind(loop, axis)
        # 2. outputs: blocks and threads as the splits say, channels and rows of a work-item as loops
        conv = sch.get_sblock("conv2d")
        output = sch.cache_write(conv, 0, "local")
        n, c, y, x = sch.get_loops(output)
        groups, items, inner = [], [], []
        for loop, sizes in ((c, facts.tile_c), (y, facts.tile_y), (x, facts.tile_x)):
            group, item, rest = sch.split(loop, list(sizes))
            groups.append(group)
            items.append(item)
            inner.append(rest)
        sch.reorder(n, *groups, *items, *inner)
        groups[0] = sch.fuse(n, groups[0])
        for group, item, axis in zip(groups, items, "zyx", strict=True):
            sch.bind(group, f"blockIdx.{axis}")
            sch.bind(item, f"threadIdx.{axis}")
        sch.unroll(inner[2])
        # 3. a row of sums: all taps of an output, then the next output, or all outputs at once as a vector
        sch.compute_at(conv, inner[1], preserve_unit_loops=True)
        *_, row, i, j = sch.get_loops(conv)
        sch.unroll(i)
        sch.unroll(j)
        if facts.annotation == "unroll":
            sch.unroll(row)
        elif facts.annotation == "vec" and facts.tile_x[2] > 1:
            sch.vectorize(row)
        sch.decompose_reduction(conv, i)
        return f"depthwise_conv2d_nchw_{facts.tile_c[2]}x{facts.tile_y[2]}x{facts.tile_x[2]}"


def padded_nchw(data: te.Tensor, facts: Conv2dFacts) -> te.Tensor:
    """The input with zeros around it, (N, C, H + top + bottom, W + left + right)."""
    top, left, bottom, right = facts.pad

    def value(n: Any, c: Any, y: Any, x: Any) -> Any:
        inside = tirx.all(y >= top, y < facts.in_height + top, x >= left, x < facts.in_width + left)
        return tirx.if_then_else(inside, data[n, c, y - top, x - left], tirx.const(0, data.dtype))

    height, width = facts.in_height + top + bottom, facts.in_width + left + right
    return te.compute((facts.batch, facts.in_channels, height, width), value, name="padded_input")


def _as_numbers(knobs: DepthwiseKnobs) -> dict[str, int]:
    splits = {"c": knobs.tile_c, "y": knobs.tile_y, "x": knobs.tile_x}
    numbers = {f"{axis}{i}": size for axis, sizes in splits.items() for i, size in enumerate(sizes)}
    return numbers | {"annotation": ANNOTATIONS.index(knobs.annotation)}


def _from_numbers(numbers: dict[str, int]) -> DepthwiseKnobs:
    c, y, x = ((numbers[f"{axis}0"], numbers[f"{axis}1"], numbers[f"{axis}2"]) for axis in "cyx")
    return DepthwiseKnobs(tile_c=c, tile_y=y, tile_x=x, annotation=ANNOTATIONS[numbers["annotation"]])
