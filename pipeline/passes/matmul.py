"""Which rule computes a matrix product, and its constant matrix in that rule's layout."""

import math
from typing import Any

from tvm import relax

from ..schedules.mali.batch_matmul import BatchMatmul, MatmulFacts
from ..schedules.mali.dense import Dense, DenseFacts
from .rewrite import Rewriter, constant, static_shape


def matmul(rewriter: Rewriter, call: Any) -> Any | None:
    """What stands for a call of relax.matmul, or None where no rule takes it."""
    if any(isinstance(a, relax.Call) for a in call.args):
        return None
    shapes = static_shape(call.args[0]), static_shape(call.args[1])
    dtype = str(call.ty.dtype)
    if min(len(s) for s in shapes) < 2 or any(str(a.ty.dtype) != dtype for a in call.args):
        return None
    weight = constant(rewriter.map(call.args[1])) if len(shapes[1]) == 2 else None
    if weight is not None and len(shapes[0]) == 2:
        dense = _dense(rewriter, call, shapes[0], weight)
        if dense is not None:
            return dense
    return _batch_matmul(rewriter, call, *shapes, weight)


def _dense(rewriter: Rewriter, call: Any, shape: tuple[int, ...], weight: Any) -> Any | None:
    facts = DenseFacts(rows=shape[0], reduced=shape[1], columns=weight.shape[1], dtype=str(call.ty.dtype))
    if not Dense.accepts(facts):
        return None
    packed = relax.const(Dense.pack_weight(weight))
    return rewriter.bb.emit_te(
        lambda d, w: Dense.compute(facts, d, w), rewriter.map(call.args[0]), packed, primfunc_name_hint=Dense.name
    )


def _batch_matmul(
    rewriter: Rewriter, call: Any, left: tuple[int, ...], right: tuple[int, ...], weight: Any
) -> Any | None:
    out, packed = static_shape(call), weight is not None
    shared = math.prod(right[:-2]) == 1
    if left[:-2] != out[:-2] or not (shared or right[:-2] == out[:-2]):
        return None
    facts = MatmulFacts(
        batch=1 if packed else math.prod(out[:-2]),
        rows=math.prod(out[:-1]) if packed else out[-2],
        reduced=left[-1],
        columns=out[-1],
        out=out,
        shared=shared,
        packed=packed,
        dtype=str(call.ty.dtype),
    )
    if not BatchMatmul.accepts(facts):
        return None
    tile = BatchMatmul.config(facts)
    operands = [
        rewriter.map(call.args[0]),
        relax.const(BatchMatmul.pack_weight(weight)) if packed else rewriter.map(call.args[1]),
    ]
    return rewriter.bb.emit_te(
        lambda a, b: BatchMatmul.compute(facts, tile, a, b), *operands, primfunc_name_hint=BatchMatmul.name
    )
