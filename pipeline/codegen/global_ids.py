"""Join the numbers of a work-item's group and of the item in it to its global number, where only that one is used.

TVM's schedules bind two loops an axis, and addresses become sums over both. Midgard's compilers keep both numbers in
registers through a kernel's loop, for the addresses behind it. With one number an axis, 7 pixels x 4 channels of a 1x1
convolution need no spills instead of 4 to 6 (Mesa 25.0.7 for the T860).
"""

from typing import Any

import tvm
import tvm_ffi
from tvm import sym, tirx
from tvm.ir.prim import expr as ir

GLOBAL_ID = "globalIdx"  # thread tag, beside TVM's blockIdx and threadIdx


def join_thread_ids(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with every axis joined that has groups of several work-items and nowhere wants their parts."""
    for axis in "xyz":
        func = _join(func, axis)
    return func


def _join(func: tirx.PrimFunc, axis: str) -> tirx.PrimFunc:
    threads: dict[str, Any] = {}

    def note(s: tirx.AttrStmt) -> None:
        if s.attr_key == "thread_extent" and s.node.thread_tag.endswith(f".{axis}"):
            threads[s.node.thread_tag] = s

    tvm_ffi.structural_walk(func.body, (tirx.AttrStmt, note))
    group, item = threads.get(f"blockIdx.{axis}"), threads.get(f"threadIdx.{axis}")
    if group is None or item is None or int(group.value) == 1 or int(item.value) == 1:
        return func
    size, count = int(item.value), int(group.value) * int(item.value)
    whole = tirx.Var(f"global_{axis}", "int32")
    parts = {group.node.var: tirx.floordiv(whole, size), item.node.var: tirx.floormod(whole, size)}
    analyzer = sym.Analyzer()
    analyzer.bind(whole, tvm.ir.Range(0, count))

    def simplify(e: Any) -> Any:
        return analyzer.simplify(e) if str(e.ty) in ("int32", "bool") else e

    def use(v: Any, kind: Any) -> Any:
        if kind == tvm_ffi.DefRegionKind.NONE:
            for part, value in parts.items():
                if v.same_as(part):
                    return value
        return v

    body = tvm_ffi.structural_map(func.body, with_def_region_kind=(tvm.ir.Var, use))
    body = tvm_ffi.structural_map(body, ((ir.Add, ir.Sub, ir.LT, ir.LE, ir.GT, ir.GE), simplify), order="pre")
    left: list[Any] = []
    tvm_ffi.structural_walk(body, ((ir.FloorDiv, ir.FloorMod), lambda e: left.append(e) if _is(e.a, whole) else None))
    if left:
        return func
    tag = tirx.IterVar(tvm.ir.Range(0, count), whole, tirx.IterVar.ThreadIndex, f"{GLOBAL_ID}.{axis}")
    return func.with_body(tirx.AttrStmt(tag, "thread_extent", tirx.IntImm("int32", count), body))


def _is(e: Any, variable: Any) -> bool:
    return isinstance(e, tvm.ir.Var) and e.same_as(variable)
