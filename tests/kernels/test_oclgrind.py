"""Kernels in oclgrind's simulator: no access out of bounds, no race, no use of memory that nobody wrote."""

import dataclasses
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from kernel_cases import Cases, differences, reference
from malisdk_pipeline import build_model, container
from malisdk_pipeline.passes.choose_conv2d import Choice
from malisdk_pipeline.plan import ARENA_ALIGNMENT_BYTES, Buffer, Kernel, Launch, Place, Plan, TensorSpec, align

LIBRARY = Path("/usr/lib/oclgrind/liboclgrind-rt.so")

RUN = """
import sys, numpy as np, malisdk
with malisdk.load(sys.argv[1], cache_dir="") as model, np.load(sys.argv[2]) as inputs:
    result = model.run(dict(inputs))
    np.savez(sys.argv[3], **(result if isinstance(result, dict) else {model.outputs[0].name: result}))
"""

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"no {LIBRARY} on this machine (apt: oclgrind)")


def _simulate(path: Path, inputs: dict[str, np.ndarray], folder: Path) -> tuple[str, dict[str, np.ndarray]]:
    """What oclgrind reports while the model runs once, and the outputs."""
    log, feeds, outputs = folder / "oclgrind.log", folder / "inputs.npz", folder / "outputs.npz"
    np.savez(feeds, **inputs)
    log.touch()
    environment = {
        **os.environ,
        "MALISDK_OPENCL_LIBRARY": str(LIBRARY),
        "MALISDK_BUILD_THREADS": "1",  # oclgrind's compiler is not made for several
        "OCLGRIND_LOG": str(log),
        "OCLGRIND_CHECK_API": "1",
        "OCLGRIND_DATA_RACES": "1",
        "OCLGRIND_UNIFORM_WRITES": "1",
        "OCLGRIND_UNINITIALIZED": "1",
        # with optimisation, oclgrind takes vectors that the compiler builds lane by lane for uninitialised
        "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(path), str(feeds), str(outputs)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with np.load(outputs) as archive:
        return log.read_text() + done.stderr, dict(archive)


def _spread(plan: Plan) -> Plan:
    """The plan with memory of its own for each tensor and a page that nobody writes behind it."""
    buffers, end = [], 0
    for buffer in plan.buffers:
        if buffer.place is Place.ARENA:
            buffers.append(dataclasses.replace(buffer, offset=end))
            end = align(end + buffer.size_bytes, ARENA_ALIGNMENT_BYTES) + ARENA_ALIGNMENT_BYTES
        else:
            buffers.append(buffer)
    return dataclasses.replace(plan, buffers=tuple(buffers), arena_bytes=end)


def _check(cases: Cases, folder: Path) -> Plan:
    """Simulate the model; returns its plan."""
    model = cases.model()
    onnx.save(model, folder / "model.onnx")
    path = build_model(folder / "model.onnx", target="host", out=folder / "model.mali")
    plan = _spread(container.read(path))
    container.write(path, plan)
    report, outputs = _simulate(path, cases.feeds, folder)
    assert report == ""
    assert not differences(outputs, reference(model, cases.feeds))
    return plan


def test_kernels_of_a_network_touch_only_their_tensors(tmp_path, malisdk):
    cases = Cases()
    image = cases.input((1, 3, 13, 11))
    stem = cases.node("Relu", cases.conv(image, (6, 3, 3, 3), strides=[2, 2], pads=[1] * 4))
    wide = cases.node("HardSwish", cases.conv(stem, (12, 6, 1, 1)))
    deep = cases.node("Relu", cases.conv(wide, (12, 1, 5, 5), pads=[2] * 4, group=12))
    narrow = cases.node("Add", cases.conv(deep, (6, 12, 1, 1)), stem)
    pooled = [
        cases.node(op, wide, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, ceil_mode=1)
        for op in ("MaxPool", "AveragePool")
    ]
    features = cases.node("Flatten", cases.node("GlobalAveragePool", wide))
    dense = cases.node("Gemm", features, cases.weight((12, 100)), cases.weight((100,)))
    cases.output("grouped", cases.conv(narrow, (9, 2, 3, 3), group=3, pads=[0, 1, 1, 0]))
    cases.output("joined", cases.conv(cases.node("Concat", *pooled, axis=1), (7, 24, 3, 3)))
    cases.output("probabilities", cases.node("Softmax", dense))
    cases.output("odd columns", cases.node("MatMul", features, cases.weight((12, 5))))
    cases.output("rows", cases.node("Softmax", cases.node("Transpose", narrow, perm=[0, 2, 3, 1])))
    cases.output("best", cases.node("ArgMax", dense, axis=1))
    cases.output("gathered", cases.node("Gather", cases.weight((9, 5)), cases.input(np.array([[8, 0, -1]]))))
    rules = {launch.rule for launch in _check(cases, tmp_path).launches}
    assert {"conv2d_direct", "conv2d_1x1", "depthwise_conv2d", "dense", "softmax", "generic"} <= rules


@pytest.mark.parametrize("kind", ["full", "depthwise", "pointwise"])
def test_convolutions_touch_only_their_tensors(tmp_path, malisdk, kind):
    cases = Cases()
    for channels, (height, width) in itertools.product((3, 6), ((3, 5), (4, 7), (2, 9), (1, 1))):
        x = cases.input((1, channels, height, width))
        name = f"{channels} {height} {width}"
        if kind == "pointwise":
            for out in (4, 5, 8):
                cases.output(f"{name} {out}", cases.conv(x, (out, channels, 1, 1)))
            continue
        group = channels if kind == "depthwise" else 1
        shape = (channels, channels // group)
        for strides, pads in itertools.product(([1, 1], [2, 3]), ([1] * 4, [2, 0, 2, 1], [0, 2, 0, 2])):
            if height + pads[0] + pads[2] >= 3 and width + pads[1] + pads[3] >= 3:
                value = cases.conv(x, (*shape, 3, 3), strides=strides, pads=pads, group=group)
                cases.output(f"{name} {strides} {pads}", value)
        cases.output(f"{name} dilated", cases.conv(x, (*shape, 3, 2), dilations=[2, 3], pads=[2, 3, 2, 3], group=group))
    _check(cases, tmp_path)


@pytest.mark.parametrize("size", [2, 4])
def test_winograd_touches_only_its_tensors(tmp_path, malisdk, monkeypatch, size):
    def choose(facts, decide=None):
        return Choice(rule="conv2d_winograd", size=size)

    monkeypatch.setattr("malisdk_pipeline.passes.nchw4c.choose", choose)
    cases = Cases()
    for channels, (height, width), pads in ((3, (1, 1), [1] * 4), (6, (5, 6), [2, 0, 0, 1]), (4, (8, 4), [1] * 4)):
        x = cases.input((1, channels, height, width))
        cases.output(f"{channels} {height} {width} {pads}", cases.conv(x, (5, channels, 3, 3), pads=pads))
    assert {"conv2d_winograd"} <= {launch.rule for launch in _check(cases, tmp_path).launches}


def test_groups_transposes_and_products_touch_only_their_tensors(tmp_path, malisdk):
    cases = Cases()
    for channels, out, groups in ((8, 8, 2), (6, 9, 3), (9, 18, 9)):
        x = cases.input((1, channels, 3, 5))
        value = cases.conv(x, (out, channels // groups, 3, 3), pads=[1, 0, 1, 2], group=groups)
        cases.output(f"{channels} to {out} in {groups}", value)
    for channels, out, strides, pads in ((4, 5, [2, 2], [1] * 4), (3, 4, [3, 2], [0, 1, 2, 0])):
        x = cases.input((1, channels, 3, 5))
        weight = cases.weight((channels, out, 3, 4))
        value = cases.node("ConvTranspose", x, weight, strides=strides, pads=pads)
        cases.output(f"transposed {channels} {out} {strides}", value)
    for rows, reduced, columns in ((1, 4, 4), (5, 6, 7), (8, 3, 12)):
        value = cases.node("MatMul", cases.input((2, rows, reduced)), cases.input((2, reduced, columns)))
        cases.output(f"{rows} x {reduced} x {columns}", value)
        value = cases.node("MatMul", cases.input((2, rows, reduced)), cases.weight((reduced, columns)))
        cases.output(f"{rows} x {reduced} x constant {columns}", value)
    rules = {launch.rule for launch in _check(cases, tmp_path).launches}
    assert {"grouped_conv2d", "conv2d_transpose", "batch_matmul"} <= rules


def test_pools_and_reductions_touch_only_their_tensors(tmp_path, malisdk):
    cases = Cases()
    for channels, size in itertools.product((3, 4), (5, 6)):
        x = cases.conv(cases.input((1, channels, size, size)), (channels, channels, 1, 1))
        name = f"{channels} {size}"
        for op in ("MaxPool", "AveragePool"):
            value = cases.node(op, x, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], ceil_mode=1)
            cases.output(f"{name} {op}", value)
        for axis in (1, 2, 3):
            cases.output(f"{name} {axis}", cases.node("ReduceMax", x, axes=[axis]))
            cases.output(f"{name} softmax {axis}", cases.node("Softmax", x, axis=axis))
        cases.output(f"{name} mean", cases.node("GlobalAveragePool", x))
    for reduced, columns in itertools.product((31, 64), (4, 12, 7)):
        value = cases.node(
            "Gemm", cases.input((3, reduced)), cases.weight((reduced, columns)), cases.weight((columns,))
        )
        cases.output(f"dense {reduced} to {columns}", value)
    for length in (1, 5, 81, 130):
        cases.output(f"softmax {length}", cases.node("Softmax", cases.input((2, length))))
    _check(cases, tmp_path)


@pytest.mark.parametrize(
    ("statement", "report"),
    [
        ("y[i] = x[i + 1];", "Invalid read"),
        ("y[i + 1] = x[i];", "Invalid write"),
        ("y[0] = x[i];", "race"),
        ("float t[2]; y[i] = t[i & 1];", "Uninitialized value"),
    ],
)
def test_a_wrong_kernel_is_reported(tmp_path, malisdk, statement, report):
    source = (
        "__attribute__((reqd_work_group_size(8, 1, 1)))\n"
        "__kernel void wrong(__global const float* x, __global float* y) {\n"
        f"  const int i = get_global_id(0);\n  {statement}\n}}\n"
    )
    plan = Plan(
        model_name="wrong",
        target="host",
        dtype="float32",
        inputs=(TensorSpec(name="x", dtype="float32", shape=(8,), buffer=0),),
        outputs=(TensorSpec(name="y", dtype="float32", shape=(8,), buffer=1),),
        buffers=(Buffer(place=Place.INPUT, size_bytes=32), Buffer(place=Place.OUTPUT, size_bytes=32)),
        kernels=(Kernel(name="wrong", source=source, local_size=(8, 1, 1)),),
        launches=(Launch(kernel=0, buffers=(0, 1), global_size=(8, 1, 1), layer="", rule="", flops=0, bytes=64),),
        weights=b"",
        arena_bytes=0,
        metadata={},
    )
    path = tmp_path / "wrong.mali"
    container.write(path, plan)
    said, _ = _simulate(path, {"x": np.arange(8, dtype=np.float32)}, tmp_path)
    assert report in said
