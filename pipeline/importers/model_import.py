"""A model file of any kind becomes what the compiler takes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from .model import ImportedModel
from .mxnet import is_mxnet, load_mxnet
from .onnx_import import import_onnx, import_read
from .onnx_read import read_model


def import_model(
    path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None, outputs: Sequence[str] | None = None
) -> ImportedModel:
    """Read an ONNX file, or an MXNet symbol with its parameters; raises what import_onnx and load_mxnet raise.

    `shapes` gives inputs that the model leaves open, all inputs of a symbol; `outputs` cuts the model at these tensors.
    """
    if not is_mxnet(path):
        return import_onnx(path, shapes=shapes, outputs=outputs)
    loaded = load_mxnet(path, shapes=shapes or {}, outputs=outputs)
    return import_read(path, loaded.model, sha256=loaded.sha256)


def as_onnx(path: Path, *, shapes: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    """A model file as ONNX, for another runtime to check answers with."""
    return load_mxnet(path, shapes=shapes).model if is_mxnet(path) else read_model(path)
