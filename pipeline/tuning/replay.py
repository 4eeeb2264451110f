"""The kernels of an AutoTVM record, made again by today's rules with the record's knobs."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from tvm import te, tirx

from ..codegen.lower import lower
from ..codegen.printer import KERNEL_NAME
from ..errors import ScheduleError
from ..schedules.apply import schedule
from ..schedules.base import Rule
from ..schedules.facts import Conv2dFacts
from ..schedules.mali.conv2d_spatial_pack import Conv2dSpatialPack, SpatialPackKnobs
from ..schedules.mali.conv2d_winograd_nchw import Conv2dWinogradNchw, WinogradKnobs
from ..schedules.mali.dense import DenseFacts
from ..schedules.mali.dense_nchw import DenseKnobs, DenseNchw
from ..schedules.mali.depthwise_conv2d_nchw import DepthwiseConv2dNchw, DepthwiseKnobs
from ..targets import find_target
from .autotvm import Knob, Record

Array = np.ndarray[Any, Any]

_BYTES = {"float32": 4, "float16": 2}


@dataclass(frozen=True, kw_only=True)
class ReplayedKernel:
    """One launch. `arguments` are the sizes in bytes of the kernel's buffers, in order; sizes in work-items.

    buffers: which tensor each argument is: 0 data, 1 weight as packed, then bias if there is one, last the output;
    below 0 scratch.
    """

    name: str
    source: str
    global_size: tuple[int, int, int]
    local_size: tuple[int, int, int]
    arguments: tuple[int, ...]
    buffers: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """The launches of a record in order; the weight is packed before, as it was when the board was timed.

    shapes: of data, packed weight, bias if there is one, and output; scheduled: the TensorIR before it was lowered.
    """

    kernels: tuple[ReplayedKernel, ...]
    shapes: tuple[tuple[int, ...], ...]
    multiply_adds: int
    scheduled: tirx.PrimFunc


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A layer as a rule's `compute` says it, and the rule that schedules it; `pack` makes inputs[1] of the weight.

    knobs: a convolution's, as its rule takes them.
    """

    rule: Rule
    inputs: list[te.Tensor]
    output: te.Tensor
    multiply_adds: int
    pack: Callable[[Array], Array]
    knobs: Any = None


def replay(record: Record) -> Replayed:
    """Raises ScheduleError if the record's knobs do not fit its workload, or are not those of its template."""
    return make(_define(record), f"{record.operator}:{record.line}", suffix=f"_l{record.line}")


def packed_weight(record: Record, weight: Array) -> Array:
    """The weight (OIHW, or (columns, reduced)) as the record's kernels take it. Raises what `replay` raises."""
    return _define(record).pack(weight)


def unscheduled(defined: Definition) -> tirx.PrimFunc:
    return te.create_prim_func([*defined.inputs, defined.output])


def make(defined: Definition, name: str, *, suffix: str = "") -> Replayed:
    """Schedule, lower and print; `suffix` goes into the kernels' names. Raises ScheduleError with `name`."""
    target = find_target("rk3399")
    scheduled = schedule(unscheduled(defined), name, target, rules=(defined.rule,))
    lowered = lower(scheduled.func, name, target.tvm_target())
    tensors = (*defined.inputs, defined.output)
    shapes = tuple(tuple(int(d) for d in t.shape) for t in tensors)
    sizes = [_BYTES[str(t.dtype)] * math.prod(shape) for t, shape in zip(tensors, shapes, strict=True)]
    kernels = []
    for i, call in enumerate(lowered.calls):
        kernel_name = f"{scheduled.kernel_name}{suffix}_{i}"
        kernels.append(
            ReplayedKernel(
                name=kernel_name,
                source=call.kernel.source.replace(KERNEL_NAME, kernel_name),
                global_size=call.kernel.global_size,
                local_size=call.kernel.local_size,
                arguments=tuple(sizes[a] if a >= 0 else lowered.scratch_bytes[-1 - a] for a in call.arguments),
                buffers=call.arguments,
            )
        )
    return Replayed(
        kernels=tuple(kernels), shapes=shapes, multiply_adds=defined.multiply_adds, scheduled=scheduled.func
    )


def _define(record: Record) -> Definition:
    name = f"{record.operator}:{record.line}"
    if record.device != "mali":
        raise ScheduleError(f"{name}: another device's template, got {record.device}; expected mali")
    try:
        return _DEFINE[record.operator](record)
    except KeyError as e:
        raise ScheduleError(f"{name}: knob missing, got {', '.join(record.knobs)}; expected {e} among them") from e
    except (TypeError, ValueError) as e:
        raise ScheduleError(f"{name}: knobs not understood: {e}") from e


def facts_of(record: Record) -> Conv2dFacts:
    """A convolution's facts; `record` is none of a dense layer."""
    w = record.workload
    n, channels, height, width = w.data
    groups = channels if record.operator == "depthwise_conv2d_nchw" else 1
    return Conv2dFacts(
        batch=n,
        in_channels=channels,
        in_height=height,
        in_width=width,
        out_channels=w.weight[0],
        kernel=(w.weight[2], w.weight[3]),
        stride=w.stride,
        pad=w.pad,
        dilation=w.dilation,
        groups=groups,
        dtype=w.dtype,
    )


