"""Drives stub_opencl.cpp: an OpenCL library that fails, lies and counts as told."""

import ctypes
from pathlib import Path

DEVICE_MAX_WORK_ITEM_SIZES = 0x1005
DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010
DEVICE_MEM_BASE_ADDR_ALIGN = 0x1019
DEVICE_GLOBAL_MEM_SIZE = 0x101F
DEVICE_AVAILABLE = 0x1027

OUT_OF_RESOURCES = -5
OUT_OF_HOST_MEMORY = -6
INVALID_QUEUE_PROPERTIES = -35

# Called while a model is loaded, while a session is made, and in a run; clRelease* never report to anybody.
LOAD_CALLS = (
    "clBuildProgram",
    "clCreateBuffer",
    "clCreateCommandQueue",
    "clCreateContext",
    "clCreateKernel",
    "clCreateProgramWithSource",
    "clCreateSubBuffer",
    "clEnqueueMapBuffer",
    "clEnqueueUnmapMemObject",
    "clFinish",
    "clGetDeviceIDs",
    "clGetDeviceInfo",
    "clGetKernelInfo",
    "clGetKernelWorkGroupInfo",
    "clGetPlatformIDs",
    "clGetPlatformInfo",
)
SESSION_CALLS = ("clCreateBuffer", "clCreateCommandQueue", "clCreateKernel", "clCreateSubBuffer", "clSetKernelArg")
RUN_CALLS = ("clEnqueueMapBuffer", "clEnqueueNDRangeKernel", "clEnqueueUnmapMemObject", "clFinish", "clGetEventInfo")


class Stub:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))
        self.library.stub_live.restype = ctypes.c_long

    def reset(self) -> None:
        self.library.stub_reset()

    def fail(self, name: str, code: int, nth: int = 0) -> None:
        """The nth call from the last reset; 0 for every call."""
        self.library.stub_fail(name.encode(), nth, code)

    def limit(self, what: int, value: int) -> None:
        self.library.stub_limit(what, ctypes.c_ulonglong(value))

    def kernel_group(self, value: int) -> None:
        self.library.stub_kernel_group(ctypes.c_ulonglong(value))

    def garbage_binaries(self) -> None:
        self.library.stub_garbage_binaries()

    def no_platforms(self) -> None:
        self.library.stub_no_platforms()

    def calls(self, name: str) -> int:
        return int(self.library.stub_calls(name.encode()))

    def live(self) -> int:
        """OpenCL objects created and not released."""
        return int(self.library.stub_live())
