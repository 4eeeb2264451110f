"""Grid search over a convolution's space on the oracle and its cost model; every finished workload goes to the log.

Two kernels that differ in sizes only cost nearly the same, so candidates are first ranked by borrowed counts: those of
a kernel with the same text but for its numbers. The best are compiled themselves, and only those are logged. Where a
workload of the same kind was searched before, only what was good there is tried.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..errors import ScheduleError
from ..oracle import DEFAULT_GPU, Outcome, find_gpu, measure
from ..oracle.gpus import Gpu
from ..oracle.model import load_model
from ..oracle.plan_times import launch_times
from ..passes.choose_conv2d import Choice
from ..plan import Plan
from ..schedules.facts import Conv2dFacts
from ..targets import TargetSpec
from . import log
from .decisions import kind
from .layer import layer_plan
from .space import space

# Workloads a round: enough kernels to keep two compilers busy, and not much lost with a round that is interrupted.
_ROUND = 8
# Candidates tried where another workload of the same kind was searched, by their order there.
_CARRIED = 8
# Candidates compiled themselves, beside the default.
_FINALISTS = 2
# Larger numbers are sizes and strides; smaller ones are lanes and offsets, which make another kernel.
_SIZES = re.compile(r"\b\d{2,}\b|\b[89]\b")

Report = Callable[[Conv2dFacts, Sequence[log.Record]], None]


@dataclass(eq=False, kw_only=True)
class _Candidate:
    """`time_us` by borrowed counts until it is compiled itself; None with a reason if it has none."""

    choice: Choice
    plan: Plan | None = None
    time_us: float | None = None
    failure: str = ""


@dataclass(kw_only=True)
class Search:
    """`ranking`: by kind of workload, all candidates' names in the order of their times where it was searched first."""

    log: Path
    target: TargetSpec
    processes: int
    report: Report
    gpu: Gpu = field(default_factory=lambda: find_gpu(DEFAULT_GPU))
    ranking: dict[tuple[object, ...], list[str]] = field(default_factory=dict)
    borrowed: dict[str, list[Outcome]] = field(default_factory=dict)

    def run(self, workloads: Sequence[Conv2dFacts]) -> None:
        """Search each and append to the log. Raises what the oracle's `measure` raises."""
        for some in self._rounds(workloads):
            tried = {facts: [_Candidate(choice=c) for c in self._candidates(facts)] for facts in some}
            everything = [c for candidates in tried.values() for c in candidates]
            for facts, candidates in tried.items():
                for candidate in candidates:
                    _build(facts, candidate, self.target)
            self._estimate(everything)
            finalists = {facts: self._finalists(facts, candidates) for facts, candidates in tried.items()}
            self._compile([c for candidates in finalists.values() for c in candidates])
            for facts, candidates in finalists.items():
                records = [_record(facts, c) for c in candidates]
                log.append(self.log, records)
                self.report(facts, records)

    def _rounds(self, workloads: Sequence[Conv2dFacts]) -> Iterator[list[Conv2dFacts]]:
        """The first of each kind before the others, which need their ranking."""
        first = {kind(facts): facts for facts in reversed(workloads)}
        leading = [f for f in workloads if first[kind(f)] is f]
        for part in (leading, [f for f in workloads if first[kind(f)] is not f]):
            for i in range(0, len(part), _ROUND):
                yield part[i : i + _ROUND]

    def _candidates(self, facts: Conv2dFacts) -> list[Choice]:
        """The defaults of the rules, then the rest of the space, or what was good for this kind."""
        candidates = space(facts)
        ranked = self.ranking.get(kind(facts))
        if ranked is None:
            return candidates
        place = {name: i for i, name in enumerate(ranked)}
        defaults = [c for i, c in enumerate(candidates) if i == 0 or c.rule != candidates[i - 1].rule]
        good = sorted(candidates, key=lambda c: place.get(_name(c), len(place)))[:_CARRIED]
        return list({_name(c): c for c in (*defaults, *good)}.values())

    def _estimate(self, candidates: Sequence[_Candidate]) -> None:
        masked = {_mask(k.source): k.source for c in candidates if c.plan is not None for k in c.plan.kernels}
        new = {mask: source for mask, source in masked.items() if mask not in self.borrowed}
        outcomes = measure(list(new.values()), self.gpu, processes=self.processes, title="kinds of kernels")
        self.borrowed |= dict(zip(new, outcomes, strict=True))
        for candidate in candidates:
            if candidate.plan is not None:
                _predict(candidate, [_renamed(self.borrowed[_mask(k.source)], k.name) for k in candidate.plan.kernels])

    def _finalists(self, facts: Conv2dFacts, candidates: Sequence[_Candidate]) -> list[_Candidate]:
        timed = sorted((c for c in candidates if c.time_us is not None), key=lambda c: c.time_us or 0.0)
        self.ranking.setdefault(kind(facts), [_name(c.choice) for c in timed])
        chosen = [candidates[0], *timed[:_FINALISTS]]
        return list(dict.fromkeys(chosen))

    def _compile(self, candidates: Sequence[_Candidate]) -> None:
        plans = [c for c in candidates if c.plan is not None]
        sources = [k.source for c in plans if c.plan is not None for k in c.plan.kernels]
        rest = iter(measure(sources, self.gpu, processes=self.processes, title="best candidates"))
        for candidate in plans:
            assert candidate.plan is not None
            _predict(candidate, [next(rest) for _ in candidate.plan.kernels])


def open_workloads(workloads: Sequence[Conv2dFacts], path: Path) -> list[Conv2dFacts]:
    """Those that the log has not for this cost model, each once. Raises what log.read raises."""
    records = log.read(path) if path.is_file() else []
    done = {r.workload.key for r in records if r.how == log.PREDICTED and r.by == load_model().label}
    return [facts for key, facts in {f.key: f for f in workloads}.items() if key not in done]


def _build(facts: Conv2dFacts, candidate: _Candidate, target: TargetSpec) -> None:
    try:
        candidate.plan = layer_plan(facts, candidate.choice, target)
    except ScheduleError as e:
        candidate.failure = str(e).splitlines()[0]


def _predict(candidate: _Candidate, outcomes: Sequence[Sequence[Outcome]]) -> None:
    assert candidate.plan is not None
    times = launch_times(candidate.plan, outcomes)
    problems = [t.problem for t in times if t.prediction is None]
    candidate.failure = problems[0].splitlines()[0] if problems else ""
    candidate.time_us = None if problems else sum(t.prediction.time_us for t in times if t.prediction is not None)


def _mask(source: str) -> str:
    return _SIZES.sub("#", re.sub(r"\w+\(\n", "k(\n", source, count=1))


def _renamed(outcomes: Sequence[Outcome], name: str) -> list[Outcome]:
    """The outcomes as if of a kernel of that name, which the reader of its text looks for."""
    return [replace(o, name=name) for o in outcomes]


def _name(choice: Choice) -> str:
    return " ".join([choice.rule, *(f"{k}={v}" for k, v in sorted((choice.knobs or {}).items()))])


def _record(facts: Conv2dFacts, candidate: _Candidate) -> log.Record:
    time_us = candidate.time_us
    return log.Record(
        workload=facts,
        rule=candidate.choice.rule,
        knobs=dict(candidate.choice.knobs or {}),
        time_us=None if time_us is None else round(time_us, 2),
        how=log.PREDICTED,
        by=load_model().label,
        failure=candidate.failure,
    )
