"""conv2d by winograd against onnxruntime: tiles that divide the image and tiles that hang over, in every position."""

import itertools

import numpy as np
import pytest
from kernel_cases import Cases
from malisdk_pipeline.passes import choose_conv2d
from malisdk_pipeline.passes.choose_conv2d import Choice
from malisdk_pipeline.schedules.facts import Conv2dFacts
from malisdk_pipeline.schedules.mali.conv2d_winograd import Conv2dWinograd, scratch_dtype
from malisdk_pipeline.schedules.mali.winograd_matrices import MATRICES, input_points, outputs

FACTS = Conv2dFacts(
    batch=1, in_channels=64, in_height=56, in_width=56, out_channels=64, kernel=(3, 3), stride=(1, 1),
    pad=(1, 1, 1, 1), dilation=(1, 1), groups=1, dtype="float32",
)  # fmt: skip


@pytest.fixture(params=[2, 4])
def winograd(request, monkeypatch):
    """Every 3x3 convolution of stride 1 by F(2x2) or F(4x4), whatever it costs."""

    def choose(facts, decide=None):
        return Choice(rule="conv2d_winograd", size=request.param) if Conv2dWinograd.accepts(facts) else before(facts)

    before = choose_conv2d.choose
    monkeypatch.setattr("malisdk_pipeline.passes.nchw4c.choose", choose)
    return request.param


def test_sizes_around_the_tile(check, winograd):
    cases = Cases()
    for height, width in ((1, 1), (2, 3), (3, 2), (4, 4), (5, 8), (7, 7), (8, 9), (11, 13)):
        x = cases.input((1, 4, height, width))
        cases.output(f"{height}x{width}", cases.conv(x, (4, 4, 3, 3), pads=[1] * 4))
    check(cases)


def test_channel_remainders_and_batches(check, winograd):
    cases = Cases()
    for (channels, out), batch in zip(
        ((1, 4), (3, 5), (4, 13), (13, 3), (67, 8)), itertools.cycle((1, 3)), strict=False
    ):
        x = cases.input((batch, channels, 5, 6))
        cases.output(f"{batch} x {channels} to {out}", cases.conv(x, (out, channels, 3, 3), pads=[1] * 4))
    check(cases)


def test_uneven_pads(check, winograd):
    cases = Cases()
    x = cases.input((1, 6, 9, 10))
    for pads in ([0, 0, 0, 0], [0, 1, 2, 0], [3, 0, 0, 2], [1, 2, 3, 4], [2, 1, 0, 3]):
        cases.output(f"pads {pads}", cases.conv(x, (7, 6, 3, 3), pads=pads))
    check(cases)


def test_epilogues(check, winograd):
    cases = Cases()
    x = cases.input((1, 8, 7, 10))
    value = cases.node("Relu", cases.conv(x, (8, 8, 3, 3), pads=[1] * 4))
    cases.output("relu", value)
    cases.output("residual", cases.node("Relu", cases.node("Add", cases.conv(value, (8, 8, 3, 3), pads=[1] * 4), x)))
    cases.output("hardswish", cases.node("HardSwish", cases.conv(value, (8, 8, 3, 3), pads=[1] * 4)))
    slopes = cases.weight((8, 1, 1))
    cases.output("prelu", cases.node("PRelu", cases.conv(value, (8, 8, 3, 3), pads=[1] * 4), slopes))
    check(cases)


@pytest.mark.parametrize("size", [2, 4])
def test_half_weights_and_scratch_lose_no_more_than_rounding(size):
    """The rule's dtypes, computed by numpy with float sums: as near to the exact result as a rounded output is."""
    random = np.random.default_rng(0)
    m, stored = MATRICES[size], scratch_dtype("float16", size)
    data = np.maximum(random.standard_normal((50, 64, size + 2, size + 2)), 0).astype(np.float16)
    weight = (random.standard_normal((16, 64, 3, 3)) / 17).astype(np.float16)
    packed = Conv2dWinograd.pack_weight(weight, size)
    assert packed.dtype == stored
    kernel = packed.transpose(0, 1, 4, 2, 3).reshape(size + 2, size + 2, 16, 64).astype(np.float32)
    points = np.einsum("xr,tirc,yc->xyti", m.b, data.astype(np.float32), m.b).astype(stored)
    products = np.einsum("xyti,xyoi->xyto", points.astype(np.float32), kernel).astype(stored)
    actual = np.einsum("mx,xyto,ny->tomn", m.a, products.astype(np.float32), m.a)
    windows = np.lib.stride_tricks.sliding_window_view(data.astype(np.float64), (3, 3), axis=(2, 3))
    expected = np.einsum("tiyxrc,oirc->toyx", windows, weight.astype(np.float64))
    assert np.abs(actual - expected).max() < 1e-3 * np.abs(expected).max()


def test_transforms_are_exact():
    random = np.random.default_rng(0)
    for size, m in MATRICES.items():
        data, kernel = random.standard_normal(size + 2), random.standard_normal(3)
        expected = [data[i : i + 3] @ kernel for i in range(size)]
        assert np.allclose(m.a @ ((m.g @ kernel) * (m.b @ data)), expected, rtol=0, atol=1e-12)
        assert np.allclose(input_points(size, data.__getitem__), m.b @ data, rtol=0, atol=1e-12)
        assert np.allclose(outputs(size, data.__getitem__), m.a @ data, rtol=0, atol=1e-12)
        assert np.count_nonzero(m.taps()) == np.count_nonzero(m.b)


def test_choice_follows_cost_and_decisions():
    assert choose_conv2d.choose(FACTS) == Choice(rule="conv2d_winograd", size=4)
    first = FACTS.__class__(**{**vars(FACTS), "in_channels": 3})
    assert choose_conv2d.choose(first) == Choice(rule="conv2d_direct")
    strided = FACTS.__class__(**{**vars(FACTS), "stride": (2, 2)})
    assert choose_conv2d.choose(strided) == Choice(rule="conv2d_direct")
    decided = Choice(rule="conv2d_winograd", size=2)
    assert choose_conv2d.choose(FACTS, {FACTS: decided}.get) == decided
