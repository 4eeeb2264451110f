"""ONNX file to Relax, in stages: read, check, prepare, convert."""

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import onnxruntime as ort
from tvm.relax.frontend.onnx import from_onnx

from .. import files
from ..errors import ImportFailed
from .model import ImportedModel, TensorInfo


def import_onnx(
    path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None, outputs: Sequence[str] | None = None
) -> ImportedModel:
    model = onnx.load(path)
    weights = {t.name for t in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)
    for value in model.graph.input:
        if value.name in (shapes or {}):
            dims = value.type.tensor_type.shape
            del dims.dim[:]
            for size in (shapes or {})[value.name]:
                dims.dim.add().dim_value = size
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(Path(folder) / "model.onnx")
        ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        prepared = onnx.load(options.optimized_model_filepath)
    prepared = onnx.shape_inference.infer_shapes(prepared, data_prop=True)
    names: dict[str, str] = {v.name: f"{re.sub(r'[^A-Za-z0-9_]', '_', v.name)}" for v in prepared.graph.input}
    for node in prepared.graph.node:
        for i, name in enumerate(node.input):
            if name in names:
                node.input[i] = names[name]

    def info(v: onnx.ValueInfoProto) -> TensorInfo:
        t = v.type.tensor_type
        return TensorInfo(
            v.name,
            tuple(d.dim_value for d in t.shape.dim),
            str(onnx.helper.tensor_dtype_to_np_dtype(t.elem_type)),
        )

    ins = tuple(map(info, prepared.graph.input))
    outs = tuple(map(info, prepared.graph.output))
    for v in prepared.graph.input:
        v.name = names[v.name]
    mod = from_onnx(prepared, keep_params_in_input=False)
    if not outs:
        raise ImportFailed(f"{path}: the model has no outputs")
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    return ImportedModel(mod=mod, inputs=ins, outputs=outs, model=model, opset=opset, sha256=files.sha256(path))
