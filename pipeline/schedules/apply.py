"""Ask the rules in order; the first that matches schedules the function."""

import tvm
from tvm import tirx
from tvm.s_tir import Schedule

from ..errors import ScheduleError
from ..targets import TargetSpec
from .base import Rule, Scheduled
from .mali import RULES


def schedule(func: tirx.PrimFunc, name: str, target: TargetSpec, rules: tuple[Rule, ...] = RULES) -> Scheduled:
    """Raises ScheduleError with the function's name when a rule matched and failed."""
    for rule in rules:
        facts = rule.match(func)
        if facts is None:
            continue
        sch = Schedule(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}))
        try:
            with target.tvm_target():
                kernel_name = rule.apply(sch, facts, target)
        except ScheduleError as e:
            raise ScheduleError(f"{name}: rule {rule.name}: {e}") from e
        except (RuntimeError, TypeError, ValueError, KeyError, IndexError) as e:
            raise ScheduleError(f"{name}: rule {rule.name} matched and failed\n{e}") from e
        return Scheduled(func=sch.mod["main"], rule=rule.name, kernel_name=kernel_name)
    raise ScheduleError(f"{name}: no rule takes this function")
