"""From a trained network to an SDK for a Mali board."""

from collections.abc import Mapping, Sequence
from pathlib import Path

__version__ = "0.1.0"


def build_model(
    model: str | Path,
    target: str = "host",
    dtype: str = "float32",
    shapes: Mapping[str, Sequence[int]] | None = None,
    out: str | Path | None = None,
) -> Path:
    """Compile a model file to a `.mali` file, which `malisdk.load` runs; returns the path written.

    target: "host" (this machine) or "rk3399"; dtype: what activations and weights are stored in, "float32" or
    "float16"; shapes: static shapes, in elements, of inputs that the model leaves open; out: the file to write, by
    default <model>.mali in the current folder. Raises a MaliSdkError and writes nothing when anything fails.
    """
    from .compile import build_model as build

    return build(model, target, dtype, shapes, out)
