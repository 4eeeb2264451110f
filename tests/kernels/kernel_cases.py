"""Small graphs side by side in one ONNX model, so that one compile and one load serve a whole set of parameters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import DTypeLike, NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]

# Of the largest magnitude of an output. float32: sums of up to a few thousand products in another order.
TOLERANCE = {"float32": 1e-5, "float16": 2e-3}
OPSET = 17


class Cases:
    """A model under construction. Values are named by strings; an output is named after its case."""

    def __init__(self, seed: int = 0, *, opset: int = OPSET) -> None:
        self._random = np.random.default_rng(seed)
        self._opset = opset
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[str] = []
        self.feeds: dict[str, Array] = {}

    def random(self, *shape: int) -> Array:
        """Standard normal float32."""
        return self._random.standard_normal(shape, dtype=np.float32)

    def integers(self, low: int, high: int, shape: Sequence[int], dtype: DTypeLike) -> Array:
        return self._random.integers(low, high, tuple(shape), endpoint=True).astype(dtype)

    def input(self, value: "Array | Sequence[int]", name: str | None = None) -> str:
        """An input fed with `value`; a shape stands for random numbers of that shape."""
        array = self.random(*value) if isinstance(value, (tuple, list)) else np.asarray(value)
        name = name or f"in{len(self._inputs)}"
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        self._inputs.append(helper.make_tensor_value_info(name, element, array.shape))
        self.feeds[name] = array
        return name

    def weight(self, value: "Array | Sequence[int]") -> str:
        array = self.random(*value) if isinstance(value, (tuple, list)) else np.asarray(value)
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """The name of the node's result, or a list of them when it has several."""
        n = len(self._nodes)
        names = [f"v{n}"] if outputs == 1 else [f"v{n}_{i}" for i in range(outputs)]
        self._nodes.append(helper.make_node(op, list(inputs), names, name=f"{op}_{n}", **attributes))
        return names[0] if outputs == 1 else names

    def output(self, case: str, value: str) -> None:
        """Make `value` an output that is called `case`, which must be unique."""
        if case in self._outputs:
            raise ValueError(f"two cases are called {case}")
        self._nodes.append(helper.make_node("Identity", [value], [case], name=f"output {case}"))
        self._outputs.append(case)

    def conv(self, x: str, shape: Sequence[int], *, bias: bool = True, **attributes: Any) -> str:
        """A convolution with random weights of `shape`, scaled so that its output stays near unit variance."""
        weight = self.random(*shape) / np.sqrt(np.prod(shape[1:]), dtype=np.float32)
        inputs = [x, self.weight(weight), *([self.weight(self.random(shape[0]))] if bias else [])]
        return str(self.node("Conv", *inputs, kernel_shape=list(shape[2:]), **attributes))

    def model(self) -> onnx.ModelProto:
        untyped = [onnx.ValueInfoProto(name=name) for name in self._outputs]
        graph = helper.make_graph(self._nodes, "cases", self._inputs, untyped, self._weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self._opset)], ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(inferred)
        return inferred


def reference(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """What onnxruntime computes, without its graph rewrites."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, dict(feeds)), strict=True))


def difference(actual: Array, expected: Array, tolerance: float) -> str:
    """What is wrong with `actual`, or the empty string."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"got {actual.dtype} {actual.shape}; expected {expected.dtype} {expected.shape}"
    if expected.dtype.kind not in "fc":
        wrong = int((actual != expected).sum())
        return f"{wrong} of {expected.size} elements differ" if wrong else ""
    special = ~(np.isfinite(expected) & np.isfinite(actual))
    if not np.array_equal(actual[special], expected[special], equal_nan=True):
        return "infinities or NaNs differ"
    scale = np.abs(expected[~special]).max(initial=0)
    error = np.abs(actual[~special].astype(np.float64) - expected[~special]).max(initial=0)
    return f"off by {error:.3g} of {scale:.3g}" if error > tolerance * max(scale, 1e-30) else ""


def differences(
    actual: Mapping[str, Array], expected: Mapping[str, Array], tolerance: float = TOLERANCE["float32"]
) -> list[str]:
    """One line for each case that came out wrong."""
    found = [(name, difference(actual[name], expected[name], tolerance)) for name in expected]
    return [f"{name}: {text}" for name, text in found if text]
