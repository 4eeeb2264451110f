"""Where NCHW4c meets NCHW: packing, unpacking, concatenation, splits, reshapes, and outputs that no kernel makes."""

import itertools

import numpy as np
import pytest
from kernel_cases import Cases

F32 = np.float32


def _conv(cases: Cases, channels: int, *, height: int = 3, width: int = 5, batch: int = 1) -> str:
    """A tensor in NCHW4c."""
    return cases.conv(cases.input((batch, 3, height, width)), (channels, 3, 1, 1))


@pytest.mark.parametrize("channels", [1, 3, 4, 7, 13])
def test_packing_and_unpacking(check, channels):
    cases = Cases()
    for batch, (height, width) in itertools.product((1, 2), ((1, 1), (1, 4), (3, 5))):
        x = cases.input((batch, channels, height, width))
        cases.output(f"batch {batch}, {height}x{width}", cases.conv(x, (channels, channels, 1, 1)))
    check(cases)


@pytest.mark.parametrize("parts", [(4, 8), (8, 4, 4), (3, 5), (4, 5), (5, 4), (1, 1, 1), (4,), (4, 4)])
def test_concat_of_convolutions(check, parts):
    cases = Cases()
    values = [_conv(cases, channels) for channels in parts]
    plain = cases.input((1, 4, 3, 5))
    joined = cases.node("Concat", *values, axis=1)
    total = sum(parts)
    cases.output("joined", joined)
    cases.output("relu", cases.node("Relu", joined))
    cases.output("convolved", cases.conv(joined, (4, total, 3, 3)))
    cases.output("with plain", cases.node("Concat", values[0], plain, axis=1))
    cases.output(
        "with plain convolved", cases.conv(cases.node("Concat", plain, values[0], axis=1), (4, 4 + parts[0], 1, 1))
    )
    cases.output("twice", cases.node("Concat", values[0], values[0], axis=1))
    if len(set(parts)) == 1:
        cases.output("rows", cases.node("Concat", *values, axis=2))
        cases.output("columns", cases.node("Concat", *values, axis=-1))
        cases.output("batch", cases.node("Concat", *values, axis=0))
    check(cases)


