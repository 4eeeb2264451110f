"""Quantised operators, computed in floating point or int32 with the same results."""

import numpy as np

from ..findings import Unsupported
from ..node import Node, normal_axis
from ..registry import converts
from ..types import dtype_name
from ..values import RUNTIME_DTYPES, Value, constant
from ..walk import Context
from .convolution import convolve
from .linear import multiply, shift


def quantize(ctx: Context, x: Value, scale: Value, zero: Value | None, dtype: str) -> Value:
    """saturate(round(x / scale) + zero_point), rounding halves to even; x and scale broadcast."""
    if dtype not in RUNTIME_DTYPES or not dtype.startswith(("int", "uint")):
        raise Unsupported(f"quantises to {dtype}; expected int8, uint8, int16 or uint16")
    limits = np.iinfo(dtype)
    steps = ctx.unary("round", ctx.div(x, scale))
    if zero is not None and not (zero.data is not None and not zero.data.any()):
        steps = ctx.add(steps, ctx.cast(zero, steps.dtype))
    steps = ctx.binary("maximum", steps, ctx.scalar(limits.min, steps))
    return ctx.cast(ctx.binary("minimum", steps, ctx.scalar(limits.max, steps)), dtype)


def dequantize(ctx: Context, x: Value, scale: Value, zero: Value | None) -> Value:
    """(x - zero_point) * scale in the scale's type; the difference is exact."""
    if zero is None or (zero.data is not None and not zero.data.any()):
        return ctx.mul(ctx.cast(x, scale.dtype), scale)
    difference = ctx.sub(ctx.cast(x, "int32"), ctx.cast(zero, "int32"))
    return ctx.mul(ctx.cast(difference, scale.dtype), scale)


def _along(ctx: Context, node: Node, x: Value, parameter: Value | None) -> Value | None:
    """A scale or zero point laid along `axis` of x: one, one per element of the axis, or one per block of it."""
    if parameter is None or parameter.size == 1:
        return None if parameter is None else ctx.reshape(parameter, ())
    axis = normal_axis(node.attribute("axis", 1), x.rank)
    block = node.attribute("block_size", 0)
    if parameter.rank == 1 and not (block and x.rank == 1):
        return ctx.reshape(parameter, _lay(x, axis))
    if parameter.rank != x.rank:
        raise Unsupported(f"scale has shape {parameter.shape} for an input of {x.shape}")
    if parameter.shape[axis] == x.shape[axis]:
        return parameter
    block = block or -(-x.shape[axis] // parameter.shape[axis])
    return ctx.take(parameter, axis, np.arange(x.shape[axis]) // block)


def _lay(x: Value, axis: int) -> list[int]:
    return [d if a == axis else 1 for a, d in enumerate(x.shape)]


@converts("QuantizeLinear")
def convert_quantize_linear(ctx: Context, node: Node) -> Value:
    x, scale, zero = node.tensor(0), node.tensor(1), node.optional(2)
    dtype = "uint8" if zero is None else zero.dtype
    if node.attribute("output_dtype", 0):
        dtype = dtype_name(node.attributes["output_dtype"])
    laid, laid_zero = _along(ctx, node, x, scale), _along(ctx, node, x, zero)
    if laid is None:
        raise Unsupported("has no scale")
    precision = node.attribute("precision", 0)
    work = dtype_name(precision) if precision else scale.dtype
    if x.dtype.startswith("int"):
        work = "float32"
    return quantize(ctx, ctx.cast(x, work), ctx.cast(laid, work), laid_zero, dtype)


@converts("DequantizeLinear")
def convert_dequantize_linear(ctx: Context, node: Node) -> Value:
    x, scale, zero = node.tensor(0), node.tensor(1), node.optional(2)
    laid, laid_zero = _along(ctx, node, x, scale), _along(ctx, node, x, zero)
    if laid is None:
        raise Unsupported("has no scale")
    y = dequantize(ctx, x, laid, laid_zero)
    return ctx.cast(y, dtype_name(node.attributes["output_dtype"])) if node.attribute("output_dtype", 0) else y


@converts("QLinearMatMul")
def convert_qlinear_matmul(ctx: Context, node: Node) -> Value:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.tensors()
    total = multiply(
        ctx,
        shift(ctx, ctx.cast(a, "int32"), a_zero, column=True),
        shift(ctx, ctx.cast(b, "int32"), b_zero, column=False),
    )
    rows = ctx.reshape(a_scale, (a_scale.size, 1)) if a_scale.rank == 1 and a_scale.size > 1 else a_scale
    scale = ctx.mul(_single(ctx, rows), _single(ctx, b_scale))
    work = ctx.mul(ctx.cast(total, "float32"), ctx.cast(scale, "float32"))
    return quantize(ctx, work, ctx.cast(_single(ctx, y_scale), "float32"), _single(ctx, y_zero), y_zero.dtype)


def _single(ctx: Context, value: Value) -> Value:
    return ctx.reshape(value, ()) if value.size == 1 else value


@converts("QLinearConv")
def convert_qlinear_conv(ctx: Context, node: Node) -> Value:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (node.tensor(i) for i in range(8))
    channels = (w.shape[0], *[1] * (w.rank - 1))
    data = ctx.sub(ctx.cast(x, "int32"), ctx.reshape(ctx.cast(x_zero, "int32"), ()))
    zero = ctx.cast(w_zero, "int32")
    weight = ctx.sub(ctx.cast(w, "int32"), ctx.reshape(zero, () if zero.size == 1 else channels))
    total = convolve(ctx, node, data, weight, node.optional(8))
    per_channel = ctx.reshape(w_scale, () if w_scale.size == 1 else (1, w.shape[0], *[1] * (w.rank - 2)))
    work = ctx.mul(ctx.cast(total, "float32"), ctx.mul(_single(ctx, x_scale), per_channel))
    return quantize(ctx, work, _single(ctx, y_scale), _single(ctx, y_zero), y_zero.dtype)


@converts("DynamicQuantizeLinear")
def convert_dynamic_quantize(ctx: Context, node: Node) -> list[Value]:
    """uint8 over the range of x, stretched to hold 0."""
    x = node.tensor(0)
    axes = list(range(x.rank))
    zero = constant(np.float32(0))
    high = ctx.binary("maximum", ctx.reduce("max", x, axes, keepdims=False), zero)
    low = ctx.binary("minimum", ctx.reduce("min", x, axes, keepdims=False), zero)
    scale = ctx.div(ctx.sub(high, low), constant(np.float32(255)))
    point = ctx.unary("round", ctx.div(ctx.sub(zero, low), scale))
    point = ctx.binary("minimum", ctx.binary("maximum", point, zero), constant(np.float32(255)))
    zero_point = ctx.cast(point, "uint8")
    return [quantize(ctx, x, scale, zero_point, "uint8"), scale, zero_point]
