"""Model files to Relax: `import_onnx` and what it returns."""

from .model import ImportedModel, TensorInfo
from .onnx_import import import_onnx

__all__ = ["ImportedModel", "TensorInfo", "import_onnx"]
