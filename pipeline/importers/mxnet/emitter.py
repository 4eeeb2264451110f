"""Write ONNX nodes one by one, each with its shape and type known at once."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..findings import Unsupported
from ..limits import check_table_size, check_tensor_size
from ..types import dtype_name, element_type
from .attributes import Attributes
from .params import Array

OPSET = 17
IR_VERSION = 8
_MAX_DATA_ELEMENTS = 4096
_FLOATS = ("float16", "float32", "float64", "bfloat16")


@dataclass(frozen=True, kw_only=True, eq=False)
class Tensor:
    """A value of the graph with static shape; `load` gives its content if that is a parameter or constant.

    Parameters stay in their file until the model is complete, so that no array is held twice.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    load: Callable[[], Array] | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, kw_only=True)
class Node:
    """What a converter gets: one layer of the symbol, its inputs converted."""

    name: str
    operator: str
    inputs: tuple[Tensor, ...]
    attributes: Attributes

    @property
    def data(self) -> Tensor:
        return self.input(0)

    def input(self, index: int) -> Tensor:
        """Raises Unsupported if the node has fewer inputs."""
        if index >= len(self.inputs):
            raise Unsupported(f"has {len(self.inputs)} inputs; expected at least {index + 1}")
        return self.inputs[index]

    def axis(self, name: str, default: int, rank: int | None = None) -> int:
        return normal_axis(self.attributes.integer(name, default), self.data.rank if rank is None else rank)


def normal_axis(axis: int, rank: int) -> int:
    """An axis counted from 0. Raises Unsupported if a tensor of this rank has no such axis."""
    if not -rank <= axis < rank:
        raise Unsupported(f"axis {axis} is outside of rank {rank}")
    return axis % rank


class Emitter:
    """Collects nodes and weights of one ONNX graph."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, Tensor] = {}
        self._names: set[str] = set()
        self._layers: set[str] = set()
        self._scope = ""
        self._first = 0

    def unique(self, name: str) -> str:
        """`name`, or that with a number behind it if another value has it."""
        return _unique(name, self._names)

    def begin(self, layer: str) -> None:
        """What is emitted from now on belongs to this layer of the symbol."""
        self._scope, self._first = layer, len(self.nodes)

    def rename(self, results: Sequence[Tensor], names: Sequence[str]) -> list[Tensor]:
        """Give a layer's results their final names; those that it only hands through keep theirs.

        The layer's last node has its name, those before are called after what they make.
        """
        made = {name for node in self.nodes[self._first :] for name in node.output}
        renamed: dict[str, str] = {}
        for tensor, name in zip(results, names, strict=True):
            if tensor.name in made and tensor.name not in renamed:
                renamed[tensor.name] = self.unique(name)
        if made:
            self.nodes[-1].name = _unique(self._scope, self._layers)
        for node in self.nodes[self._first :]:
            for names_of in (node.input, node.output):
                for i, name in enumerate(names_of):
                    names_of[i] = renamed.get(name, name)
        return [Tensor(name=renamed.get(t.name, t.name), shape=t.shape, dtype=t.dtype, load=t.load) for t in results]

    def constant(self, array: Array | Sequence[float], dtype: str | None = None) -> Tensor:
        """A table that a converter made."""
        data = np.asarray(array, dtype) if dtype or isinstance(array, np.ndarray) else np.asarray(array, np.int64)
        check_table_size("a table", *data.shape)
        name = self.unique(f"{self._scope}_const")
        return Tensor(name=name, shape=data.shape, dtype=str(data.dtype), load=lambda: data)

    def scalar(self, value: float, like: Tensor) -> Tensor:
        """A number of the type of `like`. Raises Unsupported if it is none of that type's."""
        if like.dtype not in _FLOATS and value != int(value):
            raise Unsupported(f"adds or compares {value} with integers; expected a whole number")
        return self.constant(np.asarray(value, like.dtype))

    def emit(self, operator: str, *inputs: Tensor | None, **attributes: Any) -> Tensor:
        return self.emit_many(operator, 1, *inputs, **attributes)[0]

    def emit_many(self, operator: str, outputs: int, *inputs: Tensor | None, **attributes: Any) -> list[Tensor]:
        """Append a node. Raises Unsupported where the operator cannot take such inputs."""
        names = [self.unique(f"{self._scope}_{operator.lower()}") for _ in range(outputs)]
        node = helper.make_node(
            operator,
            [t.name if t is not None else "" for t in inputs],
            names,
            name=_unique(names[0], self._layers),
            **{k: v for k, v in attributes.items() if v is not None},
        )
        present = [t for t in inputs if t is not None]
        found = _infer(node, present)
        self.initializers |= {t.name: t for t in present if t.load is not None}
        self.nodes.append(node)
        return [Tensor(name=n, shape=found[n][1], dtype=found[n][0]) for n in names]

    # What many converters say.

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        return x if x.dtype == dtype else self.emit("Cast", x, to=element_type(dtype))

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        return x if x.shape == tuple(shape) else self.emit("Reshape", x, self.constant(shape))

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        return x if list(order) == sorted(order) else self.emit("Transpose", x, perm=list(order))

    def slice(
        self, x: Tensor, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
    ) -> Tensor:
        return self.emit("Slice", x, *(self.constant(v) for v in (starts, ends, axes, steps)))


def _unique(name: str, taken: set[str]) -> str:
    chosen, count = name, 1
    while chosen in taken:
        count += 1
        chosen = f"{name}_{count}"
    taken.add(chosen)
    return chosen


def _infer(node: onnx.NodeProto, inputs: Sequence[Tensor]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of each output, by ONNX's own inference."""
    schema = onnx.defs.get_schema(node.op_type, OPSET, "")
    types = {t.name: helper.make_tensor_type_proto(element_type(t.dtype), t.shape) for t in inputs}
    data = {
        t.name: numpy_helper.from_array(t.load(), t.name)
        for t in inputs
        if t.load is not None and math.prod(t.shape) <= _MAX_DATA_ELEMENTS
    }
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
        )
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as e:
        why = " ".join(str(e).split())
        shapes = ", ".join(str(t.shape) for t in inputs)
        raise Unsupported(f"cannot take inputs of shapes {shapes}: {why[-120:]}") from e
    results = {}
    for name in node.output:
        tensor = found[name].tensor_type if name in found else None
        dims = list(tensor.shape.dim) if tensor is not None and tensor.HasField("shape") else None
        if tensor is None or dims is None or not all(d.HasField("dim_value") for d in dims):
            raise Unsupported(f"the shape of its result is not known ({node.op_type})")
        shape, dtype = tuple(d.dim_value for d in dims), dtype_name(tensor.elem_type)
        if any(d < 1 for d in shape):
            raise Unsupported(f"its result would be of shape {shape}; expected no empty dimension")
        check_tensor_size("its result", shape, dtype)
        results[name] = (dtype, shape)
    return results


def fill(proto: onnx.TensorProto, tensor: Tensor) -> None:
    """Write a parameter or constant into an empty message, with no more copies than protobuf's own."""
    assert tensor.load is not None
    data = tensor.load()
    proto.name = tensor.name
    proto.data_type = element_type(tensor.dtype)
    proto.dims.extend(tensor.shape)
    origin: object = data
    while isinstance(origin, np.ndarray) and origin.base is not None:
        origin = origin.base
    whole = isinstance(origin, bytes) and len(origin) == data.nbytes and data.flags.c_contiguous
    proto.raw_data = origin if whole else data.tobytes()
