"""If, Loop, Scan and sequences, resolved while importing: conditions, trip counts and lengths must be constants."""

import numpy as np

from ..findings import CUT_HINT, Unsupported
from ..node import Node
from ..registry import converts
from ..values import AnyValue, OptionalValue, SequenceValue, Value, constant
from ..walk import Context

_MAX_TRIPS = 1024


@converts("If", structural=True)
def convert_if(ctx: Context, node: Node) -> list[AnyValue]:
    """A constant condition takes one branch; otherwise both are computed: nothing has side effects."""
    condition = node.tensor(0)
    if condition.data is not None:
        taken = "then_branch" if bool(condition.data.all()) else "else_branch"
        return ctx.branch(node.attributes[taken])
    yes, no = ctx.branch(node.attributes["then_branch"]), ctx.branch(node.attributes["else_branch"])
    results: list[AnyValue] = []
    for a, b in zip(yes, no, strict=True):
        if not isinstance(a, Value) or not isinstance(b, Value) or (a.shape, a.dtype) != (b.shape, b.dtype):
            raise Unsupported(
                "the condition is computed at run time and the branches differ in shape or type",
                hint=f"export the model with a fixed condition, or {CUT_HINT}",
            )
        results.append(ctx.where(ctx.reshape(condition, ()), a, b))
    return results


@converts("Loop", structural=True)
def convert_loop(ctx: Context, node: Node) -> list[AnyValue]:
    """Unrolled. The trip count or the condition of each round must be known while importing."""
    body = node.attributes["body"]
    trips = int(node.constant(0, "the trip count").reshape(-1)[0]) if node.has(0) else None
    running = bool(node.constant(1, "the condition").all()) if node.has(1) else True
    carried = list(node.inputs[2:])
    collected: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    round_ = 0
    while running and (trips is None or round_ < trips):
        if round_ >= _MAX_TRIPS:
            raise Unsupported(f"runs more than {_MAX_TRIPS} rounds; loops are unrolled")
        names = [i.name for i in body.input]
        given = [constant(np.asarray(round_, np.int64)), constant(np.asarray(True)), *carried]
        scope = {n: v for n, v in zip(names, given, strict=True) if v is not None}
        results = ctx.branch(body, scope)
        if not isinstance(results[0], Value) or results[0].data is None:
            raise Unsupported(
                "the condition to go on is computed at run time", hint="export the model with a fixed number of rounds"
            )
        running = bool(results[0].data.all())
        carried = list(results[1 : 1 + len(carried)])
        for items, result in zip(collected, results[1 + len(carried) :], strict=True):
            items.append(_tensor(result))
        round_ += 1
    if collected and not round_:
        raise Unsupported("never runs, so the shape of its scan outputs is not known")
    stacked = [ctx.stack(items, 0) for items in collected]
    if any(c is None for c in carried):
        raise Unsupported("a value carried from round to round is missing")
    return [*[c for c in carried if c is not None], *stacked]


@converts("Scan", structural=True)
def convert_scan(ctx: Context, node: Node) -> list[AnyValue]:
    """Unrolled over the scan axis."""
    body, count = node.attributes["body"], int(node.attributes["num_scan_inputs"])
    if node.version < 9:
        return _batched_scan(ctx, node)
    inputs = node.tensors()
    states: list[AnyValue] = list(inputs[: len(inputs) - count])
    scanned = inputs[len(inputs) - count :]
    axes = [a % v.rank for a, v in zip(node.ints("scan_input_axes", [0] * count) or [], scanned, strict=True)]
    reverse = node.ints("scan_input_directions", [0] * count) or []
    outs = len(body.output) - len(states)
    out_axes = node.ints("scan_output_axes", [0] * outs) or []
    out_reverse = node.ints("scan_output_directions", [0] * outs) or []
    states, collected = _scan(ctx, node, states, scanned, axes, reverse)
    results: list[AnyValue] = list(states)
    for items, axis, backwards in zip(collected, out_axes, out_reverse, strict=True):
        ordered = items[::-1] if backwards else items
        results.append(ctx.stack(ordered, axis % (ordered[0].rank + 1)))
    return results


def _scan(
    ctx: Context, node: Node, states: list[AnyValue], scanned: list[Value], axes: list[int], reverse: list[int]
) -> tuple[list[AnyValue], list[list[Value]]]:
    body = node.attributes["body"]
    length = scanned[0].shape[axes[0]]
    if not 0 < length <= _MAX_TRIPS:
        raise Unsupported(f"scans {length} elements; expected 1 to {_MAX_TRIPS}, since loops are unrolled")
    collected: list[list[Value]] = [[] for _ in range(len(body.output) - len(states))]
    for step in range(length):
        items = []
        for value, axis, backwards in zip(scanned, axes, reverse, strict=True):
            at = length - 1 - step if backwards else step
            part = ctx.slice(value, [axis], [at], [at + 1])
            items.append(ctx.reshape(part, value.shape[:axis] + value.shape[axis + 1 :]))
        scope = dict(zip([i.name for i in body.input], [*states, *items], strict=True))
        results = ctx.branch(body, scope)
        states = list(results[: len(states)])
        for kept, result in zip(collected, results[len(states) :], strict=True):
            kept.append(_tensor(result))
    return states, collected


