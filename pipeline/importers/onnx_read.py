"""Stage 1: a file becomes an ONNX model, its external data loaded."""

from pathlib import Path

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from ..errors import ImportFailed

_HINT = "export the model again, or copy the whole file"


def read_model(path: Path) -> onnx.ModelProto:
    """The model in `path`. Raises ImportFailed for anything that is not a whole ONNX file."""
    if not path.exists():
        raise ImportFailed(f"{path}: no such file", hint="give the path of an .onnx file")
    if not path.is_file():
        raise ImportFailed(f"{path}: not a file, got a folder or device; expected an .onnx file")
    try:
        data = path.read_bytes()
    except OSError as e:
        raise ImportFailed(f"{path}: cannot be read: {e.strerror}") from e
    if not data:
        raise ImportFailed(f"{path}: the file is empty; expected an ONNX model", hint=_HINT)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as e:
        raise ImportFailed(
            f"{path}: truncated, or no ONNX model: its {len(data)} bytes do not parse", hint=_HINT
        ) from e
    if not model.HasField("graph") or not (model.opset_import or model.functions):
        raise ImportFailed(f"{path}: no ONNX model; expected a graph and the opset it is written in", hint=_HINT)
    if (text := _foreign_text(model)) is not None:
        raise ImportFailed(f"{path}: damaged: holds a name that is no UTF-8 text, got {text[:40]!r}", hint=_HINT)
    _load_external_data(path, model)
    return model


def _foreign_text(message: Message) -> bytes | None:
    """The first text in a message that is no UTF-8. protobuf hands it out as bytes, which nothing behind expects."""
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING and field.name != "doc_string":
            for text in value if field.is_repeated else [value]:
                if isinstance(text, bytes):
                    return text
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                if (found := _foreign_text(inner)) is not None:
                    return found
    return None


def _load_external_data(path: Path, model: onnx.ModelProto) -> None:
    """Weights kept in files beside the model, whatever the current folder is."""
    try:
        onnx.external_data_helper.load_external_data_for_model(model, str(path.resolve().parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as e:
        raise ImportFailed(
            f"{path}: its external weights cannot be read: {' '.join(str(e).split())}",
            hint="keep the weight files beside the model, under the names it has for them",
        ) from e
