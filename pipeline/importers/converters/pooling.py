"""Pooling: windows, whole images, unpooling."""

from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx

from ..findings import Unsupported
from ..limits import check_table_size
from ..node import Node
from ..registry import converts
from ..values import Array, Value, constant, is_float
from ..walk import Context
from ..windows import Window, read_kernel, read_window


def _window(node: Node, x: Value) -> Window:
    if not 3 <= x.rank <= 5:
        raise Unsupported(f"input has rank {x.rank}; expected 3, 4 or 5")
    return read_window(node, x.shape[2:], read_kernel(node, x.rank - 2))


def _reduce_windows(ctx: Context, name: str, padded: Value, window: Window, reducer: Any, *more: Value) -> Value:
    """`reducer(values, axes)` over each window of an input that is padded already."""
    shape = (*padded.shape[:2], *window.output)

    def compute(data: Any, *others: Any) -> Any:
        axes = [te.reduce_axis((0, k), name=f"k{i}") for i, k in enumerate(window.kernel)]

        def at(n: Any, c: Any, *o: Any) -> Any:
            where = [i * s + k * d for i, s, k, d in zip(o, window.strides, axes, window.dilations, strict=True)]
            return reducer((data, *others), (n, c, *o), (n, c, *where), axes)

        return te.compute(shape, at, name=f"T_{name}")

    return ctx.te(name, compute, padded, *more)


def _pad(ctx: Context, x: Value, window: Window, fill: float) -> Value:
    rank = len(window.kernel)
    return ctx.pad(x, [0, 0, *window.padding[:rank]], [0, 0, *window.padding[rank:]], fill)


def _lowest(dtype: str) -> float:
    return float("-inf") if is_float(dtype) else int(np.iinfo(dtype).min)


@converts("MaxPool")
def convert_max_pool(ctx: Context, node: Node) -> list[Value]:
    x = node.tensor(0)
    window = _window(node, x)
    if len(window.kernel) == 2 and not any(p >= k for p, k in zip(window.padding, window.kernel * 2, strict=True)):
        largest = ctx.emit(
            relax.op.nn.max_pool2d(ctx.expr(x), window.kernel, window.strides, window.padding, window.dilations)
        )
        if largest.shape[2:] != window.output:
            largest = ctx.slice(largest, [2, 3], [0, 0], window.output)
    else:
        largest = _reduce_windows(
            ctx,
            "max_pool",
            _pad(ctx, x, window, _lowest(x.dtype)),
            window,
            lambda data, out, at, axes: te.max(data[0](*at), axis=axes),
        )
    return [largest, _positions(ctx, node, x, largest, window)] if node.wants(1) else [largest]


def _positions(ctx: Context, node: Node, x: Value, largest: Value, window: Window) -> Value:
    """Flat position of each maximum in the whole input, the first one where several are equal."""
    spatial = x.shape[2:]
    check_table_size("a table of positions", *x.shape)
    image: Array = np.arange(int(np.prod(spatial)), dtype=np.int64)
    # Column major counts the first axis fastest.
    image = image.reshape(spatial[::-1]).T if node.attribute("storage_order", 0) else image.reshape(spatial)
    planes = np.arange(x.shape[0] * x.shape[1], dtype=np.int64).reshape(*x.shape[:2], *[1] * len(spatial))
    flat = constant(np.broadcast_to(planes * image.size + image, x.shape).copy())
    far = int(np.iinfo(np.int64).max)

    def first(data: Any, out: Any, at: Any, axes: Any) -> Any:
        values, positions, best = data
        hit = values(*at).equal(best(*out))
        return te.min(tirx.Select(hit, positions(*at), tirx.const(far, "int64")), axis=axes)

    padded = _pad(ctx, x, window, _lowest(x.dtype))
    return _reduce_windows(ctx, "max_pool_positions", padded, window, first, _pad(ctx, flat, window, far), largest)


@converts("AveragePool")
def convert_average_pool(ctx: Context, node: Node) -> Value:
    """What lies outside of the padded input never counts; padding counts only with count_include_pad."""
    x = node.tensor(0)
    window = _window(node, x)
    include = bool(node.attribute("count_include_pad", 0))
    plain = not any(window.extra) and all(d == 1 for d in window.dilations)
    if len(window.kernel) == 2 and plain and (include or not any(window.padding)):
        return ctx.emit(
            relax.op.nn.avg_pool2d(ctx.expr(x), window.kernel, window.strides, window.padding, count_include_pad=True)
        )
    wide = "float32" if x.dtype == "float16" else x.dtype
    total = _reduce_windows(
        ctx,
        "sum_pool",
        _pad(ctx, ctx.cast(x, wide), window, 0.0),
        window,
        lambda data, out, at, axes: te.sum(data[0](*at), axis=axes),
    )
    share = constant((1.0 / _counts(window, x.shape[2:], include)).astype(wide))
    return ctx.cast(ctx.mul(total, share), x.dtype)