def _batched_scan(ctx: Context, node: Node) -> list[AnyValue]:
    """Scan-8 has a batch axis in front and sequence lengths as its first input."""
    if node.has(0):
        raise Unsupported("sequence_lens are not supported")
    count, inputs = int(node.attributes["num_scan_inputs"]), [node.tensor(i) for i in range(1, len(node.inputs))]
    reverse = node.ints("directions", [0] * count) or []
    per_batch: list[list[AnyValue]] = []
    for n in range(inputs[0].shape[0]):
        parts = [ctx.reshape(ctx.slice(v, [0], [n], [n + 1]), v.shape[1:]) for v in inputs]
        first = len(parts) - count
        states, collected = _scan(ctx, node, list(parts[:first]), parts[first:], [0] * count, reverse)
        per_batch.append([*states, *(ctx.stack(items, 0) for items in collected)])
    return [ctx.stack([_tensor(v) for v in column], 0) for column in zip(*per_batch, strict=True)]


def _tensor(value: AnyValue) -> Value:
    if not isinstance(value, Value):
        raise Unsupported("a loop output must be a tensor")
    return value


def _position(node: Node, index: int, length: int, *, insert: bool = False) -> int:
    if not node.has(index):
        return length if insert else length - 1
    position = int(node.constant(index, "the position").reshape(-1)[0])
    if not -length <= position < length + insert:
        raise Unsupported(f"position out of range, got {position}; the sequence has {length} elements")
    return position + length if position < 0 else position


def _sequence(node: Node, index: int) -> SequenceValue:
    value = node.inputs[index]
    if isinstance(value, OptionalValue):
        value = value.item
    if not isinstance(value, SequenceValue):
        raise Unsupported(f"input {index} must be a sequence")
    return value


@converts("SequenceEmpty", structural=True)
def convert_sequence_empty(ctx: Context, node: Node) -> SequenceValue:
    return SequenceValue(items=(), dtype="")


@converts("SequenceConstruct", structural=True)
def convert_sequence_construct(ctx: Context, node: Node) -> SequenceValue:
    items = tuple(node.tensors())
    return SequenceValue(items=items, dtype=items[0].dtype)


@converts("SequenceInsert", structural=True)
def convert_sequence_insert(ctx: Context, node: Node) -> SequenceValue:
    items = list(_sequence(node, 0).items)
    items.insert(_position(node, 2, len(items), insert=True), node.tensor(1))
    return SequenceValue(items=tuple(items), dtype=items[0].dtype)


@converts("SequenceErase", structural=True)
def convert_sequence_erase(ctx: Context, node: Node) -> SequenceValue:
    sequence = _sequence(node, 0)
    items = list(sequence.items)
    del items[_position(node, 1, len(items))]
    return SequenceValue(items=tuple(items), dtype=sequence.dtype)


@converts("SequenceAt", structural=True)
def convert_sequence_at(ctx: Context, node: Node) -> Value:
    items = _sequence(node, 0).items
    return items[_position(node, 1, len(items))]


@converts("SequenceLength", structural=True)
def convert_sequence_length(ctx: Context, node: Node) -> Value:
    return constant(np.asarray(len(_sequence(node, 0).items), np.int64))


@converts("ConcatFromSequence", structural=True)
def convert_concat_from_sequence(ctx: Context, node: Node) -> Value:
    items, axis = _sequence(node, 0).items, int(node.attributes["axis"])
    if node.attribute("new_axis", 0):
        return ctx.stack(items, axis % (items[0].rank + 1))
    return ctx.concat(items, axis % items[0].rank)


@converts("SplitToSequence", structural=True)
def convert_split_to_sequence(ctx: Context, node: Node) -> SequenceValue:
    data = node.tensor(0)
    axis = node.attribute("axis", 0) % data.rank
    length = data.shape[axis]
    keep = node.attribute("keepdims", 1) or node.has(1)
    if node.has(1) and node.tensor(1).rank == 1:
        sizes = node.integers(1, "split")
    else:
        step = node.integers(1, "split")[0] if node.has(1) else 1
        sizes = [min(step, length - at) for at in range(0, length, step)]
    items, at = [], 0
    for size in sizes:
        part = ctx.slice(data, [axis], [at], [at + size])
        items.append(part if keep else ctx.reshape(part, data.shape[:axis] + data.shape[axis + 1 :]))
        at += size
    return SequenceValue(items=tuple(items), dtype=data.dtype)
