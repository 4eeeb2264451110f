"""What MXNet said about one model."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Truth:
    """A model's files, one set of inputs and MXNet's answers."""

    symbol: Path
    inputs: dict[str, np.ndarray]
    answers: list[np.ndarray]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: array.shape for name, array in self.inputs.items()}
