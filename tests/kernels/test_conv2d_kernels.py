"""conv2d in NCHW4c against onnxruntime: sizes below, at and past every tile, odd windows, every channel remainder."""

import itertools

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from kernel_cases import Cases

CHANNELS = (1, 2, 3, 4, 5, 7, 8, 13, 16)


def test_conv2d_direct_output_widths_around_the_tile(check):
    cases = Cases()
    for width, height in zip((1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13), itertools.cycle((1, 3, 2)), strict=False):
        x = cases.input((1, 4, height, width))
        cases.output(f"{height}x{width}", cases.conv(x, (4, 4, 3, 3), pads=[1, 1, 1, 1]))
    check(cases)


@pytest.mark.parametrize("channels", CHANNELS)
def test_conv2d_direct_channel_remainders(check, channels):
    cases = Cases()
    x = cases.input((1, channels, 5, 6))
    for out in (3, 4, 13):
        cases.output(f"{channels} to {out}", cases.conv(x, (out, channels, 3, 3), pads=[1, 1, 1, 1]))
    check(cases)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_conv2d_direct_windows(check, stride):
    cases = Cases()
    x = cases.input((1, 5, 13, 17))
    for kernel in ((1, 1), (2, 2), (3, 3), (5, 5), (7, 7), (1, 7), (7, 1), (3, 5), (13, 17)):
        pads = [(kernel[0] + 1) // 2, (kernel[1] + 1) // 2] * 2 if stride != 2 else [0, 0, 0, 0]
        value = cases.conv(x, (4, 5, *kernel), pads=pads, strides=[stride, stride])
        cases.output(f"kernel {kernel} pads {pads}", value)
    check(cases)


def test_conv2d_direct_uneven_pads_strides_and_dilations(check):
    cases = Cases()
    x = cases.input((1, 6, 12, 15))
    pads_of = itertools.cycle(([0, 1, 2, 0], [3, 0, 0, 2], [1, 2, 3, 4], [2, 1, 0, 3]))
    for pads, (strides, dilations) in zip(
        pads_of, itertools.product(([1, 1], [2, 1], [1, 3]), ([1, 1], [2, 2], [3, 1])), strict=False
    ):
        value = cases.conv(x, (7, 6, 3, 3), pads=pads, strides=strides, dilations=dilations)
        cases.output(f"pads {pads} strides {strides} dilations {dilations}", value)
    check(cases)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_conv2d_direct_automatic_padding(check, auto_pad):
    cases = Cases()
    for size, stride in itertools.product((7, 8), (1, 2)):
        x = cases.input((1, 3, size, size + 1))
        cases.output(f"{size} stride {stride}", cases.conv(x, (4, 3, 3, 3), auto_pad=auto_pad, strides=[stride] * 2))
    check(cases)


@pytest.mark.parametrize("out", [4, 8, 12, 7])
def test_conv2d_1x1_pixel_counts_around_the_tile(check, out):
    cases = Cases()
    for height, width in ((1, 1), (1, 3), (2, 2), (1, 5), (1, 7), (2, 4), (1, 11), (7, 7)):
        x = cases.input((1, 8, height, width))
        cases.output(f"8 to {out}, {height}x{width}", cases.conv(x, (out, 8, 1, 1)))
    check(cases)


@pytest.mark.parametrize("out", [4, 8])
def test_conv2d_1x1_channel_remainders(check, out):
    cases = Cases()
    for channels in CHANNELS:
        x = cases.input((1, channels, 3, 5))
        cases.output(f"{channels} to {out}", cases.conv(x, (out, channels, 1, 1)))
    check(cases)


def test_conv2d_1x1_with_stride_or_pad(check):
    cases = Cases()
    x = cases.input((1, 6, 7, 9))
    for strides, pads in (([2, 2], [0] * 4), ([1, 2], [0] * 4), ([3, 3], [1] * 4), ([1, 1], [1, 0, 0, 2])):
        cases.output(f"strides {strides} pads {pads}", cases.conv(x, (8, 6, 1, 1), strides=strides, pads=pads))
    check(cases)


@pytest.mark.parametrize("channels", CHANNELS)
def test_depthwise_conv2d_channels_and_widths(check, channels):
    cases = Cases()
    for width in (1, 3, 5, 8):
        x = cases.input((1, channels, 4, width))
        cases.output(f"width {width}", cases.conv(x, (channels, 1, 3, 3), pads=[1] * 4, group=channels))
    check(cases)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_depthwise_conv2d_windows(check, stride):
    cases = Cases()
    x = cases.input((1, 6, 13, 15))
    for kernel, dilation in itertools.product(((2, 2), (3, 3), (5, 5), (7, 7), (1, 7), (7, 1), (1, 1)), (1, 2)):
        pads = [0, 0, 0, 0] if dilation == 1 and stride != 1 else [2, 1, 3, 0]
        value = cases.conv(x, (6, 1, *kernel), pads=pads, strides=[stride] * 2, dilations=[dilation] * 2, group=6)
        cases.output(f"kernel {kernel} dilation {dilation} pads {pads}", value)
    check(cases)


def test_grouped_conv2d(check):
    cases = Cases()
    for channels, out, groups in ((4, 4, 2), (8, 8, 2), (8, 16, 4), (6, 9, 3), (4, 8, 4), (5, 10, 5), (3, 6, 3)):
        x = cases.input((1, channels, 6, 7))
        for kernel in (1, 3):
            value = cases.conv(x, (out, channels // groups, kernel, kernel), pads=[kernel // 2] * 4, group=groups)
            cases.output(f"{channels} to {out} in {groups} groups, kernel {kernel}", value)
    check(cases)


def test_conv2d_batches(check):
    cases = Cases()
    for batch, channels in itertools.product((2, 3), (3, 8)):
        x = cases.input((batch, channels, 5, 7))
        name = f"batch {batch} channels {channels}"
        cases.output(f"{name} 3x3", cases.conv(x, (8, channels, 3, 3), pads=[1] * 4))
        cases.output(f"{name} 1x1", cases.conv(x, (8, channels, 1, 1)))
        cases.output(f"{name} depthwise", cases.conv(x, (channels, 1, 3, 3), pads=[1] * 4, group=channels))
    check(cases)


def test_conv2d_without_bias(check):
    cases = Cases()
    x = cases.input((1, 4, 5, 5))
    cases.output("3x3", cases.conv(x, (4, 4, 3, 3), bias=False))
    cases.output("1x1", cases.conv(x, (4, 4, 1, 1), bias=False))
    cases.output("depthwise", cases.conv(x, (4, 1, 3, 3), bias=False, group=4))
    check(cases)


def test_conv2d_of_deep_inputs(check):
    cases = Cases()
    x = cases.input((1, 131, 4, 5))
    cases.output("3x3", cases.conv(x, (9, 131, 3, 3), pads=[1] * 4))
    cases.output("1x1", cases.conv(x, (64, 131, 1, 1)))
    check(cases)


def test_conv2d_weights_that_are_inputs(check):
    cases = Cases()
    x, weight = cases.input((1, 4, 6, 7)), cases.input((8, 4, 3, 3))
    cases.output("3x3", cases.node("Conv", x, weight, pads=[1] * 4))
    check(cases)


def test_conv2d_chain_with_odd_channels(check):
    cases = Cases()
    value = cases.input((1, 3, 11, 11))
    channels = 3
    for out, kernel in ((5, 3), (6, 1), (6, 3), (7, 5), (3, 1)):
        depthwise = channels == out
        shape = (out, 1 if depthwise else channels, kernel, kernel)
        value = cases.node("Relu", cases.conv(value, shape, pads=[kernel // 2] * 4, group=out if depthwise else 1))
        channels = out
        cases.output(f"{kernel}x{kernel} to {out}", value)
    check(cases)


def test_convolutions_of_other_ranks(check):
    cases = Cases()
    row, volume = cases.input((2, 5, 17)), cases.input((1, 4, 5, 6, 7))
    cases.output("1d", cases.conv(row, (6, 5, 3), pads=[1, 1], strides=[2]))
    cases.output("1d depthwise", cases.conv(row, (5, 1, 4), group=5))
    cases.output("3d", cases.conv(volume, (3, 4, 3, 3, 3), pads=[1] * 6))
    check(cases)


def test_transposed_conv2d(check):
    cases = Cases()
    x = cases.input((1, 4, 5, 6))
    for kernel, stride, pads, extra in ((2, 2, [0] * 4, 0), (3, 2, [1] * 4, 1), (4, 2, [1] * 4, 0), (3, 1, [0] * 4, 0)):
        weight = cases.weight((4, 3, kernel, kernel))
        value = cases.node("ConvTranspose", x, weight, strides=[stride] * 2, pads=pads, output_padding=[extra] * 2)
        cases.output(f"kernel {kernel} stride {stride} pads {pads} output_padding {extra}", value)
    check(cases)


@st.composite
def conv2d_attributes(draw):
    """A conv2d whose output is not empty."""
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    dilations = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = draw(st.tuples(*[st.integers(0, 3)] * 4))
    least = [max(1, s - pads[i] - pads[i + 2]) for i, s in enumerate(span)]
    kind = draw(st.sampled_from(["full", "full", "depthwise", "grouped"]))
    groups = {"full": 1, "depthwise": draw(st.integers(2, 9)), "grouped": draw(st.integers(2, 3))}[kind]
    per_group = draw(st.integers(1, 9)) if kind != "depthwise" else 1
    out = draw(st.integers(1, 9)) * groups if kind != "depthwise" else groups
    return {
        "x": (
            draw(st.integers(1, 2)),
            per_group * groups,
            least[0] + draw(st.integers(0, 9)),
            least[1] + draw(st.integers(0, 14)),
        ),
        "weight": (out, per_group, *kernel),
        "attributes": {
            "pads": list(pads),
            "strides": list(draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))),
            "dilations": list(dilations),
            "group": groups,
        },
    }


@settings(
    max_examples=3,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],  # each step of shrinking would be a compile
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(conv2d_attributes(), min_size=10, max_size=10))
def test_conv2d_random_attributes(check, convs):
    cases = Cases()
    for i, conv in enumerate(convs):
        x = cases.input(conv["x"])
        cases.output(f"{i}: {conv}", cases.conv(x, conv["weight"], **conv["attributes"]))
    check(cases)
