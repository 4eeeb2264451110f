"""The steps from a naive convolution to a fast one, as TVM's report of 2018 on Mali took them, and what each brings.

Source: tvm.apache.org/2018/01/16/opt-mali-gpu for layer, steps and published rates; AutoTVM's records for winograd's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ScheduleError
from ..oracle.batch import measure
from ..oracle.cost import KernelCost, NoData
from ..oracle.gpus import Gpu
from ..oracle.model import Launched, Prediction, predict
from ..oracle.report import table
from ..schedules.facts import Conv2dFacts
from ..schedules.mali.conv2d_spatial_pack import Conv2dSpatialPack, SpatialPackKnobs
from ..schedules.mali.conv2d_winograd_nchw import Conv2dWinogradNchw, WinogradKnobs
from ..schedules.mali.im2col_gemm import Im2colGemm
from ..tuning.measured import launched
from ..tuning.replay import Array, Definition, Replayed, conv2d, make, unscheduled

# GFLOPS on an RK3399 by those who measured them; of the direct convolution's multiply-adds, whatever was computed.
_PUBLISHED = {
    ("bind", "float32"): (0.66, "TVM 2018"),
    ("unroll", "float32"): (9.98, "TVM 2018"),
    ("vectorize", "float32"): (28.4, "TVM 2018"),
    ("im2col_gemm", "float32"): (20.3, "Arm Compute Library 17.12, GEMM"),
    ("winograd", "float32"): (70.7, "AutoTVM 2018"),
    ("winograd", "float16"): (117.9, "AutoTVM 2018"),
}
# Work-items of a group along channels, rows, columns: 56 of at most 64, and a row of tiles divides the layer's 56.
_ITEMS = (4, 2, 7)
# A work-item's outputs: 4 pixels of a row, and channels that fill one vector of 128 bits.
_ROWS, _COLUMNS = 1, 4


@dataclass(frozen=True, kw_only=True)
class Rung:
    """A step before it is compiled. before, after: the TensorIR, unscheduled and scheduled, as text.

    pack: from OIHW to the weight that its kernels take.
    """

    name: str
    dtype: str
    replayed: Replayed
    before: str
    after: str
    pack: Callable[[Array], Array]


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """`launches` are empty and `prediction` None where a kernel has no data, for the reason in `problem`."""

    rung: Rung
    launches: tuple[Launched, ...]
    prediction: Prediction | None
    problem: str = ""

    @property
    def gflops(self) -> float | None:
        """Of the direct convolution's multiply-adds."""
        if self.prediction is None:
            return None
        return 2e-3 * self.rung.replayed.multiply_adds / self.prediction.time_us


def layer(dtype: str) -> Conv2dFacts:
    """The report's layer: 256 x 56 x 56 -> 256, 3x3."""
    return Conv2dFacts(
        batch=1,
        in_channels=256,
        in_height=56,
        in_width=56,
        out_channels=256,
        kernel=(3, 3),
        stride=(1, 1),
        pad=(1, 1, 1, 1),
        dilation=(1, 1),
        groups=1,
        dtype=dtype,
    )


