"""Addresses of vectors in memory as pointers that neighbouring accesses share and that loops only advance.

Two costs on Midgard (Mesa 25.0.7 for the T860), seen with a 1x1 convolution of 4 pixels x 4 channels. A load at a
constant distance from a pointer needs no address arithmetic of its own: 26 instead of 36 ALU bundles a round. The
compiler moves nothing out of a loop: with what a loop does not change added before it, and a byte offset that one
32-bit product gives inside, it is 21. The pointers before the loop take registers, which the schedule must have.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm.ir.prim import expr as ir

from .names import Names

# Loop annotation: pointers that its body uses begin before it.
ADVANCE = "malisdk.advance"


@dataclass(eq=False, kw_only=True)
class _Loop:
    """A loop that is being printed: where its head stands, the block of C text around it, what changes in it."""

    advances: bool
    line: int
    indent: str
    scope: dict[Any, str]
    variables: list[Any]


class VectorPointers:
    """Declares pointers in `lines`, the C text so far; `text` prints an index expression as a summand."""

    def __init__(self, lines: list[str], names: Names, text: Callable[[Any], str]) -> None:
        self._lines = lines
        self._names = names
        self._text = text
        self._scopes: list[dict[Any, str]] = [{}]
        self._indents = ["  "]
        self._loops: list[_Loop] = []

    def open_scope(self, indent: str) -> None:
        """A block of C text whose lines begin with `indent`."""
        self._scopes.append({})
        self._indents.append(indent)

    def close_scope(self) -> None:
        self._scopes.pop()
        self._indents.pop()

    @contextmanager
    def loop(self, variable: Any, *, advances: bool) -> Iterator[None]:
        """Within, a loop is printed whose head is the next line; `advances`: it has the annotation."""
        self._loops.append(
            _Loop(
                advances=advances,
                line=len(self._lines),
                indent=self._indents[-1],
                scope=self._scopes[-1],
                variables=[variable],
            )
        )
        yield
        self._loops.pop()

    def bind(self, variable: Any) -> None:
        """`variable` gets its value here: what hangs on it cannot stand before the innermost loop."""
        if self._loops:
            self._loops[-1].variables.append(variable)

    def place(self, array: str, index: Any, *, vector: str, element: str, step: int, const: bool) -> str:
        """The `vector` of `step` elements from array[index] on; `element` is C's type of the array."""
        space = "const __global" if const else "__global"
        start, distance = _split_constant(index, step)
        terms = list(_terms(start))
        pointer = _sum(array, terms, self._text)
        if "[" in pointer:  # the place depends on memory: no other access shares it
            return f"*({space} {vector}*)({_sum(array, _terms(index), self._text)})"
        if self._loops and self._loops[-1].advances:
            pointer = self._advancing(self._loops[-1], array, terms, element, f"{space} char*")
        known = (pointer, vector, const)
        name = next((scope[known] for scope in reversed(self._scopes) if known in scope), None)
        if name is None:
            name = self._scopes[-1][known] = self._names.fresh(f"{array}_at")
            self._lines.append(f"{self._indents[-1]}{space} {vector}* {name} = ({space} {vector}*)({pointer});")
        return f"{name}[{distance // step}]"

    def _advancing(self, loop: _Loop, array: str, terms: list[tuple[int, Any]], element: str, kind: str) -> str:
        """The index as an offset in bytes from a pointer that is declared before the loop's head."""
        inside = [_mentions(term, loop.variables) for _, term in terms]
        fixed = [t for t, changes in zip(terms, inside, strict=True) if not changes]
        value = f"({kind})({_sum(array, fixed, self._text)})"
        if (value, kind) not in loop.scope:
            loop.scope[value, kind] = self._names.fresh(f"{array}_row")
            self._lines.insert(loop.line, f"{loop.indent}{kind} {loop.scope[value, kind]} = {value};")
            loop.line += 1
        changing = [t for t, changes in zip(terms, inside, strict=True) if changes]
        return _sum(loop.scope[value, kind], changing, lambda e: f"{self._text(e)} * (int)sizeof({element})")


def _mentions(e: Any, variables: list[Any]) -> bool:
    used: list[Any] = []
    tvm_ffi.structural_walk(e, (tvm.ir.Var, used.append))
    return any(v.same_as(u) for v in variables for u in used)


def _sum(start: str, terms: Iterable[tuple[int, Any]], text: Callable[[Any], str]) -> str:
    return start + "".join(f" {'+' if sign > 0 else '-'} {text(term)}" for sign, term in terms)


def _terms(e: Any, sign: int = 1) -> Iterator[tuple[int, Any]]:
    """The summands of an index with their signs."""
    if isinstance(e, ir.Add):
        yield from _terms(e.a, sign)
        yield from _terms(e.b, sign)
    elif isinstance(e, ir.Sub):
        yield from _terms(e.a, sign)
        yield from _terms(e.b, -sign)
    elif not isinstance(e, ir.IntImm) or int(e) != 0:
        yield sign, e


def _split_constant(index: Any, lanes: int) -> tuple[Any, int]:
    """An index as (rest, constant), the constant a multiple of `lanes`."""
    if isinstance(index, (ir.Add, ir.Sub)) and isinstance(index.b, ir.IntImm) and int(index.b) % lanes == 0:
        return index.a, int(index.b) if isinstance(index, ir.Add) else -int(index.b)
    return index, 0
