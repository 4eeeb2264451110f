"""MXNet models, `*-symbol.json` and `*.params`, as ONNX."""

from .files import find_files, is_mxnet
from .load import Loaded, load_mxnet, survey_mxnet

__all__ = ["Loaded", "find_files", "is_mxnet", "load_mxnet", "survey_mxnet"]
