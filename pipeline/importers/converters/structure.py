"""Operators that only say where values go: constants, identities, shapes, optionals, and what cannot be static."""

import numpy as np
import onnx

from ..findings import CUT_HINT, Unsupported
from ..node import Node
from ..registry import converts
from ..values import AnyValue, OptionalValue, Value, constant
from ..walk import Context


@converts("Constant", structural=True)
def convert_constant(ctx: Context, node: Node) -> Value:
    for name, value in node.attributes.items():
        if name == "value":
            return constant(onnx.numpy_helper.to_array(value))
        if name in ("value_float", "value_floats"):
            return constant(np.asarray(value, np.float32))
        if name in ("value_int", "value_ints"):
            return constant(np.asarray(value, np.int64))
        if name == "sparse_value":
            dense = np.zeros(tuple(value.dims), onnx.numpy_helper.to_array(value.values).dtype)
            indices = onnx.numpy_helper.to_array(value.indices)
            where = (indices,) if indices.ndim == 1 else tuple(indices.T)
            (dense.reshape(-1) if indices.ndim == 1 else dense)[where] = onnx.numpy_helper.to_array(value.values)
            return constant(dense)
        if name in ("value_string", "value_strings"):
            return constant(np.asarray(value, object))
    raise Unsupported("has no value")


@converts("Identity", structural=True)
def convert_identity(ctx: Context, node: Node) -> AnyValue:
    value = node.inputs[0]
    if value is None:
        raise Unsupported("has no input")
    return value


@converts("Dropout", structural=True)
def convert_dropout(ctx: Context, node: Node) -> list[Value | None]:
    """Inference only: the data passes through and the mask is all true (ones of the data's type before opset 10)."""
    data = node.tensor(0)
    training = node.has(2) and bool(node.constant(2, "training_mode").any())
    ratio = float(node.constant(1, "ratio")) if training and node.has(1) else 0.5 if training else 0.0
    if training and ratio != 0.0:
        raise Unsupported("training_mode is on, so the result is random", hint="export the model for inference")
    mask = constant(np.ones(data.shape, bool if node.version >= 10 else data.dtype)) if node.wants(1) else None
    return [data, mask]


@converts("Shape", structural=True)
def convert_shape(ctx: Context, node: Node) -> Value:
    shape = np.asarray(node.tensor(0).shape, np.int64)
    start, end = node.attribute("start", 0), node.attribute("end")
    return constant(shape[slice(start, end)])


@converts("Size", structural=True)
def convert_size(ctx: Context, node: Node) -> Value:
    return constant(np.asarray(node.tensor(0).size, np.int64))


@converts("Optional", structural=True)
def convert_optional(ctx: Context, node: Node) -> OptionalValue:
    value = node.inputs[0] if node.inputs else None
    if isinstance(value, OptionalValue):
        return value
    return OptionalValue(item=value)


@converts("OptionalHasElement", structural=True)
def convert_has_element(ctx: Context, node: Node) -> Value:
    value = node.inputs[0] if node.inputs else None
    present = value is not None and (not isinstance(value, OptionalValue) or value.item is not None)
    return constant(np.asarray(present))


@converts("OptionalGetElement", structural=True)
def convert_get_element(ctx: Context, node: Node) -> AnyValue:
    value = node.inputs[0]
    found = value.item if isinstance(value, OptionalValue) else value
    if found is None:
        raise Unsupported("the optional holds nothing")
    return found


@converts("NonZero", "Unique", "NonMaxSuppression", refuses=True)
def refuse_data_dependent(ctx: Context, node: Node) -> Value:
    raise Unsupported(
        "the size of its output depends on the data; only fixed shapes are supported",
        hint=f"{CUT_HINT}; do them on the CPU after the model",
    )


@converts(
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", refuses=True
)
def refuse_random(ctx: Context, node: Node) -> Value:
    raise Unsupported("draws random numbers; only models whose result is determined by their inputs are supported")


@converts(
    "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer", "ImageDecoder", refuses=True
)
def refuse_strings(ctx: Context, node: Node) -> Value:
    raise Unsupported("works on strings or files; only tensors of numbers are supported")
