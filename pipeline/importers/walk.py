"""Walks an ONNX graph once, in order: constants are computed, composite operators opened, the rest converted."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper
from tvm import relax

from . import evaluate, functions, guards, registry, tally, types
from .builder import Builder
from .findings import CUT_HINT, Finding, Unsupported
from .limits import ConstantBudget, check_tensor_size, uniform
from .node import Node
from .values import RUNTIME_DTYPES, AnyValue, Array, SequenceValue, Value, constant

# Stands for an input of unknown shape and for an output of a node that was refused; what depends on it is not reported.
UNKNOWN = SequenceValue(items=(), dtype="unknown")
_MAX_DEPTH = 32
# Operators of opsets before this one are accepted where they have not changed since.
_OLDEST_OPSET = 6
_MAX_NODES = 200_000
_MAX_RANGE = 1 << 23
Scope = dict[str, AnyValue]


class Context(Builder):
    """What converters work with: the builder's steps, other operators, and subgraphs."""

    def __init__(self, block: relax.BlockBuilder, model: onnx.ModelProto, *, trial: bool = False) -> None:
        super().__init__(block, trial=trial)
        self.findings: list[Finding] = []
        self.tally = tally.Tally()
        self._budget = ConstantBudget(model)
        self._functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self._opsets: dict[str, int] = {}
        self._scope: Scope = {}
        # Weights that no node has read yet: each is unpacked for its first reader and forgotten after its last.
        self._packed: dict[str, onnx.TensorProto] = {}
        self._uses: Counter[str] = Counter()
        self._depth = 0
        self._node_count = 0

    @property
    def scope(self) -> Mapping[str, AnyValue]:
        return self._scope

    def run(self, op: str, *inputs: Value | None, version: int, outputs: int = 1, **attributes: object) -> list[Value]:
        """Convert another ONNX operator of the given opset on values at hand."""
        names = [f"_{i}" if v is not None else "" for i, v in enumerate(inputs)]
        outer, self._scope = self._scope, {n: v for n, v in zip(names, inputs, strict=True) if v is not None}
        opsets, self._opsets = self._opsets, {"": version}
        try:
            proto = helper.make_node(op, names, [f"_out{i}" for i in range(outputs)], **attributes)
            return [v for v in self._convert(proto, _label(proto)) if isinstance(v, Value)]
        finally:
            self._scope, self._opsets = outer, opsets

    def graph(self, graph: onnx.GraphProto, scope: Scope, opsets: dict[str, int]) -> list[AnyValue]:
        """Convert the nodes of a graph or of a branch; names of `scope` are visible. Returns the graph's outputs."""
        outer, outer_opsets, outer_packed, outer_uses = self._scope, self._opsets, self._packed, self._uses
        self._scope, self._opsets = {**outer, **scope}, opsets
        try:
            for tensor in graph.initializer:
                self._scope.pop(tensor.name, None)
            self._packed = {n: t for n, t in outer_packed.items() if n not in scope}
            self._packed |= {t.name: t for t in graph.initializer}
            for sparse in graph.sparse_initializer:
                self._scope[sparse.values.name] = constant(_dense(sparse))
            uses = count_uses(graph.node, [o.name for o in graph.output])
            for name, value in self._scope.items():
                if isinstance(value, Value) and name in uses:
                    self._scope[name] = replace(value, uses=uses[name])
            self._uses = uses
            self._nodes(graph.node, uses)
            return [self._find(o.name) or UNKNOWN for o in graph.output]
        finally:
            self._scope, self._opsets, self._packed, self._uses = outer, outer_opsets, outer_packed, outer_uses

    def branch(self, graph: onnx.GraphProto, scope: Scope | None = None) -> list[AnyValue]:
        """Convert a subgraph attribute of the node at hand."""
        results = self.graph(graph, scope or {}, self._opsets)
        if any(r is UNKNOWN for r in results):
            raise Refused
        return results

    def _find(self, name: str) -> AnyValue | None:
        """What a name stands for, a weight unpacked."""
        if name not in self._scope and name in self._packed:
            value = constant(onnx.numpy_helper.to_array(self._packed[name]))
            self._scope[name] = replace(value, uses=self._uses[name])
        return self._scope.get(name)

    def _nodes(self, nodes: Iterable[onnx.NodeProto], uses: Counter[str]) -> None:
        unread = uses.copy()
        for proto in nodes:
            label = _label(proto)
            try:
                results = self._convert(proto, label)
            except Unsupported as e:
                self.findings.append(Finding(where=label, text=str(e), hint=e.hint))
                results = [UNKNOWN] * len(proto.output)
            except Refused:
                results = [UNKNOWN] * len(proto.output)
            except Exception as e:  # TVM, numpy and onnx raise many kinds; each must end as this node's refusal
                self.findings.append(Finding(where=label, text=f"cannot be converted: {_first_line(e)}"))
                results = [UNKNOWN] * len(proto.output)
            for name, result in zip(proto.output, results, strict=False):
                if name and result is not None:
                    read = uses[name]
                    if isinstance(result, Value):
                        result = replace(result, uses=max(read, read + result.uses - 1))
                    self._scope[name] = result
            unread.subtract(count_uses([proto], []))
            for name in {*proto.input, *proto.output}:
                if unread[name] <= 0:
                    self._scope.pop(name, None)

    def _convert(self, proto: onnx.NodeProto, label: str) -> Sequence[AnyValue | None]:
        with self.tally.node(proto) as entry:
            inputs = [self._find(n) for n in proto.input]
            try:
                results = self._convert_node(proto, label)
            except Refused:
                if any(v is UNKNOWN for v in inputs):
                    entry.state = tally.UNREACHED
                raise
            self._budget.spend(inputs, results)
            self.tally.done(entry, proto, inputs, results)
        return results

    def _convert_node(self, proto: onnx.NodeProto, label: str) -> Sequence[AnyValue | None]:
        self._node_count += 1
        if self._node_count > _MAX_NODES:
            raise Unsupported(f"the model unrolls to more than {_MAX_NODES} nodes")
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        missing = [n for n in proto.input if n and n not in self._scope]
        if missing:
            raise Unsupported(f"reads {missing[0]!r}, which nothing before it computes")
        inputs = tuple(self._scope[n] if n else None for n in proto.input)
        function = self._functions.get((domain, proto.op_type, proto.overload))
        entry = registry.find(domain, proto.op_type)
        version = self._opsets.get(domain, 1)
        schema = _schema(proto.op_type, version, domain)
        node = Node(
            op=proto.op_type,
            domain=domain,
            version=version,
            name=proto.name,
            inputs=inputs,
            output_names=tuple(proto.output),
            attributes=functions.attribute_values(proto),
            proto=proto,
        )
        if any(v is UNKNOWN for v in inputs):
            if entry is None and function is None and not _has_body(schema):
                raise _unsupported_operator(node, schema)
            if entry is not None and entry.refuses:
                entry.convert(self, node)
            raise Refused
        if function is not None:
            return self._expand(function, node, None)
        if schema is None and entry is None:
            raise _unsupported_operator(node, schema)
        if domain == "" and version < _OLDEST_OPSET and schema is not None:
            _check_meaning(node, schema)
        if schema is not None and schema.deprecated and entry is None:
            raise Unsupported(f"the operator does not exist any more in opset {version}")
        if schema is not None:
            types.validate(schema, proto, inputs)
            guards.check(proto, inputs)
        known = {n: v for n, v in zip(proto.input, inputs, strict=True) if n and v is not None}
        constants = all(v is None or (isinstance(v, Value) and v.is_constant) for v in inputs)
        expected = _infer(schema, node, known, self._opsets, constants) if schema is not None else {}
        self._check_size(node, expected, constants)
        results = self._results(node, entry, schema, expected, constants)
        for name, result in zip(proto.output, results, strict=False):
            if name and result is None:
                raise Unsupported(f"output {name!r} is not supported")
            if name and result is not None and not _inference_is_wrong(node):
                types.check_outputs(expected, name, result)
        if len(results) < len([n for n in proto.output if n]):
            raise Unsupported(f"has {len(proto.output)} outputs; only {len(results)} are supported")
        return results

    def _results(
        self,
        node: Node,
        entry: registry.Entry | None,
        schema: onnx.defs.OpSchema | None,
        expected: types.Expected,
        constants: bool,
    ) -> Sequence[AnyValue | None]:
        structural = entry is not None and entry.structural
        deterministic = node.op not in evaluate.NOT_DETERMINISTIC
        if constants and not structural and deterministic and schema is not None:
            if node.op == "Range":
                _check_range(node)
            if node.op == "ConstantOfShape":
                return [constant(_uniform(node))]
            folded = evaluate.evaluate(node, self._opsets)
            if folded is not None:
                return [None if a is None else constant(a) for a in folded]
        if entry is not None:
            return self._call(entry, node)
        body = functions.published_body(schema, node) if schema is not None else None
        if body is not None:
            return self._expand(body, node, schema)
        raise _unsupported_operator(node, schema)

    def _check_size(self, node: Node, expected: types.Expected, constants: bool) -> None:
        total = 0
        for name, (dtype, shape) in expected.items():
            if dtype is not None and dtype != "object" and shape is not None:
                extents = tuple(d or 0 for d in shape)
                total += math.prod(extents) * types.item_size_bytes(dtype)
                if not constants:
                    check_tensor_size(f"output {name!r}", extents, dtype)
        if constants and node.op != "ConstantOfShape":
            self._budget.check(total)

    def _call(self, entry: registry.Entry, node: Node) -> Sequence[AnyValue | None]:
        if not entry.structural:
            for value in node.inputs:
                if isinstance(value, Value) and not value.is_constant and value.dtype not in RUNTIME_DTYPES:
                    raise Unsupported(f"works on {value.dtype}; the runtime has {', '.join(sorted(RUNTIME_DTYPES))}")
        results = entry.convert(self, node)
        return [results] if isinstance(results, AnyValue) else results

    def _expand(
        self, function: onnx.FunctionProto, node: Node, schema: onnx.defs.OpSchema | None
    ) -> Sequence[AnyValue | None]:
        """Convert the nodes of a function in a scope of their own."""
        if self._depth >= _MAX_DEPTH:
            raise Unsupported(f"functions are nested more than {_MAX_DEPTH} deep")
        attributes = functions.body_attributes(function, node, schema)
        body = [functions.resolve_references(n, attributes) for n in function.node]
        inner: Scope = {}
        for name, value in zip(function.input, node.inputs, strict=False):
            if value is not None:
                inner[name] = value
        body = _without_absent_inputs(body, set(function.input) - set(inner))
        opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in function.opset_import}
        if schema is not None and schema.domain:
            # Bodies of preview operators are written for whatever opset the model has.
            opsets[""] = self._opsets.get("", onnx.defs.onnx_opset_version())
        uses = count_uses(body, function.output)
        outer, outer_opsets, found = self._scope, self._opsets, len(self.findings)
        outer_packed, outer_uses = self._packed, self._uses
        self._scope, self._opsets, self._depth = inner, opsets or outer_opsets, self._depth + 1
        self._packed, self._uses = {}, uses
        try:
            self._nodes(body, uses)
            results = [self._scope.get(name) for name in function.output[: len(node.output_names)]]
        finally:
            self._scope, self._opsets, self._depth = outer, outer_opsets, self._depth - 1
            self._packed, self._uses = outer_packed, outer_uses
        self.findings[found:] = [replace(f, where=f"{node.where}, {f.where}") for f in self.findings[found:]]
        if any(r is UNKNOWN for r in results):
            raise Refused
        return results


