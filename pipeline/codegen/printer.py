"""Print one lowered device function as OpenCL C, the way Midgard's compilers want to read it.

What differs from TVM's own printer, each for a reason measured with Mesa's compiler for the T860:
the work-group size is stated (16 instead of 8 registers to a thread); aligned vectors are reached through vector
pointers (vload4 becomes four scalar loads); private arrays with constant indices become vectors and lanes; products
that are summed become mad; a function stands alone, without the prototypes of the others.
"""

import itertools
from typing import Any

import tvm
import tvm_ffi
from tvm import sym, tirx
from tvm.ir.prim.expr import Cast

from ..errors import ScheduleError
from .clip import clip_rows
from .expressions import ExpressionPrinter
from .global_ids import GLOBAL_ID
from .keep import FENCE, IN_ORDER, KEEP, UNKNOWN_ZERO
from .names import Names, snake_case
from .pointers import ADVANCE, VectorPointers
from .registers import plan_registers
from .shared_loads import memory_of, shared_loads
from .types import data_type, scalar_name, type_name

_THREADS = {
    "blockIdx": ("group", "get_group_id"),
    "threadIdx": ("item", "get_local_id"),
    GLOBAL_ID: ("global", "get_global_id"),
}
KERNEL_NAME = "KERNEL_NAME"  # stands in the text where the kernel's name goes


def print_kernel(func: tirx.PrimFunc, *, local_size: tuple[int, int, int]) -> str:
    """OpenCL C of a device function, with KERNEL_NAME in the place of its name."""
    return _KernelPrinter(func).text(local_size)


