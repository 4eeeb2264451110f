"""Arithmetic, comparison, logic and rounding, element by element."""

from typing import Any

import numpy as np
from tvm import relax, tirx

from ..builder import broadcast_shape
from ..findings import Unsupported
from ..node import Node
from ..registry import converts
from ..types import dtype_name
from ..values import RUNTIME_DTYPES, Value, constant, is_float, is_integer
from ..walk import Context

_UNARY = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Exp": "exp",
    "Floor": "floor",
    "Log": "log",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
    "IsNaN": "isnan",
    "Not": "logical_not",
    "BitwiseNot": "bitwise_not",
}
_BINARY = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
}


@converts(*_UNARY)
def convert_unary(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    if node.op == "Abs" and x.dtype.startswith("uint"):
        return x
    if node.op == "Sign" and is_integer(x.dtype):
        zero = ctx.scalar(0, x)
        above = ctx.cast(ctx.binary("greater", x, zero), x.dtype)
        return above if x.dtype.startswith("uint") else ctx.sub(above, ctx.cast(ctx.binary("less", x, zero), x.dtype))
    return ctx.unary(_UNARY[node.op], x)


@converts("Neg")
def convert_neg(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    return ctx.unary("negative", x) if is_float(x.dtype) else ctx.sub(ctx.scalar(0, x), x)


@converts("Erf")
def convert_erf(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    if x.dtype == "float16":
        return ctx.cast(ctx.unary("erf", ctx.cast(x, "float32")), "float16")
    return ctx.unary("erf", x)


@converts("Reciprocal")
def convert_reciprocal(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    return ctx.div(ctx.scalar(1, x), x)


@converts("IsInf")
def convert_is_inf(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    signs = [s for s, name in ((1, "detect_positive"), (-1, "detect_negative")) if node.attribute(name, 1)]
    found = [ctx.binary("equal", x, ctx.scalar(s * np.inf, x)) for s in signs]
    if not found:
        return constant(np.zeros(x.shape, bool))
    return found[0] if len(found) == 1 else ctx.binary("logical_or", found[0], found[1])


def align_old_broadcast(ctx: Context, node: Node) -> tuple[Value, Value]:
    """The two inputs; before opset 7 the second one is aligned by `axis` and only when `broadcast` is set."""
    a, b = node.tensor(0), node.tensor(1)
    if node.version < 7 and node.attribute("broadcast", 0) and b.rank < a.rank and "axis" in node.attributes:
        axis = node.attributes["axis"] % a.rank
        b = ctx.reshape(b, (*b.shape, *[1] * (a.rank - axis - b.rank)))
    return a, b


@converts(*_BINARY)
def convert_binary(ctx: Context, node: Node) -> Value:
    a, b = align_old_broadcast(ctx, node)
    folded = fold_affine(ctx, node.op, a, b)
    if folded is not None:
        return folded
    return ctx.binary(_BINARY[node.op], a, b)


@converts("Div")
def convert_div(ctx: Context, node: Node) -> Value:
    a, b = align_old_broadcast(ctx, node)
    folded = fold_affine(ctx, node.op, a, b)
    if folded is not None:
        return folded
    return ctx.div(a, b)


def fold_affine(ctx: Context, op: str, a: Value, b: Value) -> Value | None:
    """A per-channel constant added to or multiplied with a layer of constant weights goes into these weights."""
    if b.linear is not None and a.data is not None and op in ("Add", "Mul"):
        a, b = b, a
    linear = a.linear
    if linear is None or a.uses > 1 or b.data is None or op not in ("Add", "Sub", "Mul", "Div"):
        return None
    if broadcast_shape(a.shape, b.shape) != a.shape:
        return None
    aligned = b.data.reshape((1,) * (a.rank - b.rank) + b.shape)
    if any(d != 1 for axis, d in enumerate(aligned.shape) if axis != linear.channel_axis):
        return None
    per_channel = np.broadcast_to(aligned.reshape(-1), (linear.channels,)).astype(np.float64)
    one, zero = np.ones(linear.channels), np.zeros(linear.channels)
    if op == "Add":
        return linear.emit(one, per_channel)
    if op == "Sub":
        return linear.emit(one, -per_channel)
    if op == "Div" and not per_channel.all():
        return None
    return linear.emit(per_channel if op == "Mul" else 1.0 / per_channel, zero)


@converts("Equal")
def convert_equal(ctx: Context, node: Node) -> Value:
    a, b = align_old_broadcast(ctx, node)
    if a.dtype == "bool" and b.dtype == "bool":
        return ctx.unary("logical_not", ctx.binary("logical_xor", a, b))
    return ctx.binary("equal", a, b)


@converts("Pow")
def convert_pow(ctx: Context, node: Node) -> Value:
    """The result has the base's type. Whole powers up to 4 and one half become products and a root."""
    a, b = align_old_broadcast(ctx, node)
    if b.data is not None and b.size and bool((b.data == b.data.reshape(-1)[0]).all()):
        shape, exponent = broadcast_shape(a.shape, b.shape), float(b.data.reshape(-1)[0])
        base = ctx.broadcast(a, shape)
        if exponent in (1.0, 2.0, 3.0, 4.0):
            square = ctx.mul(base, base) if exponent > 1 else base
            return square if exponent < 3 else ctx.mul(square, base if exponent == 3.0 else square)
        if exponent == 0.5 and is_float(a.dtype):
            return ctx.unary("sqrt", base)
    if is_float(a.dtype):
        return ctx.binary("power", a, ctx.cast(b, a.dtype))
    # Whole numbers up to 2**53 are exact in float64; pow may miss by less than one half, so the result is rounded.
    power = ctx.binary("power", ctx.cast(a, "float64"), ctx.cast(b, "float64"))
    return ctx.cast(ctx.unary("round", power), a.dtype)


@converts("Mod")
def convert_mod(ctx: Context, node: Node) -> Value:
    """fmod=0 takes the sign of the divisor, fmod=1 that of the dividend."""
    a, b = node.tensor(0), node.tensor(1)
    shape = broadcast_shape(a.shape, b.shape)
    a, b = ctx.broadcast(a, shape), ctx.broadcast(b, shape)
    floor = not node.attribute("fmod", 0)
    if is_float(a.dtype):
        return _float_mod(ctx, a, b, floor=floor)

    def remainder(x: Any, y: Any) -> Any:
        rest = tirx.truncmod(x, y)
        if not floor or a.dtype.startswith("uint"):
            return rest
        zero = tirx.const(0, a.dtype)
        other_sign = tirx.any(tirx.all(rest < zero, y > zero), tirx.all(rest > zero, y < zero))
        return tirx.Select(other_sign, rest + y, rest)

    return ctx.elementwise("mod", remainder, a, b)


def _float_mod(ctx: Context, a: Value, b: Value, *, floor: bool) -> Value:
    """In float64, where the product of quotient and divisor is exact for quotients below 2**29 of float32 numbers."""
    zero, infinity = tirx.const(0, "float64"), tirx.const(float("inf"), "float64")

    def remainder(x: Any, y: Any) -> Any:
        rest = x - tirx.trunc(x / y) * y
        size = tirx.abs(y)
        # A rounded quotient may be one too large.
        low, high = tirx.all(x > zero, rest < zero), tirx.all(x < zero, rest > zero)
        rest = tirx.Select(low, rest + size, tirx.Select(high, rest - size, rest))
        rest = tirx.Select(tirx.all(size.equal(infinity), tirx.abs(x) < infinity), x, rest)
        if not floor:
            return rest
        other_sign = tirx.any(tirx.all(rest < zero, y > zero), tirx.all(rest > zero, y < zero))
        return tirx.Select(other_sign, rest + y, rest)

    wide = ctx.elementwise("mod", remainder, ctx.cast(a, "float64"), ctx.cast(b, "float64"))
    return ctx.cast(wide, a.dtype)


@converts("BitShift")
def convert_bit_shift(ctx: Context, node: Node) -> Value:
    """Shifting by the width or more (negative counts read as unsigned) moves all bits out; the sign is repeated."""
    a, b = node.tensor(0), node.tensor(1)
    shape = broadcast_shape(a.shape, b.shape)
    a, b = ctx.broadcast(a, shape), ctx.broadcast(b, shape)
    left, signed = node.text("direction", "") == "LEFT", a.dtype.startswith("int")
    bits, zero = np.dtype(a.dtype).itemsize * 8, tirx.const(0, a.dtype)

    if not signed:
        inside = ctx.binary("less", b, ctx.scalar(bits, b))
        count = ctx.binary("minimum", b, ctx.scalar(bits - 1, b))
        op = relax.op.left_shift if left else relax.op.right_shift
        return ctx.where(inside, ctx.emit(op(ctx.expr(a), ctx.expr(count))), ctx.scalar(0, a))

    def shift(x: Any, y: Any) -> Any:
        inside = tirx.all(y >= zero, y < tirx.const(bits, a.dtype))
        count = tirx.Select(inside, y, tirx.const(bits - 1, a.dtype))
        if left:
            return tirx.Select(inside, x << count, zero)
        return tirx.Select(tirx.any(inside, x < zero), x >> count, zero)

    return ctx.elementwise("bit_shift", shift, a, b)


@converts("Min", "Max", "Sum", "Mean")
def convert_variadic(ctx: Context, node: Node) -> Value:
    op = {"Min": "minimum", "Max": "maximum"}.get(node.op, "add")
    values = node.tensors()
    result = values[0]
    for value in values[1:]:
        result = ctx.binary(op, result, value)
    if node.op == "Mean" and len(values) > 1:
        result = ctx.mul(result, ctx.scalar(1.0 / len(values), result))
    return result


@converts("Where")
def convert_where(ctx: Context, node: Node) -> Value:
    return ctx.where(node.tensor(0), node.tensor(1), node.tensor(2))


@converts("Cast", "CastLike", "BitCast")
def convert_cast(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    wanted = node.tensor(1).dtype if node.op == "CastLike" else dtype_name(node.attributes["to"])
    if wanted not in RUNTIME_DTYPES:
        raise Unsupported(f"makes {wanted}; the runtime has {', '.join(sorted(RUNTIME_DTYPES))}")
    if node.op != "BitCast":
        return ctx.cast(x, wanted)
    if x.dtype == wanted:
        return x
    if "bool" in (x.dtype, wanted):
        return ctx.cast(x, wanted)
    return ctx.elementwise("bit_cast", lambda v: tirx.reinterpret(wanted, v), x)


@converts("Clip")
def convert_clip(ctx: Context, node: Node) -> Value:
    """Bounds are attributes before opset 11 and optional inputs after; the lower one is applied first."""
    x = node.tensor(0)
    if node.version < 11:
        low = ctx.scalar(node.attributes["min"], x) if "min" in node.attributes else None
        high = ctx.scalar(node.attributes["max"], x) if "max" in node.attributes else None
    else:
        low, high = node.optional(1), node.optional(2)
    if low is not None and high is not None and low.size == 1 and high.size == 1 and is_float(x.dtype):
        bounds = (low.data, high.data)
        if bounds[0] is not None and bounds[1] is not None and float(bounds[0].item()) <= float(bounds[1].item()):
            return ctx.emit(relax.op.clip(ctx.expr(x), float(bounds[0].item()), float(bounds[1].item())))
    if low is not None:
        x = ctx.binary("maximum", x, ctx.reshape(low, ()))
    if high is not None:
        x = ctx.binary("minimum", x, ctx.reshape(high, ()))
    return x
