"""The tuning log: one JSON object a line, appended to and never rewritten, so that no finished work is lost.

A line holds a workload (the convolution's facts), rule and knobs, and the time with where it comes from.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..schedules.facts import Conv2dFacts

PREDICTED, MEASURED = "predicted", "measured"
_PAIRS = ("kernel", "stride", "dilation", "pad")


@dataclass(frozen=True, kw_only=True)
class Record:
    """One candidate that was tried.

    time_us: of the whole operator, None if it could not be timed, with the reason in `failure`; how: "predicted" or
    "measured"; by: the cost model and its version, or the device.
    """

    workload: Conv2dFacts
    rule: str
    knobs: Mapping[str, int] = field(hash=False)
    time_us: float | None
    how: str
    by: str
    failure: str = ""

    @property
    def candidate(self) -> tuple[str, str, tuple[tuple[str, int], ...]]:
        """What was tried, as a key: the same for its prediction and its measurement."""
        return self.workload.key, self.rule, tuple(sorted(self.knobs.items()))

    def line(self) -> str:
        data = asdict(self)
        if not self.failure:
            del data["failure"]
        return json.dumps(data, separators=(",", ":")) + "\n"


def append(path: Path, records: Iterable[Record]) -> None:
    """Add lines to the log, on the disk when this returns; what a killed writer left unfinished at its end goes first.

    Raises ConfigError if the file cannot be written.
    """
    text = "".join(r.line() for r in records)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as f:
            _drop_unfinished_line(f)
            f.write(text.encode())
            f.flush()
            os.fsync(f.fileno())
    except OSError as e:
        raise ConfigError(f"{path}: the tuning log cannot be written: {e.strerror}") from e


def _drop_unfinished_line(f: Any) -> None:
    end = f.seek(0, os.SEEK_END)
    if end == 0:
        return
    f.seek(max(0, end - (1 << 16)))
    tail = f.read()
    if not tail.endswith(b"\n"):
        f.truncate(end - len(tail) + tail.rfind(b"\n") + 1)


def read(path: Path) -> list[Record]:
    """All whole lines; an unfinished last line is what a killed writer leaves, and is not there.

    Raises ConfigError for a file that cannot be read or a line that is no record.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is no text"
        raise ConfigError(f"{path}: the tuning log cannot be read: {reason}") from e
    lines = text.split("\n")[:-1]
    return [_parse(path, number, line) for number, line in enumerate(lines, 1)]


def _parse(path: Path, number: int, line: str) -> Record:
    problem = ConfigError(
        f"{path}:{number}: not a record of a tuning log, got {line[:60]!r}; expected a JSON object with "
        f"{', '.join(f.name for f in fields(Record))}",
        hint="delete the line",
    )
    try:
        data: dict[str, Any] = json.loads(line)
        workload: dict[str, Any] = {k: tuple(v) if k in _PAIRS else v for k, v in data.pop("workload").items()}
        record = Record(workload=Conv2dFacts(**workload), **data)
    except (ValueError, TypeError, KeyError, AttributeError) as e:
        raise problem from e
    timed = record.time_us is None or (isinstance(record.time_us, int | float) and record.time_us > 0)
    knobs = isinstance(record.knobs, Mapping) and all(isinstance(v, int) for v in record.knobs.values())
    if record.how not in (PREDICTED, MEASURED) or not timed or not knobs:
        raise problem
    return record


def best(records: Sequence[Record]) -> list[Record]:
    """The best record of each workload, in order of their keys: a measured one before any predicted one.

    Predictions of two models do not compare: those of the workload's last one count.
    """
    last = {(r.workload.key, r.how): r.by for r in records}
    found: dict[str, Record] = {}
    for record in records:
        key = record.workload.key
        if record.time_us is None or (record.how == PREDICTED and last[key, PREDICTED] != record.by):
            continue
        if key not in found or _rank(record) < _rank(found[key]):
            found[key] = record
    return [found[key] for key in sorted(found)]


def _rank(record: Record) -> tuple[bool, float]:
    return record.how != MEASURED, record.time_us or 0.0
