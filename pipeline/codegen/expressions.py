"""Print TIR expressions as OpenCL C: vectors where OpenCL has them, else lane by lane."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tvm
import tvm_ffi
from tvm import sym
from tvm.ir.prim import expr as ir

from ..errors import ScheduleError
from .clip import conjuncts
from .names import Names, snake_case
from .operators import (
    ATOM,
    BIT,
    BUILTINS,
    COMPARE,
    COMPARISONS,
    INFIX,
    INFIX_CALLS,
    LOGIC,
    MASKING,
    PLUS,
    SHIFT,
    TIMES,
    UNARY,
)
from .pointers import VectorPointers
from .registers import LANES, VECTOR_WIDTHS, Registers, constant_access
from .types import NARROW_INTEGERS, data_type, float_literal, integer_literal, scalar_name, type_name


class ExpressionPrinter:
    """Knows the names of variables, pointers and registers in one function."""

    def __init__(
        self,
        names: Names,
        analyzer: sym.Analyzer,
        registers: dict[Any, Registers],
        vectors: VectorPointers,
    ) -> None:
        self._names = names
        self._analyzer = analyzer
        self.vectors = vectors
        self._variables: dict[Any, str] = {}
        self._assumed: set[str] = set()
        self._known: dict[Any, str] = {}
        self.registers = registers
        self.pointers: dict[Any, str] = {}
        self.scalars_used: set[str] = set()
        # half appears in memory only: core OpenCL converts on load and store, no cl_khr_fp16 needed
        self.half_in_memory_only = False

    def bind(self, variable: Any, text: str) -> None:
        self._variables[variable] = text

    def add_pointer(self, buffer: Any, name: str) -> None:
        self.pointers[buffer] = name

    def text(self, e: Any) -> str:
        return self._print(e)[0]

    def summand(self, e: Any) -> str:
        """`e` as it stands behind a plus or minus sign."""
        return self._print_in(e, TIMES)

    def store(self, buffer: Any, indices: Any, value: Any) -> list[str]:
        """The statements that write `value`."""
        lanes = data_type(value).lanes
        element_lanes = tvm.DataType(str(buffer.ty.dtype)).lanes
        r = self.registers.get(buffer)
        if r is not None and r.width:
            access = constant_access(indices)
            assert access is not None
            first = access[0] * element_lanes
            return [f"{r.access(first, max(lanes, access[1]))} = {self.text(value)};"]
        index = indices[0]
        if self.half_in_memory_only and scalar_name(buffer.ty.dtype) == "float16":
            return self._store_half(buffer, index, value.value)
        if not isinstance(index, ir.Ramp):
            place = f"{self._array(buffer)}[{self.text(index)}]"
            if element_lanes in VECTOR_WIDTHS and element_lanes != 3 and buffer in self.pointers:
                place = self._vector_place(buffer, index, element_lanes, const=False)
            return [f"{place} = {self.text(value)};"]
        if int(index.stride) == 1 and lanes in VECTOR_WIDTHS:
            if lanes != 3 and self._aligned(index.base, lanes) and buffer in self.pointers:
                return [f"{self._vector_place(buffer, index.base, lanes, const=False)} = {self.text(value)};"]
            base = self._print_in(index.base, PLUS)
            return [f"vstore{lanes}({self.text(value)}, 0, {self._array(buffer)} + {base});"]
        lanes_of_index = [self._lane(index, i) for i in range(lanes)]
        return [f"{self._array(buffer)}[{place}] = {self._lane(value, i)};" for i, place in enumerate(lanes_of_index)]

    def _store_half(self, buffer: Any, index: Any, single: Any) -> list[str]:
        pointer = self.pointers[buffer]
        lanes = data_type(single).lanes
        if lanes == 1:
            return [f"vstore_half({self.text(single)}, {self.text(index)}, {pointer});"]
        if data_type(index).lanes == 1:  # an array of vectors
            return [f"vstore_half{lanes}({self.text(single)}, {self.text(index)}, (__global half*){pointer});"]
        if isinstance(index, ir.Ramp) and int(index.stride) == 1 and lanes in VECTOR_WIDTHS:
            return [f"vstore_half{lanes}({self.text(single)}, 0, {pointer} + {self._print_in(index.base, PLUS)});"]
        return [f"vstore_half({self._lane(single, i)}, {self._lane(index, i)}, {pointer});" for i in range(lanes)]

    def _load_half(self, load: Any) -> str:
        pointer, index, lanes = self.pointers[load.source], load.indices[0], data_type(load).lanes
        if lanes == 1:
            return f"vload_half({self.text(index)}, {pointer})"
        if data_type(index).lanes == 1:  # an array of vectors
            return f"vload_half{lanes}({self.text(index)}, (const __global half*){pointer})"
        if isinstance(index, ir.Ramp) and int(index.stride) == 1 and lanes in VECTOR_WIDTHS:
            return f"vload_half{lanes}(0, {pointer} + {self._print_in(index.base, PLUS)})"
        each = ", ".join(f"vload_half({self._lane(index, i)}, {pointer})" for i in range(lanes))
        return f"({type_name(f'float32x{lanes}')})({each})"

    # --- printing with precedence

    def _print(self, e: Any) -> tuple[str, int]:
        dtype = data_type(e)
        if self._known and self.is_plain_load(e):
            known = self._known.get(tvm_ffi.StructuralKey(e))
            if known is not None:
                return known, ATOM
        if self.half_in_memory_only and isinstance(e, ir.Cast) and scalar_name(data_type(e.value)) == "float16":
            return self._load_half(e.value), ATOM
        self.scalars_used.add(type_name(scalar_name(dtype)))
        if dtype.lanes > 1 and (dtype.lanes not in VECTOR_WIDTHS or self._needs_lanes(e, dtype)):
            lanes = ", ".join(self._lane(e, i) for i in range(dtype.lanes))
            return f"({type_name(dtype, memory=True)})({lanes})", UNARY
        infix = INFIX.get(type(e))
        if infix is not None:
            return self._infix(e, *infix, dtype)
        method = getattr(self, f"_on_{snake_case(type(e).__name__)}", None)
        if method is None:
            raise ScheduleError(f"a kernel holds an expression that OpenCL C cannot say, got {type(e).__name__}: {e}")
        result: tuple[str, int] = method(e, dtype)
        return result

    def _print_in(self, e: Any, level: int) -> str:
        text, own = self._print(e)
        return f"({text})" if own > level else text

    def _infix(self, e: Any, sign: str, level: int, dtype: tvm.DataType) -> tuple[str, int]:
        floating = scalar_name(dtype) in ("float32", "float16")
        if isinstance(e, ir.Add) and floating:
            for product, summand in ((e.b, e.a), (e.a, e.b)):
                if isinstance(product, ir.Mul):
                    a, b = self.text(product.a), self.text(product.b)
                    return f"mad({a}, {b}, {self.text(summand)})", ATOM
        # equal levels bind to the left, so the right operand is parenthesised unless it binds tighter
        strict = isinstance(e, (ir.And, ir.Or)) or level in (BIT, SHIFT, COMPARE)
        # compilers warn of sums and products as operands of shifts and bit operators
        tight = UNARY if level in (SHIFT, BIT) else level - 1
        left = self._print_in(e.a, tight if strict else level)
        right = self._print_in(e.b, tight)
        text = f"{left} {sign} {right}"
        return _narrowed(text, level, dtype)

    def _needs_lanes(self, e: Any, dtype: tvm.DataType) -> bool:
        """Vector conditions have integer masks in OpenCL C; they and what hangs on them are printed lane by lane."""
        if scalar_name(dtype) == "bool" or isinstance(e, COMPARISONS):
            return True
        if isinstance(e, ir.Select):
            return data_type(e.condition).lanes > 1
        if isinstance(e, ir.Cast):
            return scalar_name(data_type(e.value)) == "bool"
        if isinstance(e, (ir.Ramp, ir.Shuffle)):
            return True
        if isinstance(e, tvm.ir.TensorLoad):
            return self._load_needs_lanes(e, dtype)
        if isinstance(e, tvm.ir.Call):
            name = call_name(e)
            return name in MASKING or (name == "if_then_else" and data_type(e.args[0]).lanes > 1)
        return False

    def _load_needs_lanes(self, e: Any, dtype: tvm.DataType) -> bool:
        index = e.indices[0]
        r = self.registers.get(e.source)
        if r is not None and r.width:
            return False
        if data_type(index).lanes == 1:
            return False
        return not (isinstance(index, ir.Ramp) and int(index.stride) == 1)

    # --- one lane of a vector expression

    def _lane(self, e: Any, i: int) -> str:
        if data_type(e).lanes == 1:
            return self.text(e)
        if isinstance(e, ir.Broadcast):
            return self.text(e.value)
        if isinstance(e, ir.Ramp):
            return self.text(self._analyzer.simplify(e.base + e.stride * i))
        scalar = scalar_name(data_type(e))
        if type(e) in INFIX:
            text = f"({self._lane(e.a, i)}) {INFIX[type(e)][0]} ({self._lane(e.b, i)})"
            return _narrowed(text, LOGIC, scalar)[0]
        if isinstance(e, ir.Not):
            return f"!({self._lane(e.a, i)})"
        if isinstance(e, (ir.Min, ir.Max)):
            function = "min" if isinstance(e, ir.Min) else "max"
            return f"{function}({self._lane(e.a, i)}, {self._lane(e.b, i)})"
        if isinstance(e, ir.Select):
            c, a, b = (self._lane(x, i) for x in (e.condition, e.true_value, e.false_value))
            return _narrowed(f"(({c}) ? ({a}) : ({b}))", ATOM, scalar)[0]
        if isinstance(e, ir.Cast):
            if self.half_in_memory_only and scalar_name(data_type(e.value)) == "float16":
                return f"vload_half({self._lane(e.value.indices[0], i)}, {self.pointers[e.value.source]})"
            if scalar == "bool":
                return f"(({self._lane(e.value, i)}) != 0)"
            return f"({type_name(scalar)})({self._lane(e.value, i)})"
        if isinstance(e, tvm.ir.TensorLoad) and (
            scalar == "bool" or self._load_needs_lanes(e, data_type(e)) or not self._inside(e)
        ):
            return self._lane_of_load(e, i)
        if isinstance(e, tvm.ir.Call):
            name = call_name(e)
            if name == "if_then_else":
                c, a, b = (self._lane(x, i) for x in e.args)
                return _narrowed(f"(({c}) ? ({a}) : ({b}))", ATOM, scalar)[0]
            if name in INFIX_CALLS:
                sign = INFIX[INFIX_CALLS[name]][0]
                text = f"(({self._lane(e.args[0], i)}) {sign} ({self._lane(e.args[1], i)}))"
                return _narrowed(text, ATOM, scalar)[0]
            if name in BUILTINS:
                return f"{BUILTINS[name]}({', '.join(self._lane(a, i) for a in e.args)})"
            if name == "likely":
                return self._lane(e.args[0], i)
        if isinstance(e, ir.Shuffle) and len(e.vectors) == 1:
            return self._lane(e.vectors[0], int(e.indices[i]))
        if self._needs_lanes(e, data_type(e)) or data_type(e).lanes not in VECTOR_WIDTHS:
            raise ScheduleError(f"a kernel holds a vector that OpenCL C cannot say, got {type(e).__name__}: {e}")
        text, level = self._print(e)
        return f"{text if level == ATOM else f'({text})'}.s{LANES[i]}"

    def _lane_of_load(self, e: Any, i: int) -> str:
        r = self.registers.get(e.source)
        access = constant_access(e.indices)
        if r is not None and r.width and access is not None:
            return r.access(access[0] * tvm.DataType(str(e.source.ty.dtype)).lanes + i, 1)
        return f"{self._array(e.source)}[{self._lane(e.indices[0], i)}]"

    def _inside(self, e: Any) -> bool:
        """Whether a vector load is known to stay in its buffer; behind a choice its last lanes may lie beyond."""
        index = e.indices[0]
        if e.source in self.registers or not isinstance(index, ir.Ramp):
            return True
        bound = self._analyzer.const_int_bound(index.base)
        return int(bound.min_value) >= 0 and int(bound.max_value) + int(index.lanes) <= int(e.source.ty.shape[0])

    # --- memory

    @contextmanager
    def knowing(self, values: dict[Any, str]) -> Iterator[None]:
        """Within, loads (by their structure) have these values."""
        self._known = values
        yield
        self._known = {}

    def is_plain_load(self, e: Any) -> bool:
        """Whether `e` is a load from memory, or a half's conversion that is one, and a number or vector of OpenCL C."""
        load = e
        if self.half_in_memory_only and isinstance(e, ir.Cast) and scalar_name(data_type(e.value)) == "float16":
            load = e.value
        if not isinstance(load, tvm.ir.TensorLoad) or load.source not in self.pointers:
            return False
        dtype = data_type(load)
        if scalar_name(dtype) == "bool" or (load is e and self.half_in_memory_only and scalar_name(dtype) == "float16"):
            return False
        nested: list[Any] = []
        tvm_ffi.structural_walk(load.indices[0], (tvm.ir.TensorLoad, nested.append))
        fits = dtype.lanes == 1 or (dtype.lanes in VECTOR_WIDTHS and not self._load_needs_lanes(load, dtype))
        return fits and not nested

    def _array(self, buffer: Any) -> str:
        pointer = self.pointers.get(buffer)
        return pointer if pointer is not None else self.registers[buffer].name

    def _aligned(self, base: Any, lanes: int) -> bool:
        known = self._analyzer.modular_set(base)
        return int(known.coeff) % lanes == 0 and int(known.base) % lanes == 0

    def _whole_vectors(self, buffer: Any) -> bool:
        return buffer in self.pointers and int(buffer.ty.shape[0]) % 4 == 0

    def _vector_place(self, buffer: Any, base: Any, lanes: int, *, const: bool) -> str:
        """An aligned vector in memory, as an element of a pointer that neighbouring accesses share."""
        element = tvm.DataType(str(buffer.ty.dtype))
        return self.vectors.place(
            self._array(buffer),
            base,
            vector=type_name(f"{scalar_name(element)}x{lanes}", memory=True),
            element=type_name(element, memory=True),
            step=lanes // element.lanes,
            const=const,
        )

    def _on_tensor_load(self, e: Any, dtype: tvm.DataType) -> tuple[str, int]:
        r = self.registers.get(e.source)
        element_lanes = tvm.DataType(str(e.source.ty.dtype)).lanes
        index = e.indices[0]
        if r is not None and r.width:
            access = constant_access(e.indices)
            assert access is not None
            return r.access(access[0] * element_lanes, access[1] * element_lanes), ATOM
        if isinstance(index, ir.Ramp):
            if dtype.lanes == 3 and self._aligned(index.base, 4) and self._whole_vectors(e.source):
                # three channels of a padded vector: one 128-bit load instead of three scalar ones
                return f"({self._vector_place(e.source, index.base, 4, const=True)}).s012", ATOM
            if dtype.lanes != 3 and self._aligned(index.base, dtype.lanes) and e.source in self.pointers:
                return self._vector_place(e.source, index.base, dtype.lanes, const=True), ATOM
            base = self._print_in(index.base, PLUS)
            return f"vload{dtype.lanes}(0, {self._array(e.source)} + {base})", ATOM
        if element_lanes in VECTOR_WIDTHS and element_lanes != 3 and e.source in self.pointers:
            return self._vector_place(e.source, index, element_lanes, const=True), ATOM
        return f"{self._array(e.source)}[{self.text(index)}]", ATOM

    # --- leaves and functions

    def _on_var(self, e: Any, dtype: tvm.DataType) -> tuple[str, int]:
        return self._variables[e], ATOM

    def _on_int_imm(self, e: Any, dtype: tvm.DataType) -> tuple[str, int]:
        text = integer_literal(int(e.value), str(dtype))
        return text, UNARY if text[0] in "-(" else ATOM

    def _on_float_imm(self, e: Any, dtype: tvm.DataType) -> tuple[str, int]:
        text = float_literal(float(e.value), str(dtype))
        return text, UNARY if text[0] in "-(" else ATOM

    def _on_broadcast(self, e: Any, dtype: tvm.DataType) -> tuple[str, int]:
        return f"({type_name(dtype)})({self.text(e.value)})", UNARY

    def _on_cast(self, e: Any, dtype: tvm.DataType) -> tuple[str, int]:
        source = scalar_name(data_type(e.value))
        if str(dtype) == "bool":
            return f"{self._print_in(e.value, SHIFT)} != 0", COMPARE
        if dtype.lanes > 1:
            return f"convert_{type_name(dtype)}({self.text(e.value)})", ATOM
        if source == "bool" and str(dtype) in ("int32",):
            return f"(int)({self.text(e.value)})", UNARY
        return f"({type_name(dtype)})({self.text(e.value)})", UNARY

    def _on_min(self, e: Any, dtype: tvm.DataType) -> tuple[str, int]:
        return f"min({self.text(e.a)}, {self.text(e.b)})", ATOM

    def _on_max(self, e: Any, dtype: tvm.DataType) -> tuple[str, int]:
        return f"max({self.text(e.a)}, {self.text(e.b)})", ATOM

    def _on_not(self, e: Any, dtype: tvm.DataType) -> tuple[str, int]:
        return f"!{self._print_in(e.a, UNARY)}", UNARY

    def _on_bitwise_not(self, e: Any, dtype: tvm.DataType) -> tuple[str, int]:
        return _narrowed(f"~{self._print_in(e.a, UNARY)}", UNARY, dtype)

    def _on_select(self, e: Any, dtype: tvm.DataType) -> tuple[str, int]:
        return self._choice(e.condition, e.true_value, e.false_value)

    @contextmanager
    def assuming(self, conditions: set[str]) -> Iterator[None]:
        """Within, these conditions (as TIR prints them) need not be tested again."""
        before = self._assumed
        self._assumed = before | conditions
        yield
        self._assumed = before

    def _choice(self, condition: Any, a: Any, b: Any) -> tuple[str, int]:
        if self._assumed:
            open_conditions = [c for c in conjuncts(condition) if str(c) not in self._assumed]
            if not open_conditions:
                return self._print(a)
            condition = functools.reduce(ir.And, open_conditions)
        c = self._print_in(condition, LOGIC)
        return _narrowed(f"({c} ? {self._print_in(a, LOGIC)} : {self._print_in(b, LOGIC)})", ATOM, data_type(a))

    def _on_let(self, e: Any, dtype: tvm.DataType) -> tuple[str, int]:
        self._variables[e.var] = f"({self.text(e.value)})"
        return self._print(e.body)

    def _on_call(self, e: Any, dtype: tvm.DataType) -> tuple[str, int]:
        name = call_name(e)
        args = list(e.args)
        if name == "if_then_else":
            return self._choice(*args)
        if name == "likely":
            return self._print(args[0])
        if name in INFIX_CALLS:
            sign, _ = INFIX[INFIX_CALLS[name]]
            return _narrowed(f"({self._print_in(args[0], UNARY)} {sign} {self._print_in(args[1], UNARY)})", ATOM, dtype)
        if name == "bitwise_not":
            return _narrowed(f"~{self._print_in(args[0], UNARY)}", UNARY, dtype)
        if name == "reinterpret":
            return f"as_{type_name(dtype)}({self.text(args[0])})", ATOM
        if name == "large_uint_imm":
            return f"{(int(args[1]) << 32) | int(args[0])}UL", ATOM
        if name in ("call_pure_extern", "call_extern"):
            name = str(args[0].value)
            name = name if name in BUILTINS else name.removesuffix("f")
            args = args[1:]
        if name not in BUILTINS:
            raise ScheduleError(f"a kernel calls what OpenCL C does not have, got {name}")
        function = BUILTINS[name]
        if name in ("abs", "fabs") and scalar_name(dtype).startswith(("int", "uint")):
            return f"({type_name(dtype)})abs({self.text(args[0])})", UNARY
        if function == "ldexp" and scalar_name(data_type(args[1])) != "int32":
            return f"ldexp({self.text(args[0])}, (int)({self.text(args[1])}))", ATOM
        return f"{function}({', '.join(self.text(a) for a in args)})", ATOM


def call_name(call: Any) -> str:
    """The operator without its dialect: "if_then_else" for prim.if_then_else."""
    return str(getattr(call.op, "name", call.op)).rpartition(".")[2]


def _narrowed(text: str, level: int, dtype: tvm.DataType | str) -> tuple[str, int]:
    """C computes narrow scalars in int; TIR wraps them in their type, which built-in functions tell apart by."""
    of = tvm.DataType(str(dtype))
    if scalar_name(of) in NARROW_INTEGERS and of.lanes == 1:
        return f"({type_name(of)})({text})", UNARY
    return text, level