class _KernelPrinter:
    def __init__(self, func: tirx.PrimFunc) -> None:
        self._func = func
        self._names = Names()
        self._analyzer = sym.Analyzer()
        self._lines: list[str] = []
        self._indent = 1
        self._in_order = False  # whether loads may not move to the front of arithmetic
        self._computed = False  # whether arithmetic stands behind the last load
        self._pointers: dict[Any, str] = {p: self._names.fresh(_parameter_name(p)) for p in func.params}
        self._written: set[str] = set()
        self._used = _variables_of(func.body)
        self._threads: dict[str, str] = {}
        private: dict[Any, str] = {}
        _collect_private(func.body, private, self._names)
        registers = plan_registers(func.body, private)
        self._vectors = VectorPointers(self._lines, self._names, lambda e: self._e.summand(e))
        self._e = ExpressionPrinter(self._names, self._analyzer, registers, self._vectors)
        self._e.half_in_memory_only = _half_in_memory_only(func.body, private)

    def text(self, local_size: tuple[int, int, int]) -> str:
        self._statement(self._func.body)
        body = "\n".join(self._lines)
        parameters = []
        for p, name in self._pointers.items():
            qualifier = "" if name in self._written else "const "
            element = type_name(_element(p), memory=True)
            parameters.append(f"{qualifier}__global {element}* restrict {name}")
        head = ""
        halves = "half" in self._e.scalars_used or any(_element(p) == "float16" for p in self._pointers)
        if halves and not self._e.half_in_memory_only:
            head += "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
        if "double" in self._e.scalars_used or any(_element(p) == "float64" for p in self._pointers):
            head += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
        x, y, z = local_size
        return (
            f"{head}__attribute__((reqd_work_group_size({x}, {y}, {z})))\n"
            f"__kernel void {KERNEL_NAME}(\n    " + ",\n    ".join(parameters) + f") {{\n{body}\n}}\n"
        )

    def _line(self, text: str) -> None:
        self._lines.append("  " * self._indent + text)

    def _block(self, head: str, body: tirx.Stmt) -> None:
        self._line(head + " {")
        self._body(body)
        self._line("}")

    def _body(self, body: tirx.Stmt) -> None:
        self._indent += 1
        self._vectors.open_scope("  " * self._indent)
        self._statement(body)
        self._vectors.close_scope()
        self._indent -= 1

    def _statement(self, s: Any) -> None:
        method = getattr(self, f"_on_{snake_case(type(s).__name__)}", None)
        if method is None:
            raise ScheduleError(f"a kernel holds a statement that OpenCL C cannot say, got {type(s).__name__}")
        method(s)

    def _on_seq_stmt(self, s: tirx.SeqStmt) -> None:
        children = list(s.seq)
        done = 0
        while done < len(children):
            run = self._run_of_stores(children[done:])
            if len(run) > 1:
                with self._e.knowing(self._load_first(run)):
                    for child in run:
                        self._statement(child)
            else:
                self._statement(children[done])
            done += max(1, len(run))

    def _run_of_stores(self, statements: list[Any]) -> list[Any]:
        """The stores to memory at the beginning, some of which may be behind a condition."""
        if not isinstance(statements[0], tirx.BufferStore):
            return []
        stores = (
            isinstance(s, tirx.IfThenElse) or (isinstance(s, tirx.BufferStore) and s.buffer in self._e.pointers)
            for s in statements
        )
        return [s for s, _ in itertools.takewhile(lambda pair: pair[1], zip(statements, stores, strict=True))]

    def _load_first(self, run: list[Any]) -> dict[Any, str]:
        """Load what stores have in common; the names of the values."""
        known = {}
        for load in shared_loads(run, self._e.is_plain_load):
            text = self._e.text(load)
            name = self._names.fresh(f"{self._e.pointers[memory_of(load)]}_value")
            self._line(f"const {type_name(data_type(load))} {name} = {text};")
            known[tvm_ffi.StructuralKey(load)] = name
        return known

    def _on_attr_stmt(self, s: tirx.AttrStmt) -> None:
        if s.attr_key == "thread_extent":
            tag = s.node.thread_tag
            if tag not in self._threads:
                kind, axis = tag.split(".")
                prefix, call = _THREADS[kind]
                name = "0"
                if s.node.var in self._used and int(s.value) > 1:
                    name = self._names.fresh(f"{prefix}_{axis}")
                    self._line(f"const int {name} = {call}({'xyz'.index(axis)});")
                self._threads[tag] = name
            self._e.bind(s.node.var, self._threads[tag])
            self._analyzer.bind(s.node.var, tvm.ir.Range(0, s.value))
        self._statement(s.body)

    def _on_decl_buffer(self, s: tirx.DeclBuffer) -> None:
        self._e.add_pointer(s.buffer, self._pointers[s.data])

    def _on_alloc_buffer(self, s: tirx.AllocBuffer) -> None:
        if s.buffer.scope() not in ("local", ""):
            raise ScheduleError(f"a kernel wants {s.buffer.scope()} memory, which Midgard keeps in main memory")
        r = self._e.registers[s.buffer]
        if r.width == 0:
            self._line(f"{type_name(r.dtype, memory=True)} {r.name}[{r.size}];")
        else:
            lanes = f"x{r.width}" if r.width > 1 else ""
            self._line(f"{type_name(r.dtype + lanes, memory=True)} {', '.join(r.variables())};")

    def _on_bind(self, s: tirx.Bind) -> None:
        value = self._e.text(s.value)
        name = self._names.fresh(s.var.name)
        self._line(f"const {type_name(str(s.var.ty))} {name} = {value};")
        self._e.bind(s.var, name)
        self._vectors.bind(s.var)
        if data_type(s.var).lanes == 1 and scalar_name(str(s.var.ty)).startswith("int"):
            self._analyzer.bind(s.var, s.value)

    def _on_for(self, s: tirx.For) -> None:
        if s.kind not in (tirx.ForKind.SERIAL, tirx.ForKind.UNROLLED):
            raise ScheduleError(f"a kernel holds a loop that was not lowered, got kind {s.kind!r}")
        clipped = clip_rows(s, self._analyzer)
        first, beyond, hold = clipped if clipped else (s.min, self._analyzer.simplify(s.min + s.extent), set())
        begin, end = self._e.text(first), self._e.text(beyond)
        if KEEP in s.annotations and clipped is None:
            begin = UNKNOWN_ZERO if begin == "0" else f"{begin} + {UNKNOWN_ZERO}"
        name = self._names.fresh(s.loop_var.name)
        self._e.bind(s.loop_var, name)
        self._analyzer.bind(s.loop_var, tvm.ir.Range.from_min_extent(s.min, s.extent))
        if s.kind == tirx.ForKind.UNROLLED:
            self._line("#pragma unroll")
        counter = type_name(str(s.loop_var.ty))
        around, self._in_order, self._computed = self._in_order, IN_ORDER in s.annotations, False
        with self._e.assuming(hold), self._vectors.loop(s.loop_var, advances=ADVANCE in s.annotations):
            self._block(f"for ({counter} {name} = {begin}; {name} < {end}; ++{name})", s.body)
        self._in_order = around

    def _on_while(self, s: tirx.While) -> None:
        self._block(f"while ({self._e.text(s.condition)})", s.body)

    def _on_if_then_else(self, s: tirx.IfThenElse) -> None:
        self._block(f"if ({self._e.text(s.condition)})", s.then_case)
        if s.else_case is not None:
            self._lines[-1] += " else {"
            self._body(s.else_case)
            self._line("}")

    def _on_buffer_store(self, s: tirx.BufferStore) -> None:
        pointer = self._e.pointers.get(s.buffer)
        if pointer is not None:
            self._written.add(pointer)
        if self._in_order:
            self._fence(s)
        for line in self._e.store(s.buffer, s.indices, s.value):
            self._line(line)

    def _fence(self, s: tirx.BufferStore) -> None:
        loads: list[Any] = []
        tvm_ffi.structural_walk(s.value, (tvm.ir.TensorLoad, loads.append))
        from_memory = any(load.source in self._e.pointers for load in loads)
        if from_memory and self._computed:
            self._line(FENCE)
        self._computed = not from_memory

    def _on_evaluate(self, s: tirx.Evaluate) -> None:
        if isinstance(s.value, tvm.ir.Call):
            raise ScheduleError(f"a kernel calls for its effect, got {s.value.op}; expected no barrier, no call")


