"""Model files to Relax: `import_model` and what it returns."""

from .model import ImportedModel, TensorInfo
from .model_import import import_model
from .onnx_import import import_onnx

__all__ = ["ImportedModel", "TensorInfo", "import_model", "import_onnx"]
