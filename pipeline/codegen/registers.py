"""How a thread's private arrays are printed: as vectors and lanes wherever every index is a constant.

A private array that stays an array goes to memory on Midgard (28 instead of 8 load/store bundles a loop round for a
1x1 convolution tile, seen with Mesa's compiler for the T860), so an array is the last resort.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.prim.expr import IntImm, Ramp

LANES = "0123456789abcdef"
VECTOR_WIDTHS = (2, 3, 4, 8, 16)


@dataclass(frozen=True, kw_only=True)
class Registers:
    """One private buffer of `size` elements of `dtype` as variables of `width` lanes each; width 0: a real array."""

    name: str
    dtype: str
    size: int
    width: int

    def variables(self) -> Iterable[str]:
        return (self.variable(i) for i in range(-(-self.size // self.width)))

    def variable(self, i: int) -> str:
        return f"{self.name}_{i}" if self.size > self.width else self.name

    def access(self, index: int, lanes: int) -> str:
        """Text that reads or writes `lanes` elements from `index` on."""
        text = self.variable(index // self.width)
        if lanes == self.width:
            return text
        first = index % self.width
        return f"{text}.s{LANES[first : first + lanes]}"


def constant_access(indices: Any) -> tuple[int, int] | None:
    """(first element, lanes) of an access whose place is a constant, else None."""
    if len(indices) != 1:
        return None
    index = indices[0]
    if isinstance(index, IntImm):
        return int(index), 1
    if isinstance(index, Ramp) and isinstance(index.base, IntImm) and int(index.stride) == 1:
        return int(index.base), int(index.lanes)
    return None


def plan_registers(body: tirx.Stmt, buffers: dict[Any, str]) -> dict[Any, Registers]:
    """Decide for every private buffer of `buffers` (variable -> name) how it is printed."""
    accesses: dict[Any, list[tuple[int, int] | None]] = {b: [] for b in buffers}

    def note(buffer: Any, indices: Any) -> None:
        if buffer in accesses:
            accesses[buffer].append(constant_access(indices))

    tvm_ffi.structural_walk(
        body,
        [
            (tvm.ir.TensorLoad, lambda e: note(e.source, e.indices)),
            (tirx.BufferStore, lambda s: note(s.buffer, s.indices)),
        ],
    )
    return {b: _choose(b, name, accesses[b]) for b, name in buffers.items()}


def _choose(buffer: Any, name: str, accesses: list[tuple[int, int] | None]) -> Registers:
    element = tvm.DataType(str(buffer.ty.dtype))
    size = 1
    for extent in buffer.ty.shape:
        size *= int(extent)
    scalar = str(element).partition("x")[0]
    known = [a for a in accesses if a is not None]
    if len(known) < len(accesses):
        return Registers(name=name, dtype=str(element), size=size, width=0)
    if element.lanes > 1:
        scale = element.lanes
        return Registers(name=name, dtype=scalar, size=size * scale, width=scale)
    width = max((lanes for _, lanes in known), default=1)
    fits = width == 1 or width in VECTOR_WIDTHS
    if fits and all(first % width + lanes <= width for first, lanes in known):
        return Registers(name=name, dtype=scalar, size=size, width=width)
    return Registers(name=name, dtype=scalar, size=size, width=0)
