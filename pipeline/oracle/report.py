"""Tables of kernel costs: of OpenCL texts, and of a compiled model launch by launch."""

from collections.abc import Iterable, Sequence
from typing import Any

from ..plan import Plan
from .cost import Bundles, KernelCost, NoData, Outcome

_VEC4_FLOPS = 8


def kernels_text(outcomes: Iterable[Outcome]) -> str:
    """One line a kernel, and one a loop of it below."""
    rows: list[tuple[str, ...]] = [
        ("kernel", "registers", "threads", "spills:fills", "ALU", "LS", "texture", "vec4 mads", "ALU/mad", "LS/mad")
    ]
    notes = []
    for outcome in outcomes:
        if isinstance(outcome, NoData):
            rows.append((outcome.name, *["no data"], *[""] * 8))
            notes.append(f"{outcome.name}: no data: {outcome.reason}")
            continue
        rows.append((outcome.name, *_head(outcome), *_bundles(outcome.bundles)))
        for loop in outcome.loops:
            name = "  " * loop.depth + ("inner loop" if loop.innermost else "loop")
            rows.append((name, "", "", "", *_bundles(loop.bundles)))
        notes += [f"{outcome.name}: warning: {warning}" for warning in outcome.warnings]
        if outcome.bundles is None:
            numbers = ", ".join(f"{value:g} {name}" for name, value in outcome.statistics.items())
            notes.append(f"{outcome.name}: {numbers}")
    return "\n".join([table(rows), *notes])


def plan_text(plan: Plan, outcomes: Sequence[Sequence[Outcome]]) -> str:
    """One line a launch, in order: the kernel's cost where its time goes (innermost loop, all of it if it has none)."""
    rows: list[tuple[str, ...]] = [
        (
            *("#", "kernel", "rule", "M mads", "registers", "threads", "spills:fills"),
            *("where", "ALU", "LS", "texture", "vec4 mads", "ALU/mad", "LS/mad"),
        )
    ]
    notes: dict[str, None] = {}
    mads = alu = load_store = 0.0
    for i, launch in enumerate(plan.launches):
        (outcome, *_) = outcomes[launch.kernel]
        head = (str(i), outcome.name, launch.rule, f"{launch.flops / 2e6:.2f}")
        if isinstance(outcome, NoData):
            rows.append((*head, "no data", *[""] * 9))
            notes[f"{outcome.name}: no data: {outcome.reason}"] = None
            continue
        notes |= {f"{outcome.name}: warning: {warning}": None for warning in outcome.warnings}
        core = outcome.core
        where = "loop" if outcome.loops else "all"
        rows.append((*head, *_head(outcome), where, *_bundles(core)))
        if core is not None and core.vec4_mads and launch.flops:
            vectors = launch.flops / _VEC4_FLOPS
            mads += vectors
            alu += vectors * core.alu / core.vec4_mads
            load_store += vectors * core.load_store / core.vec4_mads
    lines = [table(rows), *notes]
    if mads:
        lines += [
            "",
            f"over all multiply-adds: {alu / mads:.2f} ALU and {load_store / mads:.2f} load/store bundles a vec4 mad "
            "(loop overhead outside the innermost loops not counted)",
        ]
    return "\n".join(lines)


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, NoData):
        return {"name": outcome.name, "no_data": outcome.reason}
    core = outcome.core
    per_mad = None
    if core is not None and core.vec4_mads:
        per_mad = {"alu": core.alu / core.vec4_mads, "load_store": core.load_store / core.vec4_mads}
    return {**outcome.to_json(), "per_vec4_mad": per_mad}


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    right = [all(_is_number(row[i]) for row in rows[1:]) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    )


def _is_number(cell: str) -> bool:
    return not cell or cell[0].isdigit() or cell in ("-", "no data")


def _head(cost: KernelCost) -> tuple[str, str, str]:
    return (
        "-" if cost.registers is None else str(cost.registers),
        "-" if cost.threads is None else str(cost.threads),
        f"{cost.spills}:{cost.fills}",
    )


def _bundles(bundles: Bundles | None) -> tuple[str, ...]:
    if bundles is None:
        return ("-",) * 6
    counts = (str(bundles.alu), str(bundles.load_store), str(bundles.texture), f"{bundles.vec4_mads:g}")
    if not bundles.vec4_mads:
        return (*counts, "-", "-")
    return (*counts, f"{bundles.alu / bundles.vec4_mads:.2f}", f"{bundles.load_store / bundles.vec4_mads:.2f}")