def rungs(facts: Conv2dFacts) -> list[Rung]:
    """bind, unroll and vectorize of spatial pack, then im2col_gemm and winograd. Raises ScheduleError."""
    tile = Im2colGemm.config(facts)
    blocks = facts.out_channels // tile.channels
    knobs = WinogradKnobs(tile=Conv2dWinogradNchw.tile_of(facts), bna=4, bnb=4, t1=4, t2=4, c_unroll=4, yt=8)
    points = knobs.tile + 2
    winograd = (points, points, facts.out_channels // knobs.bna, facts.in_channels, knobs.bna)
    made = {
        "bind": _spatial_pack(facts, "none", "none"),
        "unroll": _spatial_pack(facts, "unroll", "unroll"),
        "vectorize": _spatial_pack(facts, "unroll", "vec"),
        "im2col_gemm": conv2d(Im2colGemm, facts, tile, (blocks, facts.in_channels, *facts.kernel, tile.channels)),
        "winograd": conv2d(Conv2dWinogradNchw, facts, knobs, winograd),
    }
    return [_rung(name, facts.dtype, definition) for name, definition in made.items()]


def predicted(steps: Sequence[Rung], gpu: Gpu, *, processes: int) -> list[Predicted]:
    """Compile all kernels and ask the cost model. Raises ToolchainError where Mesa's compiler cannot be had."""
    kernels = [(rung, kernel) for rung in steps for kernel in rung.replayed.kernels]
    outcomes = [o[0] for o in measure([k.source for _, k in kernels], gpu, processes=processes, title="ladder")]
    results = []
    for rung in steps:
        own = [(k, o) for (r, k), o in zip(kernels, outcomes, strict=True) if r is rung]
        problems = [f"{o.name}: {o.reason}" for _, o in own if isinstance(o, NoData)]
        launches = tuple(launched(rung.replayed, k, o, rung.dtype) for k, o in own if isinstance(o, KernelCost))
        if problems:
            results.append(Predicted(rung=rung, launches=(), prediction=None, problem=problems[0].splitlines()[0]))
            continue
        try:
            results.append(Predicted(rung=rung, launches=launches, prediction=predict(launches)))
        except ScheduleError as e:
            results.append(Predicted(rung=rung, launches=launches, prediction=None, problem=str(e)))
    return results


def report(results: Sequence[Predicted]) -> str:
    """A table of steps; registers and bundles are those of the kernel that takes longest, in its innermost loop."""
    rows: list[tuple[str, ...]] = [
        (
            *("step", "dtype", "kernels", "registers", "spills:fills", "ALU", "LS", "ALU/mad", "LS/mad"),
            *("ms predicted", "GFLOPS predicted", "GFLOPS published (measured)"),
        )
    ]
    notes: dict[str, None] = {}
    for r in results:
        name = f"+ {r.rung.name}" if r.rung.name in ("unroll", "vectorize") else r.rung.name
        head = (name, r.rung.dtype, str(len(r.rung.replayed.kernels)))
        known = _PUBLISHED.get((r.rung.name, r.rung.dtype))
        published = f"{known[0]:g} ({known[1]})" if known else ""
        if r.prediction is None or r.gflops is None:
            rows.append((*head, "no data", *[""] * 7, published))
            notes[f"{name} {r.rung.dtype}: {r.problem}"] = None
            continue
        doubt = " *" if r.prediction.extrapolated else ""
        rows.append(
            (*head, *_counts(r.launches), f"{r.prediction.time_us / 1000:.1f}{doubt}", f"{r.gflops:.2f}", published)
        )
        notes[f"predicted by {r.prediction.model}; * extrapolated: unlike all that the model was fitted to"] = None
    return "\n".join([table(rows), *notes])


def _spatial_pack(facts: Conv2dFacts, loops: str, lanes: str) -> Definition:
    """`loops` annotates the kernel's and the tile's loops, `lanes` the tile's channels; none: sums stay in memory."""
    channels = 16 // np.dtype(facts.dtype).itemsize
    sizes = (facts.out_channels // channels, facts.out_height // _ROWS, facts.out_width // _COLUMNS)
    (co, oh, ow), (items_co, items_oh, items_ow) = sizes, _ITEMS
    knobs = SpatialPackKnobs(
        tile_co=(co // items_co, items_co, channels),
        tile_oh=(oh // items_oh, items_oh, _ROWS),
        tile_ow=(ow // items_ow, items_ow, _COLUMNS),
        channels_first=False,
        reduce=(loops, loops),
        spatial=(loops, loops, lanes),
        in_memory=loops == "none",
    )
    return conv2d(Conv2dSpatialPack, facts, knobs, (co, facts.in_channels, *facts.kernel, channels))


def _rung(name: str, dtype: str, definition: Definition) -> Rung:
    replayed = make(definition, f"{name} {dtype}", suffix=f"_{name}")
    before = unscheduled(definition).script()
    after = replayed.scheduled.script()
    return Rung(name=name, dtype=dtype, replayed=replayed, before=before, after=after, pack=definition.pack)


def _counts(launches: Sequence[Launched]) -> tuple[str, ...]:
    longest = max(launches, key=lambda launch: predict([launch]).time_us)
    cost = longest.cost
    core = cost.core
    if core is None:
        return (str(cost.registers), f"{cost.spills}:{cost.fills}", "", "", "", "")
    mads = core.vec4_mads
    each = (f"{core.alu / mads:.2f}", f"{core.load_store / mads:.2f}") if mads else ("", "")
    return (str(cost.registers), f"{cost.spills}:{cost.fills}", str(core.alu), str(core.load_store), *each)
