"""Shrink a loop over kernel rows to the rows that lie inside the input.

A schedule annotates the loop with CLIP when a round whose row is padding adds nothing but zeros. Then the row's guard
can leave the loads and become the loop's bounds. Two gains on Midgard (Mesa 25.0.7 for the T860, per vector mad of a
3x3 convolution, 4 pixels x 4 channels): the guards' arithmetic goes, and the compiler no longer unrolls the rows, which
cost 256 load/store bundles for 144 mads by spilling against 46 for 48.
"""

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.prim import expr as ir

CLIP = "malisdk.clip"


def conjuncts(condition: Any) -> list[Any]:
    if isinstance(condition, ir.And):
        return conjuncts(condition.a) + conjuncts(condition.b)
    return [condition]


def clip_rows(loop: tirx.For, analyzer: Any) -> tuple[Any, Any, set[str]] | None:
    """(begin, end, conditions that then hold) of an annotated loop; None where nothing can be clipped.

    Only conditions that every guarded load of the body has are used.
    """
    if CLIP not in loop.annotations:
        return None
    choices: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (tvm.ir.Call, choices.append))
    guards = [conjuncts(c.args[0]) for c in choices if str(c.op.name).endswith(".if_then_else")]
    if not guards:
        return None
    shared = {str(c): c for c in guards[0] if _mentions(c, loop.loop_var)}
    for other in guards[1:]:
        texts = {str(c) for c in other}
        shared = {text: c for text, c in shared.items() if text in texts}
    begin, end = loop.min, loop.min + loop.extent
    used: set[str] = set()
    for text, condition in shared.items():
        bound = _solve(condition, loop.loop_var)
        if bound is None:
            continue
        lower, upper = bound
        begin = begin if lower is None else tirx.max(begin, analyzer.simplify(lower))
        end = end if upper is None else tirx.min(end, analyzer.simplify(upper))
        used.add(text)
    return (begin, end, used) if used else None


def _solve(condition: Any, variable: Any) -> tuple[Any | None, Any | None] | None:
    """(least value, first value beyond) of the variable for which an inequality holds, either None if unbounded."""
    if not isinstance(condition, (ir.LT, ir.LE, ir.GT, ir.GE)):
        return None
    small, large = (condition.a, condition.b) if isinstance(condition, (ir.LT, ir.LE)) else (condition.b, condition.a)
    strict = isinstance(condition, (ir.LT, ir.GT))
    if _mentions(small, variable) and not _mentions(large, variable):
        upper = _invert(small, large if strict else large + 1, variable)
        return None if upper is None else (None, upper)
    if _mentions(large, variable) and not _mentions(small, variable):
        lower = _invert(large, small + 1 if strict else small, variable)
        return None if lower is None else (lower, None)
    return None


def _invert(e: Any, bound: Any, variable: Any) -> Any | None:
    """b such that `e < bound` is `variable < b` (and so `e >= bound` is `variable >= b`); None if not found."""
    if isinstance(e, tvm.ir.Var) and e.same_as(variable):
        return bound
    if isinstance(e, ir.Add):
        if _mentions(e.a, variable) and not _mentions(e.b, variable):
            return _invert(e.a, bound - e.b, variable)
        if _mentions(e.b, variable) and not _mentions(e.a, variable):
            return _invert(e.b, bound - e.a, variable)
    if isinstance(e, ir.Sub) and _mentions(e.a, variable) and not _mentions(e.b, variable):
        return _invert(e.a, bound + e.b, variable)
    halved = _power_of_two_quotient(e)
    if halved is not None:
        return _invert(halved[0], bound * halved[1], variable)
    return None


def _power_of_two_quotient(e: Any) -> tuple[Any, int] | None:
    """(x, 2^s) of a floor division of x by 2^s, however it is written."""
    if isinstance(e, ir.FloorDiv) and isinstance(e.b, ir.IntImm):
        return (e.a, int(e.b)) if int(e.b) > 0 else None
    if isinstance(e, ir.RShift) and isinstance(e.b, ir.IntImm):
        return e.a, 1 << int(e.b)
    if isinstance(e, tvm.ir.Call) and str(getattr(e.op, "name", "")).endswith(".shift_right"):
        return (e.args[0], 1 << int(e.args[1])) if isinstance(e.args[1], ir.IntImm) else None
    return None


def _mentions(e: Any, variable: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(e, (tvm.ir.Var, found.append))
    return any(v.same_as(variable) for v in found)