def test_concat_of_activations_and_pools(check):
    cases = Cases()
    for channels in (4, 6):
        x = _conv(cases, channels, height=6, width=6)
        branches = [
            cases.node("Relu", x),
            cases.node("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4),
            cases.node("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4),
            cases.conv(x, (4, channels, 3, 3), pads=[1] * 4),
        ]
        joined = cases.node("Concat", *branches, axis=1)
        cases.output(f"{channels} inception", joined)
        cases.output(f"{channels} next", cases.node("Relu", cases.conv(joined, (8, 3 * channels + 4, 1, 1))))
    check(cases)


@pytest.mark.parametrize("channels", [6, 8])
def test_reshape_and_transpose_of_convolution(check, channels):
    cases = Cases()

    def shape(*dims: int) -> str:
        return cases.weight(np.array(dims, np.int64))

    x = _conv(cases, channels, height=4, width=6, batch=2)
    pixel = _conv(cases, channels, height=1, width=1, batch=2)
    cases.output("flat", cases.node("Flatten", x))
    cases.output("flat pixel", cases.node("Flatten", pixel))
    cases.output("squeezed pixel", cases.node("Squeeze", pixel, shape(2, 3)))
    cases.output("reshaped pixel", cases.node("Reshape", pixel, shape(2, channels)))
    cases.output("pixel as row", cases.node("Reshape", pixel, shape(1, 2 * channels)))
    cases.output("reshaped", cases.node("Reshape", x, shape(2, channels // 2, 2, 24)))
    cases.output("tokens", cases.node("Transpose", cases.node("Reshape", x, shape(2, channels, 24)), perm=[0, 2, 1]))
    cases.output("NHWC", cases.node("Transpose", x, perm=[0, 2, 3, 1]))
    cases.output("transposed", cases.node("Transpose", x, perm=[3, 2, 1, 0]))
    cases.output("channels and rows swapped", cases.node("Transpose", x, perm=[0, 2, 1, 3]))
    parts = cases.node("Reshape", x, shape(2, 2, channels // 2, 4, 6))
    shuffled = cases.node("Transpose", parts, perm=[0, 2, 1, 3, 4])
    cases.output(
        "channel shuffle", cases.conv(cases.node("Reshape", shuffled, shape(2, channels, 4, 6)), (4, channels, 1, 1))
    )
    depth = cases.node("DepthToSpace", _conv(cases, 4 * channels), blocksize=2)
    cases.output("depth to space", depth)
    cases.output("space to depth", cases.node("SpaceToDepth", x, blocksize=2))
    check(cases)


@pytest.mark.parametrize("channels", [6, 8])
def test_split_slice_and_pad_of_convolution(check, channels):
    cases = Cases()

    def integers(*values: int) -> str:
        return cases.weight(np.array(values, np.int64))

    x = _conv(cases, channels, height=5, width=6)
    first, second = cases.node("Split", x, integers(2, channels - 2), outputs=2, axis=1)
    cases.output("first channels", first)
    cases.output("last channels", cases.node("Relu", second))
    cases.output("first convolved", cases.conv(first, (4, 2, 3, 3)))
    cases.output("every other pixel", cases.node("Slice", x, integers(0), integers(6), integers(3), integers(2)))
    cases.output("cropped", cases.node("Slice", x, integers(1, 1), integers(4, 5), integers(2, 3)))
    cases.output("reversed", cases.node("Slice", x, integers(-1), integers(-100), integers(3), integers(-1)))
    for mode in ("constant", "reflect", "edge"):
        padded = cases.node("Pad", x, integers(0, 0, 1, 2, 0, 0, 2, 1), mode=mode)
        cases.output(f"{mode} pad", padded)
        cases.output(f"{mode} pad convolved", cases.conv(padded, (4, channels, 3, 3)))
    cases.output("padded channels", cases.node("Pad", x, integers(0, 1, 0, 0, 0, 2, 0, 0)))
    check(cases)


def test_outputs_that_no_kernel_makes(check):
    cases = Cases()
    x = cases.input((2, 3, 4, 5), "x")
    conv = cases.conv(x, (4, 3, 3, 3))
    zeros, counts = cases.weight(np.zeros((2, 3), F32)), cases.weight(np.arange(7))
    cases.output("input", x)
    cases.output("input again", x)
    cases.output("input reshaped", cases.node("Reshape", x, cases.weight(np.array([6, 20]))))
    cases.output("constant", zeros)
    cases.output("constant again", zeros)
    cases.output("int64 constant", counts)
    cases.output("scalar constant", cases.weight(np.array(2.5, F32)))
    cases.output("bool constant", cases.weight(np.array([True, False, True])))
    cases.output("result", conv)
    cases.output("result again", conv)
    cases.output("result reshaped", cases.node("Flatten", conv))
    check(cases)


def test_output_that_feeds_later_kernels(check):
    cases = Cases()
    for channels in (4, 5):
        value = cases.conv(cases.input((1, 3, 6, 6)), (channels, 3, 3, 3))
        for step in range(3):
            value = cases.node("Relu", cases.conv(value, (channels, channels, 1, 1)))
            cases.output(f"{channels} channels step {step}", value)
    check(cases)


def test_constants_that_meet_convolutions(check):
    cases = Cases()
    for channels in (4, 6):
        x = _conv(cases, channels)
        plane = cases.weight((1, channels, 3, 5))
        other = cases.conv(plane, (channels, channels, 1, 1))
        cases.output(f"{channels} constant input", other)
        cases.output(f"{channels} added", cases.node("Add", x, other))
        cases.output(f"{channels} joined", cases.node("Concat", plane, x, axis=1))
        cases.output(f"{channels} grown", cases.node("Add", x, cases.weight((2, channels, 3, 5))))
        cases.output(f"{channels} rank 5", cases.node("Add", x, cases.weight((2, 1, 1, 1, 1))))
    check(cases)


def test_graph_of_many_branches(check):
    """Joined in several orders: no tensor may overwrite one that is still in use."""
    cases = Cases()
    x = cases.input((1, 5, 9, 9))
    trunk = cases.node("Relu", cases.conv(x, (8, 5, 3, 3), pads=[1] * 4))
    branches = [cases.node("Relu", cases.conv(trunk, (8, 8, k, k), pads=[k // 2] * 4)) for k in (1, 3, 5, 1, 3)]
    folded = branches[0]
    for branch in reversed(branches):
        folded = cases.conv(cases.node("Add", folded, branch), (8, 8, 1, 1))
    cases.output("folded", folded)
    cases.output("joined", cases.node("Concat", *branches[::2], trunk, axis=1))
    cases.output("mean", cases.node("Mean", *branches))
    check(cases)
