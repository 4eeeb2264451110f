"""One operator with its inputs looked up, as converters see it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from .findings import CUT_HINT, Unsupported
from .values import AnyValue, Array, SequenceValue, Value


@dataclass(frozen=True, kw_only=True)
class Node:
    """`version` is the opset that gives the operator its meaning; attributes left out are absent from `attributes`."""

    op: str
    domain: str
    version: int
    name: str
    inputs: tuple[AnyValue | None, ...]
    output_names: tuple[str, ...]
    attributes: dict[str, Any]
    proto: onnx.NodeProto

    @property
    def where(self) -> str:
        return f"node {self.name!r} ({self.op})"

    def attribute(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def text(self, name: str, default: str) -> str:
        value = self.attributes.get(name, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def wants(self, index: int) -> bool:
        """Whether somebody gave the output a name."""
        return index < len(self.output_names) and self.output_names[index] != ""

    def tensor(self, index: int) -> Value:
        """Input `index`, which must be there and a tensor."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, Value):
            got = "nothing" if value is None else "a sequence or optional"
            raise Unsupported(f"input {index} must be a tensor, got {got}")
        return value

    def optional(self, index: int) -> Value | None:
        return self.tensor(index) if self.has(index) else None

    def tensors(self) -> list[Value]:
        return [self.tensor(i) for i in range(len(self.inputs))]

    def sequence(self, index: int) -> SequenceValue:
        value = self.inputs[index]
        if not isinstance(value, SequenceValue):
            raise Unsupported(f"input {index} must be a sequence")
        return value

    def constant(self, index: int, what: str) -> Array:
        """Input `index` as numbers known while importing; `what` names it for the user."""
        data = self.tensor(index).data
        if data is None:
            raise Unsupported(
                f"{what} is computed at run time; only a constant is supported",
                hint=f"export the model with fixed shapes, or {CUT_HINT}",
            )
        return data

    def integers(self, index: int, what: str) -> list[int]:
        return [int(v) for v in self.constant(index, what).reshape(-1)]

    def ints(self, name: str, default: Sequence[int] | None = None) -> list[int] | None:
        """A list attribute, or `default`."""
        value = self.attributes.get(name, default)
        return None if value is None else [int(v) for v in value]

    def axes(self, rank: int, *, input_index: int | None = None, attribute: str = "axes") -> list[int] | None:
        """Axes given by attribute or by input, made non-negative and checked; None when left out."""
        given = self.ints(attribute)
        if given is None and input_index is not None and self.has(input_index):
            given = self.integers(input_index, "axes")
        return None if given is None else [normal_axis(a, rank) for a in given]


def normal_axis(axis: int, rank: int) -> int:
    if not -rank <= axis < max(rank, 1):
        raise Unsupported(f"axis out of range, got {axis}; expected {-rank} to {rank - 1}")
    return axis + rank if axis < 0 else axis
