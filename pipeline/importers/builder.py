"""Small steps that converters are made of: constants are computed at once, the rest goes into the Relax function."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from .findings import Unsupported
from .limits import check_table_size
from .values import RUNTIME_DTYPES, Array, Shape, Value, constant, is_float, is_integer

_BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "power": np.power,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}

_SMALL_CONSTANT_BYTES = 1 << 12


class Builder:
    """Emits into one Relax BlockBuilder. All shapes are static; a mismatch raises Unsupported."""

    def __init__(self, block: relax.BlockBuilder, *, trial: bool = False) -> None:
        """In a `trial` large constants become variables: what is emitted says only whether all of it can be."""
        self._block = block
        self._trial = trial

    # Moving between values and expressions

    def expr(self, value: Value) -> relax.Expr:
        if value.data is not None and value.dtype not in RUNTIME_DTYPES:
            raise Unsupported(f"needs a constant of type {value.dtype}, which the runtime does not have")
        if value.data is not None and self._trial and value.data.nbytes > _SMALL_CONSTANT_BYTES:
            return relax.Var("constant", relax.TensorType(value.shape, value.dtype))
        if value.data is not None:
            return relax.const(np.ascontiguousarray(value.data).reshape(value.shape), value.dtype)
        return value.expr

    def emit(self, expr: relax.Expr) -> Value:
        """Bind an expression; a result without elements is a constant."""
        return self._value(self._block.emit(expr))

    def tuple_of(self, expr: relax.Expr, count: int) -> list[Value]:
        bound = self._block.emit(expr)
        return [self.emit(relax.TupleGetItem(bound, i)) for i in range(count)]

    def te(self, name: str, compute: Callable[..., Any], *values: Value) -> Value:
        """`compute` maps te tensors to one te tensor; `name` becomes the kernel's."""
        return self._value(
            self._block.emit_te(compute, *(self.expr(v) for v in values), primfunc_name_hint=name.lower())
        )

    def _value(self, var: relax.Var) -> Value:
        shape = tuple(int(d) for d in var.ty.shape)
        dtype = str(var.ty.dtype)
        if 0 in shape:
            return constant(np.zeros(shape, dtype))
        return Value(shape=shape, dtype=dtype, expr=var)

    # Elementwise

    def binary(self, op: str, a: Value, b: Value) -> Value:
        shape = broadcast_shape(a.shape, b.shape)
        if a.dtype != b.dtype:
            raise Unsupported(f"inputs have different types, got {a.dtype} and {b.dtype}")
        if a.data is not None and b.data is not None:
            with np.errstate(all="ignore"):
                return constant(np.asarray(_BINARY[op](a.data, b.data)))
        if 0 in shape:
            return constant(np.zeros(shape, np.asarray(_BINARY[op](np.ones(1, a.dtype), np.ones(1, b.dtype))).dtype))
        return self.emit(getattr(relax.op, op)(self.expr(a), self.expr(b)))

    def add(self, a: Value, b: Value) -> Value:
        return self.binary("add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        return self.binary("subtract", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        return self.binary("multiply", a, b)

    def div(self, a: Value, b: Value) -> Value:
        """Division as ONNX has it: integers are rounded towards zero."""
        shape = broadcast_shape(a.shape, b.shape)
        if not is_integer(a.dtype):
            if a.data is not None and b.data is not None:
                with np.errstate(all="ignore"):
                    return constant(np.divide(a.data, b.data))
            return self.emit(relax.op.divide(self.expr(a), self.expr(b)))
        at, bt = self.broadcast(a, shape), self.broadcast(b, shape)
        return self.elementwise("divide", tvm.tirx.truncdiv, at, bt)

    def elementwise(self, name: str, body: Callable[..., Any], *values: Value) -> Value:
        """One expression per element over inputs of equal shape; `body` works on TIR scalars."""

        def compute(*tensors: Any) -> Any:
            return tvm.te.compute(tensors[0].shape, lambda *i: body(*(t(*i) for t in tensors)), name=f"T_{name}")

        return self.te(name, compute, *values)

    def unary(self, op: str, a: Value) -> Value:
        return self.emit(getattr(relax.op, op)(self.expr(a)))

    def scalar(self, x: float, like: Value) -> Value:
        return constant(x, like.dtype)

    def cast(self, a: Value, dtype: str) -> Value:
        if a.dtype == dtype:
            return a
        if a.data is not None:
            with np.errstate(all="ignore"):
                return constant(a.data, dtype)
        if dtype == "bool":
            return self.binary("not_equal", a, self.scalar(0, a))
        return self.emit(relax.op.astype(self.expr(a), dtype))

    def where(self, condition: Value, a: Value, b: Value) -> Value:
        if a.dtype != b.dtype:
            raise Unsupported(f"inputs have different types, got {a.dtype} and {b.dtype}")
        shape = broadcast_shape(broadcast_shape(condition.shape, a.shape), b.shape)
        if condition.data is not None and a.data is not None and b.data is not None:
            return constant(np.where(condition.data, a.data, b.data))
        if condition.data is not None and condition.data.size and bool(condition.data.all()):
            return self.broadcast(a, shape)
        if condition.data is not None and condition.data.size and not condition.data.any():
            return self.broadcast(b, shape)
        return self.emit(relax.op.where(self.expr(condition), self.expr(a), self.expr(b)))

    # Layout

    def reshape(self, a: Value, shape: Sequence[int]) -> Value:
        wanted = tuple(int(d) for d in shape)
        if int(np.prod(wanted, dtype=np.int64)) != a.size:
            raise Unsupported(f"cannot reshape {a.shape} to {wanted}: {a.size} elements do not fit")
        if wanted == a.shape:
            return a
        if a.data is not None:
            return constant(a.data.reshape(wanted))
        result = self.emit(relax.op.reshape(self.expr(a), wanted))
        return Value(shape=wanted, dtype=a.dtype, expr=result.expr, root=a.root if a.root is not None else a.expr)

    def transpose(self, a: Value, permutation: Sequence[int]) -> Value:
        axes = [int(p) for p in permutation]
        if axes == list(range(a.rank)):
            return a
        if a.data is not None:
            return constant(np.transpose(a.data, axes))
        return self.emit(relax.op.permute_dims(self.expr(a), axes))

    def broadcast(self, a: Value, shape: Sequence[int]) -> Value:
        wanted = tuple(int(d) for d in shape)
        if wanted == a.shape:
            return a
        if broadcast_shape(a.shape, wanted) != wanted:
            raise Unsupported(f"cannot broadcast {a.shape} to {wanted}")
        if a.data is not None:
            check_table_size("a constant", *wanted)
            return constant(np.broadcast_to(a.data, wanted).copy())
        if 0 in wanted:
            return constant(np.zeros(wanted, a.dtype))
        return self.emit(relax.op.broadcast_to(self.expr(a), wanted))

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        dtypes = {v.dtype for v in values}
        if len(dtypes) != 1:
            raise Unsupported(f"inputs have different types, got {', '.join(sorted(dtypes))}")
        if all(v.data is not None for v in values):
            return constant(np.concatenate([v.data for v in values if v.data is not None], axis))
        full = [v for v in values if v.size]
        if len(full) == 1:
            return full[0]
        return self.emit(relax.op.concat([self.expr(v) for v in full], axis))

    def slice(self, a: Value, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> Value:
        """Bounds within the tensor, step 1, axes not negative."""
        if all(s == 0 and e == a.shape[x] for x, s, e in zip(axes, starts, ends, strict=True)):
            return a
        if a.data is not None:
            index: list[slice] = [slice(None)] * a.rank
            for x, s, e in zip(axes, starts, ends, strict=True):
                index[x] = slice(s, e)
            return constant(a.data[tuple(index)])
        if any(e <= s for s, e in zip(starts, ends, strict=True)):
            shape = list(a.shape)
            for x, s, e in zip(axes, starts, ends, strict=True):
                shape[x] = max(e - s, 0)
            return constant(np.zeros(shape, a.dtype))
        return self.emit(relax.op.strided_slice(self.expr(a), list(axes), list(starts), list(ends)))

    def pad(self, a: Value, before: Sequence[int], after: Sequence[int], fill: float = 0.0) -> Value:
        """Constant padding by amounts that are not negative."""
        if not any(before) and not any(after):
            return a
        if a.data is not None:
            return constant(np.pad(a.data, list(zip(before, after, strict=True)), constant_values=fill))
        widths = [int(w) for pair in zip(before, after, strict=True) for w in pair]
        if fill == 0.0:
            return self.emit(relax.op.nn.pad(self.expr(a), widths))
        value = tvm.tirx.const(np.asarray(fill).astype(a.dtype).item(), a.dtype)
        return self.te("pad", lambda t: tvm.topi.nn.pad(t, list(before), list(after), value), a)

    # Reductions and products

    def reduce(self, op: str, a: Value, axes: Sequence[int], *, keepdims: bool) -> Value:
        """`op` is sum, mean, max, min or prod; `axes` are not negative."""
        if not axes:
            return a
        if op in ("max", "min") and is_float(a.dtype):
            return self._extreme(op, a, axes, keepdims=keepdims)
        return self.emit(getattr(relax.op, op)(self.expr(a), list(axes), keepdims=keepdims))

    def _extreme(self, op: str, a: Value, axes: Sequence[int], *, keepdims: bool) -> Value:
        """TVM's own reductions start from the largest finite number, so that an infinity would get lost."""
        combine = tvm.tirx.max if op == "max" else tvm.tirx.min
        start = float("-inf") if op == "max" else float("inf")
        reducer = tvm.te.comm_reducer(lambda x, y: combine(x, y), lambda t: tvm.tirx.const(start, t), name=op)
        shape = [1 if x in axes else d for x, d in enumerate(a.shape)]

        def compute(data: Any) -> Any:
            reduced = {x: tvm.te.reduce_axis((0, a.shape[x]), name=f"k{x}") for x in axes}

            def at(*i: Any) -> Any:
                return reducer(data(*(reduced.get(x, v) for x, v in enumerate(i))), axis=list(reduced.values()))

            return tvm.te.compute(shape, at, name=f"T_{op}")

        result = self.te(f"reduce_{op}", compute, a)
        return result if keepdims else self.reshape(result, [d for x, d in enumerate(a.shape) if x not in axes])

    def matmul(self, a: Value, b: Value) -> Value:
        if a.data is not None and b.data is not None:
            return constant(np.matmul(a.data, b.data))
        if a.dtype == "float16":
            wide = self.emit(relax.op.matmul(self.expr(a), self.expr(b), out_dtype="float32"))
            return self.cast(wide, "float16")
        return self.emit(relax.op.matmul(self.expr(a), self.expr(b)))

    def stack(self, values: Sequence[Value], axis: int) -> Value:
        return self.concat([self.reshape(v, (*v.shape[:axis], 1, *v.shape[axis:])) for v in values], axis)

    def copy(self, a: Value) -> Value:
        """The same numbers in a tensor of their own."""
        if 0 in a.shape:
            empty = self._block.emit(relax.op.zeros(a.shape, a.dtype))
            return Value(shape=a.shape, dtype=a.dtype, expr=empty)
        return self.te("copy", tvm.topi.identity, a)

    def take(self, a: Value, axis: int, indices: Array) -> Value:
        """Elements at constant, non-negative positions along an axis; the axis becomes `indices.shape`."""
        flat = indices.reshape(-1)
        shape = (*a.shape[:axis], *indices.shape, *a.shape[axis + 1 :])
        if a.data is not None:
            return constant(np.take(a.data, indices, axis))
        if flat.size and bool((np.diff(flat) == 1).all()):
            return self.reshape(self.slice(a, [axis], [int(flat[0])], [int(flat[-1]) + 1]), shape)
        if 0 in shape:
            return constant(np.zeros(shape, a.dtype))
        rank = indices.ndim

        def compute(data: Any, index: Any) -> Any:
            return tvm.te.compute(
                shape, lambda *i: data(*i[:axis], index(*i[axis : axis + rank]), *i[axis + rank :]), name="T_take"
            )

        return self.te("take", compute, a, constant(indices.astype("int32")))


def broadcast_shape(a: Shape, b: Shape) -> Shape:
    """Numpy's rule; raises Unsupported where shapes do not fit."""
    try:
        return tuple(int(d) for d in np.broadcast_shapes(a, b))
    except ValueError as e:
        raise Unsupported(f"shapes do not broadcast, got {a} and {b}") from e
