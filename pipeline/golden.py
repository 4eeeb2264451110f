"""Smoke cases: inputs, and what onnxruntime answers to them.

<case>/case.json  <case>/input_<i>.npy  <case>/expected_<i>.npy  <case>/image.ppm
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from . import files, images, log
from .errors import ConfigError, ImportFailed
from .model_folder import FolderImage, ModelFolder
from .recipes import Preprocess
from .shapes import resolve_shapes

# Float32 kernels differ from onnxruntime by rounding only, 1e-5 on whole networks; a wrong kernel is off by far more.
# In half, rounding between layers alone makes up to 9e-3 of the largest probability (EfficientNet-Lite0, SqueezeNet 1.1
# on Mesa's llvmpipe, which computes half).
RELATIVE_TOLERANCE = {"float32": 1e-3, "float16": 2e-2}
_INTEGER_LIMIT = 10
_ERRORS_ONLY = 3

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One smoke case before it is written; arrays in the order of the model's inputs and outputs."""

    name: str
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    top1: tuple[int, str] | None = None
    image: Path | None = None
    preprocess: Preprocess | None = None


class Reference:
    """The model as onnxruntime runs it on one CPU thread, so that its answers do not vary from run to run."""

    def __init__(self, path: Path, *, given_shapes: Mapping[str, Sequence[int]]) -> None:
        """Raises ImportFailed if the file is no model that onnxruntime can run, ConfigError for open shapes."""
        self.path = path
        model = _read(path)
        declared = {v.name: _declared_shape(v) for v in model.graph.input}
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        try:
            self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as e:  # onnxruntime's exceptions share no base class
            raise ImportFailed(f"{path}: onnxruntime cannot load the model: {_first_line(e)}") from e
        inputs = self._session.get_inputs()
        self.dtypes = {i.name: _numpy_dtype(path, i.name, i.type) for i in inputs}
        self.shapes = resolve_shapes(str(path), {i.name: declared[i.name] for i in inputs}, given_shapes)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name. Raises ImportFailed if one of them is no array, or not finite."""
        names = [o.name for o in self._session.get_outputs()]
        try:
            values = self._session.run(names, dict(inputs))
        except Exception as e:  # as above
            raise ImportFailed(f"{self.path}: onnxruntime cannot run the model: {_first_line(e)}") from e
        outputs = dict(zip(names, values, strict=True))
        for name, value in outputs.items():
            if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
                got = type(value).__name__
                raise ImportFailed(f"{self.path}: output {name}, got {got}; expected a tensor of numbers")
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                raise ImportFailed(
                    f"{self.path}: output {name}, got infinite or undefined values; expected finite ones",
                    hint="choose other random inputs with --seed",
                )
        return outputs


def make_cases(reference: Reference, *, folder: ModelFolder | None, seed: int) -> list[Case]:
    """A case for each golden image of the model folder; without images, one with seeded random inputs."""
    if folder is None or not folder.images:
        return [_random_case(reference, seed)]
    return [_image_case(reference, folder, image) for image in folder.images]


def _random_case(reference: Reference, seed: int) -> Case:
    generator = np.random.default_rng(seed)
    inputs: dict[str, Array] = {}
    for name, shape in reference.shapes.items():
        dtype = reference.dtypes[name]
        if dtype.kind == "f":
            inputs[name] = generator.standard_normal(shape).astype(dtype)
        else:
            inputs[name] = generator.integers(0, 2 if dtype.kind == "b" else _INTEGER_LIMIT, shape).astype(dtype)
    return Case(name="random_0", inputs=inputs, expected=reference.run(inputs))


def _image_case(reference: Reference, folder: ModelFolder, image: FolderImage) -> Case:
    if folder.preprocess is None or list(reference.shapes) != [folder.input_name]:
        raise ConfigError(
            f"{reference.path}: inputs, got {', '.join(reference.shapes)}; expected {folder.input_name} with its "
            f"preprocessing, as the recipe {folder.name} says"
        )
    how = folder.preprocess
    tensor = images.normalise(images.read_ppm(image.path), channels=how.channels, mean=how.mean, std=how.std)
    if tensor.shape != reference.shapes[folder.input_name]:
        raise ConfigError(f"{image.path}: size, got {tensor.shape}; expected {reference.shapes[folder.input_name]}")
    inputs = {folder.input_name: tensor}
    expected = reference.run(inputs)
    scores = next(iter(expected.values())).reshape(-1)
    if scores.size != len(folder.labels):
        raise ConfigError(f"{reference.path}: classes, got {scores.size}; expected {len(folder.labels)}, one a label")
    index = int(scores.argmax())
    label = folder.labels[index]
    if label not in image.expected:
        raise ImportFailed(
            f"{reference.path}: answer to {image.name}, got {label} ({scores[index]:.3f}); "
            f"expected {' or '.join(image.expected)}"
        )
    log.info(f"{image.name}: {label} ({scores[index]:.3f})")
    return Case(
        name=image.name, inputs=inputs, expected=expected, top1=(index, label), image=image.path, preprocess=how
    )


def write_cases(cases: Sequence[Case], out: Path, *, dtype: str = "float32") -> None:
    """Write the folder of cases for a model compiled to `dtype`, whole or not at all."""
    with files.atomic_folder(out, marker="*/case.json") as temporary:
        for case in cases:
            folder = temporary / case.name
            folder.mkdir()
            for i, array in enumerate(case.inputs.values()):
                _write_npy(folder / f"input_{i}.npy", array)
            for i, array in enumerate(case.expected.values()):
                _write_npy(folder / f"expected_{i}.npy", array)
            if case.image is not None:
                (folder / "image.ppm").write_bytes(case.image.read_bytes())
            facts = {
                "inputs": list(case.inputs),
                "outputs": list(case.expected),
                "rtol": RELATIVE_TOLERANCE[dtype],
                "top1": None if case.top1 is None else {"index": case.top1[0], "label": case.top1[1]},
                "image": None if case.image is None else "image.ppm",
                "preprocess": None if case.preprocess is None else dataclasses.asdict(case.preprocess),
            }
            (folder / "case.json").write_text(json.dumps(facts, indent=2) + "\n")


def _write_npy(path: Path, array: Array) -> None:
    little = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    with path.open("wb") as f:
        np.lib.format.write_array(f, little, version=(1, 0), allow_pickle=False)


def _read(path: Path) -> onnx.ModelProto:
    if not path.is_file():
        raise ImportFailed(f"{path}: no such file; expected an ONNX model")
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as e:  # protobuf's DecodeError is private to its implementation
        hint = "make ONNX of an MXNet model with convert" if path.suffix in (".json", ".params") else None
        raise ImportFailed(f"{path}: no ONNX model, or a truncated one: {_first_line(e)}", hint=hint) from e
    if not model.graph.output:
        raise ImportFailed(f"{path}: no ONNX model, got no graph outputs; expected a whole model")
    return model


def _declared_shape(value: onnx.ValueInfoProto) -> list[int | str | None] | None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim]


def _numpy_dtype(path: Path, name: str, onnx_type: str) -> np.dtype[Any]:
    word = onnx_type.removeprefix("tensor(").removesuffix(")")
    word = {"float": "float32", "double": "float64"}.get(word, word)
    try:
        dtype = np.dtype(word)
    except TypeError:
        dtype = np.dtype("O")
    if dtype.kind not in "fiub":
        raise ImportFailed(f"{path}: input {name}, got {onnx_type}; expected a tensor of numbers")
    return dtype


def _first_line(e: Exception) -> str:
    return (str(e).splitlines() or [type(e).__name__])[0]
