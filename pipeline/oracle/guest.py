"""Compiles OpenCL programs with the driver at hand and tells what came out; runs inside the oracle's arm64 system.

It stands alone (standard library only). One line of JSON a request on stdin, one a reply on stdout:

    {"source": PATH, "options": TEXT, "stdout": PATH, "stderr": PATH}
    {"code": BUILD_CODE, "log": TEXT, "kernels": [{"name", "arguments", "work_group", "required"}]}

The first line, before any request, describes the device. What the driver prints of a program goes into the request's
two files. If the driver crashes, so does this program; the one who asked starts another.
"""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

_ALL_DEVICES = 0xFFFFFFFF
_DEVICE_NAME, _DRIVER_VERSION, _DEVICE_VERSION = 0x102B, 0x102D, 0x102F
_DEVICE_MAX_WORK_GROUP, _BUILD_LOG = 0x1004, 0x1183
_FUNCTION_NAME, _NUM_ARGS = 0x1190, 0x1191
_KERNEL_WORK_GROUP, _COMPILE_WORK_GROUP = 0x11B0, 0x11B1
_SET_PARENT_DEATH_SIGNAL = 1  # prctl
_TEXT_BYTES = 1 << 18
_MAX_PLATFORMS, _MAX_KERNELS = 8, 1024


class Driver:
    """The first OpenCL device, a context on it, and programs built in that."""

    def __init__(self) -> None:
        self._cl = ctypes.CDLL("libOpenCL.so.1")
        for function in ("clCreateContext", "clCreateProgramWithSource"):
            getattr(self._cl, function).restype = ctypes.c_void_p
        self._device = self._first_device()
        code = ctypes.c_int()
        self._context = ctypes.c_void_p(
            self._cl.clCreateContext(None, 1, ctypes.byref(self._device), None, None, ctypes.byref(code))
        )
        if code.value != 0:
            raise RuntimeError(f"clCreateContext failed with {code.value}")

    def _first_device(self) -> ctypes.c_void_p:
        platforms = (ctypes.c_void_p * _MAX_PLATFORMS)()
        count = ctypes.c_uint(0)
        self._cl.clGetPlatformIDs(_MAX_PLATFORMS, platforms, ctypes.byref(count))
        device = ctypes.c_void_p()
        for platform in platforms[: count.value]:
            found = ctypes.c_uint(0)
            arguments = (ctypes.c_void_p(platform), ctypes.c_uint64(_ALL_DEVICES), 1, ctypes.byref(device))
            if self._cl.clGetDeviceIDs(*arguments, ctypes.byref(found)) == 0 and found.value:
                return device
        raise RuntimeError("no OpenCL device")

    def describe(self) -> dict[str, Any]:
        size = ctypes.c_size_t()
        self._cl.clGetDeviceInfo(
            self._device, ctypes.c_uint(_DEVICE_MAX_WORK_GROUP), ctypes.c_size_t(8), ctypes.byref(size), None
        )
        return {
            "name": self._device_text(_DEVICE_NAME),
            "version": self._device_text(_DEVICE_VERSION),
            "driver": self._device_text(_DRIVER_VERSION),
            "work_group": size.value,
        }

    def _device_text(self, what: int) -> str:
        text = ctypes.create_string_buffer(4096)
        self._cl.clGetDeviceInfo(self._device, ctypes.c_uint(what), ctypes.c_size_t(4096), text, None)
        return text.value.decode(errors="replace")

    def build(self, source: bytes, options: str) -> dict[str, Any]:
        code = ctypes.c_int()
        text = ctypes.c_char_p(source)
        program = ctypes.c_void_p(
            self._cl.clCreateProgramWithSource(self._context, 1, ctypes.byref(text), None, ctypes.byref(code))
        )
        result = self._cl.clBuildProgram(program, 1, ctypes.byref(self._device), options.encode(), None, None)
        log = ctypes.create_string_buffer(_TEXT_BYTES)
        self._cl.clGetProgramBuildInfo(
            program, self._device, ctypes.c_uint(_BUILD_LOG), ctypes.c_size_t(_TEXT_BYTES), log, None
        )
        kernels = self._kernels(program) if result == 0 else []
        self._cl.clReleaseProgram(program)
        return {"code": result, "log": log.value.decode(errors="replace"), "kernels": kernels}

    def _kernels(self, program: ctypes.c_void_p) -> list[dict[str, Any]]:
        kernels = (ctypes.c_void_p * _MAX_KERNELS)()
        count = ctypes.c_uint(0)
        code = self._cl.clCreateKernelsInProgram(program, _MAX_KERNELS, kernels, ctypes.byref(count))
        if code != 0:
            raise RuntimeError(f"clCreateKernelsInProgram failed with {code}")
        described = [self._describe_kernel(ctypes.c_void_p(kernel)) for kernel in kernels[: count.value]]
        for kernel in kernels[: count.value]:
            self._cl.clReleaseKernel(ctypes.c_void_p(kernel))
        return described

    def _describe_kernel(self, kernel: ctypes.c_void_p) -> dict[str, Any]:
        name = ctypes.create_string_buffer(4096)
        self._cl.clGetKernelInfo(kernel, ctypes.c_uint(_FUNCTION_NAME), ctypes.c_size_t(4096), name, None)
        arguments = ctypes.c_uint()
        self._cl.clGetKernelInfo(kernel, ctypes.c_uint(_NUM_ARGS), ctypes.c_size_t(4), ctypes.byref(arguments), None)
        limit = ctypes.c_size_t()
        required = (ctypes.c_size_t * 3)()
        for what, size, value in (
            (_KERNEL_WORK_GROUP, 8, ctypes.byref(limit)),
            (_COMPILE_WORK_GROUP, 24, ctypes.byref(required)),
        ):
            self._cl.clGetKernelWorkGroupInfo(
                kernel, self._device, ctypes.c_uint(what), ctypes.c_size_t(size), value, None
            )
        return {
            "name": name.value.decode(errors="replace"),
            "arguments": arguments.value,
            "work_group": limit.value,
            "required": list(required),
        }


def _redirect(descriptor: int, path: str) -> None:
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(opened, descriptor)
    os.close(opened)


def main() -> int:
    reply = os.fdopen(os.dup(1), "w", buffering=1)
    libc = ctypes.CDLL(None)
    # A killed asker can stop nobody any more, and some kernels take minutes.
    libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    # Until the first request the driver's words are the process' own stderr.
    os.dup2(2, 1)
    try:
        driver = Driver()
    except (RuntimeError, OSError) as e:
        print(json.dumps({"error": str(e)}), file=reply)
        return 1
    print(json.dumps(driver.describe()), file=reply)
    for line in sys.stdin:
        request = json.loads(line)
        source = Path(request["source"]).read_bytes()
        _redirect(1, request["stdout"])
        _redirect(2, request["stderr"])
        answer = driver.build(source, request["options"])
        libc.fflush(None)
        print(json.dumps(answer), file=reply)
    return 0


if __name__ == "__main__":
    sys.exit(main())
