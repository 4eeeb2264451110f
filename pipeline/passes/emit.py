"""Put what a schedule rule computes into the graph, with a note of what it is for."""

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import relax, te, topi
from tvm.relax.utils import gen_call_tir_inputs
from tvm.s_tir import Schedule

from ..schedules.base import APART, CONCAT, WORKLOAD, anchor_name

_INJECTIVE, _OPAQUE = 2, 8  # TVM's OpPatternKind


def emit_anchored(
    bb: relax.BlockBuilder,
    compute: Callable[..., te.Tensor],
    arguments: Sequence[Any],
    *,
    name: str,
    workload: str,
    apart: bool = False,
) -> Any:
    """emit_te, with `workload` written beside the anchor, where it survives fusion and scheduling.

    apart: the rule takes nothing behind its own blocks.
    """
    func, inputs, output = gen_call_tir_inputs(compute, *arguments)[:3]
    anchor = anchor_name(func)
    if anchor is not None:
        sch = Schedule(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}))
        sch.annotate(sch.get_sblock(anchor), WORKLOAD, workload)
        func = sch.mod["main"].without_attr("global_symbol")
    if apart:
        func = func.with_attr(APART, 1)
    return bb.emit(relax.call_tir(bb.add_func(func, name), inputs, output))


def emit_apart(
    bb: relax.BlockBuilder, compute: Callable[..., te.Tensor], arguments: Sequence[Any], *, name: str
) -> Any:
    """emit_te of what the fuser must not put behind another kernel's sums, though each element has its own source."""
    func, inputs, output = gen_call_tir_inputs(compute, *arguments)[:3]
    return bb.emit(relax.call_tir(bb.add_func(func.with_attr("op_pattern", _INJECTIVE), name), inputs, output))


def emit_concat(bb: relax.BlockBuilder, parts: Sequence[Any]) -> Any:
    """Tensors of batch 1 one behind the other along axis 1: no kernel but a note for whoever places tensors."""
    func, inputs, output = gen_call_tir_inputs(lambda *t: topi.concatenate(t, axis=1), *parts)[:3]
    func = func.with_attr("op_pattern", _OPAQUE).with_attr(CONCAT, 1)
    return bb.emit(relax.call_tir(bb.add_func(func, "concat_nchw4c"), inputs, output))
