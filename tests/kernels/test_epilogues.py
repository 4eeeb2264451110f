"""What is fused behind a convolution or dense layer: activations, residuals, scalars, and results used twice."""

import numpy as np
import pytest
from kernel_cases import Cases

F32 = np.float32


def _anchor(cases: Cases, kind: str, channels: int) -> str:
    """A (1, channels, 5, 6) convolution of the named kind."""
    x = cases.input((1, channels, 5, 6))
    if kind == "depthwise":
        return cases.conv(x, (channels, 1, 3, 3), pads=[1] * 4, group=channels)
    kernel = 1 if kind == "1x1" else 3
    return cases.conv(x, (channels, channels, kernel, kernel), pads=[kernel // 2] * 4)


def _activations(cases: Cases, x: str, channels: int) -> dict[str, str]:
    def scalar(value: float) -> str:
        return cases.weight(np.array(value, F32))

    half = cases.node("Mul", x, cases.weight(np.array([0.5], F32)))
    return {
        "relu": cases.node("Relu", x),
        "relu6": cases.node("Clip", x, scalar(0), scalar(6)),
        "clip": cases.node("Clip", x, scalar(-0.5), scalar(0.75)),
        "clip from below": cases.node("Clip", x, scalar(-0.25)),
        "leaky relu": cases.node("LeakyRelu", x, alpha=0.1),
        "prelu, one slope": cases.node("PRelu", x, cases.weight(np.array([0.2], F32))),
        "prelu, a slope a channel": cases.node("PRelu", x, cases.weight((channels, 1, 1))),
        "elu": cases.node("Elu", x, alpha=0.7),
        "selu": cases.node("Selu", x),
        "sigmoid": cases.node("Sigmoid", x),
        "hard sigmoid": cases.node("HardSigmoid", x, alpha=0.3, beta=0.4),
        "hard swish": cases.node("HardSwish", x),
        "swish": cases.node("Mul", x, cases.node("Sigmoid", x)),
        "tanh": cases.node("Tanh", x),
        "softplus": cases.node("Softplus", x),
        "mish": cases.node("Mul", x, cases.node("Tanh", cases.node("Softplus", x))),
        "erf": cases.node("Erf", x),
        "exp": cases.node("Exp", half),
        "abs": cases.node("Abs", x),
        "negative": cases.node("Neg", x),
        "square root": cases.node("Sqrt", cases.node("Abs", x)),
        "reciprocal": cases.node("Reciprocal", cases.node("Add", cases.node("Abs", x), scalar(1))),
        "floor": cases.node("Floor", x),
    }


@pytest.mark.parametrize(("kind", "channels"), [("3x3", 5), ("1x1", 8), ("depthwise", 6)])
def test_activation_behind_convolution(check, kind, channels):
    cases = Cases()
    anchors = Cases()
    names = list(_activations(anchors, _anchor(anchors, kind, channels), channels))
    for name in names:
        value = _anchor(cases, kind, channels)
        cases.output(name, _activations(cases, value, channels)[name])
    check(cases)


@pytest.mark.parametrize("kind", ["3x3", "1x1", "depthwise"])
@pytest.mark.parametrize("channels", [5, 8])
def test_binary_operator_behind_convolution(check, kind, channels):
    cases = Cases()
    operands = {
        "scalar": np.array(1.5, F32),
        "one": np.full((1, 1, 1, 1), 0.5, F32),
        "channels": cases.random(channels, 1, 1),
        "row": cases.random(6),
        "column": cases.random(5, 1),
        "plane": cases.random(1, 5, 6),
        "whole": cases.random(1, channels, 5, 6),
    }
    for name, array in operands.items():
        for op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
            weight = cases.weight(np.abs(array) + 1 if op == "Div" else array)
            value = _anchor(cases, kind, channels)
            order = (weight, value) if op == "Sub" else (value, weight)
            cases.output(f"{op} {name}", cases.node(op, *order))
    check(cases)


def test_several_operators_behind_convolution(check):
    cases = Cases()
    for kind, channels in (("3x3", 4), ("3x3", 7), ("1x1", 8), ("depthwise", 5)):
        value = _anchor(cases, kind, channels)
        residual = cases.input((1, channels, 5, 6))
        scaled = cases.node("Mul", value, cases.weight((1, channels, 1, 1)))
        shifted = cases.node("Add", scaled, cases.weight((1, channels, 1, 1)))
        summed = cases.node("Add", cases.node("HardSwish", shifted), residual)
        cases.output(f"{kind} {channels}", cases.node("Relu", summed))
    check(cases)


def test_batch_norm_behind_convolution(check):
    cases = Cases()
    for kind, channels in (("3x3", 5), ("1x1", 8), ("depthwise", 4)):
        parameters = [cases.weight((channels,)) for _ in range(3)]
        variance = cases.weight(np.abs(cases.random(channels)) + F32(0.5))
        value = cases.node("BatchNormalization", _anchor(cases, kind, channels), *parameters, variance, epsilon=1e-3)
        cases.output(f"{kind} {channels}", cases.node("Relu", value))
    check(cases)


@pytest.mark.parametrize("channels", [4, 6])
def test_residual_of_convolutions(check, channels):
    cases = Cases()
    for kind in ("3x3", "1x1", "depthwise"):
        value, other = _anchor(cases, kind, channels), _anchor(cases, "3x3", channels)
        gate = cases.node("Sigmoid", cases.node("GlobalAveragePool", other))
        cases.output(f"{kind} add", cases.node("Add", value, other))
        cases.output(f"{kind} add itself", cases.node("Add", value, value))
        cases.output(f"{kind} add input", cases.node("Add", value, cases.input((1, channels, 5, 6))))
        cases.output(f"{kind} add broadcast input", cases.node("Add", value, cases.input((channels, 1, 1))))
        cases.output(f"{kind} add row", cases.node("Add", value, cases.input((6,))))
        cases.output(f"{kind} add single channel", cases.node("Add", value, _single_channel(cases, other, channels)))
        cases.output(f"{kind} gated", cases.node("Mul", value, gate))
        cases.output(f"{kind} grown", cases.node("Add", gate, value))
        cases.output(f"{kind} batch grown", cases.node("Add", value, cases.input((3, channels, 5, 6))))
    check(cases)


def _single_channel(cases: Cases, x: str, channels: int) -> str:
    return cases.conv(x, (1, channels, 1, 1))


@pytest.mark.parametrize("channels", [3, 8])
def test_convolution_result_used_twice(check, channels):
    cases = Cases()
    for kind in ("3x3", "1x1", "depthwise"):
        value = _anchor(cases, kind, channels)
        relu = cases.node("Relu", value)
        cases.output(f"{kind} itself", value)
        cases.output(f"{kind} relu", relu)
        cases.output(f"{kind} next", cases.conv(relu, (4, channels, 3, 3)))
        cases.output(f"{kind} after both", cases.node("Add", relu, cases.node("Sigmoid", value)))
        cases.output(f"{kind} plain and blocked", cases.node("Transpose", value, perm=[0, 2, 3, 1]))
    check(cases)


def test_diamond_of_convolutions(check):
    cases = Cases()
    for channels in (4, 5):
        trunk = cases.node("Relu", _anchor(cases, "3x3", channels))
        left = cases.conv(trunk, (channels, channels, 1, 1))
        right = cases.conv(trunk, (channels, channels, 3, 3), pads=[1] * 4)
        deep = cases.conv(cases.node("Relu", right), (channels, 1, 3, 3), pads=[1] * 4, group=channels)
        joined = cases.node("Relu", cases.node("Sum", left, right, deep, trunk))
        cases.output(f"{channels} channels", joined)
        cases.output(f"{channels} channels, scaled", cases.node("Mul", joined, cases.weight(np.array(0.3, F32))))
    check(cases)


def test_activation_behind_dense(check):
    cases = Cases()
    names = list(_activations(draft := Cases(), draft.input((1, 8)), 8))
    for name in (n for n in names if n != "prelu, a slope a channel"):
        x = cases.input((2, 33))
        value = cases.node("Gemm", x, cases.weight((33, 8)), cases.weight((8,)))
        cases.output(name, _activations(cases, value, 1)[name])
    check(cases)
