"""Launches whose time was measured on a board: what constants are fitted to, and judged on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .features import Features, columns


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One record of a log. name: file and line; workload: equal for configurations of one layer, operator and dtype.

    flops: of the operator itself, whatever its kernels do. launches: in the order of the queue.
    """

    name: str
    operator: str
    dtype: str
    workload: str
    networks: tuple[str, ...]
    measured_us: float
    flops: float
    launches: tuple[Features, ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """All launches of some samples as columns; `sample` is the row of the sample that a launch belongs to."""

    columns: dict[str, np.ndarray]
    sample: np.ndarray
    measured_us: np.ndarray

    def per_sample(self, of_launches: np.ndarray) -> np.ndarray:
        return np.bincount(self.sample, weights=of_launches, minlength=len(self.measured_us))


def table_of(samples: Sequence[Sample]) -> Table:
    return Table(
        columns=columns([launch for s in samples for launch in s.launches]),
        sample=np.array([i for i, s in enumerate(samples) for _ in s.launches], dtype=np.intp),
        measured_us=np.array([s.measured_us for s in samples]),
    )
