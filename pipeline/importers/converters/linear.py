"""Matrix products."""

from collections import Counter
from typing import Any

from tvm import te

from ..builder import broadcast_shape
from ..findings import Unsupported
from ..node import Node
from ..registry import converts
from ..values import Value
from ..walk import Context


@converts("MatMul")
def convert_matmul(ctx: Context, node: Node) -> Value:
    return multiply(ctx, node.tensor(0), node.tensor(1))


def multiply(ctx: Context, a: Value, b: Value) -> Value:
    """numpy.matmul; raises Unsupported where shapes do not fit."""
    if a.rank == 0 or b.rank == 0 or a.shape[-1] != b.shape[-2 if b.rank > 1 else 0]:
        raise Unsupported(f"shapes do not fit, got {a.shape} and {b.shape}")
    if 0 in a.shape or 0 in b.shape:
        raise Unsupported("multiplies matrices without elements")
    return ctx.matmul(a, b)


@converts("Gemm")
def convert_gemm(ctx: Context, node: Node) -> Value:
    a, b, c = node.tensor(0), node.tensor(1), node.optional(2)
    alpha, beta = float(node.attribute("alpha", 1.0)), float(node.attribute("beta", 1.0))
    if node.attribute("transA", 0):
        a = ctx.transpose(a, [1, 0])
    if node.attribute("transB", 0):
        b = ctx.transpose(b, [1, 0])
    if alpha != 1.0:
        if b.data is not None:
            b = ctx.mul(b, ctx.scalar(alpha, b))
        elif a.data is not None:
            a = ctx.mul(a, ctx.scalar(alpha, a))
    y = multiply(ctx, a, b)
    if alpha != 1.0 and a.data is None and b.data is None:
        y = ctx.mul(y, ctx.scalar(alpha, y))
    if c is None or beta == 0.0:
        return y
    if broadcast_shape(c.shape, y.shape) != y.shape:
        raise Unsupported(f"C of shape {c.shape} does not broadcast to {y.shape}")
    return ctx.add(y, ctx.mul(c, ctx.scalar(beta, c)) if beta != 1.0 else c)


@converts("MatMulInteger")
def convert_matmul_integer(ctx: Context, node: Node) -> Value:
    a = shift(ctx, ctx.cast(node.tensor(0), "int32"), node.optional(2), column=True)
    b = shift(ctx, ctx.cast(node.tensor(1), "int32"), node.optional(3), column=False)
    return multiply(ctx, a, b)


def shift(ctx: Context, x: Value, zero: Value | None, *, column: bool) -> Value:
    """x - zero_point, where a zero point of rank 1 is one per row (`column`) or one per column."""
    if zero is None:
        return x
    zero = ctx.cast(zero, x.dtype)
    if zero.rank == 1 and zero.size > 1 and column:
        zero = ctx.reshape(zero, (zero.size, 1))
    if zero.size == 1:
        zero = ctx.reshape(zero, ())
    return ctx.sub(x, zero)


@converts("Einsum")
def convert_einsum(ctx: Context, node: Node) -> Value:
    """One kernel that sums over all letters missing in the output; `...` and repeated letters included."""
    values = node.tensors()
    terms, output = _parse(node.text("equation", ""), [v.rank for v in values])
    extents: dict[str, int] = {}
    for term, value in zip(terms, values, strict=True):
        for letter, extent in zip(term, value.shape, strict=True):
            if extents.get(letter, 1) not in (1, extent) and extent != 1:
                raise Unsupported(f"{letter!r} stands for {extents[letter]} and for {extent} elements")
            extents[letter] = max(extents.get(letter, 1), extent)
    summed = [letter for letter in extents if letter not in output]

    def compute(*tensors: Any) -> Any:
        axes = {letter: te.reduce_axis((0, extents[letter]), name=f"k{i}") for i, letter in enumerate(summed)}

        def at(*out: Any) -> Any:
            index = {**axes, **dict(zip(output, out, strict=True))}
            product = None
            for tensor, term, value in zip(tensors, terms, values, strict=True):
                where = [0 if d == 1 else index[letter] for letter, d in zip(term, value.shape, strict=True)]
                factor = tensor(*where)
                product = factor if product is None else product * factor
            return te.sum(product, axis=list(axes.values())) if axes else product

        return te.compute(tuple(extents[letter] for letter in output), at, name="T_einsum")

    return ctx.te("einsum", compute, *values)


def _parse(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """Letters per input and of the output; the axes of `...` become digits."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise Unsupported(f"equation {equation!r} has {len(terms)} inputs; expected {len(ranks)}")
    widest = max(
        (rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks, strict=True) if "..." in t), default=0
    )
    names = "0123456789"[:widest]
    full = []
    for term, rank in zip(terms, ranks, strict=True):
        hidden = rank - len(term.replace("...", ""))
        letters = term.replace("...", names[len(names) - hidden :] if hidden else "")
        if len(letters) != rank:
            raise Unsupported(f"equation {equation!r}: {term!r} does not fit an input of rank {rank}")
        full.append(letters)
    if arrow:
        return full, right.replace("...", names)
    counts = Counter("".join(terms).replace(".", ""))
    return full, names + "".join(sorted(letter for letter, n in counts.items() if n == 1))
