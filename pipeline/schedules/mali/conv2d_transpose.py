"""conv2d_transpose in NCHW4c: outputs that lie a stride apart are a conv2d of stride 1 with some taps of the kernel."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule

from ...targets import TargetSpec
from ..base import knobs_of
from ..facts import Conv2dFacts, blocks_of
from .grouped_conv2d import Groups, reduce_by_rows
from .relayout import schedule_over
from .tiles import (
    LANES,
    anchor_attributes,
    bind_tile,
    fuse_epilogue,
    padded_input,
    pick_width,
    weight_vectors,
)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Conv2dTransposeFacts:
    """A static conv2d_transpose in NCHW with IOHW weights; pad is (top, left, bottom, right), cut off the output."""

    batch: int
    in_channels: int
    in_height: int
    in_width: int
    out_channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int, int, int]
    output_padding: tuple[int, int]
    groups: int
    dtype: str

    def _out(self, axis: int, size: int) -> int:
        full = (size - 1) * self.stride[axis] + self.kernel[axis] + self.output_padding[axis]
        return full - self.pad[axis] - self.pad[axis + 2]

    @property
    def out_height(self) -> int:
        return self._out(0, self.in_height)

    @property
    def out_width(self) -> int:
        return self._out(1, self.in_width)

    @property
    def multiply_adds(self) -> int:
        """As others count: every input element meets every tap."""
        taps = self.kernel[0] * self.kernel[1] * (self.out_channels // self.groups)
        return self.batch * self.in_channels * self.in_height * self.in_width * taps

    @property
    def taps(self) -> tuple[int, int]:
        """Rows and columns of the kernel that an output meets at most."""
        return blocks_of(self.kernel[0], self.stride[0]), blocks_of(self.kernel[1], self.stride[1])


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Pixels of a row, a stride apart, that a work-item computes."""

    width: int
    stride_y: int
    stride_x: int


