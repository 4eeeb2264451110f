"""What a small file may make of itself: sizes beyond these are refused before anything of that size is made."""

import math
from collections.abc import Sequence

import onnx

from .findings import Unsupported
from .types import item_size_bytes
from .values import AnyValue, Value

# A quarter of the memory of a small RK3399 board, for one tensor.
_MAX_TENSOR_BYTES = 1 << 28
# Tables are made in int64 or float64 and with a few copies: up to two hundred megabytes.
_MAX_TABLE_ELEMENTS = 1 << 22
_FREE_CONSTANT_BYTES = 64 << 20
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


class ConstantBudget:
    """Bytes of constants that nodes may compute while importing, all together: in proportion to the model's own."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._total = _FREE_CONSTANT_BYTES + _LARGEST_GROWTH * model.ByteSize()
        self._spent = 0

    def check(self, size_bytes: int) -> None:
        """Raises Unsupported if that much is not left."""
        if self._spent + size_bytes > self._total:
            what = f"computes {self._spent + size_bytes} bytes of constants with the nodes before"
            raise Unsupported(f"{what}; expected at most {self._total} for a model of this size")

    def spend(self, inputs: Sequence[AnyValue | None], results: Sequence[AnyValue | None]) -> None:
        """Count the constants among a node's results that are not only views of its inputs."""
        given = [v.data for v in inputs if isinstance(v, Value) and v.data is not None]
        for value in results:
            if isinstance(value, Value) and value.data is not None:
                data = value.data
                if not any(
                    data is g or data.base is g or (data.base is not None and data.base is g.base) for g in given
                ):
                    self.check(data.nbytes)
                    self._spent += data.nbytes