class Refused(Exception):  # noqa: N818 (like Unsupported, it says what happened to the node)
    """A node that cannot be converted for a reason that has been reported already."""


def count_uses(nodes: Iterable[onnx.NodeProto], outputs: Iterable[str]) -> Counter[str]:
    """How often each name is read, in subgraphs too."""
    uses: Counter[str] = Counter(outputs)
    for node in nodes:
        uses.update(node.input)
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs]:
                uses.update(count_uses(graph.node, [o.name for o in graph.output]))
    return uses


def _without_absent_inputs(nodes: list[onnx.NodeProto], absent: set[str]) -> list[onnx.NodeProto]:
    if not any(name in absent for n in nodes for name in n.input):
        return nodes
    result = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for i, name in enumerate(copy.input):
            if name in absent:
                copy.input[i] = ""
        while copy.input and not copy.input[-1]:
            copy.input.pop()
        result.append(copy)
    return result


def _infer(
    schema: onnx.defs.OpSchema, node: Node, inputs: dict[str, AnyValue], opsets: dict[str, int], constants: bool
) -> types.Expected:
    """What ONNX expects. Where all inputs are constants, whoever computes the node says whether it is valid."""
    try:
        return types.infer(schema, node.proto, inputs, opsets)
    except Unsupported:
        if constants:
            return {}
        raise


