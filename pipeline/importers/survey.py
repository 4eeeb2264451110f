"""What is in a model file and what of it this pipeline takes: everything at once, without compiling it."""

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from ..shapes import has_open_extent, resolve_shapes, shape_example, shape_text
from .findings import Finding, Unsupported
from .model import TensorInfo
from .onnx_check import check_model, needed_nodes, opset_of, real_inputs
from .onnx_import import cut_outputs, declared_shapes, prepare
from .onnx_read import read_model
from .tally import NodeTally
from .to_relax import to_relax
from .types import dtype_name, item_size_bytes


@dataclass(frozen=True, kw_only=True)
class Port:
    """An input or output. `shape` has the file's names for open extents, None for what it does not say."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True, kw_only=True)
class OperatorCount:
    """All nodes of one operator, `states` says how many of them ended how (see tally)."""

    operator: str
    nodes: int
    states: Mapping[str, int]
    multiply_adds: int


@dataclass(frozen=True, kw_only=True)
class Survey:
    """`parameters` are the numbers in weights and constants that are used. Without `findings` the model is taken.

    `layers` counts the operators of a file that is no ONNX; `operators` are those of the ONNX model that is made of it.
    """

    opset: int
    domains: Mapping[str, int]
    producer: str
    layers: Mapping[str, int]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    operators: tuple[OperatorCount, ...]
    parameters: int
    parameter_bytes: int
    findings: tuple[Finding, ...]

    @property
    def multiply_adds(self) -> int:
        return sum(o.multiply_adds for o in self.operators)


def survey_file(path: Path, *, shapes: Mapping[str, tuple[int, ...]], outputs: Sequence[str] | None) -> Survey:
    """Look through a model file. Raises ImportFailed for one that is none, ConfigError for wrong names or shapes."""
    from .mxnet import is_mxnet, survey_mxnet

    if not is_mxnet(path):
        return survey_onnx(path, shapes=shapes, outputs=outputs)
    loaded = survey_mxnet(path, shapes=shapes, outputs=outputs)
    layers = dict(sorted(Counter(loaded.operators).items()))
    found = survey_model(path, loaded.model, shapes={}, outputs=None)
    # What could not be converted is left out of the ONNX model, so what that lacks is no news.
    findings = loaded.findings or found.findings
    return replace(found, layers=layers, producer="MXNet", findings=findings)


def survey_onnx(path: Path, *, shapes: Mapping[str, tuple[int, ...]], outputs: Sequence[str] | None) -> Survey:
    """Look through an ONNX file. Raises ImportFailed for a file that is none, ConfigError for wrong names or shapes."""
    return survey_model(path, read_model(path), shapes=shapes, outputs=outputs)


def survey_model(
    path: Path, model: onnx.ModelProto, *, shapes: Mapping[str, tuple[int, ...]], outputs: Sequence[str] | None
) -> Survey:
    """The same for a model at hand, which is changed; `path` is what messages call it."""
    findings = check_model(model)
    cut_outputs(path, model, outputs)
    nodes, found = needed_nodes(model.graph, [o.name for o in model.graph.output])
    findings += found
    inputs = real_inputs(model.graph)
    declared = declared_shapes(inputs)
    unknown = [name for name in declared if name not in shapes and has_open_extent(declared[name])]
    static = resolve_shapes(str(path), {n: e for n, e in declared.items() if n not in unknown}, shapes)
    weights = _weights(model.graph, nodes)
    parameters = sum(_elements(t) for t in weights)
    parameter_bytes = sum(_elements(t) * _item_bytes(t) for t in weights)
    tallies = [NodeTally(operator=n.op_type) for n in nodes or model.graph.node]
    known = {v.name: Port(name=v.name, dtype=_dtype(v), shape=_shape(v)) for v in model.graph.output}
    if not findings:
        bound = tuple(
            TensorInfo(v.name, static[v.name], dtype_name(v.type.tensor_type.elem_type))
            for v in inputs
            if v.name in static
        )
        _, results, context = to_relax(prepare(model, nodes, bound), bound, unknown=unknown, trial=True)
        tallies, findings = context.tally.nodes, context.findings
        known |= {t.name: Port(name=t.name, dtype=t.dtype, shape=t.shape) for t in results}
    open_inputs = [_open_finding(name, declared[name]) for name in unknown]
    return Survey(
        opset=opset_of(model),
        domains={o.domain: o.version for o in model.opset_import if o.domain not in ("", "ai.onnx")},
        layers={},
        producer=" ".join(filter(None, [model.producer_name, model.producer_version])),
        inputs=tuple(Port(name=v.name, dtype=_dtype(v), shape=static.get(v.name, _shape(v))) for v in inputs),
        outputs=tuple(known[o.name] for o in model.graph.output),
        operators=_count(tallies),
        parameters=parameters,
        parameter_bytes=parameter_bytes,
        findings=(*findings, *open_inputs),
    )


def _weights(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> list[onnx.TensorProto]:
    """Initializers that nodes read, and tensors of Constant nodes, which some exporters write instead."""
    used = {name for node in nodes for name in node.input}
    constants = [a.t for n in nodes if n.op_type == "Constant" for a in n.attribute if a.name == "value"]
    return [*(t for t in graph.initializer if t.name in used), *constants]


def _count(tallies: Sequence[NodeTally]) -> tuple[OperatorCount, ...]:
    """By operator, the one with most multiply-adds first."""
    counts = []
    for operator in sorted({t.operator for t in tallies}):
        same = [t for t in tallies if t.operator == operator]
        counts.append(
            OperatorCount(
                operator=operator,
                nodes=len(same),
                states=dict(sorted(Counter(t.state for t in same).items())),
                multiply_adds=sum(t.multiply_adds for t in same),
            )
        )
    return tuple(sorted(counts, key=lambda c: (-c.multiply_adds, c.operator)))


def _open_finding(name: str, extents: Sequence[int | str | None] | None) -> Finding:
    return Finding(
        where=f"input {name!r}",
        text=f"shape is not static, got {shape_text(extents)}; expected positive integers",
        hint=f"give it, for example --shape {shlex.quote(shape_example(name, extents))}",
    )


def _dtype(value: onnx.ValueInfoProto) -> str:
    if not value.type.HasField("tensor_type"):
        return (value.type.WhichOneof("value") or "unknown").removesuffix("_type")
    try:
        name = dtype_name(value.type.tensor_type.elem_type)
    except Unsupported:
        return "unknown"
    return "string" if name == "object" else name


def _shape(value: onnx.ValueInfoProto) -> tuple[int | str | None, ...] | None:
    extents = declared_shapes([value])[value.name] if value.type.HasField("tensor_type") else None
    return None if extents is None else tuple(None if isinstance(e, int) and e < 1 else e for e in extents)


def _elements(tensor: onnx.TensorProto) -> int:
    return math.prod(max(d, 0) for d in tensor.dims)


def _item_bytes(tensor: onnx.TensorProto) -> int:
    try:
        return item_size_bytes(dtype_name(tensor.data_type))
    except Unsupported:
        return 0
