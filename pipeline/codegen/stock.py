"""Kernels as TVM makes them without this project: dlight's default schedules, printed by TVM's own OpenCL printer.

They are what ours are measured against; the same runtime runs both.
"""

import re
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.s_tir import dlight
from tvm.tirx.build import codegen_build

from ..errors import ScheduleError
from .lower import DeviceKernel, LoweredFunction, read_host
from .printer import KERNEL_NAME


def stock_target() -> tvm.target.Target:
    """TVM's own Mali target, work-groups of up to 256 included."""
    return tvm.target.Target(
        {"kind": "opencl", "device": "mali", "keys": ["mali", "opencl", "gpu"]},
        host={"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72"},
    )


def stock_passes() -> list[tvm.transform.Pass]:
    """TVM 0.27's pipeline for a target without one of its own, up to the split of host and device.

    Left out: what only other kinds of targets have (tensor cores, asynchronous copies, VTCM, 8-bit floats).
    """
    t, s = tirx.transform, s_tir.transform
    return [
        s.CanonicalizeLoop(),
        s.LowerCrossThreadReduction(),
        s.LowerInitBlock(),
        s.PlanAndUpdateBufferAllocationLocation(),
        s.ConvertBlocksToOpaque(),
        s.LiftThreadBinding(),
        s.ManifestSharedMemoryLocalStage(),
        s.CompactBufferAllocation(),
        s.LowerAutoCopy(),
        s.UnifyThreadBinding(),
        s.LowerMatchBuffer(),
        s.StmtSimplify(),
        s.AnnotateIrregularLoop(),
        s.LowerOpaqueBlock(),
        t.FlattenBuffer(),
        t.NarrowDataType(32),
        s.LoopPartition(),
        t.VectorizeLoop(True),
        s.InjectVirtualThread(),
        s.InjectDoubleBuffer(),
        t.StorageRewrite(),
        s.HoistIfThenElse(),
        t.UnrollLoop(),
        s.RenormalizeSplitPattern(),
        t.StmtSimplify(),
        t.RemoveNoOp(),
        s.RewriteUnsafeSelect(),
        t.CommonSubexprElim(),
        t.VerifyMemory(),
        t.AnnotateEntryFunc(),
        s.ThreadSync("shared"),
        s.ThreadSync("warp"),
        s.LowerThreadAllreduce(),
        s.MergeSharedMemoryAllocations(),
        t.SplitHostDevice(),
    ]


def lower_stock(func: tirx.PrimFunc, name: str) -> LoweredFunction:
    """An unscheduled function under the first of dlight's rules that takes it, in the order of TVM's own compilers.

    Raises ScheduleError with the kernel's name if TVM cannot build the scheduled function.
    """
    target = stock_target()
    gpu = dlight.gpu
    rules = (gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback())
    public = func.without_attr("is_private") if "is_private" in (func.attrs or {}) else func
    module = tvm.IRModule({name: public.with_attr("global_symbol", name)})
    t = tirx.transform
    finish = tvm.ir.transform.Sequential([t.LowerWarpMemory(), t.StmtSimplify(), t.LowerIntrin()])
    kernels: dict[str, Any] = {}
    sources: dict[str, str] = {}
    try:
        with target:
            module = dlight.ApplyDefaultSchedule(*rules)(module)
        module = t.BindTarget(target)(module)
        module = tvm.ir.transform.Sequential(stock_passes())(module)
        for gv, device in module.functions.items():
            if int(device.attrs.get("calling_conv", 0)) != 2:
                continue
            kernels[gv.name_hint] = device
            text = codegen_build(finish(tvm.IRModule({gv: device})), target).inspect_source()
            sources[gv.name_hint] = re.sub(rf"\b{re.escape(gv.name_hint)}\b", KERNEL_NAME, text)
    except RuntimeError as e:
        raise ScheduleError(f"{name}: TVM cannot build its own schedule\n{str(e).strip().splitlines()[-1]}") from e

    def made(
        symbol: str, _kernel: Any, local_size: tuple[int, int, int], global_size: tuple[int, int, int]
    ) -> DeviceKernel:
        return DeviceKernel(source=sources[symbol], local_size=local_size, global_size=global_size)

    return read_host(module[name], kernels, name, made)
