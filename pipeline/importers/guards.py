"""Nodes that ONNX's own inference does not survive: it ends the process or never returns. Refused before it sees them.

Seen with onnx 1.23.2, found by damaging models.
"""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import onnx

from .findings import Unsupported
from .values import AnyValue, Value

_Guard: TypeAlias = Callable[[onnx.NodeProto, Sequence[AnyValue | None]], str | None]
_TERM = r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"{_TERM}(,{_TERM})*(->{_TERM})?")


def check(proto: onnx.NodeProto, inputs: Sequence[AnyValue | None]) -> None:
    """Raises Unsupported for such a node."""
    guard = _GUARDS.get(proto.op_type) if proto.domain in ("", "ai.onnx") else None
    problem = guard(proto, inputs) if guard is not None else None
    if problem is not None:
        raise Unsupported(f"not valid ONNX: {problem}")


def _split(proto: onnx.NodeProto, inputs: Sequence[AnyValue | None]) -> str | None:
    for attribute in proto.attribute:
        if attribute.name == "num_outputs" and attribute.i != len(proto.output):
            return f"has {len(proto.output)} outputs; expected num_outputs={attribute.i}"
    return None


def _gather_nd(proto: onnx.NodeProto, inputs: Sequence[AnyValue | None]) -> str | None:
    ranks = [v.rank for v in inputs if isinstance(v, Value)]
    for attribute in proto.attribute:
        if attribute.name == "batch_dims" and not 0 <= attribute.i < min(ranks, default=1):
            return f"batch_dims is out of range, got {attribute.i}; expected 0 to {min(ranks, default=1) - 1}"
    return None


def _einsum(proto: onnx.NodeProto, inputs: Sequence[AnyValue | None]) -> str | None:
    for attribute in proto.attribute:
        equation = attribute.s.decode(errors="replace")
        if attribute.name == "equation" and not _EQUATION.fullmatch(equation.replace(" ", "")):
            return f"equation cannot be read, got {equation[:80]!r}; expected one like ij,jk->ik"
    return None


_GUARDS: dict[str, _Guard] = {"Split": _split, "GatherND": _gather_nd, "Einsum": _einsum}
