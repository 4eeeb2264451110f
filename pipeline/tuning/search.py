"""Grid search over a convolution's space, on the oracle and its cost model; every finished workload goes to the log."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ScheduleError
from ..oracle import DEFAULT_GPU, Outcome, find_gpu, measure
from ..oracle.model import load_model
from ..oracle.plan_times import launch_times
from ..passes.choose_conv2d import Choice
from ..plan import Plan
from ..schedules.facts import Conv2dFacts
from ..targets import TargetSpec
from . import log
from .layer import layer_plan
from .space import space

# Kernels a round of compilers: enough to keep two of them busy, few enough that little waits for a slow one.
_ROUND = 48

Report = Callable[[Conv2dFacts, Sequence[log.Record]], None]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A workload with the candidates of it that are not in the log."""

    facts: Conv2dFacts
    candidates: tuple[Choice, ...]


def open_tasks(workloads: Sequence[Conv2dFacts], path: Path) -> list[Task]:
    """Candidates without a prediction of this cost model in the log. Raises what log.read raises."""
    records = log.read(path) if path.is_file() else []
    done = {r.candidate for r in records if r.how == log.PREDICTED and r.by == load_model().label}
    tasks = []
    for facts in {f.key: f for f in workloads}.values():
        left = tuple(c for c in space(facts) if _record(facts, c, None).candidate not in done)
        if left:
            tasks.append(Task(facts=facts, candidates=left))
    return tasks


def search(tasks: Sequence[Task], path: Path, target: TargetSpec, *, processes: int, report: Report) -> None:
    """Predict all candidates and append them to the log, workload by workload; `report` is called for each.

    A candidate that cannot be scheduled or compiled is logged with the reason. Raises what `measure` raises.
    """
    gpu = find_gpu(DEFAULT_GPU)
    for some in _rounds(tasks):
        built = [_build(task, choice, target) for task in some for choice in task.candidates]
        plans = [b for b in built if isinstance(b, Plan)]
        outcomes = measure([k.source for p in plans for k in p.kernels], gpu, processes=processes, title="candidates")
        rest = iter(outcomes)
        costs = {id(p): list(itertools.islice(rest, len(p.kernels))) for p in plans}
        pending = iter(built)
        for task in some:
            records = [_tried(task.facts, choice, next(pending), costs) for choice in task.candidates]
            log.append(path, records)
            report(task.facts, records)


def _rounds(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    some: list[Task] = []
    for task in tasks:
        some.append(task)
        if sum(len(t.candidates) for t in some) >= _ROUND:
            yield some
            some = []
    if some:
        yield some


def _build(task: Task, choice: Choice, target: TargetSpec) -> Plan | ScheduleError:
    try:
        return layer_plan(task.facts, choice, target)
    except ScheduleError as e:
        return e


def _tried(
    facts: Conv2dFacts, choice: Choice, result: Plan | ScheduleError, costs: dict[int, list[list[Outcome]]]
) -> log.Record:
    if isinstance(result, ScheduleError):
        return _record(facts, choice, None, failure=str(result).splitlines()[0])
    times = launch_times(result, costs[id(result)])
    problems = [t.problem for t in times if t.prediction is None]
    if problems:
        return _record(facts, choice, None, failure=problems[0].splitlines()[0])
    return _record(facts, choice, sum(t.prediction.time_us for t in times if t.prediction is not None))


def _record(facts: Conv2dFacts, choice: Choice, time_us: float | None, *, failure: str = "") -> log.Record:
    return log.Record(
        workload=facts,
        rule=choice.rule,
        knobs=dict(choice.knobs or {}),
        time_us=None if time_us is None else round(time_us, 2),
        how=log.PREDICTED,
        by=load_model().label,
        failure=failure,
    )
