"""Knobs out of AutoTVM logs for the convolutions that they were measured for."""

from collections.abc import Sequence
from pathlib import Path

from .. import log
from ..errors import ScheduleError
from ..passes.choose_conv2d import Choice, InNchw
from ..schedules.facts import Conv2dFacts
from .autotvm import Record, read_log
from .replay import facts_of, rule_and_knobs


class LoggedKnobs:
    """Call it with a convolution's facts: the rule of 2018 with the knobs of its fastest record, None without one.

    A record is for exactly the same shapes, stride, pad, dilation, groups and dtype, and of a template for Mali.
    """

    def __init__(self, records: Sequence[Record], *, source: str) -> None:
        self._source = source
        self._best: dict[str, Record] = {}
        for record in sorted(records, key=lambda r: r.time_s, reverse=True):
            if record.device == "mali" and record.operator != "dense":
                self._best[facts_of(record).key] = record

    def __call__(self, facts: Conv2dFacts) -> Choice | None:
        record = self._best.get(facts.key)
        if record is None:
            return None
        try:
            rule, knobs = rule_and_knobs(record)
        except ScheduleError as e:
            log.warning(f"{self._source}: record passed over: {e}")
            return None
        why = f"{self._source}:{record.line}: {record.time_s * 1e6:.0f} us measured (AutoTVM)"
        return Choice(rule=rule.name, knobs={}, why=why, nchw=InNchw(rule=rule, knobs=knobs))


def load(path: Path) -> LoggedKnobs:
    """Raises ConfigError for a file that is no AutoTVM log."""
    return LoggedKnobs(read_log(path), source=path.name)
