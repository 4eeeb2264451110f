"""Which rule and knobs a convolution gets: a logged decision, else the nearest logged one that is legal for it."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..passes.choose_conv2d import Choice
from ..schedules.facts import Conv2dFacts
from . import log
from .space import is_legal

# Beyond a factor of eight in all (a layer of twice the rows, columns and channels) another layer's knobs say little.
_FAR = 3.0


class Decisions:
    """Call it with a convolution's facts: the choice with its reason, or None where the log says nothing."""

    def __init__(self, records: Sequence[log.Record]) -> None:
        self._best = {r.workload.key: r for r in log.best(records)}

    def __call__(self, facts: Conv2dFacts) -> Choice | None:
        known = self._best.get(facts.key)
        if known is not None and is_legal(facts, known.rule, known.knobs):
            return _choice(known, f"logged: {_time(known)}")
        near = [(distance(facts, r.workload), key) for key, r in self._best.items()]
        for far, key in sorted(pair for pair in near if pair[0] <= _FAR):
            record = self._best[key]
            if key != facts.key and is_legal(facts, record.rule, record.knobs):
                return _choice(record, f"nearest logged, {far:.1f} away: {key}, {_time(record)}")
        return None


def distance(a: Conv2dFacts, b: Conv2dFacts) -> float:
    """How far apart two convolutions are, in factors of two; infinite if their kernels differ in more than sizes."""
    if kind(a) != kind(b):
        return math.inf
    sizes = [(_area(f), f.in_channels, f.out_channels, f.batch) for f in (a, b)]
    return sum(abs(math.log2(x / y)) for x, y in zip(*sizes, strict=True)) + (a.pad != b.pad) * 0.5


def kind(f: Conv2dFacts) -> tuple[object, ...]:
    """What two convolutions must have in common for the knobs of one to say something about the other."""
    groups = "depthwise" if f.is_depthwise else f.groups
    # fewer input channels than a vector has lanes make another kernel
    return groups, f.kernel, f.stride, f.dilation, f.dtype, min(f.in_channels, 4)


def _area(f: Conv2dFacts) -> int:
    return max(1, f.out_height * f.out_width)


def _choice(record: log.Record, why: str) -> Choice:
    return Choice(rule=record.rule, knobs=dict(record.knobs), why=why)


def _time(record: log.Record) -> str:
    return f"{record.time_us or 0:.0f} us {record.how} ({record.by})"


def shipped_log() -> Path:
    """The decisions for the benchmark networks that come with this package; one GPU, so one file."""
    return Path(__file__).parent / "logs" / "mali_t860.jsonl"


def load(extra: Iterable[Path] = ()) -> Decisions:
    """The shipped log and `extra` ones. Raises ConfigError for a file that is no log."""
    paths = [shipped_log()] if shipped_log().is_file() else []
    return Decisions([record for path in [*paths, *extra] for record in log.read(path)])
