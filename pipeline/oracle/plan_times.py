"""The launches of a compiled plan under the oracle: what each kernel costs, and how long each launch should take."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ScheduleError
from ..plan import Launch, Plan
from .batch import PROCESSES, measure
from .cost import KernelCost, Outcome
from .gpus import Gpu
from .model import Launched, Prediction, predict

_PARAMETER = re.compile(r"(const\s+)?__global\b")


@dataclass(frozen=True, kw_only=True)
class LaunchTime:
    """`cost` and `prediction` are None where there is no data, for the reason in `problem`."""

    launch: Launch
    cost: KernelCost | None
    prediction: Prediction | None
    problem: str = ""


def plan_costs(plan: Plan, gpu: Gpu, *, processes: int = PROCESSES, title: str = "compile") -> list[list[Outcome]]:
    """The outcomes of each kernel's text, in the order of plan.kernels. Raises what `measure` raises."""
    return measure([k.source for k in plan.kernels], gpu, processes=processes, title=title)


def launch_times(plan: Plan, outcomes: Sequence[Sequence[Outcome]]) -> list[LaunchTime]:
    """One for each launch, in their order; equal launches are predicted once."""
    known: dict[tuple[object, ...], LaunchTime] = {}
    times = []
    for launch in plan.launches:
        sizes = tuple(plan.buffers[b].size_bytes for b in launch.buffers)
        key = (launch.kernel, launch.global_size, sizes)
        if key not in known:
            known[key] = _time(plan, launch, sizes, outcomes[launch.kernel])
        found = known[key]
        times.append(LaunchTime(launch=launch, cost=found.cost, prediction=found.prediction, problem=found.problem))
    return times


def _time(plan: Plan, launch: Launch, sizes: Sequence[int], outcomes: Sequence[Outcome]) -> LaunchTime:
    kernel = plan.kernels[launch.kernel]
    cost = outcomes[0] if outcomes else None
    if not isinstance(cost, KernelCost):
        return LaunchTime(launch=launch, cost=None, prediction=None, problem="no data" if cost is None else cost.reason)
    read, written = _traffic(kernel.source, sizes)
    launched = Launched(
        cost=cost,
        source=kernel.source,
        global_size=launch.global_size,
        local_size=kernel.local_size,
        bytes_read=read,
        bytes_written=written,
        dtype=plan.dtype,
    )
    try:
        return LaunchTime(launch=launch, cost=cost, prediction=predict([launched]))
    except ScheduleError as e:
        return LaunchTime(launch=launch, cost=cost, prediction=None, problem=str(e))


def _traffic(source: str, sizes: Sequence[int]) -> tuple[int, int]:
    """Bytes read and written: a parameter that is const is only read, and the printer leaves no other unwritten."""
    head = source[: source.index("{")] if "{" in source else source
    constant = [bool(m[1]) for m in _PARAMETER.finditer(head)]
    if len(constant) != len(sizes):
        return sum(sizes), 0
    read = sum(size for size, c in zip(sizes, constant, strict=True) if c)
    return read, sum(sizes) - read
