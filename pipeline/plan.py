"""The plan: what the runtime does, as a flat list of kernel launches over buffers with fixed places."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

SCHEMA_VERSION = 1

# The device may ask for any power of two up to a page (Mali 128, NVIDIA 512 bytes); a page serves all of them.
ARENA_ALIGNMENT_BYTES = 4096
WEIGHT_ALIGNMENT_BYTES = 64

DTYPES = (
    "float32",
    "float16",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "bool",
)  # in the order of the schema's DType


class Place(Enum):
    """Where a buffer lives; values are the schema's."""

    ARENA = 0
    WEIGHT = 1
    INPUT = 2
    OUTPUT = 3


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """`index` is the position among the inputs or outputs, `offset` counts bytes into arena or weights."""

    place: Place
    size_bytes: int
    index: int = 0
    offset: int = 0


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """An input or output: row-major, no padding. `buffer` is an index into Plan.buffers."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    buffer: int

    @property
    def size_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, kw_only=True)
class Kernel:
    name: str
    source: str
    local_size: tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class Launch:
    """`buffers` are the kernel's arguments in order, `global_size` counts work-items."""

    kernel: int
    buffers: tuple[int, ...]
    global_size: tuple[int, int, int]
    layer: str
    rule: str
    flops: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    model_name: str
    target: str
    dtype: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    buffers: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    launches: tuple[Launch, ...]
    weights: bytes = field(repr=False)
    arena_bytes: int
    metadata: dict[str, str]

    @property
    def needs_fp16(self) -> bool:
        return any("cl_khr_fp16" in k.source for k in self.kernels)

    @property
    def needs_fp64(self) -> bool:
        return any("cl_khr_fp64" in k.source for k in self.kernels)


def align(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def place_in_arena(sizes: Sequence[int], lifetimes: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    """Cut the arena into slots and give every tensor one, so that no two that live at the same time share it.

    `sizes` in bytes; `lifetimes` are (first, last) launch numbers, both inclusive. Returns the offsets and the arena's
    size. Largest first, each in the smallest slot that is free for its life (Pisarchyk and Lee, Efficient Memory
    Management for Deep Neural Net Inference, 2020, "greedy by size" for shared objects).

    Slots, not arbitrary offsets: the runtime makes a sub-buffer of each, and with sub-buffers that overlap one driver
    (NVIDIA's 580 on an H200) gives wrong results: what is written through one is not seen through the other.
    """
    slot_of = [0] * len(sizes)
    slots: list[int] = []
    lives: list[list[tuple[int, int]]] = []
    for i in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        first, last = lifetimes[i]
        free = [k for k, taken in enumerate(lives) if all(end < first or last < begin for begin, end in taken)]
        if free:
            slot_of[i] = min(free, key=lambda k: (slots[k], k))
        else:
            slot_of[i] = len(slots)
            slots.append(align(sizes[i], ARENA_ALIGNMENT_BYTES))
            lives.append([])
        lives[slot_of[i]].append((first, last))
    starts = [sum(slots[:k]) for k in range(len(slots))]
    return [starts[k] for k in slot_of], sum(slots)


class WeightPool:
    """The weights segment: each distinct array once, at an aligned offset."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._known: dict[bytes, tuple[int, int]] = {}

    def add(self, array: "np.ndarray[Any, Any]") -> Buffer:
        raw = np.ascontiguousarray(array).tobytes()
        if raw not in self._known:
            self._data.extend(b"\0" * (align(len(self._data), WEIGHT_ALIGNMENT_BYTES) - len(self._data)))
            self._known[raw] = (len(self._data), len(raw))
            self._data.extend(raw)
        offset, size_bytes = self._known[raw]
        return Buffer(place=Place.WEIGHT, offset=offset, size_bytes=size_bytes)

    @property
    def data(self) -> bytes:
        return bytes(self._data)
