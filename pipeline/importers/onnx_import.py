"""ONNX file to Relax, in stages: read, check, bind shapes, walk the graph."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import helper

from .. import files
from ..errors import ConfigError
from ..shapes import resolve_shapes
from .findings import raise_findings
from .limits import weights_bytes
from .model import ImportedModel, TensorInfo
from .onnx_check import check_model, needed_nodes, opset_of, real_inputs
from .onnx_read import read_model
from .to_relax import to_relax
from .types import dtype_name, element_type

_LARGE_BYTES = 64 << 20


def import_onnx(
    path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None, outputs: Sequence[str] | None = None
) -> ImportedModel:
    """Read a model for the compiler.

    `shapes` gives inputs that the model leaves open; `outputs` cuts the model at these tensors. Raises ImportFailed
    with everything that is wrong or not supported, by node name, and ConfigError for names and shapes that do not fit.
    """
    return import_read(path, read_model(path), shapes=shapes, outputs=outputs, sha256=files.sha256(path))


def import_read(
    path: Path,
    model: onnx.ModelProto,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    outputs: Sequence[str] | None = None,
    sha256: str,
) -> ImportedModel:
    """The same for a model at hand, which is changed; `path` is what messages call it."""
    bound = bind(path, model, shapes=shapes or {}, outputs=outputs)
    prepared, inputs = bound.model, bound.inputs
    if weights_bytes(prepared.graph) > _LARGE_BYTES or any(n.op_type == "ConstantOfShape" for n in prepared.graph.node):
        # So a model that is refused never needs more memory than the file twice: while it is read.
        raise_findings(path, to_relax(prepared, inputs, trial=True)[2].findings)
    mod, results, context = to_relax(prepared, inputs)
    raise_findings(path, context.findings)
    del prepared.graph.output[:]
    prepared.graph.output.extend(helper.make_tensor_value_info(t.name, element_type(t.dtype), t.shape) for t in results)
    return ImportedModel(
        mod=mod, inputs=inputs, outputs=results, model=prepared, opset=opset_of(prepared), sha256=sha256
    )


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A checked model with static inputs and only the nodes that its outputs need."""

    model: onnx.ModelProto
    inputs: tuple[TensorInfo, ...]


def bind(
    path: Path, model: onnx.ModelProto, *, shapes: Mapping[str, tuple[int, ...]], outputs: Sequence[str] | None
) -> Bound:
    """Check, cut and give shapes to a model, which is changed. Raises ImportFailed and ConfigError."""
    raise_findings(path, check_model(model))
    cut_outputs(path, model, outputs)
    nodes, findings = needed_nodes(model.graph, [o.name for o in model.graph.output])
    raise_findings(path, findings)
    inputs = real_inputs(model.graph)
    static = resolve_shapes(str(path), declared_shapes(inputs), shapes)
    bound = tuple(TensorInfo(v.name, static[v.name], dtype_name(v.type.tensor_type.elem_type)) for v in inputs)
    return Bound(model=prepare(model, nodes, bound), inputs=bound)


def cut_outputs(path: Path, model: onnx.ModelProto, outputs: Sequence[str] | None) -> None:
    """Make these tensors the model's outputs. Raises ConfigError for a name that the model does not have."""
    if outputs is None:
        return
    graph = model.graph
    known = [n for node in graph.node for n in node.output if n] + [v.name for v in graph.input]
    for name in outputs:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise ConfigError(
                f"{path}: no such tensor, got outputs={name}; expected the name of a node's output",
                hint=f"did you mean {near[0]}?" if near else None,
            )
    if not outputs:
        raise ConfigError(f"{path}: outputs name no tensor; expected at least one")
    infos = {v.name: v for v in graph.output}
    chosen = [infos.get(n) or helper.make_empty_tensor_value_info(n) for n in outputs]
    kept = [onnx.ValueInfoProto.FromString(v.SerializeToString()) for v in chosen]
    del graph.output[:]
    graph.output.extend(kept)


def declared_shapes(inputs: Sequence[onnx.ValueInfoProto]) -> dict[str, list[int | str | None] | None]:
    """What the file says of each input's shape: None for an open rank, None or a name for an open extent."""
    return {v.name: _declared(v) for v in inputs}


def _declared(value: onnx.ValueInfoProto) -> list[int | str | None] | None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [d.dim_value if d.HasField("dim_value") else (d.dim_param or None) for d in tensor.shape.dim]


def prepare(model: onnx.ModelProto, nodes: list[onnx.NodeProto], inputs: tuple[TensorInfo, ...]) -> onnx.ModelProto:
    """The model with static inputs, without weights among them, without nodes and weights that nothing needs.

    It is changed in place: a copy would hold all weights a second time.
    """
    graph = model.graph
    used = {n for node in nodes for n in _names(node)} | {o.name for o in graph.output}
    model.ir_version = max(model.ir_version, 4)
    graph.name = graph.name or "main"
    if [id(n) for n in nodes] != [id(n) for n in graph.node]:
        kept = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
        del graph.node[:]
        graph.node.extend(kept)
    for weights, names in (
        (graph.initializer, [t.name for t in graph.initializer]),
        (graph.sparse_initializer, [t.values.name for t in graph.sparse_initializer]),
    ):
        for index in reversed(range(len(names))):
            if names[index] not in used:
                del weights[index]
    for said in (graph.input, graph.value_info, graph.quantization_annotation, model.training_info):
        del said[:]
    graph.input.extend(helper.make_tensor_value_info(t.name, element_type(t.dtype), t.shape) for t in inputs)
    return model


def _names(node: onnx.NodeProto) -> list[str]:
    names = list(node.input)
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            names += [n for inner in graph.node for n in _names(inner)] + [o.name for o in graph.output]
    return names
