"""Microseconds on a Mali-T860MP4 (RK3399), predicted from what Mesa's compiler and the kernel's text say.

The constants are fitted to TopHub's measurements on a board and frozen in a file beside this one; docs/cost_model.md
says how, and how good that is.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from .features import Features, Launched, columns, features_of
from .physics import Constants, parts

__all__ = ["Launched", "Model", "Prediction", "load_model", "predict", "predict_each"]

CONSTANTS_FILE = Path(__file__).with_name("t860.json")
# A launch may be this factor beyond all that the logs hold before it counts as extrapolated.
_SLACK = 1.5


@dataclass(frozen=True, kw_only=True)
class Model:
    """A frozen fit. `error`: median absolute error of the time on held-out networks; `errors`: by "operator dtype".

    ranges: least and greatest value of each trait (see traits) in the launches fitted to.
    """

    version: int
    fitted_on: str
    constants: Constants
    error: float
    errors: Mapping[str, float]
    ranges: Mapping[str, tuple[float, float]]

    @property
    def label(self) -> str:
        return f"T860 model v{self.version}, median error {self.error:.0%}".replace("%", " %")

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @staticmethod
    def from_json(text: str) -> "Model":
        """Raises KeyError, TypeError or ValueError for a text that to_json did not write."""
        data = json.loads(text)
        ranges = {name: (low, high) for name, (low, high) in data["ranges"].items()}
        return Model(**{**data, "constants": Constants(**data["constants"]), "ranges": ranges})


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Times in microseconds, summed over the launches; `time_us` is not their sum, since work and memory overlap.

    limit: "arithmetic", "load/store", "latency", "memory" or "launch", what takes most of the time; model: what to show
    beside every number; extrapolated: whether a kernel is unlike all that the model was fitted to.
    """

    time_us: float
    compute_us: float
    memory_us: float
    launch_us: float
    limit: str
    model: str
    extrapolated: bool

    def __str__(self) -> str:
        doubt = ", extrapolated" if self.extrapolated else ""
        return f"{self.time_us:.0f} us predicted ({self.model}{doubt})"


@cache
def load_model() -> Model:
    return Model.from_json(CONSTANTS_FILE.read_text())


def predict(launches: Sequence[Launched]) -> Prediction:
    """The time of launches that follow each other in a queue.

    Raises ScheduleError for a kernel whose text is not understood, or without counts of bundles.
    """
    each = predict_each(launches)
    sums: dict[str, float] = {}
    for p in each:
        sums[p.limit] = sums.get(p.limit, 0.0) + p.time_us
    return Prediction(
        time_us=sum(p.time_us for p in each),
        compute_us=sum(p.compute_us for p in each),
        memory_us=sum(p.memory_us for p in each),
        launch_us=sum(p.launch_us for p in each),
        limit=max(sums, key=lambda limit: sums[limit]) if sums else "launch",
        model=load_model().label,
        extrapolated=any(p.extrapolated for p in each),
    )


def predict_each(launches: Sequence[Launched]) -> list[Prediction]:
    """One prediction a launch. Raises ScheduleError as predict does."""
    if not launches:
        return []
    model = load_model()
    features = [features_of(launched) for launched in launches]
    times = parts(model.constants, columns(features))
    named = {
        "arithmetic": times.arithmetic,
        "load/store": times.load_store,
        "latency": times.latency,
        "memory": times.memory,
        "launch": times.launch,
    }
    compute = np.maximum(np.maximum(times.arithmetic, times.load_store), times.latency)
    return [
        Prediction(
            time_us=float(times.total[i]),
            compute_us=float(compute[i]),
            memory_us=float(times.memory[i]),
            launch_us=float(times.launch[i]),
            limit=max(named, key=lambda name: named[name][i]),
            model=model.label,
            extrapolated=_is_extrapolated(features[i], model),
        )
        for i in range(len(features))
    ]


def traits(f: Features) -> dict[str, float]:
    """What tells kinds of kernels apart, each positive: sizes, and how the work of a work-item is made up."""
    bundles = f.alu + f.load_store + 1.0
    return {
        "items": f.items,
        "group": f.group,
        "registers": f.registers + 1.0,
        "bundles": bundles,
        "alu_share": (f.alu + 1.0) / bundles,
        "load_store_share": (f.load_store + 1.0) / bundles,
        "float_share": (f.mads + f.part_mads + f.operations + 1.0) / bundles,
        "lines": f.lines + 0.1,
        "spilled": f.spilled + 1.0,
        "bytes_an_item": f.bytes / f.items,
    }


def ranges_of(features: Sequence[Features]) -> dict[str, tuple[float, float]]:
    found = [traits(f) for f in features]
    return {name: (min(t[name] for t in found), max(t[name] for t in found)) for name in found[0]}


def _is_extrapolated(f: Features, model: Model) -> bool:
    found = traits(f)
    return not f.sure or any(
        not low / _SLACK <= found[name] <= high * _SLACK for name, (low, high) in model.ranges.items()
    )
