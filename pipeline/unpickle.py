"""Weights out of pickles, without running what a pickle asks for.

Only the names in the allow-lists below resolve, and each of them resolves to a plain record of this file; arrays are
made from the recorded bytes after their sizes have been checked. Nothing of torch is needed.
"""

import copy
import io
import math
import pickle
import pickletools
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ImportFailed

# The first three pickles of a legacy torch file: magic number, protocol version, facts about the writer.
_TORCH_MAGIC = 0x1950A86A20F9469CFC6C
_TORCH_PROTOCOL = 1001
_ZIP_MAGIC = b"PK\x03\x04"
_MAX_RANK = 8
_MEMO_WRITES = {"PUT", "BINPUT", "LONG_BINPUT"}


class _RestrictedUnpickler(pickle.Unpickler):
    """Resolves the given names only; `persistent` makes an object of a persistent id, None refuses them."""

    def __init__(
        self,
        stream: io.BytesIO,
        *,
        source: str,
        allowed: Mapping[str, object],
        persistent: Callable[[Any], object] | None = None,
    ) -> None:
        super().__init__(stream, encoding="latin1")
        self._source = source
        self._allowed = allowed
        self._persistent = persistent

    def find_class(self, module: str, name: str, /) -> Any:
        wanted = f"{module}.{name}"
        if wanted not in self._allowed:
            raise ImportFailed(
                f"{self._source}: pickle asks for a name that is not allowed, got {wanted}; "
                f"expected {', '.join(sorted(self._allowed)) or 'plain values only'}",
                hint="take the file from the source that its recipe names; do not load it by other means",
            )
        value = self._allowed[wanted]
        if value is OrderedDict:
            return value
        # A pickle may set attributes of what it names: it gets an object of its own each time.
        return partial(value) if callable(value) else copy.copy(value)

    def persistent_load(self, pid: Any) -> Any:
        if self._persistent is None:
            raise ImportFailed(f"{self._source}: pickle holds a persistent id, got {pid!r:.80}; expected none")
        return self._persistent(pid)


def _load(
    stream: io.BytesIO,
    source: str,
    allowed: Mapping[str, object],
    persistent: Callable[[Any], object] | None = None,
) -> Any:
    """One pickle from the stream. Raises ImportFailed for everything that a damaged or hostile one can do."""
    try:
        start = stream.tell()
        _check_opcodes(stream)
        stream.seek(start)
        return _RestrictedUnpickler(stream, source=source, allowed=allowed, persistent=persistent).load()
    except ImportFailed:
        raise
    except Exception as e:  # a damaged pickle may raise nearly anything, says the pickle module's documentation
        raise ImportFailed(f"{source}: damaged pickle, got {type(e).__name__}: {e}; expected a whole one") from e


def _check_opcodes(stream: io.BytesIO) -> None:
    """Every argument is whole and no memo index exceeds the number of opcodes; the unpickler allocates before it reads.

    Raises ValueError.
    """
    opcodes = [(opcode.name, argument) for opcode, argument, _ in pickletools.genops(stream)]
    highest = max((a for name, a in opcodes if name in _MEMO_WRITES and isinstance(a, int)), default=0)
    if highest > len(opcodes):
        raise ValueError(f"memo index {highest} in {len(opcodes)} opcodes")


# --- numpy pickles ---------------------------------------------------------------------------------------------------


class _Dtype:
    """What a pickle says about a numpy dtype: kind and size ("f4"), byte order by its state."""

    def __init__(self, code: str, *_: object) -> None:
        if code not in {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"}:
            raise ValueError(f"array of dtype {code!r}")
        self.code = code
        self.order = "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1]
        if order not in ("<", ">", "|", "="):
            raise ValueError(f"byte order {order!r}")
        self.order = "<" if order == "=" else order

    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.code)


class _Array:
    """What a pickle says about one numpy array."""

    def __init__(self, *_: object) -> None:
        self.value: np.ndarray[Any, Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, data = state
        if not isinstance(dtype, _Dtype):
            raise TypeError("array without a dtype")
        if len(shape) > _MAX_RANK or any(not isinstance(n, int) or n < 0 for n in shape):
            raise ValueError(f"array shape {shape!r}")
        raw = data.encode("latin1") if isinstance(data, str) else bytes(data)
        flat = np.frombuffer(raw, dtype.numpy())
        self.value = flat.reshape(shape, order="F" if fortran else "C")


@dataclass(frozen=True)
class _NdarrayName:
    """Stands for the class numpy.ndarray where a pickle names it."""


def _reconstruct(subtype: object, shape: object, code: object) -> _Array:
    if not isinstance(subtype, _NdarrayName):
        raise TypeError(f"array of class {subtype!r}")
    return _Array()


def _encode(text: str, encoding: str) -> bytes:
    """Protocol 2 has no bytes: Python 3 writes them as text with the wish to encode it."""
    if encoding != "latin1":
        raise ValueError(f"encoding {encoding!r}")
    return text.encode("latin1")


_NUMPY_ALLOWED: Mapping[str, object] = {
    "numpy.core.multiarray._reconstruct": _reconstruct,
    "numpy._core.multiarray._reconstruct": _reconstruct,
    "numpy.ndarray": _NdarrayName(),
    "numpy.dtype": _Dtype,
    "_codecs.encode": _encode,
    "collections.OrderedDict": OrderedDict,
}


def read_numpy_pickle(path: Path) -> dict[str, list[np.ndarray[Any, Any]]]:
    """The arrays of each layer, out of a pickle of a dict of lists (or tuples) of numpy arrays.

    Pickle protocols 2 to 4, as any numpy writes them. Raises ImportFailed if the pickle holds or names anything else,
    is damaged, or more follows it.
    """
    stream = io.BytesIO(path.read_bytes())
    value = _load(stream, str(path), _NUMPY_ALLOWED)
    if rest := len(stream.read()):
        raise ImportFailed(f"{path}: bytes after the pickle's end, got {rest}; expected 0")
    if not isinstance(value, dict):
        raise ImportFailed(f"{path}: no dict, got {type(value).__name__}; expected lists of arrays by layer")
    layers: dict[str, list[np.ndarray[Any, Any]]] = {}
    for name, arrays in value.items():
        if not isinstance(name, str) or not isinstance(arrays, list | tuple):
            raise ImportFailed(f"{path}: layer {name!r:.40}, got {type(arrays).__name__}; expected a list of arrays")
        values = [a.value for a in arrays if isinstance(a, _Array) and a.value is not None]
        if len(values) != len(arrays):
            raise ImportFailed(f"{path}: layer {name}, got an item without data; expected numpy arrays only")
        layers[name] = values
    return layers


# --- legacy torch files ----------------------------------------------------------------------------------------------

_TORCH_STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}


