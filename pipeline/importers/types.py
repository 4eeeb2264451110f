"""ONNX's own type and shape inference for one node, as a check on ours."""

from collections.abc import Sequence
from typing import TypeAlias

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from .findings import Unsupported
from .values import AnyValue, Shape, Value

_MAX_DATA_ELEMENTS = 4096
# Output name to (dtype, shape); None is what ONNX does not know.
Expected: TypeAlias = dict[str, tuple[str | None, tuple[int | None, ...] | None]]


def element_type(dtype: str) -> int:
    if dtype == "object":
        return int(onnx.TensorProto.STRING)
    try:
        numpy_dtype = np.dtype(dtype)
    except TypeError:
        numpy_dtype = np.dtype(getattr(ml_dtypes, dtype))
    return int(helper.np_dtype_to_tensor_dtype(numpy_dtype))


def item_size_bytes(dtype: str) -> int:
    return int(np.dtype(helper.tensor_dtype_to_np_dtype(element_type(dtype))).itemsize)


def dtype_name(element: int) -> str:
    """The numpy name of an ONNX element type. Raises Unsupported for a number that is none."""
    try:
        return str(np.dtype(helper.tensor_dtype_to_np_dtype(element)))
    except (KeyError, TypeError, ValueError) as e:
        raise Unsupported(f"not valid ONNX: element type {element} is unknown") from e


def type_proto(value: AnyValue) -> onnx.TypeProto | None:
    if not isinstance(value, Value):
        return None
    return helper.make_tensor_type_proto(element_type(value.dtype), value.shape)


def infer(
    schema: onnx.defs.OpSchema, proto: onnx.NodeProto, inputs: dict[str, AnyValue], opsets: dict[str, int]
) -> Expected:
    """Types of the outputs; raises Unsupported where it finds the node invalid."""
    types = {name: t for name, value in inputs.items() if (t := type_proto(value)) is not None}
    if len(types) != len(inputs):
        return {}
    data = {}
    for name, value in inputs.items():
        if isinstance(value, Value) and value.data is not None and value.size <= _MAX_DATA_ELEMENTS:
            data[name] = onnx.numpy_helper.from_array(value.data, name)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        found = onnx.shape_inference.infer_node_outputs(schema, proto, types, data, opset_imports=imports)
    except onnx.shape_inference.InferenceError as e:
        raise Unsupported(f"not valid ONNX: {_one_line(str(e))}") from e
    except (RuntimeError, ValueError, IndexError, onnx.checker.ValidationError):
        return {}
    return {name: _read(t) for name, t in found.items()}


def validate(schema: onnx.defs.OpSchema, proto: onnx.NodeProto, inputs: Sequence[AnyValue | None]) -> None:
    """Raises Unsupported for attributes, numbers of inputs or input types that the operator does not have."""
    given = {a.name: a for a in proto.attribute}
    for name, attribute in given.items():
        if name not in schema.attributes:
            raise Unsupported(f"not valid ONNX: has no attribute {name!r} in opset {schema.since_version}")
        wanted = schema.attributes[name].type.value
        if attribute.type != wanted:
            found, kind = (onnx.AttributeProto.AttributeType.Name(t) for t in (attribute.type, wanted))
            raise Unsupported(f"not valid ONNX: attribute {name!r} is of type {found}; expected {kind}")
    for name, declared in schema.attributes.items():
        if declared.required and name not in given:
            raise Unsupported(f"not valid ONNX: attribute {name!r} is missing")
    if not schema.min_input <= len(inputs) <= schema.max_input:
        most = schema.max_input if schema.max_input < 1 << 30 else "any number"
        raise Unsupported(f"not valid ONNX: has {len(inputs)} inputs; expected {schema.min_input} to {most}")
    outputs = len(proto.output)
    if not schema.min_output <= outputs <= schema.max_output:
        raise Unsupported(f"not valid ONNX: has {outputs} outputs; expected {schema.min_output} to {schema.max_output}")
    seen: dict[str, str] = {}
    parameters = {constraint.type_param_str for constraint in schema.type_constraints}
    for position, value in enumerate(inputs):
        formal = schema.inputs[min(position, len(schema.inputs) - 1)]
        if value is None and formal.option == onnx.defs.OpSchema.FormalParameterOption.Single:
            raise Unsupported(f"not valid ONNX: input {position} ({formal.name}) is missing")
        if isinstance(value, Value) and type_name(value.dtype) not in formal.types:
            choices = sorted(
                t.removeprefix("tensor(").removesuffix(")") for t in formal.types if t.startswith("tensor")
            )
            what = f"input {position} ({formal.name}) has type {value.dtype}"
            raise Unsupported(f"not valid ONNX: {what}; expected {', '.join(choices)}")
        if isinstance(value, Value) and formal.is_homogeneous and formal.type_str in parameters:
            # Inputs that share a type parameter have the same type.
            first = seen.setdefault(formal.type_str, value.dtype)
            if first != value.dtype:
                what = f"input {position} ({formal.name}) has type {value.dtype}"
                raise Unsupported(f"not valid ONNX: {what}; expected {first} as the inputs before")


def type_name(dtype: str) -> str:
    """A numpy type as ONNX's operator definitions spell it, such as `tensor(float8e4m3fn)`."""
    special = {"float32": "float", "float64": "double", "object": "string"}
    return f"tensor({special.get(dtype, dtype.replace('_', ''))})"


def check_outputs(expected: Expected, name: str, value: AnyValue) -> None:
    """Raises Unsupported where a converted output is not what ONNX says it is."""
    if name not in expected or not isinstance(value, Value):
        return
    dtype, shape = expected[name]
    if dtype is not None and dtype != value.dtype:
        raise Unsupported(f"output {name!r} came out as {value.dtype}; ONNX expects {dtype}")
    if shape is not None and not _fits(value.shape, shape):
        raise Unsupported(f"output {name!r} came out with shape {value.shape}; ONNX expects {shape}")


def _fits(shape: Shape, expected: tuple[int | None, ...]) -> bool:
    return len(shape) == len(expected) and all(e is None or e == s for s, e in zip(shape, expected, strict=True))


def _read(proto: onnx.TypeProto) -> tuple[str | None, tuple[int | None, ...] | None]:
    if not proto.HasField("tensor_type"):
        return None, None
    tensor = proto.tensor_type
    dtype = dtype_name(tensor.elem_type) if tensor.elem_type else None
    if not tensor.HasField("shape"):
        return dtype, None
    return dtype, tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)


def _one_line(text: str) -> str:
    return " ".join(text.split())
