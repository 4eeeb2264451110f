"""Small ONNX models for tests, written as text or node by node, and what onnxruntime makes of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

Array = Any


def model_of_text(
    body: str, *, opset: int, weights: Mapping[str, Array] | None = None, ir_version: int = 8, domains: str = ""
) -> onnx.ModelProto:
    """`body` is a graph in ONNX's own text form, such as `g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }`."""
    model = onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}{domains}]> {body}')
    for name, array in (weights or {}).items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    return model


def model_of_node(
    op: str,
    inputs: Mapping[str, Array],
    *,
    opset: int,
    weights: Mapping[str, Array] | None = None,
    outputs: int = 1,
    left_out: Sequence[int] = (),
    **attributes: Any,
) -> onnx.ModelProto:
    """One node on the given inputs, then weights; positions in `left_out` stay empty."""
    names = [*inputs, *(weights or {})]
    for position in left_out:
        names.insert(position, "")
    results = [f"y{i}" for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, name="the_node", **attributes)],
        "one_node",
        [value_info(n, a) for n, a in inputs.items()],
        [helper.make_empty_tensor_value_info(r) for r in results],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def value_info(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def random_array(shape: Sequence[int], dtype: str = "float32", seed: int = 0) -> Array:
    """Values that differ from each other and have both signs."""
    generator = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return generator.standard_normal(shape).astype(dtype)
    return generator.integers(-50 if dtype.startswith("int") else 0, 50, shape).astype(dtype)


def onnxruntime_answers(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def save(model: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def relative_error(found: Array, wanted: Array) -> float:
    """max|found - wanted| / max|wanted|; infinite where shapes, types or positions of infinities and NaN differ."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return float("inf")
    if not wanted.size:
        return 0.0
    if wanted.dtype.kind != "f":
        return 0.0 if np.array_equal(found, wanted) else float("inf")
    finite = np.isfinite(wanted)
    if not np.array_equal(found[~finite], wanted[~finite], equal_nan=True) or not finite.any():
        return float("inf") if finite.any() or not np.array_equal(found, wanted, equal_nan=True) else 0.0
    wide = wanted[finite].astype(np.float64)
    return float(np.abs(found[finite].astype(np.float64) - wide).max() / max(np.abs(wide).max(), 1e-30))
