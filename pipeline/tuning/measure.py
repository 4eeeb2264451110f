"""Candidates measured on a device, each as a model of one layer, by the `malisdk bench` of an SDK for it."""

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .. import container
from ..devices import Device
from ..devices.base import check, failure
from ..devices.sdk_archive import SdkArchive
from ..errors import ScheduleError
from ..passes.choose_conv2d import Choice
from ..schedules.facts import Conv2dFacts
from ..targets import TargetSpec
from . import log
from .layer import layer_plan

_ARCHIVE, _MODEL = "sdk.tar.gz", "layer.mali"
_TIMEOUT_S = 300.0
_RUNS = 20
# The kernels' own time where the driver tells it, else a whole run, copies of the input and output included.
_DEVICE_LINE = re.compile(r"^device ([\d.]+) ms of", re.MULTILINE)
_LATENCY_LINE = re.compile(r"^latency +min [\d.]+ +median ([\d.]+)", re.MULTILINE)
_NAME_LINE = re.compile(r"^device +(.+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """An open device with the SDK unpacked on it."""

    device: Device
    folder: str

    def time(self, facts: Conv2dFacts, choice: Choice, target: TargetSpec) -> log.Record:
        """The record of a candidate; one that cannot be made or does not run there has the reason as its failure.

        Raises DeviceError if the device is lost.
        """
        try:
            plan = layer_plan(facts, choice, target)
        except ScheduleError as e:
            return _record(facts, choice, self.device.name, None, str(e).splitlines()[0])
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch, _MODEL)
            container.write(path, plan)
            self.device.push(path, _MODEL)
        words = [f"{self.folder}/bin/malisdk", "bench", _MODEL, "--runs", str(_RUNS), "--profile", "--cache-dir", ""]
        result = self.device.run(words, timeout_s=_TIMEOUT_S)
        name = _NAME_LINE.search(result.output)
        by = f"{self.device.name}, {name[1].partition(' (')[0]}" if name else self.device.name
        found = _DEVICE_LINE.search(result.output) or _LATENCY_LINE.search(result.output)
        if result.code != 0:
            return _record(facts, choice, by, None, result.tail.splitlines()[-1] if result.tail else "it failed")
        if found is None:
            raise failure(self.device, result, "malisdk bench printed no time")
        return _record(facts, choice, by, float(found[1]) * 1e3, "")


@contextmanager
def unpacked(device: Device, archive: SdkArchive) -> Iterator[Bench]:
    """The device, opened, with the SDK on it. Raises DeviceError if that cannot be."""
    with device:
        device.push(archive.path, _ARCHIVE)
        check(device, device.run(["tar", "-xzf", _ARCHIVE], timeout_s=_TIMEOUT_S), f"cannot unpack {archive.path.name}")
        yield Bench(device=device, folder=archive.folder)


def best_predicted(records: Sequence[log.Record], workloads: Sequence[Conv2dFacts], top: int) -> list[log.Record]:
    """The `top` best predictions of each workload that no device has measured yet."""
    measured = {r.candidate for r in records if r.how == log.MEASURED}
    found = []
    for key in dict.fromkeys(w.key for w in workloads):
        timed = {r.candidate: r for r in records if r.workload.key == key and r.how == log.PREDICTED and r.time_us}
        best = sorted(timed.values(), key=lambda r: r.time_us or 0.0)[:top]
        found += [r for r in best if r.candidate not in measured]
    return found


def _record(facts: Conv2dFacts, choice: Choice, by: str, time_us: float | None, failed: str) -> log.Record:
    return log.Record(
        workload=facts,
        rule=choice.rule,
        knobs=dict(choice.knobs or {}),
        time_us=None if time_us is None else round(time_us, 2),
        how=log.MEASURED,
        by=by,
        failure=failed,
    )
