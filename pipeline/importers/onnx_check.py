"""Stage 2: what can be said about a model before any of its nodes is looked at."""

from collections.abc import Sequence

import onnx
from onnx import helper

from .findings import Finding, Unsupported
from .types import dtype_name
from .values import RUNTIME_DTYPES


def opset_of(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operators; 1 where the model does not say."""
    return max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=1)


def real_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Inputs without those that are weights: IR 3 lists every initializer as an input, too."""
    weights = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    return [v for v in graph.input if v.name not in weights]


def check_model(model: onnx.ModelProto) -> list[Finding]:
    """Version, inputs, weights and the order of nodes."""
    findings = _check_opsets(model)
    names = [v.name for v in real_inputs(model.graph)]
    for name in sorted({n for n in names if names.count(n) > 1}):
        findings.append(Finding(where=f"input {name!r}", text="is listed twice"))
    for value in real_inputs(model.graph):
        findings += _check_input(value)
    for tensor in model.graph.initializer:
        findings += _check_weight(tensor)
    if not model.graph.output:
        findings.append(Finding(where="", text="the model has no outputs"))
    written: set[str] = set()
    for node in model.graph.node:
        for name in node.output:
            if name and name in written:
                findings.append(Finding(where=f"node {node.name!r} ({node.op_type})", text=f"writes {name!r} again"))
            written.add(name)
    return findings


def _check_opsets(model: onnx.ModelProto) -> list[Finding]:
    newest, opset = onnx.defs.onnx_opset_version(), opset_of(model)
    findings = []
    if opset > newest:
        findings.append(
            Finding(
                where=f"opset {opset}",
                text=f"is newer than this onnx {onnx.__version__} knows; expected at most {newest}",
                hint="export the model with an older opset, or update the onnx package",
            )
        )
    return findings


def _check_input(value: onnx.ValueInfoProto) -> list[Finding]:
    where = f"input {value.name!r}"
    if not value.type.HasField("tensor_type"):
        kind = value.type.WhichOneof("value") or "nothing"
        return [Finding(where=where, text=f"is of kind {kind.removesuffix('_type')}; expected a tensor")]
    try:
        dtype = dtype_name(value.type.tensor_type.elem_type)
    except Unsupported:
        dtype = "undefined"
    if dtype not in RUNTIME_DTYPES:
        name = "string" if dtype == "object" else dtype
        return [Finding(where=where, text=f"has type {name}; expected {', '.join(sorted(RUNTIME_DTYPES))}")]
    return []


def _check_weight(tensor: onnx.TensorProto) -> list[Finding]:
    """A weight whose bytes do not fill its shape would crash whoever reads it."""
    where = f"initializer {tensor.name!r}"
    if any(d < 0 for d in tensor.dims):
        return [Finding(where=where, text=f"has shape {list(tensor.dims)}")]
    try:
        helper.tensor_dtype_to_np_dtype(tensor.data_type)
        onnx.numpy_helper.to_array(tensor)
    except (KeyError, TypeError, ValueError) as e:
        return [Finding(where=where, text=f"cannot be read: {' '.join(str(e).split())}")]
    return []


def needed_nodes(graph: onnx.GraphProto, outputs: Sequence[str]) -> tuple[list[onnx.NodeProto], list[Finding]]:
    """The nodes that `outputs` depend on, each after those it reads; or why there is no such order."""
    producers = {name: node for node in graph.node for name in node.output if name}
    given = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    given |= {t.values.name for t in graph.sparse_initializer}
    if missing := [name for name in outputs if name not in producers and name not in given]:
        return [], [Finding(where=f"output {name!r}", text="nothing computes it") for name in missing]
    order: list[onnx.NodeProto] = []
    done: set[int] = set()
    open_: set[int] = set()
    for output in outputs:
        stack = [(producers[output], False)] if output in producers else []
        while stack:
            node, leaving = stack.pop()
            if leaving:
                open_.discard(id(node))
                if id(node) not in done:
                    done.add(id(node))
                    order.append(node)
                continue
            if id(node) in done:
                continue
            if id(node) in open_:
                where = f"node {node.name!r} ({node.op_type})"
                return order, [Finding(where=where, text="depends on its own output; expected a graph without cycles")]
            open_.add(id(node))
            stack.append((node, True))
            stack += [(producers[n], False) for n in reversed(_reads(node)) if n in producers]
    positions = {id(n): i for i, n in enumerate(graph.node)}
    if all(_after(graph, positions, node, producers) for node in order):
        order.sort(key=lambda n: positions[id(n)])
    return order, []


def _after(
    graph: onnx.GraphProto, positions: dict[int, int], node: onnx.NodeProto, producers: dict[str, onnx.NodeProto]
) -> bool:
    return all(positions[id(producers[n])] < positions[id(node)] for n in _reads(node) if n in producers)


def _reads(node: onnx.NodeProto) -> list[str]:
    """What a node reads, its subgraphs included."""
    names = [n for n in node.input if n]
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            inner = {n for m in graph.node for n in m.output} | {t.name for t in graph.initializer}
            inner |= {v.name for v in graph.input}
            names += [n for m in graph.node for n in _reads(m) if n not in inner]
            names += [o.name for o in graph.output if o.name not in inner]
    return names
