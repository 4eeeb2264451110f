"""Slices, crops, lookups."""

import numpy as np

from ...findings import Unsupported
from ..emitter import Emitter, Node, Tensor, normal_axis
from ..registry import converts
from .structure import tensor_type

_END = 2**31 - 1


@converts("slice", "crop")
def slice_(g: Emitter, node: Node) -> Tensor:
    """begin and end of each leading axis; None is where the axis begins or ends, for a negative step the other way."""
    a = node.attributes
    begin, end, step = (a.optional_integers(name) for name in ("begin", "end", "step"))
    steps = [1 if s is None else s for s in step] + [1] * (len(begin) - len(step))
    if len(begin) != len(end) or len(begin) != len(steps) or len(begin) > node.data.rank or 0 in steps or not begin:
        raise Unsupported(f"attributes begin {begin}, end {end}, step {step} for data of shape {node.data.shape}")
    starts = [b if b is not None else (0 if s > 0 else -1) for b, s in zip(begin, steps, strict=True)]
    ends = [e if e is not None else (_END if s > 0 else -_END) for e, s in zip(end, steps, strict=True)]
    return g.slice(node.data, starts, ends, list(range(len(begin))), steps)


@converts("slice_axis")
def slice_axis(g: Emitter, node: Node) -> Tensor:
    a = node.attributes
    a.integer("axis")
    end = a.optional_integer("end")
    return g.slice(node.data, [a.integer("begin")], [_END if end is None else end], [node.axis("axis", 0)], [1])


@converts("slice_like")
def slice_like(g: Emitter, node: Node) -> Tensor:
    x, like = node.data, node.input(1)
    axes = [normal_axis(axis, x.rank) for axis in node.attributes.integers("axes", ())] or list(range(x.rank))
    if max(axes) >= like.rank or any(like.shape[i] > x.shape[i] for i in axes):
        raise Unsupported(f"slices {x.shape} like {like.shape} along {axes}; expected extents that are not larger")
    return g.slice(x, [0] * len(axes), [like.shape[i] for i in axes], axes, [1] * len(axes))


@converts("Crop")
def crop(g: Emitter, node: Node) -> Tensor:
    """Rows and columns, to the size of a second input or to h_w, from offset or from the middle."""
    a, x = node.attributes, node.data
    height, width = node.input(1).shape[2:] if len(node.inputs) > 1 else a.spatial("h_w", 2, 0)
    top, left = a.spatial("offset", 2, 0)
    a.ignore("h_w")
    if a.flag("center_crop", False):
        top, left = (x.shape[2] - height) // 2, (x.shape[3] - width) // 2
    if min(top, left, height - 1, width - 1) < 0 or top + height > x.shape[2] or left + width > x.shape[3]:
        raise Unsupported(f"crops {height}x{width} at {top},{left} out of {x.shape}; expected a part of it")
    return g.slice(x, [top, left], [top + height, left + width], [2, 3], [1, 1])


def _indices(g: Emitter, index: Tensor, size: int, mode: str) -> Tensor:
    """int64 indices within 0 .. size - 1."""
    whole = g.cast(index, "int64")
    if mode == "wrap":
        return g.emit("Mod", whole, g.scalar(size, whole))
    return g.emit("Clip", whole, g.scalar(0, whole), g.scalar(size - 1, whole))


@converts("Embedding", weights=(1,))
def embedding(g: Emitter, node: Node) -> Tensor:
    a, table = node.attributes, node.input(1)
    wanted = (a.integer("input_dim"), a.integer("output_dim"))
    a.ignore("dtype", "sparse_grad", "deterministic")
    if table.shape != wanted:
        raise Unsupported(f"weight of shape {table.shape}; expected {wanted}")
    return g.emit("Gather", table, _indices(g, node.data, wanted[0], "clip"), axis=0)


@converts("take")
def take(g: Emitter, node: Node) -> Tensor:
    axis, mode = node.axis("axis", 0), node.attributes.text("mode", "clip", "clip", "wrap")
    return g.emit("Gather", node.data, _indices(g, node.input(1), node.data.shape[axis], mode), axis=axis)


@converts("one_hot")
def one_hot(g: Emitter, node: Node) -> Tensor:
    """An index outside of 0 .. depth - 1 gives a row without a hot one."""
    a, x = node.attributes, node.data
    dtype, depth = tensor_type(node), a.integer("depth")
    if depth < 1:
        raise Unsupported(f"attribute depth, got {depth}; expected a positive integer")
    hot, cold = (g.constant(np.array(a.number(f"{k}_value", v), dtype)) for k, v in (("on", 1.0), ("off", 0.0)))
    index = g.reshape(g.cast(x, "int64"), (*x.shape, 1))
    return g.emit("Where", g.emit("Equal", index, g.constant(list(range(depth)))), hot, cold)