def _counts(window: Window, spatial: tuple[int, ...], include: bool) -> Array:
    """How many elements of each window count, shape (1, 1, *output)."""
    check_table_size("a table of counts", *window.output)
    result = np.ones((1,) * (len(spatial) + 2))
    for axis, size in enumerate(spatial):
        check_table_size("a table of positions", window.output[axis], window.kernel[axis])
        low = 0 if include else window.before[axis]
        high = size + window.before[axis] + (window.after[axis] if include else 0)
        at = (
            np.arange(window.output[axis])[:, None] * window.strides[axis]
            + np.arange(window.kernel[axis])[None, :] * window.dilations[axis]
        )
        count = ((at >= low) & (at < high)).sum(1)
        result = result * count.reshape([-1 if a == axis + 2 else 1 for a in range(len(spatial) + 2)])
    return np.maximum(result, 1)


@converts("LpPool")
def convert_lp_pool(ctx: Context, node: Node) -> Value:
    x, power = node.tensor(0), float(node.attribute("p", 2))
    window = _window(node, x)
    raised = _raise(ctx, x, power)
    total = _reduce_windows(
        ctx,
        "sum_pool",
        _pad(ctx, raised, window, 0.0),
        window,
        lambda data, out, at, axes: te.sum(data[0](*at), axis=axes),
    )
    return _root(ctx, total, power)


def _raise(ctx: Context, x: Value, power: float) -> Value:
    if power == 2:
        return ctx.mul(x, x)
    size = ctx.unary("abs", x)
    return size if power == 1 else ctx.binary("power", size, ctx.scalar(power, x))


def _root(ctx: Context, x: Value, power: float) -> Value:
    if power == 1:
        return x
    return ctx.unary("sqrt", x) if power == 2 else ctx.binary("power", x, ctx.scalar(1.0 / power, x))


@converts("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def convert_global_pool(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    axes = list(range(2, x.rank))
    if node.op == "GlobalLpPool":
        power = float(node.attribute("p", 2))
        return _root(ctx, ctx.reduce("sum", _raise(ctx, x, power), axes, keepdims=True), power)
    return ctx.reduce("mean" if node.op == "GlobalAveragePool" else "max", x, axes, keepdims=True)


@converts("MaxUnpool")
def convert_max_unpool(ctx: Context, node: Node) -> Value:
    """Each output element takes the value whose index names it, else 0."""
    x, indices = node.tensor(0), node.tensor(1)
    rank = x.rank - 2
    kernel = read_kernel(node, rank)
    strides = node.ints("strides", [1] * rank) or [1] * rank
    pads = node.ints("pads", [0] * 2 * rank) or [0] * 2 * rank
    usual = [
        (i - 1) * s - pads[a] - pads[a + rank] + k
        for a, (i, s, k) in enumerate(zip(x.shape[2:], strides, kernel, strict=True))
    ]
    shape = node.integers(2, "output_shape") if node.has(2) else [*x.shape[:2], *usual]
    # Indices count in the output that the attributes give; output_shape may add room behind it.
    check_table_size("a table of positions", *x.shape[:2], *usual)
    flat = np.arange(int(np.prod([*x.shape[:2], *usual])), dtype=np.int64).reshape(*x.shape[:2], *usual)

    def compute(data: Any, index: Any, wanted: Any) -> Any:
        axes = [te.reduce_axis((0, d), name=f"k{i}") for i, d in enumerate(x.shape[2:])]

        def at(n: Any, c: Any, *o: Any) -> Any:
            hit = index(n, c, *axes).equal(wanted(n, c, *o))
            return te.sum(tirx.Select(hit, data(n, c, *axes), tvm.tirx.const(0, x.dtype)), axis=axes)

        return te.compute((*x.shape[:2], *usual), at, name="T_unpool")

    result = ctx.te("max_unpool", compute, x, ctx.cast(indices, "int64"), constant(flat))
    return ctx.pad(result, [0] * x.rank, [max(w - s, 0) for w, s in zip(shape, result.shape, strict=True)])
