"""Nodes whose inputs are all constants are computed while importing, by onnxruntime or by ONNX's reference."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

from .node import Node
from .types import element_type
from .values import Array, Value

NOT_DETERMINISTIC = frozenset(
    ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"]
)
_MAX_IR_VERSION = 10


def evaluate(node: Node, opsets: Mapping[str, int]) -> list[Array | None] | None:
    """The node's outputs, None for one left out; None when neither evaluator knows the operator or its types."""
    values: dict[str, Value] = {}
    for name, value in zip(node.proto.input, node.inputs, strict=True):
        if name and isinstance(value, Value) and value.data is not None:
            values[name] = value
    outputs = [name for name in node.output_names if name]
    graph = helper.make_graph(
        [node.proto],
        "constant",
        [helper.make_tensor_value_info(n, element_type(v.dtype), v.shape) for n, v in values.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = helper.make_model(graph, opset_imports=imports, ir_version=_MAX_IR_VERSION)
    feeds = {n: v.data for n, v in values.items()}
    # onnxruntime leaves reductions over nothing uninitialised.
    empty = any(v.size == 0 for v in values.values())
    results = None if empty else _onnxruntime(model, feeds)
    if results is None:
        results = _reference(model, feeds)
    if results is None or not all(isinstance(r, np.ndarray | np.generic) for r in results):
        return None
    found = dict(zip(outputs, (np.asarray(r) for r in results), strict=True))
    return [found.get(name) for name in node.output_names]


def _onnxruntime(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any] | None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, feeds))
    except Exception:  # onnxruntime has no common base class for its errors, and any of them means "not by me"
        return None


def _reference(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any] | None:
    try:
        with np.errstate(all="ignore"):
            return list(ReferenceEvaluator(model).run(None, feeds))
    except Exception:  # the reference raises whatever numpy or its operators raise
        return None
