"""conv2d in NCHW by packed tiles as TVM scheduled it for Mali in 2018, with the knobs of its AutoTVM template.

Source: apache/tvm@9a620c696f topi/python/topi/mali/conv2d.py, what its spatial pack template computes, how it is bound.
"""

import math
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

Array = np.ndarray[Any, Any]

ANNOTATIONS = ("none", "unroll", "vec")
_AXES = ("rows", "columns", "channels")
_MAX_UNROLL = 16
_VECTOR_BYTES = 16  # wider ones are two on Midgard, and Mesa's compiler for it dies of some


@dataclass(frozen=True, kw_only=True)
class SpatialPackKnobs:
    """Splits are (work-groups, work-items, outputs a work-item) of channels, rows and columns.

    channels_first: whether the loop over a tile's channels is outside those over its rows and columns. reduce:
    annotations of the kernel's rows and columns; spatial: of the tile's rows, columns and channels. in_memory: whether
    sums are added up in main memory, as TVM's text says it, and not in registers.
    """

    tile_co: tuple[int, int, int]
    tile_oh: tuple[int, int, int]
    tile_ow: tuple[int, int, int]
    channels_first: bool
    reduce: tuple[str, str]
    spatial: tuple[str, str, str]
    in_memory: bool = False


class Conv2dSpatialPack:
    """Three kernels: the input cut into tiles with their halos, the sums of each tile, and the tiles put together.

    Shapes, tile v = (VH, VW, VC) = what a work-item computes: data (N, I, H, W), weight (O/VC, I, KH, KW, VC), packed
    input (N, OH/VH, OW/VW, I, rows, columns), sums (N, O/VC, OH/VH, OW/VW, VH, VW, VC); all of one dtype, sums too.
    """

    name = "conv2d_spatial_pack"

    @staticmethod
    def accepts(facts: Conv2dFacts, knobs: SpatialPackKnobs) -> bool:
        sizes = (facts.out_channels, facts.out_height, facts.out_width)
        tiles = (knobs.tile_co, knobs.tile_oh, knobs.tile_ow)
        whole = all(math.prod(tile) == size for tile, size in zip(tiles, sizes, strict=True))
        return facts.groups == 1 and facts.dilation == (1, 1) and whole

    @staticmethod
    def pack_weight(weight: Array, knobs: SpatialPackKnobs) -> Array:
        """OIHW to (O/VC, I, KH, KW, VC)."""
        o, i, height, width = weight.shape
        lanes = knobs.tile_co[2]
        return np.ascontiguousarray(weight.reshape(o // lanes, lanes, i, height, width).transpose(0, 2, 3, 4, 1))

    @classmethod
    def compute(cls, facts: Conv2dFacts, knobs: SpatialPackKnobs, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        if not cls.accepts(facts, knobs):
            raise ScheduleError(
                f"{cls.name}: knobs do not fit the layer, got {knobs}; expected splits of (O, OH, OW) = "
                f"({facts.out_channels}, {facts.out_height}, {facts.out_width}), one group and no dilation"
            )
        VC, VH, VW = knobs.tile_co[2], knobs.tile_oh[2], knobs.tile_ow[2]
        (KH, KW), (SH, SW) = facts.kernel, facts.stride
        packed = _packed_input(facts, VH, VW, data)
        ci = te.reduce_axis((0, facts.in_channels), "ci")
        kh, kw = te.reduce_axis((0, KH), "kh"), te.reduce_axis((0, KW), "kw")
        sums = te.compute(
            (facts.batch, facts.out_channels // VC, facts.out_height // VH, facts.out_width // VW, VH, VW, VC),
            lambda n, o, h, w, y, x, c: te.sum(
                packed[n, h, w, ci, y * SH + kh, x * SW + kw] * weight[o, ci, kh, kw, c], axis=[ci, kh, kw]
            ),
            name="tile_sums",
            attrs={
                **anchor_attributes(cls.name, multiply_adds=facts.multiply_adds, **_as_numbers(knobs)),
                LAUNCH: 1,
            },
        )
        return te.compute(
            (facts.batch, facts.out_channels, facts.out_height, facts.out_width),
            lambda n, c, y, x: sums[n, c // VC, y // VH, x // VW, y % VH, x % VW, c % VC],
            name="unpacked",
        )

    def match(self, func: tirx.PrimFunc) -> SpatialPackKnobs | None:
        knobs = knobs_of(func, self.name)
        return None if knobs is None else _from_numbers(knobs)

    def apply(self, sch: Schedule, facts: SpatialPackKnobs, target: TargetSpec) -> str:
        items = (facts.tile_co[1], facts.tile_oh[1], facts.tile_ow[1])
        _schedule_packing(sch)
        _schedule_sums(sch, facts)
        # a work-item an output, in groups as large as those of the sums
        n, *axes = sch.get_loops(sch.get_sblock("unpacked"))
        _bind(sch, n, axes, items)
        return f"conv2d_spatial_pack_{facts.tile_oh[2]}x{facts.tile_ow[2]}x{facts.tile_co[2]}"


def _packed_input(facts: Conv2dFacts, VH: int, VW: int, data: te.Tensor) -> te.Tensor:
    """(N, OH/VH, OW/VW, I, rows, columns): the input pixels that a tile of outputs needs, zeros where it overhangs."""
    top, left = facts.pad[0], facts.pad[1]
    (KH, KW), (SH, SW) = facts.kernel, facts.stride

    def value(n: Any, h: Any, w: Any, c: Any, i: Any, j: Any) -> Any:
        y, x = h * (VH * SH) + i - top, w * (VW * SW) + j - left
        if not any(facts.pad):
            return data[n, c, y, x]
        inside = tirx.all(y >= 0, y < facts.in_height, x >= 0, x < facts.in_width)
        return tirx.if_then_else(inside, data[n, c, y, x], tirx.const(0, data.dtype))

    rows, columns = (VH - 1) * SH + KH, (VW - 1) * SW + KW
    tiles = (facts.batch, facts.out_height // VH, facts.out_width // VW, facts.in_channels)
    return te.compute((*tiles, rows, columns), value, name="packed_input")


def _schedule_packing(sch: Schedule) -> None:
    """A work-item copies what a tile needs of one channel; each is a work-group of its own."""
    n, h, w, c, rows, columns = sch.get_loops(sch.get_sblock("packed_input"))
    for loop in (rows, columns):
        if int(sch.get(loop).extent) < _MAX_UNROLL:
            sch.unroll(loop)
    _bind(sch, n, [h, w, c], (1, 1, 1))


def _schedule_sums(sch: Schedule, facts: SpatialPackKnobs) -> None:
    sums = sch.get_sblock("tile_sums")
    stored = sums if facts.in_memory else sch.cache_write(sums, 0, "local")
    # 1. blocks and threads as the splits say; a work-item stores its tile vector by vector
    n, o, h, w, *_, c = sch.get_loops(stored)[:7]
    last = _bind(sch, n, [o, h, w], (facts.tile_co[1], facts.tile_oh[1], facts.tile_ow[1]))
    # 2. its sums stay in registers: over input channels and the kernel, then over the tile
    if not facts.in_memory:
        _vectorize(sch, c)
        sch.compute_at(sums, last, preserve_unit_loops=True)
    y, x, c, ci, kh, kw = sch.get_loops(sums)[-6:]
    order = [c, y, x] if facts.channels_first else [y, x, c]
    sch.reorder(ci, kh, kw, *order)
    # 3. loops as annotated: left alone, unrolled, or as vectors
    for loop, annotation in zip((kh, kw), facts.reduce, strict=True):
        if annotation == "unroll" and int(sch.get(loop).extent) <= _MAX_UNROLL:
            sch.unroll(loop)
    for loop, annotation in zip((y, x, c), facts.spatial, strict=True):
        if annotation == "vec":
            _vectorize(sch, loop)
        elif annotation == "unroll" and int(sch.get(loop).extent) <= _MAX_UNROLL:
            sch.unroll(loop)
    sch.decompose_reduction(sums, ci)


def _bind(sch: Schedule, n: Any, axes: list[Any], items: tuple[int, int, int]) -> Any:
    """Axes to z, y, x, each split into work-groups and work-items; returns the innermost loop of them."""
    groups, inner = [], []
    for loop, size in zip(axes, items, strict=True):
        group, item = sch.split(loop, [None, size])
        groups.append(group)
        inner.append(item)
    sch.reorder(n, *groups, *inner)
    groups[0] = sch.fuse(n, groups[0])
    for group, item, axis in zip(groups, inner, "zyx", strict=True):
        sch.bind(group, f"blockIdx.{axis}")
        sch.bind(item, f"threadIdx.{axis}")
    return inner[2]


def _vectorize(sch: Schedule, loop: Any) -> None:
    """A loop as vectors of 128 bits at most, one after the other; as it is if its extent has no such divisor."""
    written = sch.get(sch.get_sblock("tile_sums")).writes[0].source
    size = np.dtype(str(written.ty.dtype)).itemsize
    total = int(sch.get(loop).extent)
    lanes = math.gcd(total, _VECTOR_BYTES // size)
    if lanes > 1:
        vectors, lane = sch.split(loop, [None, lanes])
        sch.unroll(vectors)
        sch.vectorize(lane)
    elif total <= _MAX_UNROLL:
        sch.unroll(loop)


def _as_numbers(knobs: SpatialPackKnobs) -> dict[str, int]:
    splits = {"co": knobs.tile_co, "oh": knobs.tile_oh, "ow": knobs.tile_ow}
    numbers = {f"{axis}{i}": size for axis, sizes in splits.items() for i, size in enumerate(sizes)}
    numbers |= {f"reduce{i}": ANNOTATIONS.index(a) for i, a in enumerate(knobs.reduce)}
    numbers |= {f"spatial{i}": ANNOTATIONS.index(a) for i, a in enumerate(knobs.spatial)}
    return numbers | {"channels_first": int(knobs.channels_first), "in_memory": int(knobs.in_memory)}


def _from_numbers(numbers: dict[str, int]) -> SpatialPackKnobs:
    co, oh, ow = ((numbers[f"{a}0"], numbers[f"{a}1"], numbers[f"{a}2"]) for a in ("co", "oh", "ow"))
    y, x, c = (ANNOTATIONS[numbers[f"spatial{i}"]] for i in range(3))
    return SpatialPackKnobs(
        tile_co=co,
        tile_oh=oh,
        tile_ow=ow,
        channels_first=bool(numbers["channels_first"]),
        reduce=(ANNOTATIONS[numbers["reduce0"]], ANNOTATIONS[numbers["reduce1"]]),
        spatial=(y, x, c),
        in_memory=bool(numbers["in_memory"]),
    )
