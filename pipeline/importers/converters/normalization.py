"""Normalisations that ONNX publishes no body for, or that fold into the layer before."""

from typing import Any

import numpy as np
from tvm import te

from ..findings import Unsupported
from ..node import Node, normal_axis
from ..registry import converts
from ..values import Value, constant
from ..walk import Context


@converts("BatchNormalization")
def convert_batch_normalization(ctx: Context, node: Node) -> list[Value]:
    """y = x * scale' + shift' with stored statistics; folded into a layer of constant weights before it."""
    x = node.tensor(0)
    if node.attribute("training_mode", 0) or (node.version < 7 and not node.attribute("is_test", 0)):
        raise Unsupported("is in training mode, so it uses the statistics of the batch", hint="export for inference")
    if node.version < 9 and not node.attribute("spatial", 1):
        raise Unsupported("spatial=0 (statistics per element) is not supported")
    if len([n for n in node.output_names if n]) > 1:
        raise Unsupported("has training outputs", hint="export the model for inference")
    epsilon = float(node.attribute("epsilon", 1e-5))
    scale, bias, mean, variance = (node.tensor(i) for i in range(1, 5))
    shape = (x.shape[1], *[1] * (x.rank - 2)) if x.rank > 1 else x.shape
    if all(v.data is not None for v in (scale, bias, mean, variance)):
        g, b, m, v = (np.asarray(t.data, np.float64) for t in (scale, bias, mean, variance))
        factor = g / np.sqrt(v + epsilon)
        offset = b - m * factor
        if x.linear is not None and x.uses <= 1 and x.linear.channel_axis == 1:
            return [x.linear.emit(factor, offset)]
        scaled = ctx.mul(x, constant(factor.reshape(shape).astype(x.dtype)))
        return [ctx.add(scaled, constant(offset.reshape(shape).astype(x.dtype)))]
    laid = [ctx.reshape(ctx.cast(t, x.dtype), shape) for t in (scale, bias, mean, variance)]
    deviation = ctx.unary("sqrt", ctx.add(laid[3], ctx.scalar(epsilon, x)))
    return [ctx.add(ctx.mul(ctx.div(ctx.sub(x, laid[2]), deviation), laid[0]), laid[1])]


@converts("InstanceNormalization")
def convert_instance_normalization(ctx: Context, node: Node) -> Value:
    x, scale, bias = node.tensor(0), node.tensor(1), node.tensor(2)
    axes, shape = list(range(2, x.rank)), (x.shape[1], *[1] * (x.rank - 2))
    normal = standardize(ctx, x, axes, float(node.attribute("epsilon", 1e-5)))
    return ctx.add(ctx.mul(normal, ctx.reshape(scale, shape)), ctx.reshape(bias, shape))


def standardize(ctx: Context, x: Value, axes: list[int], epsilon: float) -> Value:
    """(x - mean) / sqrt(variance + epsilon) over axes, computed in float32 at least."""
    wide = ctx.cast(x, "float32") if x.dtype == "float16" else x
    centred = ctx.sub(wide, ctx.reduce("mean", wide, axes, keepdims=True))
    variance = ctx.reduce("mean", ctx.mul(centred, centred), axes, keepdims=True)
    return ctx.cast(ctx.div(centred, ctx.unary("sqrt", ctx.add(variance, ctx.scalar(epsilon, wide)))), x.dtype)


@converts("LayerNormalization")
def convert_layer_normalization(ctx: Context, node: Node) -> list[Value]:
    x, scale, bias = node.tensor(0), node.tensor(1), node.optional(2)
    axis = normal_axis(node.attribute("axis", -1), x.rank)
    axes, epsilon = list(range(axis, x.rank)), float(node.attribute("epsilon", 1e-5))
    wide = ctx.cast(x, "float32") if x.dtype == "float16" else x
    mean = ctx.reduce("mean", wide, axes, keepdims=True)
    centred = ctx.sub(wide, mean)
    variance = ctx.reduce("mean", ctx.mul(centred, centred), axes, keepdims=True)
    deviation = ctx.unary("sqrt", ctx.add(variance, ctx.scalar(epsilon, wide)))
    y = ctx.mul(ctx.cast(ctx.div(centred, deviation), x.dtype), scale)
    results = [ctx.add(y, bias) if bias is not None else y]
    if node.wants(1) or node.wants(2):
        results += [mean, ctx.div(ctx.scalar(1, wide), deviation)]
    return results


@converts("LpNormalization")
def convert_lp_normalization(ctx: Context, node: Node) -> Value:
    """x divided by its norm along an axis; 0 where the norm is 0."""
    x, power = node.tensor(0), node.attribute("p", 2)
    axis = normal_axis(node.attribute("axis", -1), x.rank)
    if power not in (1, 2):
        raise Unsupported(f"p is {power}; expected 1 or 2")
    size = ctx.mul(x, x) if power == 2 else ctx.unary("abs", x)
    norm = ctx.reduce("sum", size, [axis], keepdims=True)
    if power == 2:
        norm = ctx.unary("sqrt", norm)
    empty = ctx.binary("equal", norm, ctx.scalar(0, norm))
    return ctx.div(x, ctx.where(empty, ctx.broadcast(ctx.scalar(1, norm), norm.shape), norm))


@converts("LRN")
def convert_lrn(ctx: Context, node: Node) -> Value:
    """x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ** beta."""
    x, size = node.tensor(0), int(node.attributes["size"])
    alpha, beta = float(node.attribute("alpha", 1e-4)), float(node.attribute("beta", 0.75))
    before, after = (size - 1) // 2, size // 2
    squares = ctx.pad(ctx.mul(x, x), [0, before, *[0] * (x.rank - 2)], [0, after, *[0] * (x.rank - 2)])

    def compute(data: Any) -> Any:
        k = te.reduce_axis((0, size), name="k")
        return te.compute(x.shape, lambda n, c, *i: te.sum(data(n, c + k, *i), axis=k), name="T_lrn_sum")

    total = ctx.mul(ctx.te("lrn_sum", compute, squares), ctx.scalar(alpha / size, x))
    base = ctx.add(total, ctx.scalar(float(node.attribute("bias", 1.0)), x))
    return ctx.mul(x, ctx.binary("power", base, ctx.scalar(-beta, x)))
