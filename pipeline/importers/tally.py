"""What became of every node of a model while it was walked, and how many multiply-adds the nodes are."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import onnx

from .functions import attribute_values
from .values import AnyValue, Value

# Where a node ends: in kernels, among the constants, in a finding, or behind what is in a finding.
GPU, BUILD, REFUSED, UNREACHED = "gpu", "build", "refused", "unreached"
Values: TypeAlias = Sequence[AnyValue | None]


@dataclass(kw_only=True)
class NodeTally:
    """A node of the model's own graph; `multiply_adds` includes those of the nodes it stands for."""

    operator: str
    state: str = REFUSED
    multiply_adds: int = 0


class Tally:
    """Nodes in nodes (bodies of functions, branches, operators made of others) count for the outermost one."""

    def __init__(self) -> None:
        self.nodes: list[NodeTally] = []
        self._open: list[NodeTally] = []

    @contextmanager
    def node(self, proto: onnx.NodeProto) -> Iterator[NodeTally]:
        """Counts what is converted inside the block as part of this node."""
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        entry = NodeTally(operator=f"{domain}.{proto.op_type}" if domain else proto.op_type)
        if not self._open:
            self.nodes.append(entry)
        self._open.append(entry)
        try:
            yield entry
        finally:
            self._open.pop()
            if self._open:
                self._open[-1].multiply_adds += entry.multiply_adds

    def done(self, entry: NodeTally, proto: onnx.NodeProto, inputs: Values, results: Values) -> None:
        """The node was converted into these results."""
        if all(isinstance(r, Value) and r.is_constant for r in results if r is not None):
            entry.state = BUILD
            return
        entry.state = GPU
        entry.multiply_adds = entry.multiply_adds or _multiply_adds(proto, inputs, results)


def _multiply_adds(proto: onnx.NodeProto, inputs: Values, results: Values) -> int:
    """Products that are summed up, padding included; 0 for operators that are no sums of products."""
    shapes = [v.shape if isinstance(v, Value) else () for v in inputs]
    output = next((r.shape for r in results if isinstance(r, Value)), ())
    match proto.op_type:
        case "Conv" | "ConvInteger" | "DeformConv":
            return math.prod(output) * math.prod(shapes[1][1:])
        case "QLinearConv":
            return math.prod(output) * math.prod(shapes[3][1:])
        case "ConvTranspose":
            return math.prod(shapes[0]) * math.prod(shapes[1][1:])
        case "MatMul" | "MatMulInteger" | "QLinearMatMul":
            return math.prod(output) * shapes[0][-1]
        case "Gemm":
            return math.prod(output) * shapes[0][0 if attribute_values(proto).get("transA") else 1]
        case "RNN" | "GRU" | "LSTM":
            # x is (steps, batch, inputs), or (batch, steps, inputs): each step multiplies by all weights.
            return math.prod(shapes[0][:2]) * (math.prod(shapes[1]) + math.prod(shapes[2]))
        case "Einsum":
            return _einsum(next(a.s for a in proto.attribute).decode(), shapes, output)
    return 0


def _einsum(equation: str, shapes: Sequence[tuple[int, ...]], output: tuple[int, ...]) -> int:
    """Elements of the output times the extents of the letters that only inputs have."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    extents: dict[str, int] = {}
    for term, shape in zip(left.split(","), shapes, strict=True):
        head, dots, tail = term.partition("...")
        pairs = [*zip(head, shape, strict=False)]
        pairs += zip(reversed(tail), reversed(shape), strict=False) if dots else []
        for letter, extent in pairs:
            extents[letter] = max(extent, extents.get(letter, 1))
    kept = right if arrow else [c for c in extents if left.count(c) == 1]
    return math.prod(output) * math.prod(e for c, e in extents.items() if c not in kept)
