"""Gathering and scattering. Negative indices count from the end; others outside are refused, or clamped at run time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import te, tirx

from ..findings import Unsupported
from ..limits import check_table_size
from ..node import Node, normal_axis
from ..registry import converts
from ..values import Array, Value, constant
from ..walk import Context


def _checked(indices: Array, length: int) -> Array:
    """Constant indices made non-negative."""
    wide = indices.astype(np.int64)
    if wide.size and (int(wide.min()) < -length or int(wide.max()) >= length):
        wrong = int(wide.min()) if int(wide.min()) < -length else int(wide.max())
        raise Unsupported(f"index out of range, got {wrong}; expected {-length} to {length - 1}")
    return np.where(wide < 0, wide + length, wide)


def _inside(ctx: Context, indices: Value, length: int) -> Value:
    """Indices made non-negative; at run time clamped into the axis, so that nothing outside is ever read."""
    if indices.data is not None:
        return constant(_checked(indices.data, length))

    def body(i: Any) -> Any:
        wide = i.astype("int64")
        shifted = tirx.Select(wide < 0, wide + length, wide)
        return tirx.max(tirx.min(shifted, tirx.const(length - 1, "int64")), tirx.const(0, "int64"))

    return ctx.elementwise("indices", body, indices)


@converts("Gather")
def convert_gather(ctx: Context, node: Node) -> Value:
    x, indices = node.tensor(0), node.tensor(1)
    axis = normal_axis(node.attribute("axis", 0), x.rank)
    if indices.data is not None:
        return ctx.take(x, axis, _checked(indices.data, x.shape[axis]))
    inside = _inside(ctx, indices, x.shape[axis])
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])

    def compute(data: Any, index: Any) -> Any:
        end = axis + indices.rank
        return te.compute(shape, lambda *i: data(*i[:axis], index(*i[axis:end]), *i[end:]), name="T_gather")

    return ctx.te("gather", compute, x, inside)


@converts("GatherElements")
def convert_gather_elements(ctx: Context, node: Node) -> Value:
    x, indices = node.tensor(0), node.tensor(1)
    axis = normal_axis(node.attribute("axis", 0), x.rank)
    inside = _inside(ctx, indices, x.shape[axis])

    def compute(data: Any, index: Any) -> Any:
        return te.compute(
            indices.shape, lambda *i: data(*i[:axis], index(*i), *i[axis + 1 :]), name="T_gather_elements"
        )

    return ctx.te("gather_elements", compute, x, inside)


def _tuples(ctx: Context, indices: Value, shape: Sequence[int]) -> Value:
    """Index tuples in the last axis, made non-negative per axis of `shape`."""
    if indices.data is not None:
        columns = [_checked(indices.data[..., i], d) for i, d in enumerate(shape)]
        return constant(np.stack(columns, -1))
    parts = []
    for i, d in enumerate(shape):
        column = ctx.slice(indices, [indices.rank - 1], [i], [i + 1])
        parts.append(_inside(ctx, column, d))
    return ctx.concat(parts, indices.rank - 1)


@converts("GatherND")
def convert_gather_nd(ctx: Context, node: Node) -> Value:
    x, indices, batch = node.tensor(0), node.tensor(1), node.attribute("batch_dims", 0)
    depth = indices.shape[-1]
    if not 0 < depth <= x.rank - batch:
        raise Unsupported(f"index tuples have {depth} numbers; expected 1 to {x.rank - batch}")
    inside = _tuples(ctx, indices, x.shape[batch : batch + depth])
    outer = indices.rank - 1
    shape = (*indices.shape[:-1], *x.shape[batch + depth :])

    def compute(data: Any, index: Any) -> Any:
        def at(*i: Any) -> Any:
            return data(*i[:batch], *(index(*i[:outer], d) for d in range(depth)), *i[outer:])

        return te.compute(shape, at, name="T_gather_nd")

    return ctx.te("gather_nd", compute, x, inside)


_REDUCERS = {
    "add": te.sum,
    "mul": te.comm_reducer(lambda a, b: a * b, lambda t: tirx.const(1, t), name="product"),
    "max": te.max,
    "min": te.min,
}


def _neutral(kind: str, dtype: str) -> Any:
    if kind in ("add", "mul"):
        return tirx.const(0 if kind == "add" else 1, dtype)
    return tirx.min_value(dtype) if kind == "max" else tirx.max_value(dtype)


def _scatter(
    ctx: Context,
    name: str,
    kind: str,
    x: Value,
    sources: Sequence[Value],
    extents: Sequence[int],
    hit: Any,
    update: Any,
) -> Value:
    """Each output element looks for the updates that name it: `hit(tensors, out, k)` says so, `update(tensors, out, k)`
    is the value, k runs over `extents`. Without a reduction the last one in C order wins."""

    def axes() -> list[Any]:
        return [te.reduce_axis((0, e), name=f"k{i}") for i, e in enumerate(extents)]

    if kind != "none":
        reducer = _REDUCERS[kind]

        def gathered(*tensors: Any) -> Any:
            k = axes()

            def at(*i: Any) -> Any:
                value = tirx.if_then_else(hit(tensors, i, k), update(tensors, i, k), _neutral(kind, x.dtype))
                return reducer(value, axis=k)

            return te.compute(x.shape, at, name=f"T_{name}_{kind}")

        total = ctx.te(name, gathered, *sources)
        if kind in ("max", "min"):
            return ctx.binary("maximum" if kind == "max" else "minimum", x, total)
        return ctx.add(x, total) if kind == "add" else ctx.mul(x, total)

    def last(*tensors: Any) -> Any:
        k = axes()

        def at(*i: Any) -> Any:
            flat: Any = tirx.const(0, "int64")
            for axis, extent in zip(k, extents, strict=True):
                flat = flat * extent + axis.var.astype("int64")
            return te.max(tirx.Select(hit(tensors, i, k), flat, tirx.const(-1, "int64")), axis=k)

        return te.compute(x.shape, at, name=f"T_{name}_source")

    found = ctx.te(f"{name}_source", last, *sources)

    def chosen(data: Any, source: Any, *tensors: Any) -> Any:
        def at(*i: Any) -> Any:
            rest = tirx.max(source(*i), tirx.const(0, "int64"))
            k: list[Any] = []
            for extent in reversed(extents):
                k.insert(0, tirx.truncmod(rest, tirx.const(extent, "int64")))
                rest = tirx.truncdiv(rest, tirx.const(extent, "int64"))
            return tirx.if_then_else(source(*i) >= 0, update(tensors, i, k), data(*i))

        return te.compute(x.shape, at, name=f"T_{name}")

    return ctx.te(name, chosen, x, found, *sources)


def _reduction(node: Node) -> str:
    kind = node.text("reduction", "none")
    if kind not in ("none", *_REDUCERS):
        raise Unsupported(f"reduction is unknown, got {kind!r}; expected none, {', '.join(_REDUCERS)}")
    return kind


@converts("Scatter", "ScatterElements")
def convert_scatter_elements(ctx: Context, node: Node) -> Value:
    x, indices, updates = node.tensor(0), node.tensor(1), node.tensor(2)
    if not indices.size:
        return x
    axis = normal_axis(node.attribute("axis", 0), x.rank)
    inside = _inside(ctx, indices, x.shape[axis])
    bounds = [(a, d) for a, d in enumerate(indices.shape) if a != axis and d < x.shape[a]]

    def where(i: Sequence[Any], k: Sequence[Any]) -> list[Any]:
        # Elsewhere than along `axis` an element is only reached from its own position, clamped where there is none.
        return [
            k[0] if a == axis else tirx.min(v, d - 1) for a, (v, d) in enumerate(zip(i, indices.shape, strict=True))
        ]

    def hit(tensors: Any, i: Sequence[Any], k: Sequence[Any]) -> Any:
        conditions = [tensors[0](*where(i, k)).equal(i[axis]), *(i[a] < d for a, d in bounds)]
        return tirx.all(*conditions)

    return _scatter(
        ctx,
        "scatter_elements",
        _reduction(node),
        x,
        [inside, updates],
        [indices.shape[axis]],
        hit,
        lambda tensors, i, k: tensors[1](*where(i, k)),
    )


@converts("ScatterND")
def convert_scatter_nd(ctx: Context, node: Node) -> Value:
    x, indices, updates = node.tensor(0), node.tensor(1), node.tensor(2)
    depth, outer = indices.shape[-1], indices.rank - 1
    if not indices.size:
        return x
    if updates.shape != (*indices.shape[:-1], *x.shape[depth:]):
        raise Unsupported(f"updates have shape {updates.shape}; expected {(*indices.shape[:-1], *x.shape[depth:])}")
    inside = _tuples(ctx, indices, x.shape[:depth])
    kind = _reduction(node)
    if kind == "none" and inside.data is not None:
        return _scatter_known(ctx, x, inside.data, updates, depth)

    def hit(tensors: Any, i: Sequence[Any], k: Sequence[Any]) -> Any:
        return tirx.all(*(tensors[0](*k, d).equal(i[d]) for d in range(depth)))

    return _scatter(
        ctx,
        "scatter_nd",
        kind,
        x,
        [inside, updates],
        indices.shape[:outer],
        hit,
        lambda tensors, i, k: tensors[1](*k, *i[depth:]),
    )


def _scatter_known(ctx: Context, x: Value, indices: Array, updates: Value, depth: int) -> Value:
    """With constant indices it is known which update each slice takes, or that it keeps its data."""
    check_table_size("a table of positions", *x.shape[:depth])
    source = np.full(x.shape[:depth], -1, np.int32)
    flat = indices.reshape(-1, depth)
    for row, position in enumerate(flat):
        source[tuple(position)] = row
    rows = ctx.reshape(updates, (len(flat), *x.shape[depth:]))

    def compute(data: Any, where: Any, update: Any) -> Any:
        def at(*i: Any) -> Any:
            row = where(*i[:depth])
            return tirx.if_then_else(row >= 0, update(tirx.max(row, 0), *i[depth:]), data(*i))

        return te.compute(x.shape, at, name="T_scatter_nd")

    return ctx.te("scatter_nd", compute, x, constant(source), rows)


@converts("OneHot")
def convert_one_hot(ctx: Context, node: Node) -> Value:
    indices, values = node.tensor(0), node.tensor(2)
    depth = int(node.constant(1, "depth").reshape(-1)[0])
    axis = normal_axis(node.attribute("axis", -1), indices.rank + 1)
    wide = ctx.cast(indices, "int64")
    negative = ctx.binary("less", wide, constant(np.int64(0)))
    wide = ctx.where(negative, ctx.add(wide, constant(np.int64(depth))), wide)
    wide = ctx.reshape(wide, (*indices.shape[:axis], 1, *indices.shape[axis:]))
    check_table_size("a table of positions", depth)
    order = np.arange(depth).reshape([-1 if a == axis else 1 for a in range(wide.rank)])
    hit = ctx.binary("equal", wide, constant(order, "int64"))
    off, on = ctx.take(values, 0, np.asarray(0)), ctx.take(values, 0, np.asarray(1))
    return ctx.where(hit, on, off)


@converts("Compress")
def convert_compress(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    keep = np.flatnonzero(node.constant(1, "the condition"))
    if "axis" not in node.attributes:
        x, axis = ctx.reshape(x, (x.size,)), 0
    else:
        axis = normal_axis(node.attributes["axis"], x.rank)
    if keep.size and int(keep.max()) >= x.shape[axis]:
        raise Unsupported(f"the condition keeps element {int(keep.max())} of an axis of {x.shape[axis]}")
    return ctx.take(x, axis, keep)


@converts("TensorScatter")
def convert_tensor_scatter(ctx: Context, node: Node) -> Value:
    """Writes a stretch of `update` into the cache, per batch from write_indices on, wrapping around when circular."""
    x, update, start = node.tensor(0), node.tensor(1), node.optional(2)
    axis = normal_axis(node.attribute("axis", -2), x.rank)
    circular, length, count = node.text("mode", "linear") == "circular", x.shape[axis], update.shape[axis]
    first = start if start is not None else constant(np.zeros(x.shape[0], np.int64))

    def compute(data: Any, new: Any, begin: Any) -> Any:
        def at(*i: Any) -> Any:
            offset = i[axis].astype("int64") - begin(i[0]).astype("int64")
            if circular:
                offset = tirx.Select(offset < 0, offset + length, offset)
            inside = tirx.all(offset >= 0, offset < count)
            where = tirx.max(tirx.min(offset, tirx.const(count - 1, "int64")), tirx.const(0, "int64"))
            return tirx.if_then_else(inside, new(*i[:axis], where, *i[axis + 1 :]), data(*i))

        return te.compute(x.shape, at, name="T_tensor_scatter")

    return ctx.te("tensor_scatter", compute, x, update, first)