def _inference_is_wrong(node: Node) -> bool:
    """ONNX lets a pool's last window start in the padding, where onnxruntime and PyTorch do not, and takes STFT for
    two-sided where `onesided` is left out."""
    return bool(node.attribute("ceil_mode", 0)) or (node.op == "STFT" and "onesided" not in node.attributes)


def _check_meaning(node: Node, schema: onnx.defs.OpSchema) -> None:
    """Old opsets are right as long as their operators still mean the same in the oldest opset that is known here."""
    known = _schema(node.op, _OLDEST_OPSET, "")
    if known is None or known.since_version != schema.since_version:
        raise Unsupported(
            f"has an older meaning in opset {node.version}; expected opset {_OLDEST_OPSET} or newer",
            hint="onnx.version_converter.convert_version(model, 13) updates a model",
        )


def _schema(name: str, version: int, domain: str) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(name, version, domain)
    except onnx.defs.SchemaError:
        return None


def _has_body(schema: onnx.defs.OpSchema | None) -> bool:
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _unsupported_operator(node: Node, schema: onnx.defs.OpSchema | None) -> Unsupported:
    if schema is None:
        domain = f" of domain {node.domain!r}" if node.domain else ""
        return Unsupported(f"the operator is unknown in opset {node.version}{domain}")
    return Unsupported("the operator is not supported", hint=CUT_HINT)


