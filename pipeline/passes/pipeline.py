"""The whole lowering of a graph, from imported operators to one PrimFunc a kernel."""

from collections.abc import Callable

import tvm
from tvm import relax

from ..targets import OURS, TargetSpec
from .choose_conv2d import Chosen, Decide
from .fold_constants import FoldConstants
from .mark_anchors import MarkAnchors
from .nchw4c import ToNCHW4c
from .precision import SetPrecision


def lowering(
    target: TargetSpec,
    dtype: str,
    dump: Callable[[str, tvm.IRModule], None] | None = None,
    *,
    schedules: str = OURS,
    decide: Decide | None = None,
    chosen: Chosen | None = None,
) -> tvm.transform.Pass:
    """The list of passes; `dump` gets the module after each phase, `decide` may name rule and knobs of convolutions,
    `chosen` is told them.

    With the stock `schedules` the layout stays NCHW and no rule of ours is chosen.
    """
    t = relax.transform
    ours = schedules == OURS

    def phase(name: str) -> list[tvm.transform.Pass]:
        if dump is None:
            return []

        @tvm.transform.module_pass(opt_level=0, name=f"Dump_{name}")
        def _dump(mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
            dump(name, mod)
            return mod

        return [_dump]

    return tvm.transform.Sequential(
        [
            # operators of the network
            t.DecomposeOpsForInference(),
            t.CanonicalizeBindings(),
            FoldConstants(),
            *phase("imported"),
            SetPrecision(dtype),
            # NCHW -> NCHW4c, a rule for each convolution, weights packed
            *([ToNCHW4c(decide, chosen)] if ours else []),
            t.CanonicalizeBindings(),
            # a tuple that nobody reads any more would keep its fields from being fused
            t.DeadCodeElimination(["main"]),
            *phase("blocked"),
            # operators -> tensor programs
            t.LegalizeOps(),
            *phase("legalized"),
            # tensor programs -> kernels
            t.AnnotateTIROpPattern(),
            *([MarkAnchors()] if ours else []),
            t.FuseOps(),
            t.FuseTIR(),
            t.DeadCodeElimination(["main"]),
            t.RewriteDataflowReshape(),
            t.ToNonDataflow(),
            t.RemovePurityChecking(),
            *phase("fused"),
        ]
    )
