"""A model file of any kind becomes what the compiler takes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from .model import ImportedModel
from .mxnet import is_mxnet, load_mxnet
from .onnx_import import bind, import_onnx, import_read
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


def as_onnx(
    path: Path, *, shapes: Mapping[str, tuple[int, ...]], outputs: Sequence[str] | None = None
) -> onnx.ModelProto:
    """A model file as ONNX with static shapes, cut at `outputs`; raises what import_model raises of files and names."""
    if is_mxnet(path):
        return load_mxnet(path, shapes=shapes, outputs=outputs).model
    return bind(path, read_model(path), shapes=shapes, outputs=outputs).model
