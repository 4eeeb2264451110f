"""Shapes: Reshape with its codes, transposition, repetition, padding."""

import math
from collections.abc import Sequence

from ...findings import Unsupported
from ..emitter import Emitter, Node, Tensor, normal_axis
from ..registry import converts


def reshape_codes(shape: Sequence[int], codes: Sequence[int]) -> tuple[int, ...]:
    """The shape that MXNet's codes ask for: 0 copies a dimension, -1 is what is left, -2 copies all that follow, -3
    multiplies two, -4 splits one into the next two (one of which may be -1). Raises Unsupported if they do not fit.
    """
    wrong = Unsupported(f"attribute shape, got {tuple(codes)} for data of shape {tuple(shape)}; expected one that fits")
    result: list[int] = []
    source, i = 0, 0

    def next_extent() -> int:
        nonlocal source
        if source >= len(shape):
            raise wrong
        source += 1
        return shape[source - 1]

    while i < len(codes):
        code = codes[i]
        i += 1
        if code == 0:
            result.append(next_extent())
        elif code == -1:
            result.append(-1)
            source += 1
        elif code == -2:
            result += shape[source:]
            source = len(shape)
        elif code == -3:
            result.append(next_extent() * next_extent())
        elif code == -4:
            whole = next_extent()
            if i + 2 > len(codes):
                raise wrong
            first, second = codes[i : i + 2]
            i += 2
            if first == -1 and second > 0:
                first = whole // second
            elif second == -1 and first > 0:
                second = whole // first
            if first < 1 or second < 1 or first * second != whole:
                raise wrong
            result += [first, second]
        elif code > 0:
            result.append(code)
            source += 1
        else:
            raise wrong
    return _fill(shape, result, wrong)


def _fill(shape: Sequence[int], result: list[int], wrong: Unsupported) -> tuple[int, ...]:
    """Replace the -1 in `result`; check that the number of elements is kept."""
    whole, known = math.prod(shape), math.prod(e for e in result if e != -1)
    if result.count(-1) > 1:
        raise wrong
    if -1 in result:
        result[result.index(-1)] = whole // max(known, 1)
    if math.prod(result) != whole:
        raise wrong
    return tuple(result)


@converts("Reshape", "reshape", uses=1)
def reshape(g: Emitter, node: Node) -> Tensor:
    a, x = node.attributes, node.data
    codes, keep = a.integers("shape", ()), a.flag("keep_highest", False)
    target, backwards = a.integers("target_shape", ()), a.flag("reverse", False)
    if not codes:
        # The oldest form: 0 is what is left, and keep_highest copies the batch.
        if not target or target.count(0) > 1 or min(target) < 0:
            raise Unsupported(f"attribute target_shape, got {target}; expected positive extents, one of them 0")
        codes = tuple(-1 if e == 0 else e for e in target)
        codes = (x.shape[0], *codes[1:]) if keep else codes
        return g.reshape(x, reshape_codes(x.shape, codes))
    if backwards:
        return g.reshape(x, reshape_codes(x.shape[::-1], _backwards(codes))[::-1])
    return g.reshape(x, reshape_codes(x.shape, codes))


def _backwards(codes: Sequence[int]) -> list[int]:
    """Codes from right to left; what follows a -4 belongs to it."""
    if -4 in codes:
        raise Unsupported(f"attribute reverse, got True with shape {tuple(codes)}; expected no -4 in it")
    return list(codes[::-1])


@converts("reshape_like")
def reshape_like(g: Emitter, node: Node) -> Tensor:
    a, x, like = node.attributes, node.data, node.input(1)
    bounds = []
    for side, tensor in (("lhs", x), ("rhs", like)):
        begin = a.integer(f"{side}_begin", 0)
        end = a.integer(f"{side}_end", tensor.rank)
        bounds.append((begin % max(tensor.rank, 1), end if end >= 0 else end + tensor.rank))
    (left, right), (begin, end) = bounds
    shape = (*x.shape[:left], *like.shape[begin:end], *x.shape[right:])
    if math.prod(shape) != math.prod(x.shape):
        raise Unsupported(f"reshapes {x.shape} to {shape}; expected as many elements")
    return g.reshape(x, shape)


@converts("Flatten", "flatten")
def flatten(g: Emitter, node: Node) -> Tensor:
    x = node.data
    return g.reshape(x, (x.shape[0], math.prod(x.shape[1:])))


@converts("transpose")
def transpose(g: Emitter, node: Node) -> Tensor:
    axes = node.attributes.integers("axes", ()) or tuple(reversed(range(node.data.rank)))
    order = [normal_axis(axis, node.data.rank) for axis in axes]
    if sorted(order) != list(range(node.data.rank)):
        raise Unsupported(f"attribute axes, got {axes}; expected each axis of rank {node.data.rank} once")
    return g.transpose(node.data, order)


@converts("SwapAxis", "swapaxes")
def swap_axis(g: Emitter, node: Node) -> Tensor:
    first, second = node.axis("dim1", 0), node.axis("dim2", 0)
    order = list(range(node.data.rank))
    order[first], order[second] = second, first
    return g.transpose(node.data, order)


