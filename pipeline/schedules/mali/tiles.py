"""Steps that the register-tiled rules share: the padded input, the epilogue, binding, and the tile's loops."""

from typing import Any

from tvm import te, tirx
from tvm.s_tir import Schedule

from ...codegen.keep import KEEP
from ...targets import TargetSpec
from ..base import ANCHOR, KNOB, MULTIPLY_ADDS, extent, work_group
from ..facts import Conv2dFacts, blocks_of

LANES = 4

# Registers of a thread on Midgard are 16 vectors of 128 bits when the work-group is at most 64. A tile's sums, the row
# of data they share and one weight vector must fit, with about three left for addresses and guards.
VECTOR_REGISTERS = 16

# Most products that are summed in half before the sum goes on in float; passes/precision.py says what that costs.
HALF_PRODUCTS = 32


def pick_width(width: int, most: int, *, least: int = 3) -> int:
    """Pixels a work-item computes: a divisor of the row if a decent one exists, so that no work-item is partly idle."""
    for candidate in range(min(most, width), least - 1, -1):
        if width % candidate == 0:
            return candidate
    return min(most, width)


def widths(extent: int, choices: tuple[int, ...]) -> tuple[int, ...]:
    """The choices that fit into an extent; the extent itself if none does."""
    return tuple(c for c in choices if c <= extent) or (extent,)


def whole_blocks(channels: int) -> tuple[int, ...]:
    """How many vectors of channels (1, 2) a tile may have: no weights lie beyond the last, so they must divide."""
    return (1, 2) if blocks_of(channels) % 2 == 0 else (1,)


def padded_input(data: te.Tensor, facts: Conv2dFacts, out_width: int, element: str = "float32") -> te.Tensor:
    """The input with its padding, as a stage that the schedule computes in registers; never a copy in memory.

    `out_width` may exceed the real one (a multiple of the tile); what lies beyond the input reads as zero.
    """
    n, c, h, w, v = (int(d) for d in data.shape)
    top, left = facts.pad[0], facts.pad[1]
    rows = (facts.out_height - 1) * facts.stride[0] + (facts.kernel[0] - 1) * facts.dilation[0] + 1
    columns = (out_width - 1) * facts.stride[1] + (facts.kernel[1] - 1) * facts.dilation[1] + 1

    def value(b: Any, ch: Any, y: Any, x: Any, lane: Any) -> Any:
        conditions = []
        if top > 0:
            conditions.append(y >= top)
        if rows > h + top:
            conditions.append(y < h + top)
        if left > 0:
            conditions.append(x >= left)
        if columns > w + left:
            conditions.append(x < w + left)
        pixel = data[b, ch, y - top, x - left, lane].astype(element)
        if not conditions:
            return pixel
        return tirx.if_then_else(tirx.all(*conditions), pixel, tirx.const(0, element))

    return te.compute((n, c, rows, columns, v), value, name="data_row")


def weight_vectors(weight: te.Tensor, element: str = "float32") -> te.Tensor:
    """The weights in the dtype of the products, as a stage that the schedule computes in registers."""
    return te.compute(weight.shape, lambda *i: weight[i].astype(element), name="weight_vector")


def crop(sums: te.Tensor, facts: Conv2dFacts, dtype: str) -> te.Tensor:
    """The sums as the operator's output: cut to its size and in its dtype."""
    shape = (int(sums.shape[0]), int(sums.shape[1]), facts.out_height, facts.out_width, LANES)
    if len(sums.shape) == 4:
        width = facts.out_width
        return te.compute(shape, lambda n, c, y, x, v: sums[n, c, y * width + x, v].astype(dtype), name="result")
    return te.compute(shape, lambda n, c, y, x, v: sums[n, c, y, x, v].astype(dtype), name="result")


def anchor_attributes(rule: str, *, multiply_adds: int, **knobs: int) -> dict[str, Any]:
    """What a compute definition says to its rule and to the plan; multiply_adds without the tile's overhang."""
    return {ANCHOR: rule, MULTIPLY_ADDS: multiply_adds, **{KNOB + k: v for k, v in knobs.items()}}


def fuse_epilogue(sch: Schedule, anchor: str) -> Any:
    """Keep the sums in registers and inline every elementwise block behind them into the last; returns that block."""
    sums = sch.get_sblock(anchor)
    sch.set_scope(sums, 0, "local")
    order: list[Any] = []
    _collect_consumers(sch, sums, order)
    outputs = [b for b in order if not sch.get_consumers(b)]
    last = outputs[-1]
    last_name = sch.get(last).name_hint
    for block in order:
        if sch.get(block).name_hint != last_name:
            sch.compute_inline(block)
    # what the epilogue reads besides the sums may come from small elementwise blocks of its own
    for producer in sch.get_producers(sch.get_sblock(last_name)):
        if sch.get(producer).name_hint != anchor:
            sch.compute_inline(producer)
    return sch.get_sblock(last_name)


def _collect_consumers(sch: Schedule, block: Any, order: list[Any]) -> None:
    for consumer in sch.get_consumers(block):
        if all(sch.get(consumer).name_hint != sch.get(b).name_hint for b in order):
            order.append(consumer)
            _collect_consumers(sch, consumer, order)


def bind_tile(sch: Schedule, x: Any, y: Any, z: Any, target: TargetSpec, *, flat: bool = False) -> Any:
    """Split the three loops of tiles into work-groups and work-items; returns the innermost work-item loop.

    `flat` work-groups have one work-item in z: a number less that must stay in a register.
    """
    counts = (extent(sch, x), extent(sch, y), 1 if flat else extent(sch, z))
    group = work_group(counts, target.max_work_group)
    outer, inner = [], []
    for loop, size in zip((z, y, x), reversed(group), strict=True):
        o, i = sch.split(loop, [None, size])
        outer.append(o)
        inner.append(i)
    sch.reorder(*outer, *inner)
    for loop, axis in zip(outer, "zyx", strict=True):
        sch.bind(loop, f"blockIdx.{axis}")
    for loop, axis in zip(inner, "zyx", strict=True):
        sch.bind(loop, f"threadIdx.{axis}")
    return inner[-1]


def unroll_copies(sch: Schedule, block: Any, depth: int) -> None:
    """Unroll the loops of a register copy below `depth` and vectorise the innermost; one element has no loops."""
    loops = list(sch.get_loops(block)[depth:])
    if loops:
        sch.vectorize(loops.pop())
    for loop in loops:
        sch.unroll(loop)


def keep(sch: Schedule, *loops: Any) -> None:
    """Have the device leave these as loops; what has one round is none."""
    for loop in loops:
        if extent(sch, loop) > 1:
            sch.annotate(loop, KEEP, 1)
