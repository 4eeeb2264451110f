"""Write a network as ONNX layer by layer, with names that a person can read.

Every value carries the name of the layer that makes it (`blocks.3.expand.conv`), every weight the name of its layer and
role (`blocks.3.expand.conv.weight`). Activations are NCHW float32 and shapes are static.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from . import __version__
from .errors import ImportFailed

OPSET = 13
IR_VERSION = 8

Floats = np.ndarray[Any, np.dtype[np.float32]]
Pads = tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class Value:
    """An activation: its name and static shape (N C H W, or N C after flattening)."""

    name: str
    shape: tuple[int, ...]

    @property
    def channels(self) -> int:
        return self.shape[1]


class Weights:
    """Arrays by name, of which each must be taken exactly once and with the shape that its layer expects."""

    def __init__(self, arrays: dict[str, np.ndarray[Any, Any]], *, source: str) -> None:
        self._left = dict(arrays)
        self._source = source

    def take(self, name: str, shape: Sequence[int]) -> Floats:
        """Raises ImportFailed if there is no such weight or its shape differs."""
        array = self._left.pop(name, None)
        if array is None:
            raise ImportFailed(f"{self._source}: weight {name} is missing or was used before")
        if array.shape != tuple(shape):
            raise ImportFailed(f"{self._source}: shape of {name}, got {array.shape}; expected {tuple(shape)}")
        return np.ascontiguousarray(array, np.float32)

    def drop(self, suffix: str) -> None:
        """Forget the weights whose names end so; they take no part in inference."""
        self._left = {k: v for k, v in self._left.items() if not k.endswith(suffix)}

    def finish(self) -> None:
        """Raises ImportFailed if a weight was left unused."""
        if self._left:
            raise ImportFailed(f"{self._source}: unused weights, got {', '.join(sorted(self._left))}; expected none")


def same_pads(size: tuple[int, int], kernel: int, stride: int) -> Pads:
    """TensorFlow's SAME padding (top, left, bottom, right): the odd pixel goes below and to the right."""
    totals = [max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in size]
    return (totals[0] // 2, totals[1] // 2, totals[0] - totals[0] // 2, totals[1] - totals[1] // 2)


class NetBuilder:
    """Collects the layers of one network with one input and one output."""

    def __init__(self, name: str, *, input_name: str, input_shape: tuple[int, ...]) -> None:
        self._name = name
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []
        self.input = Value(name=input_name, shape=input_shape)

    def _constant(self, name: str, array: np.ndarray[Any, Any]) -> str:
        if all(t.name != name for t in self._initializers):
            self._initializers.append(numpy_helper.from_array(array, name))
        return name

    def _node(self, op: str, name: str, inputs: list[str], shape: tuple[int, ...], **attributes: Any) -> Value:
        self._nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return Value(name=name, shape=shape)

    def conv(
        self,
        name: str,
        x: Value,
        weight: Floats,
        bias: Floats | None = None,
        *,
        stride: int = 1,
        pads: Pads = (0, 0, 0, 0),
        groups: int = 1,
    ) -> Value:
        """conv2d with weight O (C/groups) KH KW and bias O; pads are (top, left, bottom, right)."""
        out_channels, group_channels, kernel_h, kernel_w = weight.shape
        if group_channels * groups != x.channels:
            raise ImportFailed(f"{name}: input channels, got {x.channels}; expected {group_channels * groups}")
        inputs = [x.name, self._constant(f"{name}.weight", weight)]
        if bias is not None:
            inputs.append(self._constant(f"{name}.bias", bias))
        height = (x.shape[2] + pads[0] + pads[2] - kernel_h) // stride + 1
        width = (x.shape[3] + pads[1] + pads[3] - kernel_w) // stride + 1
        return self._node(
            "Conv",
            name,
            inputs,
            (x.shape[0], out_channels, height, width),
            kernel_shape=[kernel_h, kernel_w],
            strides=[stride, stride],
            pads=list(pads),
            group=groups,
        )

    def batch_norm(
        self, name: str, x: Value, *, scale: Floats, shift: Floats, mean: Floats, variance: Floats, epsilon: float
    ) -> Value:
        inputs = [x.name]
        for role, array in (("scale", scale), ("shift", shift), ("mean", mean), ("variance", variance)):
            inputs.append(self._constant(f"{name}.{role}", array))
        return self._node("BatchNormalization", name, inputs, x.shape, epsilon=epsilon)

    def relu(self, name: str, x: Value) -> Value:
        return self._node("Relu", name, [x.name], x.shape)

    def relu6(self, name: str, x: Value) -> Value:
        low = self._constant("relu6.min", np.array(0, np.float32))
        high = self._constant("relu6.max", np.array(6, np.float32))
        return self._node("Clip", name, [x.name, low, high], x.shape)

    def add(self, name: str, a: Value, b: Value) -> Value:
        if a.shape != b.shape:
            raise ImportFailed(f"{name}: shapes, got {a.shape} and {b.shape}; expected equal ones")
        return self._node("Add", name, [a.name, b.name], a.shape)

    def concat(self, name: str, values: Sequence[Value]) -> Value:
        """Joins along channels."""
        n, _, h, w = values[0].shape
        shape = (n, sum(v.channels for v in values), h, w)
        return self._node("Concat", name, [v.name for v in values], shape, axis=1)

    def max_pool(
        self, name: str, x: Value, *, kernel: int, stride: int, pads: Pads = (0, 0, 0, 0), ceil_mode: bool = False
    ) -> Value:
        extra = stride - 1 if ceil_mode else 0
        n, c, h, w = x.shape
        shape = (
            n,
            c,
            (h + pads[0] + pads[2] - kernel + extra) // stride + 1,
            (w + pads[1] + pads[3] - kernel + extra) // stride + 1,
        )
        attributes = {"kernel_shape": [kernel, kernel], "strides": [stride, stride], "pads": list(pads)}
        return self._node("MaxPool", name, [x.name], shape, ceil_mode=int(ceil_mode), **attributes)

    def global_average_pool(self, name: str, x: Value) -> Value:
        return self._node("GlobalAveragePool", name, [x.name], (*x.shape[:2], 1, 1))

    def flatten(self, name: str, x: Value) -> Value:
        return self._node("Flatten", name, [x.name], (x.shape[0], int(np.prod(x.shape[1:]))), axis=1)

    def dense(self, name: str, x: Value, weight: Floats, bias: Floats) -> Value:
        """x N K times weight O K, plus bias O."""
        inputs = [x.name, self._constant(f"{name}.weight", weight), self._constant(f"{name}.bias", bias)]
        return self._node("Gemm", name, inputs, (x.shape[0], weight.shape[0]), transB=1)

    def softmax(self, name: str, x: Value) -> Value:
        """Over the channels."""
        return self._node("Softmax", name, [x.name], x.shape, axis=1)

    def model(self, output: Value) -> onnx.ModelProto:
        """The checked model. Raises ImportFailed if ONNX's own shape inference disagrees with a layer's shape."""
        graph = helper.make_graph(
            self._nodes,
            self._name,
            [helper.make_tensor_value_info(self.input.name, TensorProto.FLOAT, self.input.shape)],
            [helper.make_tensor_value_info(output.name, TensorProto.FLOAT, output.shape)],
            self._initializers,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="malisdk",
            producer_version=__version__,
        )
        try:
            onnx.checker.check_model(model, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as e:
            raise ImportFailed(f"{self._name}: network that ONNX refuses: {e}") from e
        return model
