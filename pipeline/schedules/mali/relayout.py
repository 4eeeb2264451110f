"""Schedule a block over other axes than its own, with TVM's simplification in between."""

from collections.abc import Callable
from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.transform import StmtSimplify


def schedule_over(sch: Schedule, block: Any, axes: Any, steps: Callable[[Schedule, Any], None]) -> None:
    """Run `steps` on `block` with the axes that the index map `axes` makes of its own.

    What is read through the new axes, such as x // 2 * 2 + x % 2, is simplified first, else TVM takes the regions that
    the block needs for anything. Schedules keep no module that a pass has changed, so this is done on a second one.
    """
    name = sch.get(block).name_hint
    sch.transform_block_layout(block, axes)
    simplified = Schedule(StmtSimplify()(sch.mod))
    steps(simplified, simplified.get_sblock(name))
    sch.state.replace(sch.get_sref(sch.get_sblock("root")), simplified.mod["main"].body.block, {})
