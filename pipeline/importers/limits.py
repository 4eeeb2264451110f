"""What a small file may make of itself: sizes beyond these are refused before anything of that size is made."""

import math
from collections.abc import Sequence

import numpy as np
import onnx

from .findings import Unsupported
from .types import item_size_bytes
from .values import AnyValue, Array, Value

# A quarter of the memory of a small RK3399 board, for one tensor.
_MAX_TENSOR_BYTES = 1 << 28
# Tables are made in int64 or float64 and with a few copies: up to two hundred megabytes.
_MAX_TABLE_ELEMENTS = 1 << 22
_FREE_CONSTANT_BYTES = 64 << 20
# A tensor of one value is kept as that value, and made only for models that are taken.
_MAX_UNIFORM_BYTES = 1 << 29
# int4 weights become float32.
_LARGEST_GROWTH = 8


def check_tensor_size(what: str, shape: Sequence[int], dtype: str) -> None:
    """Raises Unsupported for a tensor that no board could hold beside others."""
    size_bytes = math.prod(shape) * item_size_bytes(dtype)
    if size_bytes > _MAX_TENSOR_BYTES:
        raise Unsupported(
            f"{what} of shape {tuple(shape)} is too large, got {size_bytes} bytes; expected at most 256 MiB"
        )


def check_table_size(what: str, *extents: int) -> None:
    """Raises Unsupported for a table of positions or factors that is too large to be made while importing."""
    if math.prod(extents) > _MAX_TABLE_ELEMENTS:
        sizes = " x ".join(map(str, extents))
        raise Unsupported(f"needs {what} of {sizes} elements; expected at most {_MAX_TABLE_ELEMENTS}")


def weights_bytes(graph: onnx.GraphProto) -> int:
    """Bytes of all weights, initializers and Constant nodes. The message's own ByteSize would copy all of it."""
    constants = [a.t for n in graph.node if n.op_type == "Constant" for a in n.attribute if a.name == "value"]
    return sum(len(t.raw_data) or t.ByteSize() for t in [*graph.initializer, *constants])


class ConstantBudget:
    """Bytes of constants that nodes may compute while importing, all together: in proportion to the model's own."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._total = _FREE_CONSTANT_BYTES + _LARGEST_GROWTH * weights_bytes(model.graph)
        self._spent = 0

    def check(self, size_bytes: int) -> None:
        """Raises Unsupported if that much is not left."""
        if self._spent + size_bytes > self._total:
            what = f"computes {self._spent + size_bytes} bytes of constants with the nodes before"
            raise Unsupported(f"{what}; expected at most {self._total} for a model of this size")

    def spend(self, inputs: Sequence[AnyValue | None], results: Sequence[AnyValue | None]) -> None:
        """Count the constants among a node's results that take memory of their own."""
        given = [v.data for v in inputs if isinstance(v, Value) and v.data is not None]
        for value in results:
            data = value.data if isinstance(value, Value) else None
            if data is None or not any(data.strides) or any(_share(data, g) for g in given):
                continue
            self.check(data.nbytes)
            self._spent += data.nbytes


def _share(a: Array, b: Array) -> bool:
    """Whether one is a view of the other, or both are views of a third."""
    return a is b or a.base is b or (a.base is not None and a.base is b.base)


def uniform(value: Array, shape: Sequence[int]) -> Array:
    """A tensor of one value, which takes no memory. Raises Unsupported for what no model would have as a weight."""
    size_bytes = math.prod(shape) * value.itemsize
    if min(shape, default=0) < 0 or size_bytes > _MAX_UNIFORM_BYTES:
        raise Unsupported(f"makes a constant of shape {list(shape)}; expected at most {_MAX_UNIFORM_BYTES} bytes")
    return np.broadcast_to(value.reshape(()), tuple(shape))
