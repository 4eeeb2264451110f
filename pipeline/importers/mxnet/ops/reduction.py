"""Sums, means, extremes, their positions, and matrix products."""

import math

from ...findings import Unsupported
from ..emitter import Emitter, Node, Tensor, normal_axis
from ..registry import converts

_ONNX = {
    "sum": "ReduceSum",
    "sum_axis": "ReduceSum",
    "mean": "ReduceMean",
    "max": "ReduceMax",
    "max_axis": "ReduceMax",
    "min": "ReduceMin",
    "min_axis": "ReduceMin",
    "prod": "ReduceProd",
}


def _axes(node: Node) -> list[int]:
    rank = node.data.rank
    axes = sorted({normal_axis(axis, rank) for axis in node.attributes.integers("axis", ())})
    if node.attributes.flag("exclude", False):
        axes = [i for i in range(rank) if i not in axes]
    return axes or list(range(rank))


def _reduce(g: Emitter, operator: str, x: Tensor, axes: list[int], keep: bool) -> Tensor:
    """A reduction over everything gives one number, which MXNet shapes (1,)."""
    if operator == "ReduceSum":
        found = g.emit(operator, x, g.constant(axes), keepdims=1)
    else:
        found = g.emit(operator, x, axes=axes, keepdims=1)
    return found if keep else g.reshape(found, [e for i, e in enumerate(x.shape) if i not in axes] or [1])


@converts(*_ONNX)
def reduce(g: Emitter, node: Node) -> Tensor:
    return _reduce(g, _ONNX[node.operator], node.data, _axes(node), node.attributes.flag("keepdims", False))


@converts("norm")
def norm(g: Emitter, node: Node) -> Tensor:
    a = node.attributes
    order = a.integer("ord", 2)
    if order not in (1, 2):
        raise Unsupported(f"attribute ord, got {order}; expected 1 or 2")
    a.text("out_dtype", "None", "None", "float32")
    return _reduce(g, f"ReduceL{order}", node.data, _axes(node), a.flag("keepdims", False))


@converts("argmax", "argmin")
def arg_extreme(g: Emitter, node: Node) -> Tensor:
    """Positions, the first of equal ones, as numbers of the data's type."""
    a, x = node.attributes, node.data
    keep = a.flag("keepdims", False)
    operator = "ArgMax" if node.operator == "argmax" else "ArgMin"
    if not a.given("axis"):
        flat = g.reshape(x, (math.prod(x.shape),))
        found = g.cast(g.emit(operator, flat, axis=0, keepdims=1), x.dtype)
        return g.reshape(found, [1] * x.rank) if keep else found
    found = g.cast(g.emit(operator, x, axis=node.axis("axis", 0), keepdims=1), x.dtype)
    axis = node.axis("axis", 0)
    return found if keep else g.reshape(found, [e for i, e in enumerate(x.shape) if i != axis] or [1])


@converts("argmax_channel")
def argmax_channel(g: Emitter, node: Node) -> Tensor:
    return g.cast(g.emit("ArgMax", node.data, axis=1, keepdims=0), node.data.dtype)


@converts("dot")
def dot(g: Emitter, node: Node) -> Tensor:
    """The last axis of the first with the first axis of the second; a transposed tensor has its axes reversed."""
    a = node.attributes
    a.ignore("forward_stype")
    left, right = node.input(0), node.input(1)
    if a.flag("transpose_a", False):
        left = g.transpose(left, tuple(reversed(range(left.rank))))
    if a.flag("transpose_b", False):
        right = g.transpose(right, tuple(reversed(range(right.rank))))
    if not left.rank or not right.rank or left.shape[-1] != right.shape[0]:
        raise Unsupported(f"multiplies {left.shape} by {right.shape}; expected the same inner extent")
    inner = right.shape[0]
    product = g.emit(
        "MatMul",
        g.reshape(left, (math.prod(left.shape[:-1]), inner)),
        g.reshape(right, (inner, math.prod(right.shape[1:]))),
    )
    return g.reshape(product, [*left.shape[:-1], *right.shape[1:]] or [1])


def _swap_last(g: Emitter, x: Tensor) -> Tensor:
    return g.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


@converts("batch_dot", "linalg_gemm2", "_linalg_gemm2")
def batch_dot(g: Emitter, node: Node) -> Tensor:
    a, left, right = node.attributes, node.input(0), node.input(1)
    a.ignore("forward_stype")
    if node.operator != "batch_dot" and a.integer("axis", -2) != -2:
        raise Unsupported("attribute axis; expected -2")
    if left.rank < 3 and node.operator == "batch_dot":
        raise Unsupported(f"multiplies {left.shape}; expected at least 3 dimensions")
    left = _swap_last(g, left) if a.flag("transpose_a", False) else left
    right = _swap_last(g, right) if a.flag("transpose_b", False) else right
    product = g.emit("MatMul", left, right)
    scale = a.number("alpha", 1.0)
    return product if scale == 1 else g.emit("Mul", product, g.scalar(scale, product))