def _uniform(node: Node) -> Array:
    given = node.attribute("value")
    value = np.zeros(1, np.float32) if given is None else onnx.numpy_helper.to_array(given)
    if value.size != 1:
        raise Unsupported(f"value has {value.size} elements; expected 1")
    return uniform(value, node.integers(0, "the shape"))


def _check_range(node: Node) -> None:
    start, limit, delta = (float(node.constant(i, "a bound").reshape(-1)[0]) for i in range(3))
    count = (limit - start) / delta if delta else 0.0
    if not abs(count) <= _MAX_RANGE:
        raise Unsupported(f"counts from {start:g} to {limit:g} by {delta:g}; expected at most {_MAX_RANGE} numbers")


def _dense(sparse: onnx.SparseTensorProto) -> "np.ndarray[tuple[int, ...], np.dtype[np.generic]]":
    values = onnx.numpy_helper.to_array(sparse.values)
    indices = onnx.numpy_helper.to_array(sparse.indices)
    result = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        result.reshape(-1)[indices] = values
    else:
        result[tuple(indices.T)] = values
    return result


def _label(proto: onnx.NodeProto) -> str:
    name = proto.name or next((n for n in proto.output if n), "")
    return f"node {name!r} ({proto.op_type})"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1][:200] if lines else ''}".rstrip(": ")
