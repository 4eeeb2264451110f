"""Hand-written models for the binding: one kernel each, so that right answers are obvious."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from malisdk_pipeline import container
from malisdk_pipeline.plan import Buffer, Kernel, Launch, Place, Plan, TensorSpec

Tensors = Sequence[tuple[str, str, tuple[int, ...]]]
WriteModel = Callable[..., Path]

DOUBLE = """__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void double_it(__global const float* x, __global float* y) {
  y[get_global_id(0)] = 2.0f * x[get_global_id(0)];
}
"""
SLOW_DOUBLE = """__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void slow_double(__global const float* x, __global float* y) {
  float v = x[get_global_id(0)];
  for (int i = 0; i < 20000000; ++i) v = (v * 1.5f) / 1.5f + 1e-30f * (float)i;
  y[get_global_id(0)] = 2.0f * x[get_global_id(0)] + 0.0f * v;
}
"""
COPY_BYTES = """__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void copy_bytes(__global const uchar* x, __global uchar* y) {
  y[get_global_id(0)] = x[get_global_id(0)];
}
"""
SUM_AND_DIFFERENCE = """__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void sum_and_difference(__global const float* a, __global const float* b, __global float* s,
                                 __global float* d) {
  int i = get_global_id(0);
  s[i] = a[i] + b[i];
  d[i] = a[i] - b[i];
}
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.host_opencl)


@pytest.fixture(scope="session")
def malisdk():
    return pytest.importorskip(
        "malisdk", reason="the host build of the malisdk wheel is not installed: ./dev scons host-wheel"
    )


@pytest.fixture(autouse=True)
def _private_kernel_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, malisdk) -> None:
    monkeypatch.setenv("MALISDK_CACHE_DIR", str(tmp_path / "kernels"))


@pytest.fixture
def write_model(tmp_path: Path) -> WriteModel:
    """Write a model of one launch: `source` is called with all inputs, then all outputs."""

    def write(name: str, source: str, *, inputs: Tensors, outputs: Tensors, work_items: int) -> Path:
        specs = [[], []]
        buffers: list[Buffer] = []
        for side, (place, tensors) in enumerate([(Place.INPUT, inputs), (Place.OUTPUT, outputs)]):
            for index, (tensor, dtype, shape) in enumerate(tensors):
                spec = TensorSpec(name=tensor, dtype=dtype, shape=shape, buffer=len(buffers))
                specs[side].append(spec)
                buffers.append(Buffer(place=place, size_bytes=spec.size_bytes, index=index))
        kernel_name = source.partition("__kernel void ")[2].partition("(")[0]
        launch = Launch(
            kernel=0,
            buffers=tuple(range(len(buffers))),
            global_size=(work_items, 1, 1),
            layer="the layer",
            rule="the rule",
            flops=work_items,
            bytes=sum(b.size_bytes for b in buffers),
        )
        plan = Plan(
            model_name=name,
            target="host",
            dtype="float32",
            inputs=tuple(specs[0]),
            outputs=tuple(specs[1]),
            buffers=tuple(buffers),
            kernels=(Kernel(name=kernel_name, source=source, local_size=(1, 1, 1)),),
            launches=(launch,),
            weights=b"",
            arena_bytes=0,
            metadata={},
        )
        path = tmp_path / f"{name}.mali"
        container.write(path, plan)
        return path

    return write


@pytest.fixture
def double_model(write_model: WriteModel) -> Path:
    """y = 2 x, both 1 3 8 8 float32."""
    shape = (1, 3, 8, 8)
    return write_model(
        "double", DOUBLE, inputs=[("x", "float32", shape)], outputs=[("y", "float32", shape)], work_items=192
    )


@pytest.fixture
def slow_model(write_model: WriteModel) -> Path:
    """y = 2 x, one float32, in some tenths of a second."""
    return write_model(
        "slow", SLOW_DOUBLE, inputs=[("x", "float32", (1,))], outputs=[("y", "float32", (1,))], work_items=1
    )


@pytest.fixture
def pair_model(write_model: WriteModel) -> Path:
    """sum = a + b and difference = a - b, all 4 float32."""
    return write_model(
        "pair",
        SUM_AND_DIFFERENCE,
        inputs=[("a", "float32", (4,)), ("b", "float32", (4,))],
        outputs=[("sum", "float32", (4,)), ("difference", "float32", (4,))],
        work_items=4,
    )


@pytest.fixture
def copy_model(write_model: WriteModel) -> Callable[[str, tuple[int, ...], int], Path]:
    """y = x for any dtype, byte by byte."""

    def write(dtype: str, shape: tuple[int, ...], size_bytes: int) -> Path:
        return write_model(
            f"copy_{dtype}_{len(shape)}",
            COPY_BYTES,
            inputs=[("x", dtype, shape)],
            outputs=[("y", dtype, shape)],
            work_items=size_bytes,
        )

    return write
