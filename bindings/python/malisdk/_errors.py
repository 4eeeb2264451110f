"""Errors of the runtime."""

from __future__ import annotations

import enum
from typing import Callable


class Status(enum.IntEnum):
    """Why a call failed; the numbers are frozen and the same in C, where they are called MALISDK_..."""

    OK = 0
    INVALID_ARGUMENT = 1
    FILE_NOT_FOUND = 2
    FOREIGN_FILE = 3
    DAMAGED_FILE = 4
    VERSION_MISMATCH = 5
    NO_OPENCL = 6
    NO_DEVICE = 7
    UNSUPPORTED = 8
    BUILD_FAILED = 9
    OUT_OF_RESOURCES = 10
    OUT_OF_MEMORY = 11
    DEVICE_ERROR = 12
    WRONG_TENSOR = 13
    BUSY = 14
    INTERNAL = 15


class Error(Exception):
    """Anything the runtime refuses or fails at; `str(error)` says what, and often a hint how to help it.

    code: the number of a `Status`, for programs to branch on.
    status: its name in C, for example "MALISDK_NO_DEVICE".
    """

    def __init__(self, message: str, code: int = Status.INTERNAL) -> None:
        super().__init__(message)
        self.code = int(code)

    @property
    def status(self) -> str:
        return "MALISDK_" + Status(self.code).name if self.code in _KNOWN else "unknown status"

    def __reduce__(self) -> tuple[Callable[[str, int], Error], tuple[str, int]]:
        return from_status, (str(self), self.code)


class WrongTensor(Error, ValueError):  # noqa: N818
    """An input or output that is no numpy array, or has another dtype, shape or order in memory than the model's."""


_KNOWN = frozenset(int(status) for status in Status)


def from_status(message: str, code: int) -> Error:
    """The exception of a failed call."""
    return (WrongTensor if code == Status.WRONG_TENSOR else Error)(message, code)
