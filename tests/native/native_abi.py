"""The C ABI through ctypes: structures and calls of malisdk.h, failures as AbiError."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

MAX_RANK = 8
STATUS = {
    name: code
    for code, name in enumerate(
        (
            "OK",
            "INVALID_ARGUMENT",
            "FILE_NOT_FOUND",
            "FOREIGN_FILE",
            "DAMAGED_FILE",
            "VERSION_MISMATCH",
            "NO_OPENCL",
            "NO_DEVICE",
            "UNSUPPORTED",
            "BUILD_FAILED",
            "OUT_OF_RESOURCES",
            "OUT_OF_MEMORY",
            "DEVICE_ERROR",
            "WRONG_TENSOR",
            "BUSY",
            "INTERNAL",
        )
    )
}
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
)


class AbiError(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = next((name for name, code in STATUS.items() if code == status), str(status))


class TensorSpec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_uint32),
        ("shape", ctypes.c_int64 * MAX_RANK),
        ("size_bytes", ctypes.c_uint64),
    )


class Tensor(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_uint32),
        ("shape", ctypes.c_int64 * MAX_RANK),
        ("data", ctypes.c_void_p),
        ("size_bytes", ctypes.c_uint64),
    )


class ModelOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("device", ctypes.c_char_p),
        ("cache_dir", ctypes.c_char_p),
        ("opencl_library", ctypes.c_char_p),
    )


class SessionOptions(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_uint32), ("profile", ctypes.c_uint32))


class ModelInfo(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("target", ctypes.c_char_p),
        ("device", ctypes.c_char_p),
        ("platform", ctypes.c_char_p),
        ("dtype", ctypes.c_int32),
        ("input_count", ctypes.c_uint32),
        ("output_count", ctypes.c_uint32),
        ("kernel_count", ctypes.c_uint32),
        ("launch_count", ctypes.c_uint32),
        ("weights_bytes", ctypes.c_uint64),
        ("arena_bytes", ctypes.c_uint64),
        ("kernels_from_cache", ctypes.c_uint32),
    )


class LaunchProfile(ctypes.Structure):
    _fields_ = (
        ("kernel", ctypes.c_char_p),
        ("layer", ctypes.c_char_p),
        ("rule", ctypes.c_char_p),
        ("device_ns", ctypes.c_uint64),
        ("flops", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
    )


def tensor(name: str | None, array: "np.ndarray[Any, Any]") -> Tensor:
    """`array` must be C-contiguous and outlive the result."""
    t = Tensor()
    t.name = None if name is None else name.encode()
    t.dtype = DTYPES.index(str(array.dtype))
    t.rank = array.ndim
    for axis, extent in enumerate(array.shape[:MAX_RANK]):
        t.shape[axis] = extent
    t.data = array.ctypes.data
    t.size_bytes = array.nbytes
    return t


class Abi:
    """One loaded libmalisdk."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.library.malisdk_last_error.restype = ctypes.c_char_p
        self.library.malisdk_status_name.restype = ctypes.c_char_p
        self.library.malisdk_dtype_name.restype = ctypes.c_char_p
        self.library.malisdk_dtype_bytes.restype = ctypes.c_uint64
        for name in ("malisdk_model_destroy", "malisdk_session_destroy"):
            function = getattr(self.library, name)
            function.restype, function.argtypes = None, (ctypes.c_void_p,)

    def call(self, name: str, *arguments: object) -> None:
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise AbiError(status, self.library.malisdk_last_error().decode())

    def load(self, source: Path | bytes, **options: str | None) -> "Model":
        raw = ModelOptions(struct_size=ctypes.sizeof(ModelOptions))
        for key, value in options.items():
            setattr(raw, key, None if value is None else str(value).encode())
        handle = ctypes.c_void_p()
        if isinstance(source, bytes):
            size = ctypes.c_uint64(len(source))
            self.call("malisdk_model_load_memory", source, size, ctypes.byref(raw), ctypes.byref(handle))
        else:
            self.call("malisdk_model_load", str(source).encode(), ctypes.byref(raw), ctypes.byref(handle))
        return Model(self, handle)


class Handle:
    destroy_name: str

    def __init__(self, abi: Abi, handle: ctypes.c_void_p) -> None:
        self.abi = abi
        self.handle = handle

    def close(self) -> None:
        handle, self.handle = self.handle, ctypes.c_void_p()
        getattr(self.abi.library, self.destroy_name)(handle)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Model(Handle):
    destroy_name = "malisdk_model_destroy"

    def info(self) -> ModelInfo:
        info = ModelInfo(struct_size=ctypes.sizeof(ModelInfo))
        self.abi.call("malisdk_model_info_get", self.handle, ctypes.byref(info))
        return info

    def spec(self, side: str, index: int) -> TensorSpec:
        spec = TensorSpec()
        self.abi.call(f"malisdk_model_{side}", self.handle, ctypes.c_uint32(index), ctypes.byref(spec))
        return spec

    def session(self, profile: int = 0) -> "Session":
        options = SessionOptions(struct_size=ctypes.sizeof(SessionOptions), profile=profile)
        handle = ctypes.c_void_p()
        self.abi.call("malisdk_session_create", self.handle, ctypes.byref(options), ctypes.byref(handle))
        return Session(self.abi, handle)


class Session(Handle):
    destroy_name = "malisdk_session_destroy"

    def run_tensors(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        self.abi.call(
            "malisdk_session_run",
            self.handle,
            (Tensor * len(inputs))(*inputs),
            ctypes.c_uint32(len(inputs)),
            (Tensor * len(outputs))(*outputs),
            ctypes.c_uint32(len(outputs)),
        )

    def run(
        self, inputs: Mapping[str, "np.ndarray[Any, Any]"], outputs: Mapping[str, "np.ndarray[Any, Any]"]
    ) -> Mapping[str, "np.ndarray[Any, Any]"]:
        """Fill `outputs` in place and return them."""
        self.run_tensors([tensor(n, a) for n, a in inputs.items()], [tensor(n, a) for n, a in outputs.items()])
        return outputs

    def map(self, side: str, index: int) -> int:
        data = ctypes.c_void_p()
        self.abi.call(f"malisdk_session_map_{side}", self.handle, ctypes.c_uint32(index), ctypes.byref(data))
        assert data.value is not None
        return data.value

    def unmap(self, side: str, index: int) -> None:
        self.abi.call(f"malisdk_session_unmap_{side}", self.handle, ctypes.c_uint32(index))

    def profile(self) -> tuple[list[LaunchProfile], int]:
        launches = ctypes.POINTER(LaunchProfile)()
        count, total_ns = ctypes.c_uint32(), ctypes.c_uint64()
        self.abi.call(
            "malisdk_session_profile",
            self.handle,
            ctypes.byref(launches),
            ctypes.byref(count),
            ctypes.byref(total_ns),
        )
        return [launches[i] for i in range(count.value)], total_ns.value


def failure(action: Callable[[], object]) -> AbiError:
    """What `action` fails with; an assertion when it does not fail."""
    try:
        action()
    except AbiError as e:
        return e
    raise AssertionError("expected a failure, got none")
