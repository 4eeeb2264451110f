"""Pooling, reductions over pixels and resizing, in both layouts, against onnxruntime."""

import itertools

import numpy as np
import pytest
from kernel_cases import Cases


def _both_layouts(cases: Cases, channels: int, height: int, width: int, batch: int = 1) -> dict[str, str]:
    """An input in NCHW, and one that a convolution leaves in NCHW4c."""
    plain = cases.input((batch, channels, height, width))
    return {"plain": plain, "blocked": cases.conv(plain, (channels, channels, 1, 1))}


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("channels", [3, 8])
def test_pool2d_windows(check, op, channels):
    cases = Cases()
    for layout, x in _both_layouts(cases, channels, 9, 11).items():
        for (kernel, stride), pads in itertools.product(
            (((2, 2), 2), ((3, 3), 1), ((3, 3), 2), ((1, 3), 1), ((5, 4), 3)),
            ([0, 0, 0, 0], [1, 0, 0, 1], [0, 1, 0, 1]),
        ):
            if any(p >= k for p, k in zip(pads, kernel * 2, strict=True)):
                continue
            value = cases.node(op, x, kernel_shape=list(kernel), strides=[stride] * 2, pads=pads)
            cases.output(f"{layout} kernel {kernel} stride {stride} pads {pads}", value)
    check(cases)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_pool2d_that_rounds_up(check, op):
    cases = Cases()
    for size, channels in ((6, 4), (7, 5), (8, 4)):
        for layout, x in _both_layouts(cases, channels, size, size + 1).items():
            for kernel, pads in ((2, 0), (3, 0), (3, 1)):
                value = cases.node(op, x, kernel_shape=[kernel] * 2, strides=[2, 2], pads=[pads] * 4, ceil_mode=1)
                cases.output(f"{layout} {channels} channels size {size} kernel {kernel} pads {pads}", value)
    check(cases)


def test_average_pool2d_that_counts_padding(check):
    cases = Cases()
    for channels in (4, 7):
        for layout, x in _both_layouts(cases, channels, 7, 8).items():
            for pads, ceil_mode in itertools.product(([1, 1, 1, 1], [2, 0, 1, 2]), (0, 1)):
                value = cases.node(
                    "AveragePool",
                    x,
                    kernel_shape=[3, 3],
                    strides=[2, 2],
                    pads=pads,
                    ceil_mode=ceil_mode,
                    count_include_pad=1,
                )
                cases.output(f"{layout} {channels} channels pads {pads} ceil_mode {ceil_mode}", value)
    check(cases)


def test_max_pool2d_with_dilation_or_automatic_padding(check):
    cases = Cases()
    for layout, x in _both_layouts(cases, 6, 9, 10).items():
        cases.output(f"{layout} dilated", cases.node("MaxPool", x, kernel_shape=[3, 2], dilations=[2, 3]))
        for auto_pad, op in itertools.product(("SAME_UPPER", "SAME_LOWER"), ("MaxPool", "AveragePool")):
            value = cases.node(op, x, kernel_shape=[3, 3], strides=[2, 2], auto_pad=auto_pad)
            cases.output(f"{layout} {op} {auto_pad}", value)
    check(cases)


def test_max_pool2d_of_negative_numbers(check):
    cases = Cases()
    x = cases.input(-1 - np.abs(cases.random(1, 5, 6, 6)))
    shifted = cases.node("Sub", cases.node("Relu", cases.conv(x, (5, 5, 1, 1))), cases.weight(np.array(9, np.float32)))
    for layout, value in (("plain", x), ("blocked", shifted)):
        cases.output(layout, cases.node("MaxPool", value, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4))
    check(cases)


@pytest.mark.parametrize("channels", [1, 3, 8])
def test_pooling_over_all_pixels(check, channels):
    cases = Cases()
    for height, width in ((1, 1), (1, 7), (7, 7), (5, 3)):
        for layout, x in _both_layouts(cases, channels, height, width, batch=2).items():
            name = f"{layout} {height}x{width}"
            cases.output(f"{name} average", cases.node("GlobalAveragePool", x))
            cases.output(f"{name} max", cases.node("GlobalMaxPool", x))
            cases.output(f"{name} flat", cases.node("Flatten", cases.node("GlobalAveragePool", x)))
            cases.output(f"{name} mean", cases.node("ReduceMean", x, axes=[2, 3], keepdims=0))
    check(cases)


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"])
def test_reductions(check, op):
    cases = Cases(opset=12)
    for layout, x in _both_layouts(cases, 6, 5, 8).items():
        for axes, keepdims in zip(
            ([1], [2], [3], [1, 2], [2, 3], [0, 1, 2, 3], [0]), itertools.cycle((0, 1)), strict=False
        ):
            value = cases.node(op, x, axes=axes, keepdims=keepdims)
            cases.output(f"{layout} axes {axes} keepdims {keepdims}", value)
    check(cases)


def test_arg_reductions(check):
    cases = Cases()
    for layout, x in _both_layouts(cases, 6, 5, 7).items():
        for op, axis in itertools.product(("ArgMax", "ArgMin"), (1, 2, 3)):
            cases.output(f"{layout} {op} {axis}", cases.node(op, x, axis=axis, keepdims=axis % 2))
    check(cases)


def test_local_response_normalization(check):
    cases = Cases()
    for layout, x in _both_layouts(cases, 7, 4, 5).items():
        cases.output(layout, cases.node("LRN", x, size=5, alpha=0.1, beta=0.75, bias=1.5))
    check(cases)


def test_resizing(check):
    cases = Cases()
    for channels in (4, 3):
        for layout, x in _both_layouts(cases, channels, 5, 6).items():
            for mode, transform in (("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners")):
                scales = cases.weight(np.array([1, 1, 2, 2], np.float32))
                value = cases.node(
                    "Resize", x, "", scales, mode=mode, coordinate_transformation_mode=transform, nearest_mode="floor"
                )
                cases.output(f"{layout} {channels} channels {mode} {transform}", value)
    check(cases)
