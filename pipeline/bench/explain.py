"""What became of each layer: rule, knobs, why these, and with the oracle what its kernels cost."""

from collections.abc import Sequence
from typing import Any

from ..assemble import LaunchNote
from ..compile import Compiled
from ..oracle.plan_times import LaunchTime
from ..oracle.report import table

_KIB = 1024


def rows(compiled: Compiled, times: Sequence[LaunchTime] | None) -> list[dict[str, Any]]:
    """One for each launch, ready for JSON; units are in the names."""
    found = []
    for i, (launch, note) in enumerate(zip(compiled.plan.launches, compiled.notes, strict=True)):
        kernel = compiled.plan.kernels[launch.kernel]
        row: dict[str, Any] = {
            "launch": i,
            "layer": launch.layer,
            "workload": note.workload,
            "rule": launch.rule,
            "knobs": dict(note.knobs),
            "why": _why(compiled, note),
            "multiply_adds": launch.flops // 2,
            "kernel": kernel.name,
            "global_size": list(launch.global_size),
            "local_size": list(kernel.local_size),
            "bytes": launch.bytes,
        }
        if times is not None:
            row |= _costs(times[i])
        found.append(row)
    return found


def _why(compiled: Compiled, note: LaunchNote) -> str:
    choice = compiled.choices.get(note.workload or "")
    if choice is not None:
        return choice.why
    return "the rule's only way" if note.knobs else "the only rule that takes it"


def _costs(time: LaunchTime) -> dict[str, Any]:
    cost, prediction = time.cost, time.prediction
    core = cost.core if cost is not None else None
    per_mad = core is not None and core.vec4_mads > 0
    return {
        "registers": cost.registers if cost is not None else None,
        "threads": cost.threads if cost is not None else None,
        "spills": cost.spills if cost is not None else None,
        "fills": cost.fills if cost is not None else None,
        "alu_per_mad": core.alu / core.vec4_mads if core is not None and per_mad else None,
        "load_store_per_mad": core.load_store / core.vec4_mads if core is not None and per_mad else None,
        "predicted_us": prediction.time_us if prediction is not None else None,
        "limit": prediction.limit if prediction is not None else None,
        "model": prediction.model if prediction is not None else None,
        "problem": time.problem,
    }


def text(found: Sequence[dict[str, Any]], *, with_costs: bool) -> str:
    """A table of one line a launch; the workloads stand below it, since their names are long."""
    head: tuple[str, ...] = ("#", "layer", "rule", "knobs", "M mads", "KiB", "kernel")
    if with_costs:
        head += ("registers", "spills:fills", "ALU/mad", "LS/mad", "us predicted", "limit")
    cells = [(*head, "why")]
    for row in found:
        knobs = " ".join(f"{k}={v}" for k, v in row["knobs"].items()) or "-"
        line = [str(row["launch"]), row["layer"][:40], row["rule"], knobs, f"{row['multiply_adds'] / 1e6:.2f}"]
        line += [f"{row['bytes'] / _KIB:.0f}", row["kernel"][:48]]
        if with_costs:
            line += [_number(row["registers"]), f"{_number(row['spills'])}:{_number(row['fills'])}"]
            line += [_number(row["alu_per_mad"], 2), _number(row["load_store_per_mad"], 2)]
            line += [_number(row["predicted_us"], 0), row["limit"] or row["problem"][:30] or "-"]
        cells.append((*line, row["why"]))
    lines = [table(cells)]
    if with_costs:
        known = [row["predicted_us"] for row in found if row["predicted_us"] is not None]
        models = sorted({row["model"] for row in found if row["model"]})
        missing = len(found) - len(known)
        lines.append(
            f"in all {sum(known) / 1e3:.2f} ms predicted ({', '.join(models)})"
            + (f", without {missing} launches that have no prediction" if missing else "")
        )
    return "\n".join(lines)


def _number(value: float | None, digits: int | None = None) -> str:
    if value is None:
        return "-"
    return str(value) if digits is None else f"{value:.{digits}f}"
