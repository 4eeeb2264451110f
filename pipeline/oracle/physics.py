"""What a launch takes on the chip, from its features and a dozen constants of hardware and of Arm's compiler.

Work that the core's pipes do, the latency that its threads cannot hide, and the bytes from memory overlap; the slowest
of them dominates, the others add a little. A launch costs a fixed time besides.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from .traffic import LINE_BYTES

CORES = 4
MHZ = 800
ARITHMETIC_PIPES = 2
# clpeak on a T860MP4 reads 7.33 GB/s with float4.
BYTES_PER_US = 7330.0
_FEW_SPILLS = 4.0


@dataclass(frozen=True, kw_only=True)
class Constants:
    """All positive; the defaults are guesses from what is published, and the priors of a fit.

    mad, part_mad, other_float: arithmetic bundles of Arm's compiler for a multiply-add of 128 bits in the text, for one
    of fewer bits, and for the text's other float operations; other_alu: for any other arithmetic bundle that Mesa
    counts (addresses, mostly); split_mad: for each multiply-add that Mesa counts above the text's (halves of a half8).
    load_store: cycles of the load/store pipe for a bundle of Mesa's; spill: more of them for one that saves or restores
    a register; line: for a cache line that comes from outside the core. alu_latency, load_latency: cycles that a thread
    waits for a bundle. memory: how much slower memory is than clpeak's 7.33 GB/s; refetch: its share of the lines that
    come again. overlap: how sharply the slowest part dominates; launch: microseconds.
    """

    mad: float = 1.0
    part_mad: float = 0.5
    other_float: float = 1.8
    other_alu: float = 0.5
    split_mad: float = 0.2
    load_store: float = 0.5
    spill: float = 0.5
    line: float = 0.3
    alu_latency: float = 6.0
    load_latency: float = 14.0
    memory: float = 1.0
    refetch: float = 0.05
    overlap: float = 2.0
    launch: float = 40.0

    def rounded(self, digits: int) -> "Constants":
        """To significant digits, so that machines that differ in the last bits agree."""
        return Constants(**{f.name: float(f"{getattr(self, f.name):.{digits}g}") for f in fields(self)})


NAMES = tuple(f.name for f in fields(Constants))


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Microseconds of each launch, (launches,) each; `total` is less than their sum, since they overlap."""

    arithmetic: np.ndarray
    load_store: np.ndarray
    latency: np.ndarray
    memory: np.ndarray
    launch: np.ndarray
    total: np.ndarray


def parts(k: Constants, c: Mapping[str, np.ndarray]) -> Parts:
    """`c` are features' columns, see features.columns."""
    # A core takes whole work-groups, so the one that gets most of them is the last to end.
    items = c["items"] * np.ceil(c["groups"] / CORES) / c["groups"]
    alu = (
        k.mad * c["mads"]
        + k.part_mad * c["part_mads"]
        + k.other_float * c["operations"]
        + k.other_alu * np.maximum(c["alu"] - c["mesa_mads"] - c["operations"], 0.0)
        + k.split_mad * np.maximum(c["mesa_mads"] - c["mads"] - c["part_mads"], 0.0)
    )
    # Mesa's spills in the code say that the bundles above the text's own accesses are spills; a few are not in loops.
    is_spill = np.clip(1.0 - _FEW_SPILLS / np.maximum(c["spilled"], 1.0), 0.0, 1.0)
    spills = is_spill * np.maximum(c["load_store"] - c["accesses"], 0.0)
    load_store = k.load_store * c["load_store"] + k.spill * spills + k.line * c["lines"]
    on_a_core = np.minimum(c["threads"], np.ceil(c["groups"] / CORES) * c["group"])
    resident = np.maximum(c["group"], np.floor(on_a_core / c["group"]) * c["group"])
    waits = k.alu_latency * c["alu"] + k.load_latency * c["load_store"]
    arithmetic_us = items * alu / ARITHMETIC_PIPES / MHZ
    load_store_us = items * load_store / MHZ
    latency_us = items * waits / resident / MHZ
    again = np.maximum(c["far_lines"] * c["items"] * LINE_BYTES - c["bytes"], 0.0)
    memory_us = k.memory * (c["bytes"] + k.refetch * again) / BYTES_PER_US
    power = 1.0 + k.overlap
    work = arithmetic_us**power + load_store_us**power + latency_us**power + memory_us**power
    launch_us = np.full_like(arithmetic_us, k.launch)
    return Parts(
        arithmetic=arithmetic_us,
        load_store=load_store_us,
        latency=latency_us,
        memory=memory_us,
        launch=launch_us,
        total=work ** (1.0 / power) + launch_us,
    )
