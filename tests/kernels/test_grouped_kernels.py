"""Grouped and transposed convolutions in NCHW4c against onnxruntime, over every way to put groups together."""

import itertools

import numpy as np
from kernel_cases import Cases
from malisdk_pipeline.schedules.mali.grouped_conv2d import Groups


def _transpose(cases: Cases, x: str, shape: tuple[int, ...], *, group: int = 1, **attributes) -> str:
    """A ConvTranspose whose weights have `shape` (inputs, outputs of a group, height, width)."""
    weight = cases.random(*shape) / np.sqrt(shape[0] / group * shape[2] * shape[3], dtype=np.float32)
    bias = cases.random(shape[1] * group)
    return str(cases.node("ConvTranspose", x, cases.weight(weight), cases.weight(bias), group=group, **attributes))


def test_groups_are_put_together_to_whole_vectors():
    assert Groups.of(8, 4, 4) == Groups(merged=1, count=8, in_blocks=1, out_blocks=1)
    assert Groups.of(32, 2, 2) == Groups(merged=2, count=16, in_blocks=1, out_blocks=1)
    assert Groups.of(9, 1, 2) == Groups(merged=4, count=3, in_blocks=1, out_blocks=2)
    assert Groups.of(3, 5, 7) == Groups(merged=3, count=1, in_blocks=4, out_blocks=6)


def test_grouped_conv2d_channels(check):
    cases = Cases()
    sizes = ((24, 24, 2), (32, 64, 8), (20, 10, 10), (22, 33, 11), (18, 18, 9), (12, 20, 4), (7, 21, 7))
    for (channels, out, groups), batch in zip(sizes, itertools.cycle((1, 3)), strict=False):
        x = cases.input((batch, channels, 5, 7))
        for kernel in (1, 3):
            value = cases.conv(x, (out, channels // groups, kernel, kernel), pads=[kernel // 2] * 4, group=groups)
            cases.output(f"{batch} x {channels} to {out} in {groups} groups, kernel {kernel}", value)
    check(cases)


def test_grouped_conv2d_windows(check):
    cases = Cases()
    x = cases.input((1, 16, 11, 13))
    for width in (3, 4, 9):
        cases.output(f"width {width}", cases.conv(cases.input((1, 16, 3, width)), (16, 4, 3, 3), pads=[1] * 4, group=4))
    pads_of = itertools.cycle(([0, 1, 2, 0], [3, 0, 0, 2], [1, 2, 3, 4]))
    for pads, (strides, dilations) in zip(
        pads_of, itertools.product(([1, 1], [2, 1], [2, 3]), ([1, 1], [2, 3])), strict=False
    ):
        value = cases.conv(x, (8, 4, 3, 2), pads=pads, strides=strides, dilations=dilations, group=4)
        cases.output(f"pads {pads} strides {strides} dilations {dilations}", cases.node("Relu", value))
    check(cases)


def test_shuffled_groups(check):
    cases = Cases()
    x = cases.node("Relu", cases.conv(cases.input((1, 24, 6, 6)), (24, 8, 1, 1), group=3))
    apart = cases.node("Reshape", x, cases.weight(np.array([1, 3, 8, 6, 6])))
    shuffled = cases.node(
        "Reshape", cases.node("Transpose", apart, perm=[0, 2, 1, 3, 4]), cases.weight(np.array([1, 24, 6, 6]))
    )
    cases.output("shuffled", cases.conv(shuffled, (24, 8, 1, 1), group=3))
    check(cases)


def test_conv2d_transpose_windows(check):
    cases = Cases()
    x = cases.input((1, 8, 5, 7))
    for kernel, strides in itertools.product(
        ((1, 1), (2, 2), (3, 3), (4, 4), (5, 2)), ([1, 1], [2, 2], [3, 2], [1, 4])
    ):
        for pads, extra in (([0, 0, 0, 0], [0, 0]), ([1, 0, 1, 1], [strides[0] - 1, 0])):
            if max(pads) < min(kernel):
                value = _transpose(cases, x, (8, 4, *kernel), strides=strides, pads=pads, output_padding=extra)
                cases.output(f"kernel {kernel} strides {strides} pads {pads} extra {extra}", value)
    check(cases)


def test_conv2d_transpose_sizes_channels_and_batches(check):
    cases = Cases()
    for (channels, out), batch, (height, width) in zip(
        ((1, 4), (3, 5), (4, 13), (13, 3), (67, 8)),
        itertools.cycle((1, 3)),
        ((1, 1), (2, 3), (4, 4), (3, 8), (5, 11)),
        strict=False,
    ):
        x = cases.input((batch, channels, height, width))
        value = _transpose(cases, x, (channels, out, 4, 4), strides=[2, 2], pads=[1] * 4)
        cases.output(f"{batch} x {channels} to {out}, {height}x{width}", cases.node("Relu", value))
    check(cases)


def test_conv2d_transpose_groups_and_dilations(check):
    cases = Cases()
    for groups, inside, outside in ((2, 4, 4), (4, 2, 1), (6, 1, 1), (3, 5, 2)):
        x = cases.input((1, groups * inside, 4, 5))
        value = _transpose(cases, x, (groups * inside, outside, 3, 3), strides=[2, 2], pads=[1] * 4, group=groups)
        cases.output(f"{groups} groups of {inside} to {outside}", value)
    x = cases.input((1, 4, 5, 6))
    cases.output("dilated", _transpose(cases, x, (4, 4, 3, 3), dilations=[2, 3], strides=[2, 1], pads=[1, 2, 2, 1]))
    check(cases)


def test_conv2d_transpose_with_epilogue_in_a_chain(check):
    cases = Cases()
    x = cases.node("Relu", cases.conv(cases.input((1, 6, 6, 7)), (8, 6, 3, 3), pads=[1] * 4))
    small = cases.node("Relu", cases.conv(x, (8, 8, 3, 3), strides=[2, 2], pads=[1] * 4))
    odd = _transpose(cases, small, (8, 8, 3, 3), strides=[2, 2], pads=[1] * 4, output_padding=[1, 0])
    cases.output("added", cases.node("Relu", cases.node("Add", odd, x)))
    check(cases)