@converts("expand_dims")
def expand_dims(g: Emitter, node: Node) -> Tensor:
    node.attributes.integer("axis")
    axis = node.axis("axis", 0, node.data.rank + 1)
    return g.reshape(node.data, (*node.data.shape[:axis], 1, *node.data.shape[axis:]))


@converts("squeeze")
def squeeze(g: Emitter, node: Node) -> Tensor:
    x = node.data
    axes = {normal_axis(axis, x.rank) for axis in node.attributes.integers("axis", ())}
    if not axes:
        axes = {i for i, extent in enumerate(x.shape) if extent == 1}
    if any(x.shape[axis] != 1 for axis in axes):
        raise Unsupported(
            f"attribute axis, got {tuple(sorted(axes))} for data of shape {x.shape}; expected extents of 1"
        )
    return g.reshape(x, [e for i, e in enumerate(x.shape) if i not in axes] or [1])


@converts("tile")
def tile(g: Emitter, node: Node) -> Tensor:
    repeats, x = node.attributes.integers("reps"), node.data
    rank = max(len(repeats), x.rank)
    lifted = g.reshape(x, [1] * (rank - x.rank) + list(x.shape))
    return g.emit("Tile", lifted, g.constant([1] * (rank - len(repeats)) + list(repeats)))


@converts("repeat")
def repeat(g: Emitter, node: Node) -> Tensor:
    """Each element `repeats` times, beside itself."""
    count, x = node.attributes.integer("repeats"), node.data
    if not node.attributes.given("axis"):
        x = g.reshape(x, (math.prod(x.shape),))
    axis = node.axis("axis", 0, x.rank)
    lifted = g.reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
    counts = [1] * lifted.rank
    counts[axis + 1] = count
    shape = [e * (count if i == axis else 1) for i, e in enumerate(x.shape)]
    return g.reshape(g.emit("Tile", lifted, g.constant(counts)), shape)


@converts("flip", "reverse")
def flip(g: Emitter, node: Node) -> Tensor:
    axes = [normal_axis(axis, node.data.rank) for axis in node.attributes.integers("axis")]
    count = len(axes)
    return g.slice(node.data, [-1] * count, [-(2**31)] * count, axes, [-1] * count)


@converts("Pad", "pad")
def pad(g: Emitter, node: Node) -> Tensor:
    a, x = node.attributes, node.data
    mode, widths = a.text("mode", None, "constant", "edge", "reflect"), a.integers("pad_width")
    if len(widths) != 2 * x.rank or min(widths) < 0:
        raise Unsupported(f"attribute pad_width, got {widths}; expected {2 * x.rank} extents")
    value = a.number("constant_value", 0.0)
    pads = g.constant([*widths[::2], *widths[1::2]])
    return g.emit("Pad", x, pads, g.scalar(value, x) if mode == "constant" else None, mode=mode)


@converts("broadcast_to")
def broadcast_to(g: Emitter, node: Node) -> Tensor:
    x, wanted = node.data, node.attributes.integers("shape")
    if len(wanted) != x.rank:
        raise Unsupported(f"attribute shape, got {wanted} for data of shape {x.shape}; expected as many extents")
    return _expand(g, x, [w or e for w, e in zip(wanted, x.shape, strict=True)])


@converts("broadcast_like")
def broadcast_like(g: Emitter, node: Node) -> Tensor:
    a, x, like = node.attributes, node.data, node.input(1)
    mine, theirs = (a.integers(name, tuple(range(t.rank))) for name, t in (("lhs_axes", x), ("rhs_axes", like)))
    if len(mine) != len(theirs):
        raise Unsupported(f"attribute rhs_axes, got {theirs}; expected as many as {mine}")
    shape = list(x.shape)
    for one, other in zip(mine, theirs, strict=True):
        shape[normal_axis(one, x.rank)] = like.shape[normal_axis(other, like.rank)]
    return _expand(g, x, shape)


@converts("broadcast_axis", "broadcast_axes")
def broadcast_axis(g: Emitter, node: Node) -> Tensor:
    axes, sizes = node.attributes.integers("axis", ()), node.attributes.integers("size", ())
    if len(axes) != len(sizes):
        raise Unsupported(f"attribute size, got {sizes}; expected as many as {axes}")
    shape = list(node.data.shape)
    for axis, size in zip(axes, sizes, strict=True):
        shape[normal_axis(axis, node.data.rank)] = size
    return _expand(g, node.data, shape)


def _expand(g: Emitter, x: Tensor, shape: Sequence[int]) -> Tensor:
    if any(e not in (1, s) for e, s in zip(x.shape, shape, strict=True)):
        raise Unsupported(f"broadcasts {x.shape} to {tuple(shape)}; expected equal extents or 1")
    return x if x.shape == tuple(shape) else g.emit("Expand", x, g.constant(shape))


@converts("depth_to_space", "space_to_depth")
def depth_space(g: Emitter, node: Node) -> Tensor:
    """Channels are (row, column, channel), as in ONNX's mode DCR."""
    block = node.attributes.integer("block_size")
    if node.data.rank != 4 or block < 1:
        raise Unsupported(f"attribute block_size, got {block} for data of shape {node.data.shape}")
    operator = "DepthToSpace" if node.operator == "depth_to_space" else "SpaceToDepth"
    return g.emit(operator, node.data, blocksize=block)
