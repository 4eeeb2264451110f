"""Runs compiled models through libmalisdk on a device, many in one process; a program of its own.

    python runtime_guest.py LIBRARY REQUESTS.zip ANSWERS.zip

It stands alone (standard library and numpy): the device has neither the pipeline nor the wheel. REQUESTS.zip has
`requests.json`, a list of {"name", "inputs": [NAME]}, and for the i-th of them `<i>.mali` and the arrays
`<i>/<j>.npy`. ANSWERS.zip gets `answers.json`, a list of {"device", "outputs": [NAME]} or {"status", "error"}, and the
outputs likewise. Each model is announced on stdout before it runs, so the last one is what a process died of.
"""

import ctypes
import io
import json
import sys
import zipfile
from typing import Any

import numpy as np

_MAX_RANK = 8
_DTYPES = (
    *("float32", "float16", "float64", "int8", "uint8", "int16"),
    *("uint16", "int32", "uint32", "int64", "uint64", "bool"),
)


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_uint32),
        ("shape", ctypes.c_int64 * _MAX_RANK),
        ("size_bytes", ctypes.c_uint64),
    )


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_uint32),
        ("shape", ctypes.c_int64 * _MAX_RANK),
        ("data", ctypes.c_void_p),
        ("size_bytes", ctypes.c_uint64),
    )


class _Options(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("device", ctypes.c_char_p),
        ("cache_dir", ctypes.c_char_p),
        ("opencl_library", ctypes.c_char_p),
    )


class _Info(ctypes.Structure):
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


class RuntimeFailureError(Exception):
    """A call of the library failed: its status and its text."""


class Runtime:
    """A loaded libmalisdk."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        self._library.malisdk_last_error.restype = ctypes.c_char_p
        self._library.malisdk_status_name.restype = ctypes.c_char_p
        for name in ("malisdk_model_destroy", "malisdk_session_destroy"):
            getattr(self._library, name).argtypes = (ctypes.c_void_p,)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise RuntimeFailureError(
                self._library.malisdk_status_name(status).decode(), self._library.malisdk_last_error().decode()
            )

    def run(self, content: bytes, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The device's name, and the outputs of a model for arrays by input."""
        options = _Options(struct_size=ctypes.sizeof(_Options), device=b"auto", cache_dir=b"")
        model, session = ctypes.c_void_p(), ctypes.c_void_p()
        size = ctypes.c_uint64(len(content))
        self._call("malisdk_model_load_memory", content, size, ctypes.byref(options), ctypes.byref(model))
        try:
            info = _Info(struct_size=ctypes.sizeof(_Info))
            self._call("malisdk_model_info_get", model, ctypes.byref(info))
            outputs = {}
            for index in range(info.output_count):
                spec = _Spec()
                self._call("malisdk_model_output", model, ctypes.c_uint32(index), ctypes.byref(spec))
                outputs[spec.name.decode()] = np.zeros(spec.shape[: spec.rank], _DTYPES[spec.dtype])
            self._call("malisdk_session_create", model, None, ctypes.byref(session))
            given = [_tensor(n, a) for n, a in inputs.items()]
            wanted = [_tensor(n, a) for n, a in outputs.items()]
            self._call(
                "malisdk_session_run",
                session,
                (_Tensor * len(given))(*given),
                ctypes.c_uint32(len(given)),
                (_Tensor * len(wanted))(*wanted),
                ctypes.c_uint32(len(wanted)),
            )
            return info.device.decode(), outputs
        finally:
            self._library.malisdk_session_destroy(session)
            self._library.malisdk_model_destroy(model)


def _tensor(name: str, array: Any) -> _Tensor:
    """`array` must be contiguous and outlive the result."""
    tensor = _Tensor(name=name.encode(), dtype=_DTYPES.index(str(array.dtype)), rank=array.ndim)
    for axis, extent in enumerate(array.shape):
        tensor.shape[axis] = extent
    tensor.data = array.ctypes.data
    tensor.size_bytes = array.nbytes
    return tensor


def _answer(
    runtime: Runtime, index: int, request: dict[str, Any], source: zipfile.ZipFile, out: zipfile.ZipFile
) -> Any:
    inputs = {}
    for j, name in enumerate(request["inputs"]):
        inputs[name] = np.load(io.BytesIO(source.read(f"{index}/{j}.npy")))
    try:
        device, outputs = runtime.run(source.read(f"{index}.mali"), inputs)
    except RuntimeFailureError as e:
        return {"status": e.args[0], "error": e.args[1]}
    for j, array in enumerate(outputs.values()):
        with out.open(f"{index}/{j}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array)
    return {"device": device, "outputs": list(outputs)}


def main() -> int:
    runtime = Runtime(sys.argv[1])
    with zipfile.ZipFile(sys.argv[2]) as source, zipfile.ZipFile(sys.argv[3], "w") as out:
        answers = []
        for index, request in enumerate(json.loads(source.read("requests.json"))):
            print(f"model {request['name']}", flush=True)
            answers.append(_answer(runtime, index, request, source, out))
        out.writestr("answers.json", json.dumps(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
