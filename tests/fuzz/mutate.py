"""Damages ONNX files: their bytes, or single fields of the message that they hold."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_INTEGERS = (0, 1, -1, 2, 7, 127, 255, 4096, 65536, 2**20, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e30, -3.4e38, float("inf"), float("nan"))
_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def damage_bytes(data: bytes, rng: random.Random) -> bytes:
    """Cut off, flip bits, repeat, leave out or overwrite a part, or mix two places."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        if not data:
            break
        a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        match rng.randrange(6):
            case 0:
                del data[a:]
            case 1:
                for _ in range(rng.choice((1, 3, 20))):
                    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            case 2:
                data[a:a] = data[a:b]
            case 3:
                del data[a:b]
            case 4:
                end = min(a + rng.choice((1, 4, 10)), len(data))
                data[a:end] = rng.randbytes(end - a)
            case 5:
                data[a:a] = b"\xff" * rng.choice((1, 9, 10)) + b"\x7f"
    return bytes(data)


def damage_fields(model: onnx.ModelProto, rng: random.Random) -> None:
    """Change one to four fields of the message, whatever they are: extents, attributes, names, types, whole nodes."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        places = list(_places(model))
        message, field = rng.choice(places)
        _damage(message, field, places, _names(model), rng)


def _places(message: Message) -> Iterator[tuple[Message, FieldDescriptor]]:
    """Every field that is set, of every message within."""
    for field, value in message.ListFields():
        yield message, field
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                yield from _places(inner)


def _names(model: onnx.ModelProto) -> list[str]:
    graph = model.graph
    names = [n for node in graph.node for n in [*node.input, *node.output]]
    return (
        names + [t.name for t in graph.initializer] + [v.name for v in [*graph.input, *graph.output]] + ["", "x" * 300]
    )


def _damage(message: Message, field: FieldDescriptor, places: list[Any], names: list[str], rng: random.Random) -> None:
    if field.is_repeated:
        _damage_list(getattr(message, field.name), field, places, names, rng)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        same = [v for v in _values(places, field) if v is not getattr(message, field.name)]
        if same and rng.random() < 0.5:
            copy = same[rng.randrange(len(same))].SerializeToString()
            getattr(message, field.name).ParseFromString(copy)
        else:
            message.ClearField(field.name)
    elif rng.random() < 0.15:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _scalar(getattr(message, field.name), field, names, rng))


def _damage_list(values: Any, field: FieldDescriptor, places: list[Any], names: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(values))
    is_message = field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
    steps: list[Callable[[], object]] = [lambda: values.pop(at)]
    if is_message:
        copies = [v.SerializeToString() for v in _values(places, field)]
        steps += [
            lambda: values.add().ParseFromString(rng.choice(copies)),
            lambda: values[at].ParseFromString(rng.choice(copies)),
            lambda: values.insert(rng.randrange(len(values) + 1), values.pop(at)),
            lambda: values[at].Clear(),
        ]
    else:
        replace = lambda: values.__setitem__(at, _scalar(values[at], field, names, rng))  # noqa: E731
        steps += [replace, replace, replace, lambda: values.append(_scalar(values[at], field, names, rng))]
    rng.choice(steps)()


def _values(places: list[Any], field: FieldDescriptor) -> list[Message]:
    """The model's messages of the field's type, a few of them."""
    found = []
    for message, other in places:
        if other.message_type is field.message_type:
            value = getattr(message, other.name)
            found += list(value) if other.is_repeated else [value]
    return found[:200]


def _scalar(value: Any, field: FieldDescriptor, names: list[str], rng: random.Random) -> Any:
    if field.cpp_type in _RANGES:
        low, high = _RANGES[field.cpp_type]
        chosen = rng.choice((rng.choice(_INTEGERS), value + rng.choice((-1, 1)), rng.randrange(-8, 40)))
        return min(max(chosen, low), high)
    if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return rng.choice((*_FLOATS, rng.uniform(-10, 10)))
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    if field.type == FieldDescriptor.TYPE_BYTES:
        return damage_bytes(value, rng)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        operators = ("Add", "Reshape", "Loop", "If", "Scan", "ConstantOfShape", "Expand", "Identity", "Pad", "Resize")
        return rng.choice(
            (rng.choice(names), rng.choice(operators), "ai.onnx.ml", "../" * 5 + "etc/passwd", value[:-1])
        )
    return rng.random() < 0.5
