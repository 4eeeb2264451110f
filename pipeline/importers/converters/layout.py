"""Operators that move elements without changing them."""

from typing import Any

import numpy as np
from tvm import te, tirx, topi

from ..builder import broadcast_shape
from ..findings import Unsupported
from ..limits import check_table_size, check_tensor_size
from ..node import Node, normal_axis
from ..registry import converts
from ..types import dtype_name
from ..values import Value, constant
from ..walk import Context


@converts("Reshape")
def convert_reshape(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    wanted = node.ints("shape") if node.version < 5 else node.integers(1, "the shape")
    if wanted is None:
        raise Unsupported("has no shape")
    shape = list(wanted)
    if not node.attribute("allowzero", 0):
        for i, d in enumerate(shape):
            if d == 0:
                if i >= x.rank:
                    raise Unsupported(f"shape {wanted} copies axis {i}, but the input is {x.shape}")
                shape[i] = x.shape[i]
    if shape.count(-1) > 1 or min(shape, default=0) < -1:
        raise Unsupported(f"shape makes no sense, got {wanted}")
    if -1 in shape:
        rest = int(np.prod([d for d in shape if d != -1], dtype=np.int64))
        if rest == 0 or x.size % rest:
            raise Unsupported(f"cannot reshape {x.shape} to {wanted}")
        shape[shape.index(-1)] = x.size // rest
    return ctx.reshape(x, shape)


@converts("Flatten")
def convert_flatten(ctx: Context, node: Node) -> Value:
    x, axis = node.tensor(0), node.attribute("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    if not 0 <= axis <= x.rank:
        raise Unsupported(f"axis out of range, got {axis}; expected {-x.rank} to {x.rank}")
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    return ctx.reshape(x, (rows, int(np.prod(x.shape[axis:], dtype=np.int64))))


@converts("Transpose")
def convert_transpose(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    permutation = node.ints("perm", range(x.rank)[::-1]) or []
    if sorted(permutation) != list(range(x.rank)):
        raise Unsupported(f"perm makes no sense, got {permutation}; expected the numbers 0 to {x.rank - 1}")
    return ctx.transpose(x, permutation)


@converts("Squeeze")
def convert_squeeze(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    axes = node.axes(x.rank, input_index=1)
    axes = [a for a, d in enumerate(x.shape) if d == 1] if axes is None else axes
    for axis in axes:
        if x.shape[axis] != 1:
            raise Unsupported(f"axis {axis} has {x.shape[axis]} elements; expected 1")
    return ctx.reshape(x, [d for a, d in enumerate(x.shape) if a not in axes])


@converts("Unsqueeze")
def convert_unsqueeze(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    given = node.ints("axes") if node.version < 13 else node.integers(1, "axes")
    rank = x.rank + len(given or [])
    axes = sorted(normal_axis(a, rank) for a in given or [])
    if len(set(axes)) != len(axes):
        raise Unsupported(f"axes name one twice, got {given}")
    shape = list(x.shape)
    for axis in axes:
        shape.insert(axis, 1)
    return ctx.reshape(x, shape)


@converts("Expand")
def convert_expand(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    return ctx.broadcast(x, broadcast_shape(x.shape, tuple(node.integers(1, "the shape"))))


@converts("Tile")
def convert_tile(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    repeats = node.integers(1, "repeats")
    if node.version < 6:
        axis = node.integers(2, "axis")[0]
        repeats = [repeats[0] if a == axis else 1 for a in range(x.rank)]
    if len(repeats) != x.rank or min(repeats, default=0) < 0:
        raise Unsupported(f"repeats make no sense, got {repeats}; expected {x.rank} numbers")
    return tile(ctx, x, repeats)


def tile(ctx: Context, x: Value, repeats: list[int]) -> Value:
    shape = tuple(d * r for d, r in zip(x.shape, repeats, strict=True))
    if shape == x.shape:
        return x
    if 0 in shape:
        return constant(np.zeros(shape, x.dtype))
    return ctx.te("tile", lambda data: topi.tile(data, repeats), x)


@converts("Concat")
def convert_concat(ctx: Context, node: Node) -> Value:
    values = node.tensors()
    return ctx.concat(values, normal_axis(node.attribute("axis", 1), values[0].rank))


@converts("Split")
def convert_split(ctx: Context, node: Node) -> list[Value]:
    x = node.tensor(0)
    axis = normal_axis(node.attribute("axis", 0), x.rank)
    sizes = node.ints("split")
    if sizes is None and node.has(1):
        sizes = node.integers(1, "split")
    if sizes is None:
        parts = node.attribute("num_outputs", len(node.output_names))
        step = -(-x.shape[axis] // parts)
        sizes = [max(min(step, x.shape[axis] - i * step), 0) for i in range(parts)]
    if sum(sizes) != x.shape[axis] or min(sizes) < 0 or len(sizes) < len(node.output_names):
        raise Unsupported(f"split into {sizes} does not fit axis {axis} of {x.shape}")
    ends = np.cumsum(sizes).tolist()
    return [ctx.slice(x, [axis], [e - s], [e]) for s, e in zip(sizes, ends, strict=True)]


@converts("Slice")
def convert_slice(ctx: Context, node: Node) -> Value:
    """Bounds count from the end where negative and stop at the ends of the axis, as in Python."""
    x = node.tensor(0)
    if node.version < 10:
        starts, ends = node.ints("starts") or [], node.ints("ends") or []
        axes, steps = node.ints("axes", range(len(starts))) or [], [1] * len(starts)
    else:
        starts, ends = node.integers(1, "starts"), node.integers(2, "ends")
        axes = node.integers(3, "axes") if node.has(3) else list(range(len(starts)))
        steps = node.integers(4, "steps") if node.has(4) else [1] * len(starts)
    axes = [normal_axis(a, x.rank) for a in axes]
    if 0 in steps or not len(starts) == len(ends) == len(axes) == len(steps) or len(set(axes)) != len(axes):
        raise Unsupported(f"bounds make no sense, got starts {starts}, ends {ends}, axes {axes}, steps {steps}")
    ranges = {a: range(x.shape[a])[slice(s, e, t)] for a, s, e, t in zip(axes, starts, ends, steps, strict=True)}
    for (a, r), s, e, t in zip(ranges.items(), starts, ends, steps, strict=True):
        ranges[a] = _range(x.shape[a], s, e, t) if t < 0 else r
    shape = tuple(len(ranges[a]) if a in ranges else d for a, d in enumerate(x.shape))
    if 0 in shape:
        return constant(np.zeros(shape, x.dtype))
    if all(r.step == 1 or len(r) == 1 for r in ranges.values()):
        return ctx.slice(x, list(ranges), [r[0] for r in ranges.values()], [r[-1] + 1 for r in ranges.values()])

    def compute(data: Any) -> Any:
        def at(*i: Any) -> Any:
            return data(*(i[a] * ranges[a].step + ranges[a][0] if a in ranges else i[a] for a in range(x.rank)))

        return te.compute(shape, at, name="T_slice")

    return ctx.te("slice", compute, x)


def _range(length: int, start: int, end: int, step: int) -> range:
    """Going backwards, bounds far below zero include element 0: there ONNX and Python differ."""
    start = start + length if start < 0 else start
    end = end + length if end < 0 else end
    return range(min(max(start, 0), length - 1), max(end, -1), step)


@converts("Pad")
def convert_pad(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    if node.version < 11:
        given = node.ints("pads", node.ints("paddings")) or []
        fill: Value | None = constant(node.attribute("value", 0.0), x.dtype)
    else:
        given = node.integers(1, "pads")
        fill = node.optional(2)
    axes = [normal_axis(a, x.rank) for a in node.integers(3, "axes")] if node.has(3) else list(range(x.rank))
    if len(given) != 2 * len(axes):
        raise Unsupported(f"pads have the wrong length, got {given}; expected {2 * len(axes)} numbers")
    before, after = [0] * x.rank, [0] * x.rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = given[i], given[i + len(axes)]
    shape = [d + b + a for d, b, a in zip(x.shape, before, after, strict=True)]
    if min(shape, default=0) < 0:
        raise Unsupported(f"pads {given} cut more off {x.shape} than there is")
    check_tensor_size("the result", shape, x.dtype)
    cut_before, cut_after = [max(-b, 0) for b in before], [max(-a, 0) for a in after]
    ends = [d - a for d, a in zip(x.shape, cut_after, strict=True)]
    x = ctx.slice(x, list(range(x.rank)), cut_before, [max(e, b) for e, b in zip(ends, cut_before, strict=True)])
    before, after = [max(b, 0) for b in before], [max(a, 0) for a in after]
    mode = node.text("mode", "constant")
    if mode == "constant":
        return _pad_constant(ctx, x, before, after, fill)
    kinds = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
    if mode not in kinds:
        raise Unsupported(f"mode is unknown, got {mode!r}; expected constant, reflect, edge or wrap")
    for axis in range(x.rank):
        if before[axis] or after[axis]:
            if x.shape[axis] == 0:
                raise Unsupported(f"mode {mode!r} needs elements to repeat, but axis {axis} is empty")
            check_table_size("a table of positions", x.shape[axis] + before[axis] + after[axis])
            index = np.pad(np.arange(x.shape[axis]), (before[axis], after[axis]), mode=kinds[mode])  # type: ignore[call-overload]
            x = ctx.take(x, axis, index)
    return x


def _pad_constant(ctx: Context, x: Value, before: list[int], after: list[int], fill: Value | None) -> Value:
    if fill is None or fill.data is not None:
        return ctx.pad(x, before, after, 0.0 if fill is None or fill.data is None else fill.data.reshape(-1)[0].item())
    if not any(before) and not any(after):
        return x
    check_table_size("a mask", *(d + b + a for d, b, a in zip(x.shape, before, after, strict=True)))
    inside = np.pad(np.ones(x.shape, bool), list(zip(before, after, strict=True)))
    return ctx.where(constant(inside), ctx.pad(x, before, after), ctx.reshape(fill, ()))


@converts("DepthToSpace")
def convert_depth_to_space(ctx: Context, node: Node) -> Value:
    x, block = node.tensor(0), int(node.attributes["blocksize"])
    n, c, h, w = x.shape
    if c % (block * block):
        raise Unsupported(f"{c} channels cannot be spread over blocks of {block} by {block}")
    inner = c // (block * block)
    if node.text("mode", "DCR") == "DCR":
        y = ctx.transpose(ctx.reshape(x, (n, block, block, inner, h, w)), [0, 3, 4, 1, 5, 2])
    else:
        y = ctx.transpose(ctx.reshape(x, (n, inner, block, block, h, w)), [0, 1, 4, 2, 5, 3])
    return ctx.reshape(y, (n, inner, h * block, w * block))


@converts("SpaceToDepth")
def convert_space_to_depth(ctx: Context, node: Node) -> Value:
    x, block = node.tensor(0), int(node.attributes["blocksize"])
    n, c, h, w = x.shape
    if h % block or w % block:
        raise Unsupported(f"an image of {h} by {w} does not divide into blocks of {block} by {block}")
    split = ctx.reshape(x, (n, c, h // block, block, w // block, block))
    crd = node.text("mode", "DCR") == "CRD"
    y = ctx.transpose(split, [0, 1, 3, 5, 2, 4] if crd else [0, 3, 5, 1, 2, 4])
    return ctx.reshape(y, (n, c * block * block, h // block, w // block))


@converts("Trilu")
def convert_trilu(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    k = node.integers(1, "k")[0] if node.has(1) else 0
    check_table_size("a mask", *x.shape[-2:])
    ones = np.ones(x.shape[-2:], bool)
    mask = np.triu(ones, k) if node.attribute("upper", 1) else np.tril(ones, k)
    zero = constant(np.zeros((), x.dtype))
    return ctx.where(constant(mask), x, zero)


@converts("EyeLike")
def convert_eye_like(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    dtype = dtype_name(node.attributes["dtype"]) if "dtype" in node.attributes else x.dtype
    check_table_size("a matrix", *x.shape)
    return constant(np.eye(x.shape[0], x.shape[1], k=node.attribute("k", 0)), dtype)


@converts("ReverseSequence")
def convert_reverse_sequence(ctx: Context, node: Node) -> Value:
    x, lengths = node.tensor(0), ctx.cast(node.tensor(1), "int64")
    batch, time = node.attribute("batch_axis", 1), node.attribute("time_axis", 0)

    def compute(data: Any, length: Any) -> Any:
        def at(*i: Any) -> Any:
            n = tirx.max(tirx.min(length(i[batch]), x.shape[time]), 0)
            index = list(i)
            index[time] = tirx.Select(i[time] < n, n - 1 - i[time], i[time].astype("int64"))
            return data(*index)

        return te.compute(x.shape, at, name="T_reverse_sequence")

    return ctx.te("reverse_sequence", compute, x, lengths)


@converts("Range", "ConstantOfShape")
def refuse_runtime_shape(ctx: Context, node: Node) -> Value:
    node.constant(0, "its size")
    for i in range(len(node.inputs)):
        node.constant(i, "its size")
    raise Unsupported("cannot be computed while importing")
