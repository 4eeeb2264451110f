"""Reductions, extremes with their positions, running sums."""

from typing import Any

import numpy as np
from tvm import te, tirx

from ..findings import Unsupported
from ..node import Node, normal_axis
from ..registry import converts
from ..values import Value, constant, is_float
from ..walk import Context

# TopK ranks each element against all others along its axis; beyond this the work grows out of hand.
_MAX_RANKED = 8192


@converts(
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSumSquare",
)
def convert_reduce(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    axes = node.axes(x.rank, input_index=1)
    if not axes:
        if node.attribute("noop_with_empty_axes", 0):
            return x if node.op not in _PREPARE else _finish(ctx, node.op, _prepare(ctx, node.op, x))
        axes = list(range(x.rank))
    axes = sorted(set(axes))
    keepdims = bool(node.attribute("keepdims", 1))
    if node.op == "ReduceLogSumExp":
        return _log_sum_exp(ctx, x, axes, keepdims)
    if x.dtype == "bool":
        op = {"ReduceMax": "max", "ReduceMin": "min"}[node.op]
        return ctx.cast(ctx.reduce(op, ctx.cast(x, "uint8"), axes, keepdims=keepdims), "bool")
    wide = ctx.cast(x, "float32") if x.dtype == "float16" and node.op not in ("ReduceMax", "ReduceMin") else x
    op = {"ReduceMean": "mean", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "prod"}.get(node.op, "sum")
    total = ctx.reduce(op, _prepare(ctx, node.op, wide), axes, keepdims=keepdims)
    return ctx.cast(_finish(ctx, node.op, total), x.dtype)


_PREPARE = frozenset(["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"])


def _prepare(ctx: Context, op: str, x: Value) -> Value:
    if op == "ReduceL1":
        return ctx.unary("abs", x)
    return ctx.mul(x, x) if op in ("ReduceL2", "ReduceSumSquare") else x


def _finish(ctx: Context, op: str, x: Value) -> Value:
    if op == "ReduceL2":
        return (
            ctx.unary("sqrt", x) if is_float(x.dtype) else ctx.cast(ctx.unary("sqrt", ctx.cast(x, "float64")), x.dtype)
        )
    if op == "ReduceLogSum":
        return ctx.unary("log", x) if is_float(x.dtype) else ctx.cast(ctx.unary("log", ctx.cast(x, "float64")), x.dtype)
    return x


def _log_sum_exp(ctx: Context, x: Value, axes: list[int], keepdims: bool) -> Value:
    """max + log(sum(exp(x - max))), which does not overflow."""
    if not is_float(x.dtype):
        raise Unsupported(f"works on {x.dtype}; expected a floating-point type")
    largest = ctx.reduce("max", x, axes, keepdims=True)
    total = ctx.reduce("sum", ctx.unary("exp", ctx.sub(x, largest)), axes, keepdims=True)
    result = ctx.add(ctx.unary("log", total), largest)
    if keepdims:
        return result
    return ctx.reshape(result, [d for a, d in enumerate(x.shape) if a not in axes])


@converts("ArgMax", "ArgMin")
def convert_arg_extreme(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    axis = normal_axis(node.attribute("axis", 0), x.rank)
    last = bool(node.attribute("select_last_index", 0))
    found = arg_extreme(ctx, x, axis, largest=node.op == "ArgMax", last=last)
    if node.attribute("keepdims", 1):
        return found
    return ctx.reshape(found, x.shape[:axis] + x.shape[axis + 1 :])


def arg_extreme(ctx: Context, x: Value, axis: int, *, largest: bool, last: bool) -> Value:
    """int64 position along `axis` (kept with size 1) of the first or last extreme element."""
    length = x.shape[axis]
    best = ctx.reduce("max" if largest else "min", x, [axis], keepdims=True)
    order = np.arange(length).reshape([-1 if a == axis else 1 for a in range(x.rank)])
    hit = ctx.binary("equal", x, best)
    none = constant(np.int64(-1 if last else length - 1))
    return ctx.reduce("max" if last else "min", ctx.where(hit, constant(order, "int64"), none), [axis], keepdims=True)


@converts("TopK")
def convert_topk(ctx: Context, node: Node) -> list[Value]:
    """Each element's rank is how many come before it; equal ones keep their order. Needs no sorting."""
    x = node.tensor(0)
    axis = normal_axis(node.attribute("axis", -1), x.rank)
    k = int(node.attributes["k"]) if node.version < 10 else node.integers(1, "k")[0]
    length = x.shape[axis]
    if not 0 < k <= length:
        raise Unsupported(f"k is {k}; expected 1 to {length}")
    if length > _MAX_RANKED:
        raise Unsupported(f"the axis has {length} elements; expected at most {_MAX_RANKED}")
    largest = bool(node.attribute("largest", 1))
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])

    def ranks(data: Any) -> Any:
        other = te.reduce_axis((0, length), name="other")

        def at(*i: Any) -> Any:
            mine, theirs = data(*i), data(*i[:axis], other, *i[axis + 1 :])
            ahead = theirs > mine if largest else theirs < mine
            earlier = tirx.all(theirs.equal(mine), other < i[axis])
            return te.sum(tirx.Select(tirx.any(ahead, earlier), 1, 0), axis=other)

        return te.compute(x.shape, at, name="T_rank")

    def positions(rank: Any) -> Any:
        j = te.reduce_axis((0, length), name="j")

        def at(*i: Any) -> Any:
            hit = rank(*i[:axis], j, *i[axis + 1 :]).equal(i[axis])
            return te.sum(tirx.Select(hit, j.var.astype("int64"), tirx.const(0, "int64")), axis=j)

        return te.compute(shape, at, name="T_topk_positions")

    found = ctx.te("topk_positions", positions, ctx.te("topk_ranks", ranks, x))

    def values(data: Any, index: Any) -> Any:
        return te.compute(shape, lambda *i: data(*i[:axis], index(*i), *i[axis + 1 :]), name="T_topk_values")

    return [ctx.te("topk_values", values, x, found), found]


@converts("CumSum", "CumProd")
def convert_cumulative(ctx: Context, node: Node) -> Value:
    """Element i reduces over all j that come before it (and itself, unless exclusive)."""
    x = node.tensor(0)
    axis = normal_axis(node.integers(1, "axis")[0], x.rank)
    exclusive, reverse = bool(node.attribute("exclusive", 0)), bool(node.attribute("reverse", 0))
    product = node.op == "CumProd"
    neutral = tirx.const(1 if product else 0, x.dtype)

    def compute(data: Any) -> Any:
        j = te.reduce_axis((0, x.shape[axis]), name="j")
        reducer = te.comm_reducer(lambda a, b: a * b, lambda t: tirx.const(1, t)) if product else te.sum

        def at(*i: Any) -> Any:
            here = i[axis]
            counted = (j > here if exclusive else j >= here) if reverse else (j < here if exclusive else j <= here)
            return reducer(tirx.Select(counted, data(*i[:axis], j, *i[axis + 1 :]), neutral), axis=j)

        return te.compute(x.shape, at, name="T_cumulative")

    return ctx.te(node.op, compute, x)
