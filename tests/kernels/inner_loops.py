"""What the inner loops of the rules' default kernels cost on a Mali-T860, as Mesa's compiler counts: a table.

python tests/kernels/inner_loops.py [--write]: print it, or put it into docs/kernels.md.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from malisdk_pipeline.codegen.lower import lower
from malisdk_pipeline.errors import ToolchainError
from malisdk_pipeline.oracle.batch import measure
from malisdk_pipeline.oracle.cost import KernelCost, NoData
from malisdk_pipeline.oracle.gpus import find_gpu
from malisdk_pipeline.schedules.apply import schedule
from malisdk_pipeline.schedules.facts import Conv2dFacts, blocks_of
from malisdk_pipeline.schedules.mali.conv2d_1x1 import Conv2d1x1
from malisdk_pipeline.schedules.mali.conv2d_direct import Conv2dDirect, Tile
from malisdk_pipeline.schedules.mali.depthwise_conv2d import DepthwiseConv2d
from malisdk_pipeline.targets import find_target
from tvm import te, tirx

DOCUMENT = Path(__file__).parents[2] / "docs" / "kernels.md"
BEGIN, END = "<!-- inner loops: begin -->", "<!-- inner loops: end -->"


@dataclass(frozen=True, kw_only=True)
class Case:
    """`tile` is the rule's default where it is None."""

    name: str
    rule: Any
    facts: Conv2dFacts
    tile: Any = None

    @property
    def used(self) -> Any:
        return self.tile or self.rule.config(self.facts)


def conv(channels: int, size: int, out: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> Conv2dFacts:
    return Conv2dFacts(
        batch=1,
        in_channels=channels,
        in_height=size,
        in_width=size,
        out_channels=out,
        kernel=(kernel, kernel),
        stride=(stride, stride),
        pad=(kernel // 2,) * 4,
        dilation=(1, 1),
        groups=groups,
        dtype="float32",
    )


CASES = (
    Case(name="1x1, 24 x 56 x 56 to 144", rule=Conv2d1x1, facts=conv(24, 56, 144)),
    Case(name="1x1, 512 x 14 x 14 to 512", rule=Conv2d1x1, facts=conv(512, 14, 512)),
    Case(name="1x1, 64 x 55 x 55 to 16", rule=Conv2d1x1, facts=conv(64, 55, 16)),
    Case(name="1x1, 512 x 13 x 13 to 1000", rule=Conv2d1x1, facts=conv(512, 13, 1000)),
    Case(name="3x3, 64 x 56 x 56 to 64", rule=Conv2dDirect, facts=conv(64, 56, 64, 3)),
    Case(name="3x3, 512 x 7 x 7 to 512", rule=Conv2dDirect, facts=conv(512, 7, 512, 3)),
    Case(
        name="3x3, 64 x 56 x 56 to 64",
        rule=Conv2dDirect,
        facts=conv(64, 56, 64, 3),
        tile=Tile(width=4, blocks=1, columns=0, step=0, in_order=1, advance=0),
    ),
    Case(name="3x3 stride 2, 64 x 56 x 56 to 128", rule=Conv2dDirect, facts=conv(64, 56, 128, 3, 2)),
    Case(name="3x3 stride 2, 3 x 224 x 224 to 32", rule=Conv2dDirect, facts=conv(3, 224, 32, 3, 2)),
    Case(name="3x3, 3 x 224 x 224 to 64", rule=Conv2dDirect, facts=conv(3, 224, 64, 3)),
    Case(name="7x7 stride 2, 3 x 224 x 224 to 64", rule=Conv2dDirect, facts=conv(3, 224, 64, 7, 2)),
    Case(name="1x1 stride 2, 64 x 56 x 56 to 128", rule=Conv2dDirect, facts=conv(64, 56, 128, 1, 2)),
    Case(name="depthwise 3x3, 512 x 14 x 14", rule=DepthwiseConv2d, facts=conv(512, 14, 512, 3, 1, 512)),
    Case(name="depthwise 3x3 stride 2, 64 x 112 x 112", rule=DepthwiseConv2d, facts=conv(64, 112, 64, 3, 2, 64)),
    Case(name="depthwise 5x5, 240 x 28 x 28", rule=DepthwiseConv2d, facts=conv(240, 28, 240, 5, 1, 240)),
)


def kernel_source(rule: Any, facts: Conv2dFacts, tile: Any) -> str:
    """The kernel of a convolution with bias and ReLU."""
    shape = (facts.out_channels, facts.in_channels // facts.groups, *facts.kernel)
    packed = rule.pack_weight(np.zeros(shape, facts.dtype))
    blocks, outs = blocks_of(facts.in_channels), blocks_of(facts.out_channels)
    data = te.placeholder((facts.batch, blocks, facts.in_height, facts.in_width, 4), facts.dtype, name="data")
    weight = te.placeholder(packed.shape, facts.dtype, name="weight")
    bias = te.placeholder((1, outs, 1, 1, 4), facts.dtype, name="bias")
    sums = rule.compute(facts, tile, data, weight)
    relu = te.compute(
        sums.shape,
        lambda n, c, y, x, v: tirx.max(sums[n, c, y, x, v] + bias[0, c, 0, 0, v], tirx.const(0, facts.dtype)),
        name="relu",
    )
    target = find_target("rk3399")
    scheduled = schedule(te.create_prim_func([data, weight, bias, relu]), "f", target)
    (call,) = lower(scheduled.func, "f", target.tvm_target()).calls
    return call.kernel.source.replace("KERNEL_NAME", "kernel_of_rule")


def costs(cases: Sequence[Case]) -> list[KernelCost]:
    """Raises ToolchainError for a kernel that Mesa does not compile."""
    sources = [kernel_source(c.rule, c.facts, c.used) for c in cases]
    found = []
    for case, (outcome,) in zip(cases, measure(sources, find_gpu("T860")), strict=True):
        if isinstance(outcome, NoData):
            raise ToolchainError(f"{case.name}: {outcome.reason}")
        found.append(outcome)
    return found


def table() -> str:
    lines = [
        "| layer | rule | dtype | tile | registers | spills | ALU / vec4 mad | LS / vec4 mad |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    cases = [replace(c, facts=replace(c.facts, dtype=d)) for d in ("float32", "float16") for c in CASES]
    for case, cost in zip(cases, costs(cases), strict=True):
        tile = case.used
        pixels = getattr(tile, "width", None) or tile.pixels
        size = f"{pixels} x {4 * getattr(tile, 'blocks', 1)}"
        core = cost.core
        assert core is not None
        per_mad = f"{core.alu / core.vec4_mads:.2f} | {core.load_store / core.vec4_mads:.2f}"
        row = f"{case.name} | {case.rule.name} | {case.facts.dtype} | {size} | {cost.registers} | {cost.spills}"
        lines.append(f"| {row} | {per_mad} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"put the table into docs/{DOCUMENT.name}")
    made = table()
    if not parser.parse_args().write:
        print(made)
        return 0
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
