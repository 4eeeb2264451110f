"""A recipe made real: a folder with the model, its labels, its golden images and where all of it came from.

model.onnx  recipe.json  labels.txt  images/<name>.ppm  licences/<package>-<version>.txt
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import downloads, files, images, log
from .errors import ConfigError, ImportFailed
from .recipes import Preprocess, Recipe

RECIPE_FILE = "recipe.json"
MODEL_FILE = "model.onnx"
LABELS_FILE = "labels.txt"
CLASSES = 1000


@dataclass(frozen=True, kw_only=True)
class FolderImage:
    """A golden image in a model folder, at the model's input size, and the labels of which top-1 must be one."""

    name: str
    path: Path
    expected: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """What a built folder says about its model."""

    name: str
    input_name: str
    preprocess: Preprocess | None
    labels: tuple[str, ...]
    images: tuple[FolderImage, ...]


def build_folder(recipe: Recipe, out: Path) -> None:
    """Write the folder, whole or not at all. Raises what downloads.fetch and the recipe's build raise."""
    with files.atomic_folder(out, marker=RECIPE_FILE) as folder, log.step(f"build {recipe.name}"):
        model = recipe.build({key: downloads.fetch(file) for key, file in recipe.weights.items()})
        (folder / MODEL_FILE).write_bytes(model.SerializeToString(deterministic=True))
        if recipe.labels is not None:
            labels = _read_labels(downloads.fetch(recipe.labels))
            (folder / LABELS_FILE).write_text("".join(f"{label}\n" for label in labels))
        for image in recipe.images:
            encoded = downloads.fetch(image.file).read_bytes()
            _, _, height, width = recipe.input_shape
            pixels = images.square_pixels(encoded, source=image.file.source, height=height, width=width)
            path = folder / "images" / f"{image.name}.ppm"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(images.ppm_bytes(pixels))
        for source in recipe.sources:
            if (text := downloads.licence_text(source)) is not None:
                path = folder / "licences" / f"{source.package}-{source.version}.txt"
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(text)
        (folder / RECIPE_FILE).write_text(json.dumps(_facts(recipe), indent=2) + "\n")


def _facts(recipe: Recipe) -> dict[str, Any]:
    return {
        "name": recipe.name,
        "summary": recipe.summary,
        "input": {"name": recipe.input_name, "shape": list(recipe.input_shape)},
        "preprocess": None if recipe.preprocess is None else dataclasses.asdict(recipe.preprocess),
        "labels": None if recipe.labels is None else LABELS_FILE,
        "images": [
            {"name": i.name, "file": f"images/{i.name}.ppm", "expected": list(i.expected)} for i in recipe.images
        ],
        "sources": [
            {
                "package": s.package,
                "version": s.version,
                "archive_sha256": s.archive_sha256,
                "file": s.member,
                "sha256": s.sha256,
                "licence": s.licence,
            }
            for s in recipe.sources
        ],
    }


def _read_labels(path: Path) -> list[str]:
    """The labels by class index, out of a JSON object {"0": "tench, ...", ...}."""
    by_index = json.loads(path.read_text(encoding="utf-8"))
    if sorted(by_index, key=int) != [str(i) for i in range(CLASSES)]:
        raise ImportFailed(f"{path}: class labels, got {len(by_index)}; expected one for each index below {CLASSES}")
    return [str(by_index[str(i)]) for i in range(CLASSES)]


def read_folder(folder: Path) -> ModelFolder:
    """Raises ConfigError if there is no model folder, or its recipe.json is not what build_folder writes."""
    path = folder / RECIPE_FILE
    if not path.is_file():
        raise ConfigError(f"{folder}: no {RECIPE_FILE}; expected a folder made by `models build`")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        preprocess = facts["preprocess"]
        labels = (folder / facts["labels"]).read_text().splitlines() if facts["labels"] else []
        return ModelFolder(
            name=facts["name"],
            input_name=facts["input"]["name"],
            preprocess=None if preprocess is None else Preprocess(**preprocess),
            labels=tuple(labels),
            images=tuple(
                FolderImage(name=i["name"], path=folder / i["file"], expected=tuple(i["expected"]))
                for i in facts["images"]
            ),
        )
    except (ValueError, KeyError, TypeError, OSError) as e:
        raise ConfigError(
            f"{path}: unreadable: {type(e).__name__}: {e}", hint=f"models build NAME --out {folder}"
        ) from e
