"""Walks through a kernel's text for a sample of its work-items: how often loops run, what is computed, what is touched.

All sampled work-items are walked at once, as arrays. A walk is repeated, in further rows of the same arrays, with each
loop one round on: so every address is known as base + rounds x stride, which is what caches see of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import ScheduleError
from .clc import Assign, Declare, Expression, For, If, KernelText, Statement, Type, While, size_of
from .operands import FUNCTIONS, INTEGERS, Other, Pointer, compute, is_integer, other

# Work-groups that stand for all. At the edges of an image guards skip work, so a few in the middle would not do.
_GROUPS = 16
_GOLDEN = (math.sqrt(5) - 1) / 2
_ITEMS = (
    *("get_local_id", "get_group_id", "get_global_id", "get_local_size", "get_num_groups", "get_global_size"),
    "get_global_offset",
)


@dataclass(frozen=True, kw_only=True)
class Access:
    """A load or store of one work-item in global memory: `size_bytes` at `address` bytes into a parameter's buffer.

    address: (items,) with every loop in its first round; strides: bytes a round, (items,), for each loop around it
    from the outermost. weight: the share of work-items that do it, as conditions let them.
    """

    buffer: str
    size_bytes: int
    is_store: bool
    address: np.ndarray
    strides: tuple[np.ndarray, ...]
    weight: float


@dataclass(kw_only=True)
class Region:
    """What a kernel, or one loop of it, does once in a round, inner loops apart; `trips` is 1 for the kernel itself.

    mads, operations: number of float multiply-adds, and of other float operations, by (scalar, lanes). private: loads
    and stores of arrays that stay in the kernel.
    """

    trips: float = 1.0
    mads: dict[tuple[str, int], float] = field(default_factory=dict)
    operations: dict[tuple[str, int], float] = field(default_factory=dict)
    calls: float = 0.0
    private: float = 0.0
    is_counted: bool = True
    accesses: list[Access] = field(default_factory=list)
    loops: list["Region"] = field(default_factory=list)


def walk(
    kernel: KernelText, *, global_size: tuple[int, int, int], local_size: tuple[int, int, int], groups: int = _GROUPS
) -> Region:
    """One walk of `groups` whole work-groups. Raises ScheduleError for what a text should not hold."""
    return _Walker(kernel, global_size, local_size, groups).root


def items_of(
    global_size: tuple[int, int, int], local_size: tuple[int, int, int], groups: int = _GROUPS
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Group and local ids by axis, each (sampled groups x items of a group,), in the order of execution."""
    count = [max(1, g // s) for g, s in zip(global_size, local_size, strict=True)]
    total = math.prod(count)
    # Multiples of the golden ratio, modulo 1, are spread evenly and in step with no row length.
    spread = np.arange(1, groups + 1) * _GOLDEN % 1.0
    picked = np.arange(total) if total <= groups else np.unique((spread * total).astype(np.int64))
    items = np.arange(math.prod(local_size), dtype=np.int64)
    group_ids = [picked % count[0], picked // count[0] % count[1], picked // (count[0] * count[1])]
    x, y = local_size[0], local_size[1]
    local_ids = [items % x, items // x % y, items // (x * y)]
    return [np.repeat(g, len(items)) for g in group_ids], [np.tile(i, len(picked)) for i in local_ids]


class _Walker:
    def __init__(
        self, kernel: KernelText, global_size: tuple[int, int, int], local_size: tuple[int, int, int], groups: int
    ) -> None:
        self._kernel = kernel
        self._sizes = {"get_local_size": local_size, "get_global_size": global_size}
        self._groups, self._locals = items_of(global_size, local_size, groups)
        self._counts = [max(1, g // s) for g, s in zip(global_size, local_size, strict=True)]
        self._local_size = local_size
        self._rows = 1 + _loops(kernel.body)
        self._seen_loops = 0
        self._path: list[int] = []
        self._weights: list[float] = []
        self._values: dict[str, Any] = {
            name: Pointer(buffer=name, type=Type(scalar=t.scalar, lanes=t.lanes), address=np.int64(0))
            if t.is_pointer
            else Other(scalar=t.scalar, lanes=t.lanes)
            for name, t in kernel.parameters.items()
        }
        self._arrays: dict[str, Type] = {}
        self.root = Region()
        self._region = self.root
        self._block(kernel.body)

    # --- statements

    def _block(self, body: Sequence[Statement]) -> None:
        for statement in body:
            if isinstance(statement, Assign):
                self._assign(statement)
            elif isinstance(statement, Declare):
                for name, size in statement.names:
                    if size:
                        self._arrays[name] = statement.type
                    else:
                        self._values[name] = other(statement.type)
            elif isinstance(statement, If):
                self._if(statement)
            elif isinstance(statement, For):
                self._for(statement)
            else:
                self._while(statement)

    def _if(self, statement: If) -> None:
        condition = self._value(statement.condition)
        share = float(np.mean(np.asarray(condition) != 0)) if is_integer(condition) else 0.5
        for body, weight in ((statement.then, share), (statement.otherwise, 1.0 - share)):
            self._weights.append(weight)
            self._block(body)
            self._weights.pop()

    def _for(self, loop: For) -> None:
        begin, end, step = (self._value(e) for e in (loop.begin, loop.end, loop.step))
        row = 1 + self._seen_loops
        region = Region()
        if is_integer(begin) and is_integer(end) and is_integer(step):
            rounds = np.maximum(0, -(-(np.asarray(end) - begin) // np.maximum(1, step)))
            region.trips = float(np.mean(rounds))
            variable = np.broadcast_to(begin, (self._rows, len(self._groups[0]))).copy()
            variable[row] += np.broadcast_to(step, variable.shape)[row]
            self._values[loop.name] = variable
        else:
            region.is_counted = False
            self._values[loop.name] = np.int64(0)
        self._inside(region, row, loop.body)

    def _while(self, loop: While) -> None:
        self._value(loop.condition)
        self._inside(Region(is_counted=False), 1 + self._seen_loops, loop.body)

    def _inside(self, region: Region, row: int, body: Sequence[Statement]) -> None:
        self._seen_loops += 1
        outer, weights = self._region, self._weights
        outer.loops.append(region)
        # A loop under a condition runs for the share of work-items that come to it; inside, all that come count.
        region.trips *= math.prod(weights)
        self._region, self._weights = region, []
        self._path.append(row)
        self._block(body)
        self._path.pop()
        self._region, self._weights = outer, weights

    def _assign(self, statement: Assign) -> None:
        value = self._value(statement.value)
        target = statement.target
        if target is None:
            return
        if statement.operator != "=":
            value = self._combine(statement.operator[:-1], self._value(target), value)
        if target.kind == "name":
            if statement.type is not None and not isinstance(value, Pointer) and statement.type.scalar in INTEGERS:
                self._values[target.text] = value if is_integer(value) else other(statement.type)
            elif isinstance(value, Pointer) or not isinstance(self._values.get(target.text), Other):
                self._values[target.text] = value
            return
        if target.kind == "unary" and target.text == "*":
            self._touch(self._value(target.parts[0]), is_store=True)
        elif target.kind == "index":
            self._index(target, is_store=True)
        elif target.kind == "member":
            if target.parts[0].kind == "index":
                self._index(target.parts[0], is_store=True)
        else:
            raise ScheduleError(f"{self._kernel.name}: assignment to a {target.kind} not understood")

    # --- values

    def _value(self, e: Expression) -> Any:
        return getattr(self, f"_on_{e.kind}")(e)

    def _on_number(self, e: Expression) -> Any:
        text = e.text.lower()
        if text.startswith("0x"):
            return np.int64(int(text.rstrip("ul"), 16))
        if text.rstrip("ul").isdigit():
            return np.int64(int(text.rstrip("ul")))
        return Other(scalar="half" if text.endswith("h") else "float", lanes=1)

    def _on_name(self, e: Expression) -> Any:
        if e.text in self._arrays:
            return other(self._arrays[e.text])
        return self._values.get(e.text, Other(scalar="float", lanes=1))

    def _on_list(self, e: Expression) -> Any:
        for part in e.parts:
            self._value(part)
        return Other(scalar="float", lanes=len(e.parts))

    def _on_cast(self, e: Expression) -> Any:
        assert e.type is not None
        value = self._value(e.parts[0])
        if isinstance(value, Pointer) and e.type.is_pointer:
            return Pointer(buffer=value.buffer, type=e.type.pointed, address=value.address)
        if is_integer(value) and e.type.lanes == 1 and e.type.scalar in INTEGERS:
            return value
        return other(e.type)

    def _on_unary(self, e: Expression) -> Any:
        if e.text == "&" and e.parts[0].kind == "index":
            base, index = e.parts[0].parts
            return self._combine("+", self._value(base), self._value(index))
        value = self._value(e.parts[0])
        if e.text == "*":
            return self._touch(value, is_store=False)
        if not is_integer(value):
            return value
        if e.text == "!":
            return (np.asarray(value) == 0).astype(np.int64)
        return -value if e.text == "-" else ~value if e.text == "~" else value

    def _on_binary(self, e: Expression) -> Any:
        left, right = self._value(e.parts[0]), self._value(e.parts[1])
        value = self._combine(e.text, left, right)
        if isinstance(value, Other) and value.scalar not in INTEGERS and e.text in "+-*/":
            product = e.text in "+-" and any(p.kind == "binary" and p.text == "*" for p in e.parts)
            if product:
                # the product of a sum was counted already; together they are one multiply-add
                self._count(self._region.operations, value, -1.0)
            self._count(self._region.mads if product else self._region.operations, value, 1.0)
        return value

    def _combine(self, sign: str, left: Any, right: Any) -> Any:
        if isinstance(left, Pointer) and is_integer(right):
            step = np.asarray(right) * left.type.size_bytes
            address = left.address + step if sign == "+" else left.address - step
            return Pointer(buffer=left.buffer, type=left.type, address=address)
        if isinstance(right, Pointer) and is_integer(left) and sign == "+":
            return self._combine("+", right, left)
        if is_integer(left) and is_integer(right):
            return compute(sign, np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64))
        floats = [v for v in (left, right) if isinstance(v, Other)] or [Other(scalar="float", lanes=1)]
        if sign in ("<", ">", "<=", ">=", "==", "!=", "&&", "||"):
            return Other(scalar="int", lanes=max(v.lanes for v in floats))
        return max(floats, key=lambda v: (v.lanes, v.scalar not in INTEGERS))

    def _on_choice(self, e: Expression) -> Any:
        condition = self._value(e.parts[0])
        share = float(np.mean(np.asarray(condition) != 0)) if is_integer(condition) else 0.5
        values = []
        for part, weight in zip(e.parts[1:], (share, 1.0 - share), strict=True):
            self._weights.append(weight)
            values.append(self._value(part))
            self._weights.pop()
        if all(is_integer(v) for v in values) and is_integer(condition):
            return np.where(np.asarray(condition) != 0, values[0], values[1])
        return max(values, key=lambda v: v.lanes if isinstance(v, Other) else 0)

    def _on_member(self, e: Expression) -> Any:
        value = self._value(e.parts[0])
        scalar = value.scalar if isinstance(value, Other) else "int"
        lanes = len(e.text) - 1 if e.text[0] == "s" and len(e.text) > 1 else len(e.text)
        if e.text in ("lo", "hi", "even", "odd"):
            lanes = max(1, value.lanes // 2) if isinstance(value, Other) else 1
        return Other(scalar=scalar, lanes=lanes)

    def _on_index(self, e: Expression) -> Any:
        return self._index(e, is_store=False)

    def _index(self, e: Expression, *, is_store: bool) -> Any:
        base, index = e.parts
        if base.kind == "name" and base.text in self._arrays:
            self._value(index)
            self._region.private += math.prod(self._weights)
            return other(self._arrays[base.text])
        return self._touch(self._combine("+", self._value(base), self._value(index)), is_store=is_store)

    def _touch(self, place: Any, *, is_store: bool, lanes: int = 0) -> Any:
        if not isinstance(place, Pointer):
            return Other(scalar="float", lanes=1)
        type_ = Type(scalar=place.type.scalar, lanes=lanes) if lanes else place.type
        rows = np.broadcast_to(place.address, (self._rows, len(self._groups[0])))
        self._region.accesses.append(
            Access(
                buffer=place.buffer,
                size_bytes=type_.size_bytes,
                is_store=is_store,
                address=rows[0],
                strides=tuple(rows[row] - rows[0] for row in self._path),
                weight=math.prod(self._weights),
            )
        )
        return other(type_)

    def _on_call(self, e: Expression) -> Any:
        if e.text in _ITEMS and e.parts[0].kind == "number":
            return self._item(e.text, int(e.parts[0].text))
        if e.text == "sizeof" and e.parts[0].kind == "name" and (size := size_of(e.parts[0].text)):
            return np.int64(size)
        if e.text.startswith(("vload", "vstore")):
            return self._vector_access(e)
        values = [self._value(part) for part in e.parts]
        if e.text in FUNCTIONS and all(is_integer(v) for v in values):
            return FUNCTIONS[e.text](*values)
        floats = [v for v in values if isinstance(v, Other)] or [Other(scalar="float", lanes=1)]
        result = max(floats, key=lambda v: v.lanes)
        if e.text in ("mad", "fma"):
            self._count(self._region.mads, result, 1.0)
        elif e.text in ("max", "min", "fmax", "fmin", "fabs", "clamp"):
            self._count(self._region.operations, result, 1.0)
        elif e.text.startswith("convert_"):
            return other(Type(scalar=e.text[8:].rstrip("0123456789"), lanes=result.lanes))
        elif e.text != "barrier":
            self._region.calls += result.lanes * math.prod(self._weights)
        return result

    def _vector_access(self, e: Expression) -> Any:
        is_store = e.text.startswith("vstore")
        digits = "".join(c for c in e.text if c.isdigit())
        lanes = int(digits or 1)
        if is_store:
            self._value(e.parts[0])
        offset, base = (self._value(part) for part in e.parts[-2:])
        place = self._combine("+", base, np.asarray(offset) * lanes) if is_integer(offset) else base
        value = self._touch(place, is_store=is_store, lanes=lanes)
        return Other(scalar="float", lanes=lanes) if "half" in e.text else value

    def _item(self, function: str, axis: int) -> Any:
        if function in self._sizes:
            return np.int64(self._sizes[function][axis])
        if function == "get_num_groups":
            return np.int64(self._counts[axis])
        if function == "get_global_offset":
            # the runtime sets none; kernels write it for a zero that the compiler does not know
            return np.zeros_like(self._groups[axis])[None, :]
        if function == "get_local_id":
            return self._locals[axis][None, :]
        if function == "get_group_id":
            return self._groups[axis][None, :]
        return (self._groups[axis] * self._local_size[axis] + self._locals[axis])[None, :]

    def _count(self, counts: dict[tuple[str, int], float], value: Other, times: float) -> None:
        if value.scalar in INTEGERS:
            return
        key = (value.scalar, value.lanes)
        counts[key] = counts.get(key, 0.0) + times * math.prod(self._weights)


def _loops(body: Sequence[Statement]) -> int:
    found = 0
    for s in body:
        if isinstance(s, If):
            found += _loops(s.then) + _loops(s.otherwise)
        elif isinstance(s, (For, While)):
            found += 1 + _loops(s.body)
    return found
