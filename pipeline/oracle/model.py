"""Microseconds on a Mali-T860MP4 (RK3399), predicted from what Mesa's compiler and the kernel's text say.

Version 0 has the chip's published numbers for constants and no fit: it is for comparing kernels with each other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .features import Features, Launched, features_of

__all__ = ["MODEL", "Launched", "Prediction", "predict"]

MODEL = "T860 model v0, published constants, not fitted"

_CORES = 4
_MHZ = 800
_ARITHMETIC_PIPES = 2
# clpeak on a T860MP4 reads 7.33 GB/s with float4.
_BYTES_PER_US = 7330
# Launches in a queue overlap with what runs; 78 us is what one costs that is waited for alone.
_LAUNCH_US = 20.0


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Times in microseconds, summed over the launches; `time_us` is not their sum, since work and memory overlap.

    limit: "arithmetic", "load/store", "memory" or "launch", what takes most; model: what to show beside every number;
    extrapolated: whether a kernel is unlike all that the model was fitted on.
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


def predict(launches: Sequence[Launched]) -> Prediction:
    """The time of launches that follow each other in a queue.

    Raises ScheduleError for a kernel whose text is not understood, or without counts of bundles.
    """
    parts = [_one(features_of(launched)) for launched in launches]
    sums = {limit: sum(p.time_us for p in parts if p.limit == limit) for limit in (p.limit for p in parts)}
    return Prediction(
        time_us=sum(p.time_us for p in parts),
        compute_us=sum(p.compute_us for p in parts),
        memory_us=sum(p.memory_us for p in parts),
        launch_us=sum(p.launch_us for p in parts),
        limit=max(sums, key=lambda limit: sums[limit]) if sums else "launch",
        model=MODEL,
        extrapolated=True,
    )


def _one(f: Features) -> Prediction:
    items = f.items * math.ceil(f.groups / _CORES) / f.groups
    arithmetic_us = items * f.alu / _ARITHMETIC_PIPES / _MHZ
    load_store_us = items * f.load_store / _MHZ
    memory_us = f.bytes / _BYTES_PER_US
    times = {
        "arithmetic": arithmetic_us,
        "load/store": load_store_us,
        "memory": memory_us,
        "launch": _LAUNCH_US,
    }
    compute_us = max(arithmetic_us, load_store_us)
    return Prediction(
        time_us=_LAUNCH_US + max(compute_us, memory_us),
        compute_us=compute_us,
        memory_us=memory_us,
        launch_us=_LAUNCH_US,
        limit=max(times, key=lambda name: times[name]),
        model=MODEL,
        extrapolated=True,
    )