def rule_and_knobs(record: Record) -> tuple[Any, Any]:
    """The rule of a convolution's record and the knobs that it takes. Raises what `replay` raises."""
    defined = _define(record)
    return type(defined.rule), defined.knobs


def _spatial_pack(record: Record) -> Definition:
    facts, k = facts_of(record), record.knobs
    order = _numbers(k["reorder_0"])
    knobs = SpatialPackKnobs(
        tile_co=_triple(k["tile_co"]),
        tile_oh=_triple(k["tile_oh"]),
        tile_ow=_triple(k["tile_ow"]),
        channels_first=order.index(9) < order.index(7),
        reduce=cast(tuple[str, str], _words(k["ann_reduce"], 2)),
        spatial=cast(tuple[str, str, str], _words(k["ann_spatial"], 3)),
    )
    lanes = knobs.tile_co[2]
    weight = (facts.out_channels // lanes, facts.in_channels, *facts.kernel, lanes)
    return conv2d(Conv2dSpatialPack, facts, knobs, weight)


def _winograd(record: Record) -> Definition:
    facts, k = facts_of(record), record.knobs
    tile = Conv2dWinogradNchw.tile_of(facts)
    bna = _number(k["tile_bna"])
    knobs = WinogradKnobs(
        tile=tile,
        bna=bna,
        bnb=_number(k["tile_bnb"]),
        t1=_numbers(k["tile_t1"])[1],
        t2=_numbers(k["tile_t2"])[1],
        c_unroll=_numbers(k["c_unroll"])[1],
        yt=_number(k["yt"]),
    )
    weight = (tile + 2, tile + 2, facts.out_channels // bna, facts.in_channels, bna)
    return conv2d(Conv2dWinogradNchw, facts, knobs, weight)


def _depthwise(record: Record) -> Definition:
    facts, k = facts_of(record), record.knobs
    knobs = DepthwiseKnobs(
        tile_c=_triple(k["tile_c"]),
        tile_y=_triple(k["tile_y"]),
        tile_x=_triple(k["tile_x"]),
        annotation=_words(k["ann_spatial"], 3)[2],
    )
    return conv2d(DepthwiseConv2dNchw, facts, knobs, record.workload.weight)


def conv2d(rule: Any, facts: Conv2dFacts, knobs: Any, weight: tuple[int, ...]) -> Definition:
    """A convolution in NCHW by one of the rules of 2018; `weight` is the packed weight's shape."""
    data = (facts.batch, facts.in_channels, facts.in_height, facts.in_width)
    inputs = [te.placeholder(data, facts.dtype, "data"), te.placeholder(weight, facts.dtype, "weight")]

    def pack(array: Array) -> Array:
        packed: Array = rule.pack_weight(array, knobs) if hasattr(rule, "pack_weight") else array
        return packed

    return Definition(
        rule=rule(),
        inputs=inputs,
        output=rule.compute(facts, knobs, *inputs),
        multiply_adds=facts.multiply_adds,
        pack=pack,
        knobs=knobs,
    )


def _dense(record: Record) -> Definition:
    (rows, reduced), (columns, _), k = record.workload.data, record.workload.weight, record.knobs
    facts = DenseFacts(rows=rows, reduced=reduced, columns=columns, dtype=record.dtype)
    knobs = DenseKnobs(tile_y=_triple(k["tile_y"]), tile_x=_triple(k["tile_x"]), k_unroll=_numbers(k["c_unroll"])[1])
    shapes = {"data": (rows, reduced), "weight": (columns, reduced), "bias": (columns,)}
    inputs = [te.placeholder(shape, record.dtype, name) for name, shape in shapes.items()]
    output = DenseNchw.compute(facts, knobs, *inputs)
    return Definition(
        rule=DenseNchw(),
        inputs=inputs,
        output=output,
        multiply_adds=rows * columns * reduced,
        pack=lambda weight: weight,
    )


_DEFINE = {
    "conv2d_nchw_spatial_pack": _spatial_pack,
    "conv2d_nchw_winograd": _winograd,
    "depthwise_conv2d_nchw": _depthwise,
    "dense": _dense,
}


def _number(knob: Knob) -> int:
    if not isinstance(knob, int):
        raise TypeError(f"got {knob}; expected a number")
    return knob


def _numbers(knob: Knob) -> tuple[int, ...]:
    if isinstance(knob, int) or not all(isinstance(k, int) for k in knob):
        raise ValueError(f"got {knob}; expected numbers")
    return cast(tuple[int, ...], knob)


def _triple(knob: Knob) -> tuple[int, int, int]:
    groups, items, each = _numbers(knob)
    return groups, items, each


def _words(knob: Knob, count: int) -> tuple[str, ...]:
    if isinstance(knob, int) or len(knob) != count or not all(isinstance(k, str) for k in knob):
        raise ValueError(f"got {knob}; expected {count} annotations")
    return cast(tuple[str, ...], knob)