class Conv2dTranspose:
    """out[y s + r] = sum over j of data[y + (r + p) // s - j] * weight[(r + p) % s + j s], phases r from 0 to s - 1.

    Shapes: data (N, I/4, H, W, 4), output (N, O/4, OH, OW, 4) with OH and OW rounded up to multiples of the stride,
    weight (s s, O/4, input blocks of a group, taps, taps, 4 input, 4 output channels), taps in the order of the data
    that they meet; those that a phase lacks are zeros.
    """

    name = "conv2d_transpose"

    @staticmethod
    def accepts(facts: Conv2dTransposeFacts) -> bool:
        return facts.dtype in ("float32", "float16") and min(facts.out_height, facts.out_width) > 0

    @staticmethod
    def config(facts: Conv2dTransposeFacts) -> Tile:
        columns = blocks_of(facts.out_width, facts.stride[1])
        return Tile(width=pick_width(columns, 4), stride_y=facts.stride[0], stride_x=facts.stride[1])

    @staticmethod
    def pack_weight(facts: Conv2dTransposeFacts, weight: Array) -> Array:
        """(I, O/groups, KH, KW) to the layout above."""
        groups = _groups(facts)
        (sy, sx), (taps_y, taps_x) = facts.stride, facts.taps
        inside, outside = facts.in_channels // facts.groups, facts.out_channels // facts.groups
        out_blocks = blocks_of(facts.out_channels)
        spread = np.zeros((out_blocks * LANES, groups.in_blocks * LANES, sy * taps_y, sx * taps_x), weight.dtype)
        for g in range(facts.groups):
            first = g % groups.merged * inside
            own = weight[g * inside : (g + 1) * inside].swapaxes(0, 1)
            kh, kw = facts.kernel
            spread[g * outside : (g + 1) * outside, first : first + inside, :kh, :kw] = own
        # row k of the kernel is tap k // s of the phases r with (r + p) % s = k % s
        order_y = [(r + facts.pad[0]) % sy for r in range(sy)]
        order_x = [(r + facts.pad[1]) % sx for r in range(sx)]
        split = spread.reshape(out_blocks, LANES, groups.in_blocks, LANES, taps_y, sy, taps_x, sx)
        phases = split[:, :, :, :, ::-1, order_y][..., ::-1, order_x]
        packed = phases.transpose(5, 7, 0, 2, 4, 6, 3, 1)
        return np.ascontiguousarray(packed.reshape(sy * sx, *packed.shape[2:]))

    @classmethod
    def compute(cls, facts: Conv2dTransposeFacts, tile: Tile, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        groups = _groups(facts)
        (sy, sx), (taps_y, taps_x) = facts.stride, facts.taps
        top, left = facts.pad[0], facts.pad[1]
        rows, columns = blocks_of(facts.out_height, sy), blocks_of(facts.out_width, sx)
        width = blocks_of(columns, tile.width) * tile.width
        row = padded_input(data, _as_conv2d(facts, rows, width), width)
        _, out_blocks, in_blocks, _, _, lanes, _ = (int(d) for d in weight.shape)
        i = te.reduce_axis((0, in_blocks), "i")
        ky = te.reduce_axis((0, taps_y), "ky")
        kx = te.reduce_axis((0, taps_x), "kx")
        c = te.reduce_axis((0, lanes), "c")
        vector = weight_vectors(weight)
        last = int(data.shape[1]) - 1

        def block(o: Any, i: Any) -> Any:
            own = o // groups.out_blocks * in_blocks + i
            return own if groups.count * in_blocks - 1 <= last else tirx.min(own, last)

        sums = te.compute(
            (facts.batch, out_blocks, sy, sx, rows, width, LANES),
            lambda n, o, ry, rx, y, x, v: te.sum(
                row[n, block(o, i), y + _first(ry, top, sy) + ky, x + _first(rx, left, sx) + kx, c]
                * vector[ry * sx + rx, o, i, ky, kx, c, v],
                axis=[i, ky, kx, c],
            ),
            name="conv2d",
            attrs=anchor_attributes(
                cls.name,
                multiply_adds=facts.multiply_adds,
                width=tile.width,
                stride_y=tile.stride_y,
                stride_x=tile.stride_x,
            ),
        )
        return te.compute(
            (facts.batch, out_blocks, rows * sy, columns * sx, LANES),
            lambda n, o, y, x, v: sums[n, o, y % sy, x % sx, y // sy, x // sx, v].astype(facts.dtype),
            name="result",
        )

    def match(self, func: tirx.PrimFunc) -> Tile | None:
        knobs = knobs_of(func, self.name)
        return None if knobs is None else Tile(**knobs)

    def apply(self, sch: Schedule, facts: Tile, target: TargetSpec) -> str:
        # 1. sums in registers, phases as axes of their own
        last = fuse_epilogue(sch, "conv2d")
        sy, sx = facts.stride_y, facts.stride_x

        def phases(n: Any, o: Any, y: Any, x: Any, v: Any) -> tuple[Any, ...]:
            return n, o, y // sy, y % sy, x // sx, x % sx, v

        schedule_over(sch, last, phases, lambda s, block: self._tile(s, block, facts, target))
        return f"conv2d_transpose_nchw4c_{sy}x{sx}_{facts.width}x{LANES}"

    @staticmethod
    def _tile(sch: Schedule, last: Any, facts: Tile, target: TargetSpec) -> None:
        # 2. a work-item `width` pixels of one phase; flat, since TVM cannot see through phases of split axes
        n, o, y, ry, x, rx, v = sch.get_loops(last)
        x_tile, xi = sch.split(x, [None, facts.width])
        sch.reorder(n, o, ry, rx, y, x_tile, xi, v)
        item = bind_tile(sch, x_tile, y, sch.fuse(n, o, ry, rx), target, flat=True)
        sch.unroll(xi)
        sch.vectorize(v)
        # 3. rows of taps as those of a kernel
        sums = sch.get_sblock("conv2d")
        sch.compute_at(sums, item, preserve_unit_loops=True)
        reduce_by_rows(sch, sums, len(sch.get_loops(last)) - 2)


def _first(phase: Any, pad: int, stride: int) -> Any:
    """(phase + pad) // stride. TVM 0.27 loses such a quotient where the phase is a remainder: (z % 4 // 2 + 1) // 2."""
    step = stride - pad % stride  # the first phase that reads one pixel further
    return pad // stride + tirx.max(tirx.min(phase - (step - 1), 1), 0)


def _groups(facts: Conv2dTransposeFacts) -> Groups:
    return Groups.of(facts.groups, facts.in_channels // facts.groups, facts.out_channels // facts.groups)


def _as_conv2d(facts: Conv2dTransposeFacts, rows: int, width: int) -> Conv2dFacts:
    """The conv2d of stride 1 that reads what all phases read."""
    taps = facts.taps
    reach = [(facts.stride[axis] - 1 + facts.pad[axis]) // facts.stride[axis] for axis in (0, 1)]
    kernel = (taps[0] + reach[0], taps[1] + reach[1])
    before = (taps[0] - 1, taps[1] - 1)
    behind = (
        rows + kernel[0] - 1 - facts.in_height - before[0],
        width + kernel[1] - 1 - facts.in_width - before[1],
    )
    return Conv2dFacts(
        batch=facts.batch,
        in_channels=facts.in_channels,
        in_height=facts.in_height,
        in_width=facts.in_width,
        out_channels=facts.out_channels,
        kernel=kernel,
        stride=(1, 1),
        pad=(*before, *behind),
        dilation=(1, 1),
        groups=1,
        dtype=facts.dtype,
    )
