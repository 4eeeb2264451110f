"""Networks stored in half, on drivers without cl_khr_fp16: their kernels run with every half widened to a float.

What this shows is that the kernels read, cast and write the right elements; how half rounds it does not show.
"""

import dataclasses
import re
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from kernel_cases import Array, Cases, differences, reference
from malisdk_pipeline import build_model, container
from malisdk_pipeline.passes.choose_conv2d import Choice
from malisdk_pipeline.plan import ARENA_ALIGNMENT_BYTES, WEIGHT_ALIGNMENT_BYTES, Kernel, Place, Plan, align

# Weights are rounded to half, whose unit is 2^-11.
TOLERANCE = 3e-3

HELPERS = "".join(
    f"#define vload_half{n}(i, p) vload{n}(i, p)\n#define vstore_half{n}(v, i, p) vstore{n}(v, i, p)\n"
    for n in (2, 3, 4, 8, 16)
) + "#define vload_half(i, p) ((p)[i])\n#define vstore_half(v, i, p) ((p)[i] = (v))\n"  # fmt: skip


def _widened(plan: Plan) -> Plan:
    """The plan with float where it has half; tensors get memory of their own."""
    half = {
        buffer
        for launch in plan.launches
        for buffer, element in zip(
            launch.buffers, re.findall(r"__global (\w+)\* restrict", plan.kernels[launch.kernel].source), strict=True
        )
        if element.rstrip("0123456789") == "half"
    }
    kernels = []
    for kernel in plan.kernels:
        text = re.sub(r"#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n", "", kernel.source)
        text = re.sub(r"\b(convert_)?half(\d*)\b", r"\1float\2", text)
        kernels.append(Kernel(name=kernel.name, source=HELPERS + text, local_size=kernel.local_size))
    weights = bytearray()
    buffers, arena_bytes = [], 0
    for index, buffer in enumerate(plan.buffers):
        size_bytes = buffer.size_bytes * (2 if index in half else 1)
        offset = 0
        if buffer.place is Place.ARENA:
            offset, arena_bytes = arena_bytes, align(arena_bytes + size_bytes, ARENA_ALIGNMENT_BYTES)
        elif buffer.place is Place.WEIGHT:
            raw = plan.weights[buffer.offset : buffer.offset + buffer.size_bytes]
            weights.extend(bytes(align(len(weights), WEIGHT_ALIGNMENT_BYTES) - len(weights)))
            offset = len(weights)
            weights.extend(np.frombuffer(raw, np.float16).astype(np.float32).tobytes() if index in half else raw)
        else:
            assert index not in half, "inputs and outputs keep the dtype of the model"
        buffers.append(dataclasses.replace(buffer, offset=offset, size_bytes=size_bytes))
    return dataclasses.replace(
        plan, kernels=tuple(kernels), buffers=tuple(buffers), weights=bytes(weights), arena_bytes=arena_bytes
    )


@pytest.fixture
def check_half(tmp_path, malisdk) -> Callable[[Cases], Plan]:
    """Compare a network that is stored in half with onnxruntime's float32; returns its plan."""

    def check(cases: Cases) -> Plan:
        model = cases.model()
        onnx.save(model, tmp_path / "model.onnx")
        path = build_model(tmp_path / "model.onnx", target="host", dtype="float16", out=tmp_path / "model.mali")
        plan = container.read(path)
        container.write(path, _widened(plan))
        with malisdk.load(path, cache_dir="") as loaded:
            result = loaded.run(dict(cases.feeds))
        outputs: dict[str, Array] = result if isinstance(result, dict) else {plan.outputs[0].name: result}
        wrong = differences(outputs, reference(model, cases.feeds), TOLERANCE)
        assert not wrong, "\n".join(wrong)
        return plan

    return check


def test_convolutions_stored_in_half(check_half):
    cases = Cases()
    for channels, (height, width) in ((3, (5, 7)), (8, (4, 4)), (5, (3, 9))):
        x = cases.input((1, channels, height, width))
        name = f"{channels} channels"
        relu = cases.node("Relu", cases.conv(x, (8, channels, 3, 3), pads=[1] * 4))
        cases.output(f"{name} 3x3", relu)
        cases.output(f"{name} 1x1", cases.node("HardSwish", cases.conv(relu, (6, 8, 1, 1))))
        cases.output(f"{name} depthwise", cases.conv(relu, (8, 1, 3, 3), group=8, strides=[2, 1], pads=[1, 0, 2, 1]))
        cases.output(f"{name} grouped", cases.conv(relu, (8, 4, 3, 3), group=2))
        cases.output(f"{name} residual", cases.node("Add", cases.conv(relu, (8, 8, 1, 1)), relu))
    plan = check_half(cases)
    assert plan.needs_fp16
    rules = {launch.rule for launch in plan.launches}
    assert {"conv2d_direct", "conv2d_1x1", "depthwise_conv2d", "generic"} <= rules


def test_activations_stored_in_half(check_half):
    cases = Cases()
    for channels in (4, 6):
        x = cases.conv(cases.input((1, 3, 4, 5)), (channels, 3, 1, 1))
        for op in (
            "Relu",
            "Sigmoid",
            "Tanh",
            "Exp",
            "Erf",
            "HardSigmoid",
            "LeakyRelu",
            "Abs",
            "Neg",
            "Floor",
            "Softplus",
        ):
            cases.output(f"{channels} {op}", cases.node(op, x))
        cases.output(f"{channels} clip", cases.node("Clip", x, cases.weight(np.array(0, np.float32))))
        cases.output(f"{channels} prelu", cases.node("PRelu", x, cases.weight((channels, 1, 1))))
        cases.output(f"{channels} where", cases.node("Where", cases.node("Greater", x, cases.weight((4, 5))), x, x))
        cases.output(f"{channels} best", cases.node("ArgMax", x, axis=1))
    check_half(cases)


def test_pools_dense_and_softmax_stored_in_half(check_half):
    cases = Cases()
    for channels in (8, 5):
        x = cases.conv(cases.input((2, 3, 7, 6)), (channels, 3, 1, 1))
        for op in ("MaxPool", "AveragePool"):
            value = cases.node(op, x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
            cases.output(f"{channels} {op}", value)
        features = cases.node("Flatten", cases.node("GlobalAveragePool", x))
        dense = cases.node("Gemm", features, cases.weight((channels, 12)), cases.weight((12,)))
        cases.output(f"{channels} dense", dense)
        cases.output(f"{channels} odd dense", cases.node("MatMul", features, cases.weight((channels, 5))))
        cases.output(f"{channels} softmax", cases.node("Softmax", dense))
        cases.output(f"{channels} joined", cases.node("Concat", x, x, axis=1))
        cases.output(f"{channels} transposed", cases.node("Transpose", x, perm=[0, 2, 3, 1]))
        cases.output(
            f"{channels} upscaled", cases.node("Resize", x, "", cases.weight(np.array([1, 1, 2, 2], np.float32)))
        )
    check_half(cases)


@pytest.mark.parametrize("size", [2, 4])
def test_winograd_convolutions_in_half(check_half, monkeypatch, size):
    monkeypatch.setattr(
        "malisdk_pipeline.passes.nchw4c.choose", lambda facts, decide: Choice(rule="conv2d_winograd", size=size)
    )
    cases = Cases()
    x = cases.input((1, 64, 6, 9))
    cases.output("out", cases.conv(x, (16, 64, 3, 3), pads=[1] * 4))
    check_half(cases)
