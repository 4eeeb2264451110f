"""`run` and `inspect` with files and arrays that are not what they should be."""

from pathlib import Path

import numpy as np
import pytest
from malisdk_pipeline import container
from malisdk_pipeline.plan import Buffer, Kernel, Launch, Place, Plan, TensorSpec

SOURCE = """__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void copy(__global const float* x, __global float* y) {
  y[get_global_id(0)] = x[get_global_id(0)];
}
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """y = x, both 2 x 3 float32."""
    launch = Launch(kernel=0, buffers=(0, 1), global_size=(6, 1, 1), layer="", rule="", flops=0, bytes=48)
    plan = Plan(
        model_name="net",
        target="host",
        dtype="float32",
        inputs=(TensorSpec(name="x", dtype="float32", shape=(2, 3), buffer=0),),
        outputs=(TensorSpec(name="y", dtype="float32", shape=(2, 3), buffer=1),),
        buffers=(Buffer(place=Place.INPUT, size_bytes=24), Buffer(place=Place.OUTPUT, size_bytes=24)),
        kernels=(Kernel(name="copy", source=SOURCE, local_size=(1, 1, 1)),),
        launches=(launch,),
        weights=b"",
        arena_bytes=0,
        metadata={},
    )
    path = tmp_path / "net.mali"
    container.write(path, plan)
    return path


def damaged_files(whole: bytes) -> dict[str, tuple[bytes, str]]:
    flipped = bytearray(whole)
    flipped[100] ^= 1
    return {
        "empty": (b"", "not a .mali file"),
        "foreign": (b"\x08\x07\x12\x04onnx" * 100, "not a .mali file"),
        "truncated": (whole[:-10], f"damaged, got {len(whole) - 10} bytes; expected {len(whole)}"),
        "damaged": (bytes(flipped), "damaged, "),
        "newer": (whole[:8] + b"\x02" + whole[9:], "made for another version, got container version 2; expected 1"),
    }


@pytest.mark.parametrize("kind", ["empty", "foreign", "truncated", "damaged", "newer"])
def test_inspect_of_no_sound_mali_file_exits_7(refused, net: Path, kind: str) -> None:
    data, message = damaged_files(net.read_bytes())[kind]
    net.write_bytes(data)
    assert f"net.mali: {message}" in refused("inspect", "net.mali", code=7)


def test_inspect_of_no_file_exits_2(refused) -> None:
    assert refused("inspect", "net.mali", code=2).startswith("net.mali: no such file")


@pytest.mark.host_opencl
@pytest.mark.parametrize("kind", ["empty", "foreign", "truncated", "damaged", "newer"])
def test_run_of_no_sound_mali_file_exits_7(refused, net: Path, tmp_path: Path, kind: str) -> None:
    pytest.importorskip(
        "malisdk", reason="the host build of the malisdk wheel is not installed: ./dev scons host-wheel"
    )
    data, message = damaged_files(net.read_bytes())[kind]
    net.write_bytes(data)
    np.savez(tmp_path / "in.npz", x=np.ones((2, 3), np.float32))
    said = refused("run", "net.mali", "--inputs", "in.npz", "--outputs", "out.npz", code=7)
    assert f"net.mali: {message}" in said


@pytest.mark.host_opencl
@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.ones((2, 3))}, "input 'x': wrong dtype, got float64 (2, 3); expected float32 (2, 3)"),
        ({"x": np.ones((3, 2), np.float32)}, "input 'x': wrong shape, got float32 (3, 2); expected float32 (2, 3)"),
        ({"z": np.ones((2, 3), np.float32)}, "inputs: got arrays z; expected x"),
        ({}, "inputs: got arrays none; expected x"),
    ],
    ids=["dtype", "shape", "name", "none"],
)
def test_run_on_wrong_arrays_exits_2(refused, net: Path, tmp_path: Path, arrays, message: str) -> None:
    pytest.importorskip(
        "malisdk", reason="the host build of the malisdk wheel is not installed: ./dev scons host-wheel"
    )
    np.savez(tmp_path / "in.npz", **arrays)
    said = refused("run", "net.mali", "--inputs", "in.npz", "--outputs", "out.npz", code=2)
    assert said.startswith(message) and "hint: " in said


def test_run_on_no_npz_exits_2(refused, net: Path, tmp_path: Path) -> None:
    words = ["run", "net.mali", "--inputs", "in.npz", "--outputs", "out.npz"]
    assert refused(*words, code=2).startswith("in.npz: cannot be read as .npz")
    (tmp_path / "in.npz").write_bytes(b"PK\x03\x04 and then something else")
    assert refused(*words, code=2).startswith("in.npz: cannot be read as .npz")


def test_run_for_a_board_says_where_it_can_run(refused, net: Path) -> None:
    words = ["run", "net.mali", "--inputs", "in.npz", "--outputs", "out.npz", "--target", "rk3399"]
    said = refused(*words, code=2)
    assert said.startswith("target: only this machine can be run on, got rk3399; expected host\nhint: ")
