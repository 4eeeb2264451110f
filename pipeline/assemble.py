"""From lowered Relax to a plan: walk the straight-line main function and lower each kernel once."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, te, tirx

from .codegen.lower import DeviceKernel, LoweredFunction, lower
from .codegen.parts import begin_at
from .codegen.printer import KERNEL_NAME
from .codegen.stock import lower_stock
from .errors import ScheduleError
from .importers.model import TensorInfo
from .plan import (
    ARENA_ALIGNMENT_BYTES,
    Buffer,
    Kernel,
    Launch,
    Place,
    Plan,
    TensorSpec,
    WeightPool,
    align,
    place_in_arena,
)
from .schedules.apply import schedule
from .schedules.base import CONCAT, KNOB, LAUNCH, MULTIPLY_ADDS, WORKLOAD, Scheduled, anchor_of
from .targets import OURS, STOCK, TargetSpec

_SHORT = {"float32": "f32", "float16": "f16", "float64": "f64"}


@dataclass(eq=False, kw_only=True)
class _Tensor:
    """Something a kernel reads or writes; `dtype` and `shape` are those of its first appearance."""

    size_bytes: int
    dtype: str
    shape: tuple[int, ...]
    place: Place = Place.ARENA
    index: int = 0
    data: "np.ndarray[Any, Any] | None" = None
    first: int = 1 << 30
    last: int = -1
    whole: "_Tensor | None" = None  # what this is a part of, from offset_bytes on
    offset_bytes: int = 0

    @property
    def root(self) -> "tuple[_Tensor, int]":
        """The tensor with memory of its own that holds this one, and where in it this one begins."""
        if self.whole is None:
            return self, 0
        root, offset_bytes = self.whole.root
        return root, offset_bytes + self.offset_bytes


@dataclass(frozen=True, kw_only=True)
class LaunchNote:
    """What a plan does not say of a launch: its rule's knobs, and the operator's key where its rule was chosen."""

    knobs: Mapping[str, int]
    workload: str | None


@dataclass(kw_only=True)
class _Step:
    kernel: DeviceKernel
    kernel_name: str
    tensors: list[_Tensor]
    global_size: tuple[int, int, int]
    layer: str
    rule: str
    flops: int
    note: LaunchNote


@dataclass(kw_only=True)
class _Function:
    scheduled: Scheduled
    lowered: LoweredFunction
    flops: int
    note: LaunchNote
    flops_launch: int = 0


@dataclass(kw_only=True)
class Assembler:
    """Walks `main` of a module that holds one PrimFunc a kernel group."""

    mod: tvm.IRModule
    target: TargetSpec
    dtype: str
    schedules: str = OURS
    _functions: dict[str, _Function] = field(default_factory=dict)
    _kernels: list[Kernel] = field(default_factory=list)
    _known: dict[tuple[str, tuple[int, int, int]], int] = field(default_factory=dict)
    _steps: list[_Step] = field(default_factory=list)

    def assemble(
        self,
        *,
        model_name: str,
        inputs: tuple[TensorInfo, ...],
        outputs: tuple[TensorInfo, ...],
        metadata: dict[str, str],
    ) -> Plan:
        values, results = self._walk(inputs)
        finals = self._give_outputs(results, values, outputs)
        return self._plan(model_name, inputs, outputs, values, finals, metadata)

    @property
    def notes(self) -> tuple[LaunchNote, ...]:
        """One for each launch of the plan, once it is assembled."""
        return tuple(step.note for step in self._steps)

    # --- the graph

    def _walk(self, inputs: tuple[TensorInfo, ...]) -> tuple[list[_Tensor], list[_Tensor]]:
        main = self.mod["main"]
        env: dict[Any, Any] = {}
        arguments = []
        for i, (p, info) in enumerate(zip(main.params, inputs, strict=True)):
            env[p] = _tensor(info.shape, info.dtype, place=Place.INPUT, index=i)
            arguments.append(env[p])
        body = main.body
        for block in body.blocks:
            for binding in block.bindings:
                env[binding.var] = self._value(binding.value, env)
        result = self._value(body.body, env)
        return arguments, list(result) if isinstance(result, tuple) else [result]

    def _value(self, e: Any, env: dict[Any, Any]) -> Any:
        if isinstance(e, relax.Var):
            return env[e]
        if isinstance(e, relax.Tuple):
            return tuple(self._value(f, env) for f in e.fields)
        if isinstance(e, relax.TupleGetItem):
            return self._value(e.tuple_value, env)[e.index]
        if _is_constant(e):
            array = _array(e)
            return _tensor(array.shape, str(array.dtype), place=Place.WEIGHT, data=array)
        if isinstance(e, tvm.ir.Call):
            name = getattr(e.op, "name", "")
            if name == "relax.call_tir":
                return self._call_tir(e, env)
            if name in ("relax.reshape", "relax.memory.view", "relax.expand_dims", "relax.squeeze", "relax.flatten"):
                return self._value(e.args[0], env)
            raise ScheduleError(f"{name.removeprefix('relax.')}: no kernel can be made for this operator")
        raise ScheduleError(f"the lowered graph holds {type(e).__name__}, which a plan cannot say")

    def _call_tir(self, call: Any, env: dict[Any, Any]) -> Any:
        name = call.args[0].name_hint
        arguments = [self._value(a, env) for a in call.args[1].fields]
        types = call.ty_args[0]
        fields = list(types.fields) if hasattr(types, "fields") else [types]
        made = [_tensor(tuple(int(d) for d in t.shape), str(t.dtype)) for t in fields]
        func = self.mod[name]
        if CONCAT in (func.attrs or {}):
            self._concat(arguments, made[0])
        elif any(t.size_bytes for t in made):
            self._emit(name, func, arguments + made)
        return tuple(made) if hasattr(types, "fields") else made[0]

    def _emit(self, name: str, func: tirx.PrimFunc, tensors: list[_Tensor]) -> None:
        if name not in self._functions:
            self._functions[name] = self._make(func, name)
        f = self._functions[name]
        scratch = [_tensor((n,), "uint8") for n in f.lowered.scratch_bytes]
        for i, call in enumerate(f.lowered.calls):
            used = [tensors[a] if a >= 0 else scratch[-1 - a] for a in call.arguments]
            self._steps.append(
                _Step(
                    kernel=call.kernel,
                    kernel_name=f.scheduled.kernel_name,
                    tensors=used,
                    global_size=call.kernel.global_size,
                    layer=name.removeprefix("fused_"),
                    rule=f.scheduled.rule,
                    flops=f.flops if i == f.flops_launch else 0,
                    note=f.note,
                )
            )
            for t in used:
                t.first, t.last = min(t.first, len(self._steps) - 1), len(self._steps) - 1

    def _make(self, func: tirx.PrimFunc, name: str) -> _Function:
        flops = count_flops(func)
        anchor = anchor_of(func) or {}
        note = LaunchNote(
            knobs={key.removeprefix(KNOB): int(value) for key, value in anchor.items() if key.startswith(KNOB)},
            workload=str(anchor[WORKLOAD]) if WORKLOAD in anchor else None,
        )
        if self.schedules == STOCK:
            scheduled = Scheduled(func=func, rule=STOCK, kernel_name=name)
            return _Function(scheduled=scheduled, lowered=lower_stock(func, name), flops=flops, note=note)
        scheduled = schedule(func, name, self.target)
        lowered = lower(scheduled.func, name, self.target.tvm_target())
        launch = int(anchor.get(LAUNCH, 0))
        return _Function(scheduled=scheduled, lowered=lowered, flops=flops, note=note, flops_launch=launch)

    def _concat(self, parts: list[_Tensor], whole: _Tensor) -> None:
        """Let the parts lie in the whole; what has a place of its own already is copied there."""
        offset_bytes = 0
        for part in parts:
            if part.place is Place.ARENA and part.whole is None and self._is_written(part):
                part.whole, part.offset_bytes = whole, offset_bytes
            else:
                self._copy(part, _tensor(part.shape, part.dtype, whole=whole, offset_bytes=offset_bytes))
            offset_bytes += part.size_bytes

    def _kernel(self, step: _Step) -> int:
        kernel, base = step.kernel, step.kernel_name
        source = begin_at(kernel.source, [t.root[1] for t in step.tensors])
        key = (source, kernel.local_size)
        if key not in self._known:
            self._known[key] = len(self._kernels)
            readable = re.sub(r"\W", "_", base)[:80]
            name = f"{readable}_{_SHORT.get(self.dtype, self.dtype)}_{len(self._kernels)}"
            self._kernels.append(
                Kernel(name=name, source=source.replace(KERNEL_NAME, name), local_size=kernel.local_size)
            )
        return self._known[key]

    def _give_outputs(
        self, results: list[_Tensor], arguments: list[_Tensor], outputs: tuple[TensorInfo, ...]
    ) -> list[_Tensor]:
        """Each output gets memory of its own: what is an input, a weight or another output already is copied."""
        finals: list[_Tensor] = []
        for i, (result, info) in enumerate(zip(results, outputs, strict=True)):
            if result.dtype != info.dtype:
                raise ScheduleError(f"{info.name}: lowered to another dtype, got {result.dtype}; expected {info.dtype}")
            whole = result.whole is None and self._is_written(result)
            if result.place is not Place.ARENA or not whole:
                result = self._copy(result, _tensor(info.shape, info.dtype))
            result.place, result.index = Place.OUTPUT, i
            finals.append(result)
        return finals

    def _is_written(self, tensor: _Tensor) -> bool:
        return not tensor.size_bytes or any(t.root[0] is tensor for step in self._steps for t in step.tensors)

    def _copy(self, source: _Tensor, target: _Tensor) -> _Tensor:
        count = math.prod(target.shape)
        if count:
            a = te.placeholder((count,), dtype=target.dtype, name="source")
            func = te.create_prim_func([a, te.compute((count,), lambda i: a[i], name="copy")])
            self._emit(f"copy_{target.dtype}_{count}", func, [source, target])
        return target

    # --- the plan

    def _plan(
        self,
        model_name: str,
        inputs: tuple[TensorInfo, ...],
        outputs: tuple[TensorInfo, ...],
        arguments: list[_Tensor],
        finals: list[_Tensor],
        metadata: dict[str, str],
    ) -> Plan:
        used: dict[_Tensor, None] = dict.fromkeys(arguments)
        used.update(dict.fromkeys(finals))
        for step in self._steps:
            for t in step.tensors:
                root = t.root[0]
                used[root] = None
                root.first, root.last = min(root.first, t.first), max(root.last, t.last)
        live = [t for t in used if t.place is Place.ARENA]
        offsets, arena_bytes = place_in_arena([t.size_bytes for t in live], [(t.first, t.last) for t in live])
        offset_of = dict(zip(live, offsets, strict=True))
        pool = WeightPool()
        buffers: list[Buffer] = []
        number: dict[_Tensor, int] = {}
        weights: dict[Buffer, int] = {}
        for t in used:
            if t.place is Place.WEIGHT:
                assert t.data is not None
                buffer = pool.add(t.data)
                if buffer in weights:
                    number[t] = weights[buffer]
                    continue
                weights[buffer] = len(buffers)
            else:
                index = t.index if t.place is not Place.ARENA else 0
                # OpenCL has no buffers of size zero, which an empty tensor would want
                size_bytes = max(t.size_bytes, 1)
                buffer = Buffer(place=t.place, index=index, offset=offset_of.get(t, 0), size_bytes=size_bytes)
            number[t] = len(buffers)
            buffers.append(buffer)
        kernels = [self._kernel(s) for s in self._steps]
        return Plan(
            model_name=model_name,
            target=self.target.name,
            dtype=self.dtype,
            inputs=tuple(
                TensorSpec(name=i.name, dtype=i.dtype, shape=i.shape, buffer=number[t])
                for i, t in zip(inputs, arguments, strict=True)
            ),
            outputs=tuple(
                TensorSpec(name=o.name, dtype=o.dtype, shape=o.shape, buffer=number[t])
                for o, t in zip(outputs, finals, strict=True)
            ),
            buffers=tuple(buffers),
            kernels=tuple(self._kernels),
            launches=tuple(
                Launch(
                    kernel=kernel,
                    buffers=tuple(number[t.root[0]] for t in s.tensors),
                    global_size=s.global_size,
                    layer=s.layer,
                    rule=s.rule,
                    flops=s.flops,
                    bytes=sum(t.size_bytes for t in dict.fromkeys(s.tensors)),
                )
                for s, kernel in zip(self._steps, kernels, strict=True)
            ),
            weights=pool.data,
            arena_bytes=align(arena_bytes, ARENA_ALIGNMENT_BYTES),
            metadata=metadata,
        )


def count_flops(func: tirx.PrimFunc) -> int:
    """2 for each multiply-add of the reductions in `func`; other arithmetic is not counted."""
    anchor = anchor_of(func)
    if anchor is not None:
        return 2 * int(anchor[MULTIPLY_ADDS])
    blocks: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tvm.s_tir.SBlock, blocks.append))
    total = 0
    for block in blocks:
        products: list[Any] = []
        tvm_ffi.structural_walk(block.body, (tvm.ir.prim.expr.Mul, products.append))
        reduces = any(int(v.iter_type) == tirx.IterVar.CommReduce for v in block.iter_vars)
        if block.name_hint != "root" and reduces and any("float" in str(p.ty) for p in products):
            total += 2 * math.prod(int(v.dom.extent) for v in block.iter_vars)
    return total


def _tensor(
    shape: tuple[int, ...],
    dtype: str,
    place: Place = Place.ARENA,
    index: int = 0,
    data: "np.ndarray[Any, Any] | None" = None,
    whole: _Tensor | None = None,
    offset_bytes: int = 0,
) -> _Tensor:
    size_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    return _Tensor(
        size_bytes=size_bytes,
        dtype=dtype,
        shape=shape,
        place=place,
        index=index,
        data=data,
        whole=whole,
        offset_bytes=offset_bytes,
    )


def _is_constant(e: Any) -> bool:
    return isinstance(e, tvm.ir.expr.GenericConst) and isinstance(e.ty, relax.TensorType)


def _array(e: Any) -> "np.ndarray[Any, Any]":
    array: np.ndarray[Any, Any] = e.value.numpy()
    return array
