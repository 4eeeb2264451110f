"""Activation functions and the softmax family."""

import numpy as np
from tvm import relax

from ..findings import Unsupported
from ..node import Node, normal_axis
from ..registry import converts
from ..values import Value, constant
from ..walk import Context


@converts("Relu")
def convert_relu(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    return ctx.emit(relax.op.nn.relu(ctx.expr(x)))


@converts("LeakyRelu")
def convert_leaky_relu(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    return ctx.emit(relax.op.nn.leakyrelu(ctx.expr(x), float(node.attribute("alpha", 0.01))))


@converts("PRelu")
def convert_prelu(ctx: Context, node: Node) -> Value:
    """The slope broadcasts to the data as numpy has it; before opset 7 it belongs to axis 1."""
    x, slope = node.tensor(0), node.tensor(1)
    if node.version < 7 and slope.rank == 1 and slope.size > 1:
        slope = ctx.reshape(slope, (slope.size, *[1] * (x.rank - 2)))
    return ctx.where(ctx.binary("less", x, ctx.scalar(0, x)), ctx.mul(x, slope), x)


@converts("Elu", "Selu", "Celu")
def convert_elu(ctx: Context, node: Node) -> Value:
    """x where positive, scale * (exp(x / width) - 1) elsewhere. The exponent is cut at 0, where it could overflow."""
    x = node.tensor(0)
    gamma, width = 1.0, 1.0
    if node.op == "Selu":
        old = node.version < 6
        alpha = float(node.attribute("alpha", 1.6732 if old else 1.6732631921768188))
        gamma = float(node.attribute("gamma", 1.0507 if old else 1.0507010221481323))
    else:
        alpha = float(node.attribute("alpha", 1.0))
        width = alpha if node.op == "Celu" else 1.0
    zero = ctx.scalar(0, x)
    negative = ctx.binary("minimum", x, zero)
    if width != 1.0:
        negative = ctx.mul(negative, ctx.scalar(1.0 / width, x))
    below = ctx.mul(ctx.sub(ctx.unary("exp", negative), ctx.scalar(1, x)), ctx.scalar(alpha * gamma, x))
    above = x if gamma == 1.0 else ctx.mul(x, ctx.scalar(gamma, x))
    return ctx.where(ctx.binary("less", x, zero), below, above)


@converts("HardSigmoid")
def convert_hard_sigmoid(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    return _hard_sigmoid(ctx, x, float(node.attribute("alpha", 0.2)), float(node.attribute("beta", 0.5)))


@converts("HardSwish")
def convert_hard_swish(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    return ctx.mul(x, _hard_sigmoid(ctx, x, 1.0 / 6.0, 0.5))


def _hard_sigmoid(ctx: Context, x: Value, alpha: float, beta: float) -> Value:
    line = ctx.add(ctx.mul(x, ctx.scalar(alpha, x)), ctx.scalar(beta, x))
    return ctx.emit(relax.op.clip(ctx.expr(line), 0.0, 1.0))


@converts("Softplus")
def convert_softplus(ctx: Context, node: Node) -> Value:
    """max(x, 0) + log(1 + exp(-|x|)), which does not overflow."""
    x = node.tensor(0)
    return softplus(ctx, x)


def softplus(ctx: Context, x: Value) -> Value:
    small = ctx.unary("exp", ctx.unary("negative", ctx.unary("abs", x)))
    return ctx.add(ctx.binary("maximum", x, ctx.scalar(0, x)), _log_one_plus(ctx, small))


def _log_one_plus(ctx: Context, x: Value) -> Value:
    """log(1 + x) for x of 0 or more, exact also where 1 + x rounds (Kahan): OpenCL's own log1p has no half form."""
    one = ctx.scalar(1, x)
    total = ctx.add(x, one)
    ratio = ctx.div(x, ctx.sub(total, one))
    return ctx.where(ctx.binary("equal", total, one), x, ctx.mul(ctx.unary("log", total), ratio))


@converts("Softsign")
def convert_softsign(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    return ctx.div(x, ctx.add(ctx.unary("abs", x), ctx.scalar(1, x)))


@converts("Mish")
def convert_mish(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    return ctx.mul(x, ctx.unary("tanh", softplus(ctx, x)))


@converts("Swish")
def convert_swish(ctx: Context, node: Node) -> Value:
    x, alpha = node.tensor(0), float(node.attribute("alpha", 1.0))
    return ctx.mul(x, ctx.unary("sigmoid", ctx.mul(x, ctx.scalar(alpha, x)) if alpha != 1.0 else x))


@converts("ThresholdedRelu")
def convert_thresholded_relu(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    limit = ctx.scalar(float(node.attribute("alpha", 1.0)), x)
    return ctx.where(ctx.binary("greater", x, limit), x, ctx.scalar(0, x))


@converts("Shrink")
def convert_shrink(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    bias, limit = float(node.attribute("bias", 0.0)), float(node.attribute("lambd", 0.5))
    above = ctx.binary("greater", x, ctx.scalar(limit, x))
    below = ctx.binary("less", x, ctx.scalar(-limit, x))
    shift = ctx.scalar(bias, x)
    return ctx.where(above, ctx.sub(x, shift), ctx.where(below, ctx.add(x, shift), ctx.scalar(0, x)))


@converts("Gelu")
def convert_gelu(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    half = ctx.mul(x, ctx.scalar(0.5, x))
    kind = node.text("approximate", "none")
    if kind == "tanh":
        cube = ctx.mul(ctx.mul(x, x), x)
        inner = ctx.mul(ctx.add(x, ctx.mul(cube, ctx.scalar(0.044715, x))), ctx.scalar(np.sqrt(2 / np.pi), x))
        gate = ctx.unary("tanh", inner)
    elif kind == "none":
        scaled = ctx.mul(x, ctx.scalar(np.sqrt(0.5), x))
        gate = ctx.cast(ctx.unary("erf", ctx.cast(scaled, "float32")), x.dtype)
    else:
        raise Unsupported(f"approximate is unknown, got {kind!r}; expected 'none' or 'tanh'")
    return ctx.mul(half, ctx.add(gate, ctx.scalar(1, x)))


def _coerced(ctx: Context, node: Node) -> tuple[Value, int]:
    """The input and the axis to normalise. Before opset 13 all axes from `axis` (default 1) on count as one."""
    x = node.tensor(0)
    if node.version >= 13:
        return x, normal_axis(node.attribute("axis", -1), x.rank)
    axis = node.attribute("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    if not 0 <= axis <= x.rank:
        raise Unsupported(f"axis out of range, got {axis}; expected {-x.rank} to {x.rank}")
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    return ctx.reshape(x, (rows, x.size // rows if rows else 0)), 1


@converts("Softmax", "LogSoftmax")
def convert_softmax(ctx: Context, node: Node) -> Value:
    x, axis = _coerced(ctx, node)
    if x.rank == 0:
        return constant(1.0 if node.op == "Softmax" else 0.0, x.dtype)
    op = relax.op.nn.softmax if node.op == "Softmax" else relax.op.nn.log_softmax
    wide = ctx.cast(x, "float32") if x.dtype == "float16" else x
    return ctx.reshape(ctx.cast(ctx.emit(op(ctx.expr(wide), axis)), x.dtype), node.tensor(0).shape)


@converts("Hardmax")
def convert_hardmax(ctx: Context, node: Node) -> Value:
    from .reduction import arg_extreme

    x, axis = _coerced(ctx, node)
    best = arg_extreme(ctx, x, axis, largest=True, last=False)
    positions = np.arange(x.shape[axis]).reshape([-1 if a == axis else 1 for a in range(x.rank)])
    hit = ctx.binary("equal", constant(positions, "int64"), best)
    return ctx.reshape(ctx.cast(hit, x.dtype), node.tensor(0).shape)
