"""Lower a scheduled PrimFunc with TVM's passes and read kernels, arguments and extents off the host part."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ..errors import ScheduleError
from .expressions import call_name
from .global_ids import join_thread_ids
from .printer import print_kernel

_AXES = "xyz"


@dataclass(frozen=True, kw_only=True)
class DeviceKernel:
    """One OpenCL function. `source` holds {NAME} where its name goes. Sizes in work-items."""

    source: str
    local_size: tuple[int, int, int]
    global_size: tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class KernelCall:
    """A launch inside a PrimFunc. Arguments are parameter positions (>= 0) or scratch buffers (-1, -2, ...)."""

    kernel: DeviceKernel
    arguments: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class LoweredFunction:
    """`scratch_bytes[i]` belongs to argument -1 - i."""

    calls: tuple[KernelCall, ...]
    scratch_bytes: tuple[int, ...]


MakeKernel = Callable[[str, Any, tuple[int, int, int], tuple[int, int, int]], DeviceKernel]


def device_passes() -> list[tvm.transform.Pass]:
    """TVM's own lowering up to the split of host and device.

    No CSE in the index arithmetic, since the device's compiler does that and the printer proves alignment on whole
    expressions; no packed API, since the host part is only read.
    """
    t, s = tirx.transform, s_tir.transform
    return [
        # block structure -> loops
        s.CanonicalizeLoop(),
        s.LowerCrossThreadReduction(),
        s.LowerInitBlock(),
        s.PlanAndUpdateBufferAllocationLocation(),
        s.ConvertBlocksToOpaque(),
        s.LiftThreadBinding(),
        s.CompactBufferAllocation(),
        s.UnifyThreadBinding(),
        s.LowerMatchBuffer(),
        s.StmtSimplify(),
        s.LowerOpaqueBlock(),
        # buffers -> flat, loops -> vectors and straight lines
        t.FlattenBuffer(),
        t.NarrowDataType(32),
        s.LoopPartition(),
        t.VectorizeLoop(True),
        t.StorageRewrite(),
        s.HoistIfThenElse(),
        t.UnrollLoop(),
        s.RenormalizeSplitPattern(),
        t.StmtSimplify(),
        t.RemoveNoOp(),
        s.RewriteUnsafeSelect(),
        # host | device
        t.VerifyMemory(),
        t.AnnotateEntryFunc(),
        t.SplitHostDevice(),
    ]


def lower(func: tirx.PrimFunc, name: str, target: tvm.target.Target) -> LoweredFunction:
    """Raises ScheduleError with the kernel's name when the scheduled function is not a list of kernel launches."""
    public = func.without_attr("is_private") if "is_private" in (func.attrs or {}) else func
    module = tvm.IRModule({name: public.with_attr("global_symbol", name)})
    try:
        module = tirx.transform.BindTarget(target)(module)
        module = tvm.ir.transform.Sequential(device_passes())(module)
        device = {gv.name_hint: f for gv, f in module.functions.items() if int(f.attrs.get("calling_conv", 0)) == 2}
        finish = tvm.ir.transform.Sequential([s_tir.transform.StmtSimplify(), tirx.transform.LowerIntrin()])
        joined = {k: tvm.IRModule({k: join_thread_ids(f)}) for k, f in device.items()}
        device = {k: next(iter(finish(module).functions.values())) for k, module in joined.items()}
    except RuntimeError as e:
        raise ScheduleError(
            f"{name}: TVM cannot lower the scheduled function\n{str(e).strip().splitlines()[-1]}"
        ) from e

    def made(
        _symbol: str, kernel: Any, local_size: tuple[int, int, int], global_size: tuple[int, int, int]
    ) -> DeviceKernel:
        source = print_kernel(kernel, local_size=local_size)
        return DeviceKernel(source=source, local_size=local_size, global_size=global_size)

    return read_host(module[name], device, name, made)


def read_host(host: tirx.PrimFunc, device: dict[str, Any], name: str, made: MakeKernel) -> LoweredFunction:
    """The kernel launches of a host function; `device` has the kernels by their symbols, `made` prints one."""
    positions: dict[Any, int] = {param: i for i, param in enumerate(host.params)}
    scratch: list[int] = []
    calls: list[KernelCall] = []

    def declare(s: tirx.DeclBuffer) -> None:
        positions[s.buffer] = positions[_buffer_behind(s.data)]

    def allocate(s: tirx.AllocBuffer) -> None:
        dtype = tvm.DataType(str(s.buffer.ty.dtype))
        elements = math.prod(int(d) for d in s.buffer.ty.shape) * dtype.lanes
        scratch.append(elements * -(-dtype.bits // 8))
        positions[s.buffer] = -len(scratch)

    def launch(c: Any) -> None:
        if call_name(c) != "call_ffi_kernel":
            return
        symbol = str(c.args[0].value)
        kernel = device[symbol]
        tags = [str(t) for t in kernel.attrs["tirx.kernel_launch_params"]]
        values = list(c.args[1:])
        extents = values[len(values) - len(tags) :]
        groups, local = [1, 1, 1], [1, 1, 1]
        for tag, extent in zip(tags, extents, strict=True):
            if not isinstance(extent, tirx.IntImm):
                raise ScheduleError(f"{name}: launch extent {tag} is not a constant, got {extent}")
            (groups if tag.startswith("blockIdx") else local)[_AXES.index(tag[-1])] = int(extent)
        arguments = [positions[_buffer_behind(v)] for v in values[: len(values) - len(tags)]]
        size = (local[0], local[1], local[2])
        items = (groups[0] * local[0], groups[1] * local[1], groups[2] * local[2])
        calls.append(KernelCall(kernel=made(symbol, kernel, size, items), arguments=tuple(arguments)))

    handlers: dict[type, Callable[[Any], None]] = {
        tirx.DeclBuffer: declare,
        tirx.AllocBuffer: allocate,
        tvm.ir.Call: launch,
    }
    # collected first: an exception that passes through TVM's walk loses its class
    nodes: list[Any] = []
    tvm_ffi.structural_walk(host.body, (tuple(handlers), nodes.append), order="pre")
    for node in nodes:
        handlers[type(node)](node)
    if not calls:
        raise ScheduleError(f"{name}: the scheduled function launches no kernel")
    return LoweredFunction(calls=tuple(calls), scratch_bytes=tuple(scratch))


def _buffer_behind(pointer: Any) -> Any:
    """The buffer variable of a `buffer_data(buffer)` call."""
    if isinstance(pointer, tvm.ir.Call) and call_name(pointer) == "buffer_data":
        return pointer.args[0]
    return pointer
