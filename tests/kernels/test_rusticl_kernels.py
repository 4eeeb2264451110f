"""Kernels on Mesa's rusticl, an OpenCL driver that computes in half and has the front end of mainline boards."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from kernel_cases import Array, Cases, differences, reference
from malisdk_pipeline import build_model, container
from malisdk_pipeline.devices.runtime import Answer, host_library, run_models
from malisdk_pipeline.devices.rusticl import RusticlDevice
from malisdk_pipeline.errors import ToolchainError

pytestmark = [
    pytest.mark.rusticl,
    pytest.mark.host_opencl,
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: the device needs namespaces"),
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt is not installed"),
]

# Weights, activations and results are rounded to half, whose unit is 2^-11, of the largest magnitude of an output.
TOLERANCE = {"float32": 1e-5, "float16": 6e-3}


@pytest.fixture(scope="module")
def device() -> Iterator[RusticlDevice]:
    try:
        opened = RusticlDevice()
        opened.open()
    except ToolchainError as e:
        pytest.skip(f"Mesa's packages cannot be had: {e}")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def library() -> Path:
    try:
        return host_library()
    except ToolchainError as e:
        pytest.skip(str(e))


def convolutions(cases: Cases, side: int) -> None:
    """Below, at and beyond a tile: 3 to 17 channels, odd sizes."""
    for channels in (3, 8, 17):
        x = cases.input((1, channels, side, side + 2))
        name = f"{channels} channels"
        relu = cases.node("Relu", cases.conv(x, (16, channels, 3, 3), pads=[1] * 4))
        cases.output(f"{name} 3x3", relu)
        cases.output(f"{name} 3x3 stride 2", cases.conv(x, (8, channels, 3, 3), strides=[2, 2], pads=[1] * 4))
        cases.output(f"{name} 1x1", cases.node("HardSwish", cases.conv(relu, (12, 16, 1, 1))))
        cases.output(f"{name} depthwise", cases.conv(relu, (16, 1, 3, 3), group=16, strides=[2, 1], pads=[1, 0, 2, 1]))
        cases.output(f"{name} depthwise 5x5", cases.conv(relu, (16, 1, 5, 5), group=16, pads=[2] * 4))
        cases.output(f"{name} grouped", cases.conv(relu, (16, 4, 3, 3), group=4))
        cases.output(f"{name} residual", cases.node("Add", cases.conv(relu, (16, 16, 1, 1)), relu))


def pools_dense_and_softmax(cases: Cases) -> None:
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
        twice = cases.weight(np.array([1, 1, 2, 2], np.float32))
        cases.output(f"{channels} upscaled", cases.node("Resize", x, "", twice))


def activations(cases: Cases) -> None:
    for channels in (4, 6):
        x = cases.conv(cases.input((1, 3, 4, 5)), (channels, 3, 1, 1))
        for op in ("Relu", "Sigmoid", "Tanh", "Exp", "Erf", "HardSigmoid", "LeakyRelu", "Abs", "Softplus"):
            cases.output(f"{channels} {op}", cases.node(op, x))
        cases.output(f"{channels} clip", cases.node("Clip", x, cases.weight(np.array(0, np.float32))))
        cases.output(f"{channels} prelu", cases.node("PRelu", x, cases.weight((channels, 1, 1))))
        cases.output(f"{channels} where", cases.node("Where", cases.node("Greater", x, cases.weight((4, 5))), x, x))


MODELS: dict[str, Callable[[Cases], None]] = {
    "convolutions 9x11": lambda cases: convolutions(cases, 9),
    "convolutions 4x6": lambda cases: convolutions(cases, 4),
    "pools, dense, softmax": pools_dense_and_softmax,
    "activations": activations,
}


def compiled(folder: Path, dtype: str) -> list[tuple[Path, Cases]]:
    made = []
    for i, build in enumerate(MODELS.values()):
        cases = Cases(seed=i)
        build(cases)
        onnx.save(cases.model(), folder / f"{i}.onnx")
        out = folder / f"{i}-{dtype}.mali"
        made.append((build_model(folder / f"{i}.onnx", target="host", dtype=dtype, out=out), cases))
    return made


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_models_run_in_one_process(device: RusticlDevice, library: Path, tmp_path: Path, dtype: str) -> None:
    made = compiled(tmp_path, dtype)
    plans = [container.read(path) for path, _ in made]
    assert all(plan.needs_fp16 == (dtype == "float16") for plan in plans)
    rules = {launch.rule for plan in plans for launch in plan.launches}
    assert {"conv2d_direct", "conv2d_1x1", "depthwise_conv2d", "dense", "softmax"} <= rules
    answers = run_models(device, [(path, cases.feeds) for path, cases in made], library=library, timeout_s=300)
    wrong = []
    for name, answer, (_, cases) in zip(MODELS, answers, made, strict=True):
        assert answer.error == "", f"{name}: {answer.error}"
        assert "llvmpipe" in answer.device
        wrong += [f"{name}: {w}" for w in _wrong(answer, cases, TOLERANCE[dtype])]
    assert not wrong, "\n".join(wrong)


def _wrong(answer: Answer, cases: Cases, tolerance: float) -> list[str]:
    expected = reference(cases.model(), cases.feeds)
    outputs: dict[str, Array] = dict(answer.outputs)
    return differences(outputs, expected, tolerance)


def test_refusal_of_the_runtime_is_the_answer(device: RusticlDevice, library: Path, tmp_path: Path) -> None:
    """Also that one model's failure leaves the next alone."""
    (path, cases), *_ = compiled(tmp_path, "float32")[2:]
    broken = tmp_path / "broken.mali"
    broken.write_bytes(path.read_bytes()[:-100])
    requests = [(broken, cases.feeds), (path, cases.feeds)]
    bad, good = run_models(device, requests, library=library, timeout_s=300)
    assert (bad.status, bad.outputs, good.error) == ("MALISDK_DAMAGED_FILE", {}, "")
    assert _wrong(good, cases, TOLERANCE["float32"]) == []
