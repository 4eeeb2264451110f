"""What a command's MODEL argument names: an ONNX file, a folder of `models build`, or a recipe."""

from dataclasses import dataclass
from pathlib import Path

from .. import files, model_folder, recipes
from ..errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class NamedModel:
    name: str
    onnx: Path


def find_model(text: str) -> NamedModel:
    """The model; a recipe is built once, into the cache.

    Raises ConfigError for what is none of the three, and what building a recipe raises.
    """
    path = Path(text)
    if path.is_dir():
        return NamedModel(name=model_folder.read_folder(path).name, onnx=path / model_folder.MODEL_FILE)
    if path.is_file():
        return NamedModel(name=path.stem, onnx=path)
    if path.suffix or "/" in text:
        raise ConfigError(f"{text}: no such file; expected a model file, a folder of `models build`, or a name")
    recipe = recipes.load(text)
    folder = files.cache_dir() / "models" / f"{text}-{files.sha256(recipes.models_dir() / f'{text}.py')[:12]}"
    if not (folder / model_folder.RECIPE_FILE).is_file():
        model_folder.build_folder(recipe, folder)
    return NamedModel(name=text, onnx=folder / model_folder.MODEL_FILE)
