"""Tell the fuser that what a schedule rule computes takes elementwise operators behind it into its kernel."""

import tvm
from tvm import tirx

from ..schedules.base import APART, anchor_of

_OUT_ELEMENTWISE_FUSABLE, _OPAQUE = 4, 8  # TVM's OpPatternKind


@tvm.transform.module_pass(opt_level=0, name="MarkAnchors")
class MarkAnchors:
    """Overrides TVM's guess, which takes a convolution in several blocks for opaque."""

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        marked = {
            gv: f.with_attr("op_pattern", _OPAQUE if APART in f.attrs else _OUT_ELEMENTWISE_FUSABLE)
            for gv, f in mod.functions.items()
            if isinstance(f, tirx.PrimFunc) and anchor_of(f) is not None
        }
        mod.update(tvm.IRModule(marked))
        return mod
