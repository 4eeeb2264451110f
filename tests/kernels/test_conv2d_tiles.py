"""Tiles that are not a rule's default, against onnxruntime. Each is legal for every layer: sizes are odd and small."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
from kernel_cases import Cases
from malisdk_pipeline.passes.choose_conv2d import CONV2D_RULES, Choice
from malisdk_pipeline.schedules.facts import Conv2dFacts

Check = Callable[[Cases], None]


@pytest.fixture
def every_third_tile(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Convolution after convolution gets another tile of its rule's space; the list names those that were used."""
    used: list[Any] = []

    def choose(facts: Conv2dFacts, decide: Any = None) -> Choice:
        name = "conv2d_1x1" if facts.is_pointwise else "conv2d_direct"
        name = "depthwise_conv2d" if facts.is_depthwise else name
        space = CONV2D_RULES[name].space(facts)
        used.append(space[len(used) * 3 % len(space)])
        return Choice(rule=name, knobs=asdict(used[-1]))

    monkeypatch.setattr("malisdk_pipeline.passes.nchw4c.choose", choose)
    return used


def test_conv2d_1x1(check: Check, every_third_tile: list[Any]) -> None:
    cases = Cases()
    for k, (height, width) in enumerate(((1, 2), (3, 3), (7, 5), (4, 8), (2, 7), (1, 13), (5, 5), (3, 11), (6, 4))):
        x = cases.input((3 if k % 4 == 1 else 1, 4 + 3 * (k % 3), height, width))
        cases.output(f"{k}", cases.node("Relu", cases.conv(x, (8 + k % 2 * 5, 4 + 3 * (k % 3), 1, 1))))
    check(cases)
    assert len(set(every_third_tile)) > 6


def test_conv2d_direct(check: Check, every_third_tile: list[Any]) -> None:
    cases = Cases()
    windows = ((3, 3, 1), (3, 3, 2), (1, 1, 2), (5, 3, 1), (3, 7, 2), (2, 2, 2))
    for k in range(14):
        height, width, stride = windows[k % len(windows)]
        channels = (3, 5, 8)[k % 3]
        x = cases.input((3 if k % 5 == 1 else 1, channels, 5 + k % 4, 7 + k))
        pads = [height // 2, width // 2] * 2
        cases.output(f"{k}", cases.conv(x, (8 + k % 3 * 4, channels, height, width), pads=pads, strides=[stride] * 2))
    check(cases)
    assert len(set(every_third_tile)) > 9


def test_depthwise_conv2d(check: Check, every_third_tile: list[Any]) -> None:
    cases = Cases()
    for k in range(8):
        size, stride = (3, 5)[k % 2], 1 + k // 2 % 2
        x = cases.input((3 if k == 1 else 1, 6, 6 + k, 5 + 3 * k))
        cases.output(f"{k}", cases.conv(x, (6, 1, size, size), pads=[size // 2] * 4, strides=[stride] * 2, group=6))
    check(cases)
    assert len(set(every_third_tile)) > 5


def _facts() -> Iterator[Conv2dFacts]:
    base = Conv2dFacts(
        batch=1, in_channels=8, in_height=9, in_width=9, out_channels=8, kernel=(3, 3), stride=(1, 1),
        pad=(1, 1, 1, 1), dilation=(1, 1), groups=1, dtype="float32",
    )  # fmt: skip
    for dtype in ("float32", "float16"):
        yield replace(base, dtype=dtype)
        yield replace(base, dtype=dtype, kernel=(1, 1), pad=(0, 0, 0, 0), in_height=1, in_width=2)
        yield replace(base, dtype=dtype, out_channels=13, in_width=3, kernel=(7, 7), pad=(3, 3, 3, 3))
        yield replace(base, dtype=dtype, groups=8, stride=(2, 2), in_width=4)


@pytest.mark.parametrize("rule", ["conv2d_1x1", "conv2d_direct", "depthwise_conv2d"])
def test_space_begins_with_the_default_and_repeats_nothing(rule: str) -> None:
    for facts in _facts():
        space = CONV2D_RULES[rule].space(facts)
        assert space[0] == CONV2D_RULES[rule].config(facts)
        assert len(set(space)) == len(space)
        assert facts.dtype == "float16" or not any(tile.half for tile in space)
