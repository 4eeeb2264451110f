"""What a name in an ONNX graph stands for while it is imported: always of known shape and type."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from tvm import relax

Shape: TypeAlias = tuple[int, ...]
# Arrays of any element type; what the element type is, is said by Value.dtype.
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True)
class Linear:
    """How a value was computed from constant weights, so that a following scale and shift can be folded into them.

    `emit(scale, shift)` computes the layer again with its C outputs multiplied and shifted (float64, shape (C,));
    `channel_axis` is where C lies in the value.
    """

    emit: "Callable[[Array, Array], Value]"
    channels: int
    channel_axis: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Value:
    """A tensor: either a constant (`data`) or something computed at run time (`expr`).

    `uses` counts who reads it; `linear` is set on results of layers with constant weights; `root` on what is only
    another shape of that expression.
    """

    shape: Shape
    dtype: str
    data: Array | None = None
    expr: relax.Expr | None = None
    uses: int = 0
    linear: Linear | None = None
    root: relax.Expr | None = None

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, kw_only=True, eq=False)
class SequenceValue:
    """A list of tensors whose length is known while importing."""

    items: tuple[Value, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True, eq=False)
class OptionalValue:
    """A value that is known, while importing, to be there or not."""

    item: "Value | SequenceValue | None"


AnyValue: TypeAlias = Value | SequenceValue | OptionalValue


def constant(array: Array | np.generic | float, dtype: str | None = None) -> Value:
    data = np.asarray(array) if dtype is None else np.asarray(array).astype(dtype)
    return Value(shape=tuple(int(d) for d in data.shape), dtype=str(data.dtype), data=data)


def is_float(dtype: str) -> bool:
    return dtype in ("float16", "float32", "float64")


def is_integer(dtype: str) -> bool:
    return dtype.startswith(("int", "uint"))


# What the runtime can hold. Anything else may only occur in constants that fold away.
RUNTIME_DTYPES = frozenset(
    ["float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"]
)
