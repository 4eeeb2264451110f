"""What an importer hands to the compiler."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import onnx
    import tvm


class TensorInfo(NamedTuple):
    """A model input or output as its author named it: `shape` is static, `dtype` a numpy name such as `float32`."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class ImportedModel:
    """A model with static shapes, ready to be lowered.

    `mod` has one function `main`; its parameters are `inputs` in order (renamed to C identifiers), its weights are
    constants, and it returns one tensor or a tuple of `outputs` in order. `model` is the ONNX model it came from with
    shapes bound: the same inputs and outputs under their own names, so that another runtime can check the answers.
    """

    mod: "tvm.ir.IRModule"
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    model: "onnx.ModelProto"
    opset: int
    sha256: str
