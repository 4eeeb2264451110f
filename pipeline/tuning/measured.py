"""The records of AutoTVM logs as samples for the cost model: replayed, compiled by Mesa, with the time on the board."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import log
from ..errors import ScheduleError
from ..oracle.batch import measure
from ..oracle.cost import KernelCost, NoData
from ..oracle.features import Launched, features_of
from ..oracle.gpus import Gpu
from ..oracle.networks import Layer, networks_of
from ..oracle.samples import Sample
from .autotvm import Record, read_log
from .replay import Replayed, ReplayedKernel, replay


@dataclass(frozen=True, kw_only=True)
class Measured:
    """`older[i]` says whether samples[i] is of another log than the first; `failures` why records gave no sample."""

    samples: tuple[Sample, ...]
    older: tuple[bool, ...]
    failures: tuple[str, ...]


def samples_of(logs: Sequence[Path], gpu: Gpu, *, timeout_s: float, processes: int) -> Measured:
    """Samples of all records; one that stands in several logs with the same knobs counts where it comes first.

    Raises ConfigError for a file that is no log, ToolchainError if this machine cannot have Mesa's compiler.
    """
    replayed: list[tuple[Path, Record, Replayed]] = []
    failures: list[str] = []
    with log.step("replay the records"):
        for path, record in _records(logs):
            try:
                replayed.append((path, record, replay(record)))
            except ScheduleError as e:
                failures.append(f"{path.name}:{record.line}: {e}")
    sources = [kernel.source for _, _, r in replayed for kernel in r.kernels]
    outcomes = iter(measure(sources, gpu, timeout_s=timeout_s, processes=processes, title="compile the replays"))
    samples, older = [], []
    for path, record, r in replayed:
        compiled = [next(outcomes)[0] for _ in r.kernels]
        launches = []
        for kernel, outcome in zip(r.kernels, compiled, strict=True):
            if isinstance(outcome, NoData):
                failures.append(f"{path.name}:{record.line}: {kernel.name}: {outcome.reason.splitlines()[0]}")
                break
            launches.append(features_of(launched(r, kernel, outcome, record.dtype)))
        else:
            samples.append(
                Sample(
                    name=f"{path.name}:{record.line}",
                    operator=record.operator,
                    dtype=record.dtype,
                    workload=f"{record.operator} {record.workload}",
                    networks=networks_of(layer_of(record)),
                    measured_us=record.time_s * 1e6,
                    flops=2.0 * r.multiply_adds,
                    launches=tuple(launches),
                )
            )
            older.append(path != logs[0])
    return Measured(samples=tuple(samples), older=tuple(older), failures=tuple(failures))


def launched(replayed: Replayed, kernel: ReplayedKernel, cost: KernelCost, dtype: str) -> Launched:
    """One of a replay's launches, for the cost model."""
    written = _written(kernel.buffers, kernel.arguments, len(replayed.shapes) - 1)
    return Launched(
        cost=cost,
        source=kernel.source,
        global_size=kernel.global_size,
        local_size=kernel.local_size,
        bytes_read=sum(kernel.arguments) - written,
        bytes_written=written,
        dtype=dtype,
    )


def layer_of(record: Record) -> Layer:
    w = record.workload
    if record.operator == "dense":
        channels = (w.data[1], w.weight[0])
        return Layer(kind="dense", size=(1, 1), channels=channels, kernel=(1, 1), stride=1, pad=(0, 0))
    is_depthwise = record.operator == "depthwise_conv2d_nchw"
    return Layer(
        kind="depthwise" if is_depthwise else "conv2d",
        size=(w.data[2], w.data[3]),
        channels=(w.data[1], w.data[1] if is_depthwise else w.weight[0]),
        kernel=(w.weight[2], w.weight[3]),
        stride=w.stride[0],
        pad=(w.pad[0], w.pad[1]),
    )


def _records(logs: Sequence[Path]) -> Iterator[tuple[Path, Record]]:
    seen: set[tuple[object, ...]] = set()
    for path in logs:
        for record in read_log(path):
            key = (record.operator, record.workload, tuple(sorted(record.knobs.items())))
            if key not in seen:
                seen.add(key)
                yield path, record


def _written(buffers: Sequence[int], sizes: Sequence[int], output: int) -> int:
    """Bytes of the buffer that a kernel writes: the output, else the scratch that is numbered last (lowest)."""
    return sizes[buffers.index(output)] if output in buffers else sizes[buffers.index(min(buffers))]