@dataclass(frozen=True, kw_only=True)
class _StorageType:
    dtype: str


@dataclass(kw_only=True)
class _Storage:
    dtype: str
    count: int
    data: np.ndarray[Any, Any] | None = field(default=None)


@dataclass(frozen=True, kw_only=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def numpy(self, name: str, source: str) -> np.ndarray[Any, Any]:
        """A contiguous copy. Raises ImportFailed if the view reaches outside of its storage."""
        data = self.storage.data
        if data is None:
            raise ImportFailed(f"{source}: {name}: storage without data; expected {self.storage.count} elements")
        numbers = (self.offset, *self.shape, *self.strides)
        if len(self.shape) != len(self.strides) or any(not isinstance(n, int) or n < 0 for n in numbers):
            raise ImportFailed(f"{source}: {name}: shape {self.shape} with strides {self.strides}; expected a view")
        last = self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        if math.prod(self.shape) and (last >= data.size or math.prod(self.shape) > data.size):
            raise ImportFailed(f"{source}: {name}: element {last} of its storage; expected fewer than {data.size}")
        byte_strides = tuple(s * data.itemsize for s in self.strides)
        if not math.prod(self.shape):
            return np.empty(self.shape, data.dtype)
        return np.lib.stride_tricks.as_strided(data[self.offset :], self.shape, byte_strides).copy()


def _rebuild_tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: object) -> _Tensor:
    if not isinstance(storage, _Storage) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
        raise TypeError("tensor without a storage, shape and strides")
    return _Tensor(storage=storage, offset=offset, shape=shape, strides=strides)


_TORCH_ALLOWED: Mapping[str, object] = {
    "collections.OrderedDict": OrderedDict,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    **{f"torch.{name}": _StorageType(dtype=dtype) for name, dtype in _TORCH_STORAGES.items()},
}


def read_torch_legacy(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of a state dict that torch wrote in its legacy (not zip) format, by name.

    Raises ImportFailed if the file is of another format, truncated, names anything but tensors, or if a tensor reaches
    outside of its storage.
    """
    source = str(path)
    raw = path.read_bytes()
    if raw.startswith(_ZIP_MAGIC):
        raise ImportFailed(f"{source}: torch file of the zip format; expected the legacy format")
    stream = io.BytesIO(raw)
    magic = _load(stream, source, {})
    protocol = _load(stream, source, {})
    if (magic, protocol) != (_TORCH_MAGIC, _TORCH_PROTOCOL):
        raise ImportFailed(f"{source}: no legacy torch file, got magic {magic!r:.40}; expected {_TORCH_MAGIC:#x}")
    writer = _load(stream, source, {})
    if not isinstance(writer, dict) or writer.get("little_endian") is not True:
        raise ImportFailed(f"{source}: torch file of a big-endian machine; expected little-endian")

    storages: dict[str, _Storage] = {}

    def persistent(pid: Any) -> _Storage:
        kind, storage_type, key, _, count, view = pid
        if kind != "storage" or not isinstance(storage_type, _StorageType) or view is not None:
            raise ValueError(f"persistent id {pid!r:.80}")
        if not isinstance(key, str) or not isinstance(count, int) or count < 0:
            raise ValueError(f"storage {key!r:.40} of {count!r:.40} elements")
        return storages.setdefault(key, _Storage(dtype=storage_type.dtype, count=count))

    state = _load(stream, source, _TORCH_ALLOWED, persistent)
    keys = _load(stream, source, {})
    if not isinstance(keys, list) or sorted(map(str, keys)) != sorted(storages):
        raise ImportFailed(f"{source}: list of storages does not match the tensors'; expected {len(storages)} keys")
    for key in keys:
        _read_storage(stream, storages[key], f"{source}: storage {key}")
    if rest := len(stream.read()):
        raise ImportFailed(f"{source}: bytes after the last storage, got {rest}; expected 0")
    if not isinstance(state, dict) or not all(isinstance(t, _Tensor) for t in state.values()):
        raise ImportFailed(f"{source}: no state dict; expected tensors by name")
    return {str(name): tensor.numpy(str(name), source) for name, tensor in state.items()}


def _read_storage(stream: io.BytesIO, storage: _Storage, what: str) -> None:
    head = stream.read(8)
    count = struct.unpack("<q", head)[0] if len(head) == 8 else -1
    if count != storage.count:
        raise ImportFailed(f"{what}: length, got {count}; expected {storage.count} elements")
    dtype = np.dtype(storage.dtype)
    data = stream.read(count * dtype.itemsize)
    if len(data) != count * dtype.itemsize:
        raise ImportFailed(f"{what}: truncated, got {len(data)} bytes; expected {count * dtype.itemsize}")
    storage.data = np.frombuffer(data, dtype)
