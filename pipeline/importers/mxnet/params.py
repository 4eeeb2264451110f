"""Read `.params` files: arrays by name, every layout since MXNet 0.5.

A list of arrays, then a list of their names, all little-endian (MXNet's NDArray::Save). An array is told apart by its
first word: 0xF993FAC9 (v2, 0xF993FACA with numpy shapes), 0xF993FAC8 (v1), else that word is the rank of the oldest
layout, v0.

Only what describes the arrays is read, and checked against the file's size; each array is read when it is asked for.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import ml_dtypes
import numpy as np

from ...errors import ImportFailed

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_LIST_MAGIC = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_MAX_RANK = 32
_STORAGE = {1: "row_sparse", 2: "csr"}
_DENSE = (-1, 0)
# mshadow's type flags.
_DTYPES: dict[int, np.dtype[Any]] = {
    0: np.dtype("<f4"),
    1: np.dtype("<f8"),
    2: np.dtype("<f2"),
    3: np.dtype("u1"),
    4: np.dtype("<i4"),
    5: np.dtype("i1"),
    6: np.dtype("<i8"),
    7: np.dtype("?"),
    8: np.dtype("<i2"),
    9: np.dtype("<u2"),
    10: np.dtype("<u4"),
    11: np.dtype("<u8"),
    12: np.dtype(ml_dtypes.bfloat16),
}
_HINT = "save the parameters again, or copy the whole file"
# The least that an array and a name take, so that a count cannot promise more than the file holds.
_LEAST_ARRAY_BYTES, _LEAST_NAME_BYTES = 4, 8


@dataclass(frozen=True, kw_only=True)
class StoredArray:
    """An array in a parameter file: where it is and what it is."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self) -> Array:
        """Raises ImportFailed if the file has changed so that the array is not there any more."""
        size_bytes = math.prod(self.shape) * self.dtype.itemsize
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read(size_bytes)
        except OSError as e:
            raise ImportFailed(f"{self.path}: cannot be read: {e.strerror}") from e
        if len(data) != size_bytes:
            raise ImportFailed(f"{self.path}: changed while it was read", hint=_HINT)
        return np.frombuffer(data, self.dtype).reshape(self.shape)


def read_params(path: Path) -> Mapping[str, StoredArray]:
    """Arrays by name, without the `arg:` and `aux:` in front. Raises ImportFailed for anything that is not whole."""
    try:
        with path.open("rb") as file:
            return _Reader(path, file, path.stat().st_size).read()
    except OSError as e:
        raise ImportFailed(f"{path}: cannot be read: {e.strerror}") from e


class _Reader:
    def __init__(self, path: Path, file: BinaryIO, size_bytes: int) -> None:
        self._path = path
        self._file = file
        self._size_bytes = size_bytes
        self._at = 0

    def read(self) -> Mapping[str, StoredArray]:
        if self._size_bytes < 24 or self._take("<Q")[0] != _LIST_MAGIC:
            raise ImportFailed(
                f"{self._path}: no MXNet parameters, got a file that does not begin with 0x112", hint=_HINT
            )
        self._take("<Q")
        arrays = [self._array(i) for i in range(self._count("arrays", _LEAST_ARRAY_BYTES))]
        names = [self._name(i) for i in range(self._count("names", _LEAST_NAME_BYTES))]
        if len(names) != len(arrays):
            raise self._damaged(f"got {len(names)} names for {len(arrays)} arrays; expected as many")
        if self._at != self._size_bytes:
            raise self._damaged(f"got {self._size_bytes - self._at} bytes behind the last name; expected none")
        found: dict[str, StoredArray] = {}
        for name, array in zip(names, arrays, strict=True):
            plain = name.removeprefix("arg:").removeprefix("aux:")
            if plain in found:
                raise self._damaged(f"got {plain} twice; expected each name once")
            if array is not None:
                found[plain] = array
        return found

    def _damaged(self, text: str) -> ImportFailed:
        return ImportFailed(f"{self._path}: damaged: {text}", hint=_HINT)

    def _take(self, form: str) -> tuple[int, ...]:
        size = struct.calcsize(form)
        if self._at + size > self._size_bytes:
            raise self._damaged(f"ends at byte {self._size_bytes}; expected more")
        return struct.unpack(form, self._bytes(size))

    def _bytes(self, count: int) -> bytes:
        data = self._file.read(count)
        self._at += len(data)
        if len(data) != count:
            raise self._damaged(f"ends at byte {self._at}; expected more")
        return data

    def _count(self, what: str, least_bytes: int) -> int:
        (count,) = self._take("<Q")
        if count * least_bytes > self._size_bytes - self._at:
            raise self._damaged(f"got {count} {what} at byte {self._at}; expected no more than the file has room for")
        return count

    def _array(self, index: int) -> StoredArray | None:
        """The next array; None for one that was never filled."""
        (magic,) = self._take("<I")
        if magic in (_V2, _V3):
            (storage,) = self._take("<i")
            if storage not in _DENSE:
                kind = _STORAGE.get(storage, f"storage type {storage}")
                raise ImportFailed(
                    f"{self._path}: array {index} is sparse, got {kind}; expected dense arrays",
                    hint='call tostype("default") on it before saving',
                )
        if magic in (_V1, _V2, _V3):
            (rank,) = self._take("<i")
            extents = self._extents(index, rank, "q", unknown=-1 if magic == _V3 else 0)
        else:
            extents = self._extents(index, magic, "I", unknown=0)
        if extents is None:
            return None
        self._take("<ii")  # the device that it was on
        (flag,) = self._take("<i")
        if flag not in _DTYPES:
            raise self._damaged(f"array {index} has type {flag}; expected 0 to {max(_DTYPES)}")
        dtype = _DTYPES[flag]
        size_bytes = math.prod(extents) * dtype.itemsize
        if max(extents, default=0) >= 2**31:
            raise self._damaged(f"array {index} has shape {extents}; expected extents below 2**31")
        if size_bytes > self._size_bytes - self._at:
            left = self._size_bytes - self._at
            raise self._damaged(f"array {index} of shape {extents} needs {size_bytes} bytes, got {left}")
        array = StoredArray(path=self._path, offset=self._at, shape=extents, dtype=dtype)
        self._at += size_bytes
        self._file.seek(self._at)
        return array

    def _extents(self, index: int, rank: int, letter: str, *, unknown: int) -> tuple[int, ...] | None:
        """None where the rank says that there is no array."""
        if rank == unknown:
            return None
        if not 0 <= rank <= _MAX_RANK:
            raise self._damaged(f"array {index} has rank {rank}; expected at most {_MAX_RANK}")
        extents = self._take(f"<{rank}{letter}")
        if any(e < 0 for e in extents):
            raise self._damaged(f"array {index} has shape {extents}; expected no negative extent")
        return extents

    def _name(self, index: int) -> str:
        (size,) = self._take("<Q")
        if size > self._size_bytes - self._at:
            raise self._damaged(f"name {index} has {size} bytes, got {self._size_bytes - self._at}")
        text = self._bytes(size)
        try:
            return text.decode()
        except UnicodeDecodeError as e:
            raise self._damaged(f"name {index} is no UTF-8 text, got {text[:40]!r}") from e
