"""What a schedule rule is, and the steps that several rules share."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir import Schedule

from ..errors import ScheduleError
from ..targets import TargetSpec

ANCHOR = "malisdk.rule"  # block annotation: the rule that wrote this block
MULTIPLY_ADDS = "malisdk.multiply_adds"  # of the whole operator, on the same block
LAUNCH = "malisdk.launch"  # which of the function's launches makes them, on the same block; the first if it is missing
WORKLOAD = "malisdk.workload"  # what the operator is, for people and for the tuning log, on the same block
CONCAT = "malisdk.concat"  # on a PrimFunc: its parameters but the last lie one behind the other in the last
APART = "malisdk.apart"  # function attribute: nothing may be fused to it
KNOB = "malisdk.knob."  # prefix of the rule's knobs, on the same block


class Rule(Protocol):
    """A rule schedules a whole PrimFunc.

    `match` is pure: it returns the facts that `apply` wants, or None, which means "not my kernel" and nothing else. A
    rule that matched and then fails raises ScheduleError.
    """

    name: str

    def match(self, func: tirx.PrimFunc) -> Any | None: ...

    def apply(self, sch: Schedule, facts: Any, target: TargetSpec) -> str:
        """Schedule sch.mod["main"]; returns the kernel's base name."""
        ...


@dataclass(frozen=True, kw_only=True)
class Scheduled:
    func: tirx.PrimFunc
    rule: str
    kernel_name: str


def anchor_of(func: tirx.PrimFunc) -> dict[str, Any] | None:
    """The annotations of the block that a rule's compute definition marked, if there is one."""
    blocks: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tvm.s_tir.SBlock, blocks.append))
    anchors = [dict(block.annotations) for block in blocks if ANCHOR in block.annotations]
    if len(anchors) > 1:
        raise ScheduleError(f"{func.attrs.get('global_symbol', '?')}: two anchors in one kernel")
    return anchors[0] if anchors else None


def anchor_name(func: tirx.PrimFunc) -> str | None:
    """The name of the block that `anchor_of` reads."""
    blocks: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tvm.s_tir.SBlock, blocks.append))
    return next((str(block.name_hint) for block in blocks if ANCHOR in block.annotations), None)


def knobs_of(func: tirx.PrimFunc, rule: str) -> dict[str, int] | None:
    """The knobs that `rule` wrote beside its anchor; None if the function is not that rule's."""
    anchor = anchor_of(func)
    if anchor is None or anchor[ANCHOR] != rule:
        return None
    return {key.removeprefix(KNOB): int(value) for key, value in anchor.items() if key.startswith(KNOB)}


def extent(sch: Schedule, loop: Any) -> int:
    return int(sch.get(loop).extent)


def largest_divisor(n: int, limit: int) -> int:
    """The largest divisor of n that is at most limit."""
    return max(d for d in range(1, min(n, limit) + 1) if n % d == 0)


def work_group(counts: tuple[int, int, int], limit: int) -> tuple[int, int, int]:
    """A work-group (x, y, z) that divides the work-item counts exactly, with as many as 64 items (or `limit`).

    Exact division saves every bounds check in the kernel. x first, since neighbours in x share cache lines; then the
    shape with the most items, then the squarer one.
    """
    best = (1, 1, 1)
    best_score: tuple[float, ...] = (0.0,)
    divisors = [[d for d in range(1, min(c, limit) + 1) if c % d == 0] for c in counts]
    for x in divisors[0]:
        for y in divisors[1]:
            if x * y > limit:
                break
            z = max(d for d in divisors[2] if x * y * d <= limit)
            size = x * y * z
            score = (min(size, limit) if size >= 16 else size / 2, -abs(math.log2(x / 8)), -abs(math.log2(y / 4)))
            if score > best_score:
                best, best_score = (x, y, z), score
    return best
