"""A small network made by hand, with its answer in NumPy, and tools to damage its file."""

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import flatbuffers
import numpy as np
import xxhash
from malisdk_pipeline import container
from malisdk_pipeline.plan import Buffer, Kernel, Launch, Place, Plan, TensorSpec
from malisdk_pipeline.planfb import plan_generated as fb

SHAPE = (2, 3, 16)
COUNT = 96
LOCAL = 16

_HEAD = f"__kernel __attribute__((reqd_work_group_size({LOCAL}, 1, 1)))\nvoid "
_SCALE = (
    _HEAD
    + """scale(__global const float* restrict x, __global const float* restrict w, __global float* restrict y) {
  const int i = get_global_id(0);
  y[i] = x[i] * w[i % 16];
}
"""
)
_SQUARE_ADD = (
    "#pragma OPENCL EXTENSION cl_khr_byte_addressable_store : enable\n"
    + _HEAD
    + """square_add(__global const float* restrict a, __global const int* restrict z, __global float* restrict y) {
  const int i = get_global_id(0);
  y[i] = a[i] * a[i] + (float)z[i];
}
"""
)
_FINISH = (
    _HEAD
    + """finish(__global const float* restrict a, __global const float* restrict b, __global float* restrict y,
            __global int* restrict rounded) {
  const int i = get_global_id(0);
  y[i] = a[i] - b[i];
  rounded[i] = (int)a[i];
}
"""
)


def weights() -> tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]:
    rng = np.random.default_rng(1)
    return rng.standard_normal(16).astype(np.float32), rng.standard_normal(COUNT).astype(np.float32)


def make_plan() -> Plan:
    """x float32 and z int32 in; y float32 and r int32 out: h = (x*w)^2 + z, y = h - b, r = trunc(h)."""
    scale, bias = weights()
    arena_bytes = COUNT * 4
    buffers = (
        Buffer(place=Place.INPUT, size_bytes=arena_bytes, index=0),
        Buffer(place=Place.INPUT, size_bytes=arena_bytes, index=1),
        Buffer(place=Place.WEIGHT, size_bytes=64, offset=0),
        Buffer(place=Place.WEIGHT, size_bytes=arena_bytes, offset=64),
        Buffer(place=Place.ARENA, size_bytes=arena_bytes, offset=0),
        Buffer(place=Place.ARENA, size_bytes=arena_bytes, offset=4096),
        Buffer(place=Place.OUTPUT, size_bytes=arena_bytes, index=0),
        Buffer(place=Place.OUTPUT, size_bytes=arena_bytes, index=1),
    )
    kernels = tuple(
        Kernel(name=name, source=source, local_size=(LOCAL, 1, 1))
        for name, source in (("scale", _SCALE), ("square_add", _SQUARE_ADD), ("finish", _FINISH))
    )
    launches = tuple(
        Launch(
            kernel=kernel,
            buffers=arguments,
            global_size=(COUNT, 1, 1),
            layer=f"layer{kernel}",
            rule="hand",
            flops=2 * COUNT,
            bytes=8 * COUNT,
        )
        for kernel, arguments in ((0, (0, 2, 4)), (1, (4, 1, 5)), (2, (5, 3, 6, 7)))
    )
    return Plan(
        model_name="tiny",
        target="host",
        dtype="float32",
        inputs=(
            TensorSpec(name="x", dtype="float32", shape=SHAPE, buffer=0),
            TensorSpec(name="z", dtype="int32", shape=SHAPE, buffer=1),
        ),
        outputs=(
            TensorSpec(name="y", dtype="float32", shape=SHAPE, buffer=6),
            TensorSpec(name="group/r:0", dtype="int32", shape=(COUNT,), buffer=7),
        ),
        buffers=buffers,
        kernels=kernels,
        launches=launches,
        weights=scale.tobytes() + bias.tobytes(),
        arena_bytes=8192,
        metadata={"made": "by hand"},
    )


def make_inputs(seed: int = 0) -> dict[str, "np.ndarray[Any, Any]"]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal(SHAPE).astype(np.float32),
        "z": rng.integers(-50, 50, SHAPE).astype(np.int32),
    }


def empty_outputs() -> dict[str, "np.ndarray[Any, Any]"]:
    return {"y": np.full(SHAPE, np.nan, np.float32), "group/r:0": np.full(COUNT, -(2**31), np.int32)}


def expected(inputs: dict[str, "np.ndarray[Any, Any]"]) -> dict[str, "np.ndarray[Any, Any]"]:
    scale, bias = weights()
    hidden = (inputs["x"] * scale) ** 2 + inputs["z"].astype(np.float32)
    return {"y": hidden - bias.reshape(SHAPE), "group/r:0": np.trunc(hidden).astype(np.int32).reshape(COUNT)}


def check(outputs: Any, inputs: dict[str, "np.ndarray[Any, Any]"]) -> None:
    truth = expected(inputs)
    np.testing.assert_allclose(outputs["y"], truth["y"], rtol=1e-5, atol=1e-5)
    # A sum one rounding step from a whole number may be cut to either side.
    assert np.abs(outputs["group/r:0"] - truth["group/r:0"]).max() <= 1


def pack(**changes: Any) -> bytes:
    return container.pack(replace(make_plan(), **changes))


def plan_range(data: bytes | bytearray) -> tuple[int, int]:
    offset, size = struct.unpack_from("<QQ", data, 24)
    return offset, offset + size


def rehash(data: bytearray) -> bytes:
    """Make plan and header hashes agree with the bytes, so that a change reaches the later checks."""
    begin, end = plan_range(data)
    struct.pack_into("<Q", data, 40, xxhash.xxh64_intdigest(bytes(data[begin:end])))
    struct.pack_into("<Q", data, 48, xxhash.xxh64_intdigest(bytes(data[:48])))
    return bytes(data)


def edit(change: Callable[[Any], None]) -> bytes:
    """The file with its plan changed as a tree of objects, every hash and offset of the container right again."""
    data = pack()
    begin, end = plan_range(data)
    root = fb.PlanT.InitFromObj(fb.Plan.GetRootAs(data[begin:end], 0))
    change(root)
    builder = flatbuffers.Builder(1 << 12)
    builder.Finish(root.Pack(builder), file_identifier=b"MPLN")
    body = bytes(builder.Output())
    old_data, new_data = -(-end // 64) * 64, -(-(64 + len(body)) // 64) * 64
    head = bytearray(data[:64])
    size = new_data + len(data) - old_data
    struct.pack_into("<QQQ", head, 16, size, 64, len(body))
    return rehash(bytearray((bytes(head) + body).ljust(new_data, b"\0") + data[old_data:]))
