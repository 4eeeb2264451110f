"""One convolution as a plan of its own: what a candidate of the search is predicted by and measured with."""

import numpy as np
from tvm import relax, te, tirx

from ..assemble import Assembler
from ..importers.model import TensorInfo
from ..passes.choose_conv2d import CONV2D_RULES, Choice, packed_constants
from ..passes.emit import emit_anchored
from ..plan import Plan
from ..schedules.facts import Conv2dFacts, blocks_of
from ..targets import TargetSpec

_LANES = 4


def layer_plan(facts: Conv2dFacts, choice: Choice, target: TargetSpec) -> Plan:
    """The convolution with bias and relu behind it, as most networks have it; data in NCHW4c, weights all zero.

    Raises ScheduleError if the rule cannot make it.
    """
    rule, tile = CONV2D_RULES[choice.rule], choice.tile(facts)
    weight = np.zeros((facts.out_channels, facts.in_channels // facts.groups, *facts.kernel), facts.dtype)
    bias = np.zeros((1, blocks_of(facts.out_channels), 1, 1, _LANES), facts.dtype)
    shape = (facts.batch, blocks_of(facts.in_channels), facts.in_height, facts.in_width, _LANES)
    data = relax.Var("data", relax.TensorType(shape, facts.dtype))

    def compute(x: te.Tensor, b: te.Tensor, *constants: te.Tensor) -> te.Tensor:
        sums = rule.compute(facts, tile, x, *constants)
        zero = tirx.const(0, facts.dtype)
        return te.compute(sums.shape, lambda *i: tirx.max(sums[i] + b[0, i[1], 0, 0, i[4]], zero), name="bias_relu")

    constants = [relax.const(a) for a in (bias, *packed_constants(choice.rule, tile, weight))]
    bb = relax.BlockBuilder()
    with bb.function("main", [data]):
        result = emit_anchored(bb, compute, [data, *constants], name=rule.name, workload=facts.key)
        bb.emit_func_output(result)
    out = (facts.batch, blocks_of(facts.out_channels), facts.out_height, facts.out_width, _LANES)
    return Assembler(mod=bb.get(), target=target, dtype=facts.dtype).assemble(
        model_name="layer",
        inputs=(TensorInfo(name="data", dtype=facts.dtype, shape=shape),),
        outputs=(TensorInfo(name="result", dtype=facts.dtype, shape=out),),
        metadata={"workload": facts.key},
    )
