"""The values of a walk through a kernel: integers of all sampled work-items at once, pointers, and all that is not
followed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .clc import Type

INTEGERS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "bool", "size_t")
Integers = Any  # np.ndarray of int64, shape (rows, items), or what broadcasts to it

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max": np.maximum,
    "min": np.minimum,
    "abs": np.abs,
    "mul24": np.multiply,
    "mad24": lambda a, b, c: a * b + c,
    "clamp": lambda x, a, b: np.minimum(np.maximum(x, a), b),
}
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "<<": np.left_shift,
    ">>": np.right_shift,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<": np.less,
    ">": np.greater,
    "<=": np.less_equal,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "&&": np.logical_and,
    "||": np.logical_or,
}


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """`address` in bytes from the begin of the buffer of a parameter; `type` is what it points to."""

    buffer: str
    type: Type
    address: Integers


@dataclass(frozen=True, kw_only=True)
class Other:
    """A value that is not followed: floats, and vectors of anything."""

    scalar: str
    lanes: int


def other(t: Type) -> Other:
    return Other(scalar=t.scalar, lanes=t.lanes)


def is_integer(value: Any) -> bool:
    return not isinstance(value, (Pointer, Other))


def compute(sign: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """C's operators on integers; what divides by zero is not used by a kernel, so any number will do."""
    if sign == "/":
        return np.trunc(a / np.where(b == 0, 1, b)).astype(np.int64)
    if sign == "%":
        return np.fmod(a, np.where(b == 0, 1, b))
    return _OPERATIONS[sign](a, b).astype(np.int64)
