"""Which rule computes a convolution: a logged decision, else the cheapest by a simple count of work and bytes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..schedules.facts import Conv2dFacts, blocks_of
from ..schedules.mali.conv2d_1x1 import Conv2d1x1
from ..schedules.mali.conv2d_direct import Conv2dDirect
from ..schedules.mali.conv2d_winograd import Conv2dWinograd, scratch_dtype
from ..schedules.mali.depthwise_conv2d import DepthwiseConv2d
from ..schedules.mali.grouped_conv2d import GroupedConv2d

# Cycles of a T860 core for a vector of four: a mad of the direct and of winograd's product kernel (ALU bundles by Mesa
# 25.0.7, two pipes share them), and a load or store, of which the transforms are made.
_DIRECT_MAD, _PRODUCT_MAD, _ACCESS = 0.80, 0.70, 1.0
_CYCLES_PER_US = 4 * 800
_BYTES_PER_US = 7300  # of main memory, measured from OpenCL with float4 (RK3399)
_LAUNCH_US = 20  # a kernel too small to fill the GPU, enqueued behind others


CONV2D_RULES: dict[str, Any] = {
    r.name: r for r in (Conv2d1x1, Conv2dDirect, Conv2dWinograd, DepthwiseConv2d, GroupedConv2d)
}


@dataclass(frozen=True, kw_only=True)
class InNchw:
    """A rule that computes in NCHW, and the knobs that its `compute` and `pack_weight` take."""

    rule: Any
    knobs: Any

    def pack(self, weight: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        packed: np.ndarray[Any, Any] = weight
        if hasattr(self.rule, "pack_weight"):
            packed = self.rule.pack_weight(weight, self.knobs)
        return packed


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A rule and its knobs; without knobs, those of the rule's `config`.

    `rule` is the rule's name; `size` the outputs a tile, F(size x size, 3x3), of winograd; `why` is for people.
    `nchw` is set where the rule is one in NCHW, with knobs of its own.
    """

    rule: str
    size: int = 0
    knobs: Mapping[str, int] | None = None
    why: str = field(default="default", compare=False)
    nchw: InNchw | None = None

    def tile(self, facts: Conv2dFacts) -> Any:
        """The knobs as the rule's `compute` wants them."""
        rule = CONV2D_RULES[self.rule]
        if self.rule == Conv2dWinograd.name:
            default = rule.config(facts, self.size or dict(self.knobs or {})["size"])
        else:
            default = rule.config(facts)
        return default if self.knobs is None else type(default)(**self.knobs)


Decide = Callable[[Conv2dFacts], Choice | None]
Chosen = Callable[[Conv2dFacts, Choice], None]


def packed_constants(
    rule: str, tile: Any, weight: "np.ndarray[Any, Any]", *, groups: int = 1
) -> list["np.ndarray[Any, Any]"]:
    """What the rule's `compute` takes behind the data; `weight` is OIHW."""
    if rule == GroupedConv2d.name:
        return [GroupedConv2d.pack_groups(weight, groups)]
    if rule == Conv2dWinograd.name:
        return [Conv2dWinograd.pack_weight(weight, tile.size), *Conv2dWinograd.tables(tile.size)]
    return [CONV2D_RULES[rule].pack_weight(weight)]


def choose(facts: Conv2dFacts, decide: Decide | None = None) -> Choice | None:
    """The rule for `facts`: what `decide` says, else the least estimated time. None if no rule takes it."""
    decided = decide(facts) if decide is not None else None
    if decided is not None:
        return decided
    if facts.is_depthwise:
        return Choice(rule=DepthwiseConv2d.name)
    if facts.groups != 1:
        return Choice(rule=GroupedConv2d.name) if GroupedConv2d.accepts(facts) else None
    if facts.is_pointwise:
        return Choice(rule=Conv2d1x1.name)
    direct = Choice(rule=Conv2dDirect.name)
    if not Conv2dWinograd.accepts(facts) or facts.in_channels < 8:
        return direct
    candidates = [(_direct_us(facts), direct)]
    candidates += [(_winograd_us(facts, s), Choice(rule=Conv2dWinograd.name, size=s)) for s in (2, 4)]
    return min(candidates, key=lambda c: c[0])[1]


def _direct_us(facts: Conv2dFacts) -> float:
    lanes = blocks_of(facts.out_channels) * blocks_of(facts.in_channels) * 4
    mads = facts.batch * facts.out_height * facts.out_width * facts.kernel[0] * facts.kernel[1] * lanes
    element = 2 if facts.dtype == "float16" else 4
    weights = facts.out_channels * facts.in_channels * facts.kernel[0] * facts.kernel[1]
    return max(mads * _DIRECT_MAD / _CYCLES_PER_US, (_ends(facts) + weights) * element / _BYTES_PER_US) + _LAUNCH_US


def _winograd_us(facts: Conv2dFacts, size: int) -> float:
    """Each kernel takes its cycles or its bytes, whichever is longer."""
    points = (size + 2) ** 2
    tiles = facts.batch * -(-facts.out_height // size) * -(-facts.out_width // size)
    tiles = -(-tiles // 4) * 4
    in_blocks, out_blocks = blocks_of(facts.in_channels), blocks_of(facts.out_channels)
    element = 2 if facts.dtype == "float16" else 4
    stored = 2 if scratch_dtype(facts.dtype, size) == "float16" else 4
    taps = 2 if size == 2 else 4
    before, after = tiles * in_blocks * points, tiles * out_blocks * points
    image_in = facts.batch * in_blocks * 4 * facts.in_height * facts.in_width * element
    image_out = facts.batch * out_blocks * 4 * facts.out_height * facts.out_width * element
    weights = points * in_blocks * out_blocks * 16
    return sum(
        max(cycles / _CYCLES_PER_US, moved / _BYTES_PER_US) + _LAUNCH_US
        for cycles, moved in (
            (before * (taps + 1) * _ACCESS, image_in + before * 4 * stored),
            (after * in_blocks * 4 * _PRODUCT_MAD, (before * 4 + weights + after * 4) * stored),
            (after * size / 2 * _ACCESS, image_out + after * 4 * stored),
        )
    )


def _ends(facts: Conv2dFacts) -> int:
    pixels = facts.in_channels * facts.in_height * facts.in_width
    return facts.batch * (pixels + facts.out_channels * facts.out_height * facts.out_width)
