"""Stage 4: one Relax function out of a model with static inputs."""

import re
from collections.abc import Sequence

import numpy as np
import onnx
import tvm
from tvm import relax

from .findings import Finding, Unsupported
from .limits import check_tensor_size
from .model import TensorInfo
from .values import RUNTIME_DTYPES, AnyValue, Value, constant
from .walk import UNKNOWN, Context, Scope


def to_relax(
    model: onnx.ModelProto, inputs: Sequence[TensorInfo], *, unknown: Sequence[str] = (), trial: bool = False
) -> tuple[tvm.ir.IRModule, tuple[TensorInfo, ...], Context]:
    """`main`, its outputs, and the walk's context with what is wrong; with findings the module is of no use.

    `unknown` are further inputs, of unknown shape: what depends on them is only looked up. A `trial` says what is wrong
    without making the weights a second time; its module is of no use, either.
    """
    block = relax.BlockBuilder()
    context = Context(block, model, trial=trial)
    params = [relax.Var(parameter_name(i, t.name), relax.TensorType(t.shape, t.dtype)) for i, t in enumerate(inputs)]
    scope: Scope = dict.fromkeys(unknown, UNKNOWN)
    for info, param in zip(inputs, params, strict=True):
        try:
            check_tensor_size("the tensor", info.shape, info.dtype)
        except Unsupported as e:
            context.findings.append(Finding(where=f"input {info.name!r}", text=str(e)))
        if 0 in info.shape:
            # A tensor without elements holds nothing that is only known at run time.
            scope[info.name] = constant(np.zeros(info.shape, info.dtype))
        else:
            scope[info.name] = Value(shape=info.shape, dtype=info.dtype, expr=param, root=param)
    if context.findings:
        return block.get(), (), context
    opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in model.opset_import}
    with block.function("main", params):
        with block.dataflow():
            values = context.graph(model.graph, scope, opsets)
            results = _own_outputs(context, model, params, values)
            exprs = [context.expr(v) for v in results]
            output = block.emit_output(exprs[0] if len(exprs) == 1 else relax.Tuple(exprs))
        block.emit_func_output(output)
    mod = block.get()
    infos = tuple(TensorInfo(o.name, v.shape, v.dtype) for o, v in zip(model.graph.output, results, strict=False))
    if trial or context.findings:
        return mod, infos, context
    mod["main"] = mod["main"].with_attr("num_input", len(params))
    mod = relax.transform.DeadCodeElimination(["main"])(mod)
    return mod, infos, context


def parameter_name(index: int, name: str) -> str:
    """A C identifier that is no keyword of OpenCL and that no other input has; names reach the kernels' text."""
    clean = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    return f"input{index}_{clean}" if clean else f"input{index}"


def _own_outputs(
    context: Context, model: onnx.ModelProto, params: list[relax.Var], values: list[AnyValue]
) -> list[Value]:
    """Outputs as tensors of their own: an input, a weight or a tensor that is output already is copied."""
    results: list[Value] = []
    taken = list(params)
    for info, value in zip(model.graph.output, values, strict=True):
        where = f"output {info.name!r}"
        if not isinstance(value, Value):
            # An unknown one has been reported, or depends on an unknown input.
            if value is not UNKNOWN:
                context.findings.append(Finding(where=where, text="is a sequence or an optional; expected a tensor"))
            continue
        if value.dtype not in RUNTIME_DTYPES:
            context.findings.append(
                Finding(where=where, text=f"has type {value.dtype}, which the runtime does not have")
            )
            continue
        root = value.root if value.root is not None else value.expr
        if root is None or any(root.same_as(t) for t in taken):
            try:
                value = context.copy(value)
            except Unsupported as e:
                context.findings.append(Finding(where=where, text=str(e), hint=e.hint))
                continue
            root = value.expr
        taken.append(root)
        results.append(value)
    return results
