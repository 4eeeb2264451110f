"""Bodies of composite operators: functions of the model itself, and those ONNX publishes for its own operators."""

from collections.abc import Mapping

import onnx
from onnx import helper

from .node import Node
from .types import type_proto
from .values import AnyValue


def published_body(schema: onnx.defs.OpSchema, node: Node) -> onnx.FunctionProto | None:
    """The body ONNX gives for an operator in terms of others, for the node's types; None where it has none."""
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= node.version]
        data = schema.get_function_with_opset_version(max(versions)) if versions else None
        if data:
            return onnx.FunctionProto.FromString(data)
    if schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.version]
        types = [_type_bytes(v) for v in node.inputs]
        if versions:
            data = schema.get_context_dependent_function_with_opset_version(
                max(versions), node.proto.SerializeToString(), types
            )
            if data:
                return onnx.FunctionProto.FromString(data)
    return None


def _type_bytes(value: AnyValue | None) -> bytes:
    proto = type_proto(value) if value is not None else None
    return (proto if proto is not None else onnx.TypeProto()).SerializeToString()


def body_attributes(
    function: onnx.FunctionProto, node: Node, schema: onnx.defs.OpSchema | None
) -> dict[str, onnx.AttributeProto]:
    """What the body's attribute references stand for: given at the node, else the function's or operator's default."""
    found: dict[str, onnx.AttributeProto] = {}
    if schema is not None:
        for name, attribute in schema.attributes.items():
            if attribute.default_value.name:
                found[name] = attribute.default_value
    found.update({a.name: a for a in function.attribute_proto})
    found.update({a.name: a for a in node.proto.attribute})
    return found


def resolve_references(proto: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """The node with attribute references replaced; a reference to an attribute that is not given is left out."""
    if not _has_references(proto):
        return proto
    result = onnx.NodeProto()
    result.CopyFrom(proto)
    del result.attribute[:]
    for attribute in proto.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in attributes:
                copy = result.attribute.add()
                copy.CopyFrom(attributes[attribute.ref_attr_name])
                copy.name = attribute.name
            continue
        copy = result.attribute.add()
        copy.CopyFrom(attribute)
        for graph in _graphs(copy):
            nodes = [resolve_references(n, attributes) for n in graph.node]
            del graph.node[:]
            graph.node.extend(nodes)
    return result


def _has_references(proto: onnx.NodeProto) -> bool:
    return any(a.ref_attr_name or any(_has_references(n) for g in _graphs(a) for n in g.node) for a in proto.attribute)


def _graphs(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    return ([attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else []) + list(attribute.graphs)


def attribute_values(proto: onnx.NodeProto) -> dict[str, object]:
    return {a.name: helper.get_attribute_value(a) for a in proto.attribute}