def _collect_private(body: tirx.Stmt, found: dict[Any, str], names: Names) -> None:
    tvm_ffi.structural_walk(body, (tirx.AllocBuffer, lambda s: found.__setitem__(s.buffer, names.fresh(s.buffer.name))))


def _variables_of(body: tirx.Stmt) -> set[Any]:
    """The variables that expressions read."""
    found: set[Any] = set()

    def note(v: Any, kind: Any) -> None:
        if kind == tvm_ffi.DefRegionKind.NONE:
            found.add(v)

    tvm_ffi.structural_walk(body, with_def_region_kind=(tvm.ir.Var, note))
    return found


def _parameter_name(p: Any) -> str:
    return str(p.name).removesuffix("_ptr")


def _element(p: Any) -> str:
    return str(p.ty.element_type)


def _half_in_memory_only(body: tirx.Stmt, private: dict[Any, str]) -> bool:
    """Whether every half is loaded straight into a float, or stored straight from one."""
    nodes: list[Any] = []
    tvm_ffi.structural_walk(body, ((tvm.ir.Expr, tirx.BufferStore), nodes.append))
    halves = direct = 0
    for node in nodes:
        if isinstance(node, tirx.BufferStore):
            value = node.value
            if isinstance(value, Cast) and _is_half(value) and not _is_half(value.value):
                direct += node.buffer not in private
        else:
            halves += _is_half(node)
            if isinstance(node, Cast) and isinstance(node.value, tvm.ir.TensorLoad) and _is_half(node.value):
                direct += node.value.source not in private and str(node.ty).startswith("float32")
    return halves > 0 and halves == direct


def _is_half(e: Any) -> bool:
    return str(getattr(e, "ty", "")).startswith("float16")
