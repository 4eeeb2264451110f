"""Tensors that depend on shapes only. They become constants."""

import math

import numpy as np

from ...findings import Unsupported
from ..emitter import Emitter, Node, Tensor
from ..params import Array
from ..registry import converts
from .structure import tensor_type

_VALUES = {"_zeros": 0.0, "_ones": 1.0, "zeros_like": 0.0, "ones_like": 1.0}
_MAX_ELEMENTS = 1 << 22


def _filled(g: Emitter, shape: tuple[int, ...], value: float, dtype: str) -> Tensor:
    if not shape or min(shape) < 1 or math.prod(shape) > _MAX_ELEMENTS:
        raise Unsupported(f"attribute shape, got {shape}; expected positive extents, at most {_MAX_ELEMENTS} elements")
    return g.constant(np.full(shape, value, dtype))


@converts("_zeros", "_ones", "_full")
def filled(g: Emitter, node: Node) -> Tensor:
    node.attributes.ignore("ctx")
    value = _VALUES[node.operator] if node.operator in _VALUES else node.attributes.number("value")
    return _filled(g, node.attributes.integers("shape"), value, tensor_type(node))


@converts("zeros_like", "ones_like")
def filled_like(g: Emitter, node: Node) -> Tensor:
    return _filled(g, node.data.shape, _VALUES[node.operator], node.data.dtype)


def _table(start: float, step: float, count: int, repeat: int, dtype: str) -> Array:
    if repeat < 1 or not 0 < count * repeat <= _MAX_ELEMENTS:
        raise Unsupported(f"makes {count * repeat} elements; expected 1 to {_MAX_ELEMENTS}")
    return np.repeat(start + step * np.arange(count), repeat).astype(dtype)


@converts("_arange")
def arange(g: Emitter, node: Node) -> Tensor:
    a = node.attributes
    a.ignore("ctx")
    start, step, repeat = a.number("start", 0.0), a.number("step", 1.0), a.integer("repeat", 1)
    if a.flag("infer_range", False) or not a.given("stop"):
        raise Unsupported("attribute stop, got None; expected a number")
    stop = a.number("stop")
    if step == 0 or not math.isfinite(start + stop + step):
        raise Unsupported(f"goes from {start} to {stop} by {step}; expected finite numbers and a step")
    return g.constant(_table(start, step, math.ceil((stop - start) / step), repeat, tensor_type(node)))


@converts("_contrib_arange_like")
def arange_like(g: Emitter, node: Node) -> Tensor:
    """As many numbers as the data has elements (then of its shape), or as its axis is long."""
    a, x = node.attributes, node.data
    a.ignore("ctx")
    start, step, repeat = a.number("start", 0.0), a.number("step", 1.0), a.integer("repeat", 1)
    whole = not a.given("axis")
    size = math.prod(x.shape) if whole else x.shape[node.axis("axis", 0)]
    if size % max(repeat, 1):
        raise Unsupported(f"attribute repeat, got {repeat}; expected a divisor of {size}")
    table = _table(start, step, size // max(repeat, 1), repeat, x.dtype)
    return g.constant(table.reshape(x.shape) if whole else table)


@converts("shape_array")
def shape_array(g: Emitter, node: Node) -> Tensor:
    return g.constant(list(node.data.shape))


@converts("_contrib_div_sqrt_dim")
def divide_by_root(g: Emitter, node: Node) -> Tensor:
    return g.emit("Div", node.data, g.scalar(math.sqrt(node.data.shape[-1]), node.data))
