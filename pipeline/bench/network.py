"""One network on the board as the oracle predicts it: layer by layer against the roofline."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..assemble import LaunchNote
from ..compile import Compiled, compile_with_notes
from ..oracle import DEFAULT_GPU, find_gpu
from ..oracle.plan_times import LaunchTime, launch_times, plan_costs
from .models import NamedModel

NETWORKS = ("mobilenet_v1", "mobilenet_v2", "resnet18", "resnet50", "squeezenet1_1", "vgg16")
# clpeak on a T860MP4: float32, and float16 with half4; bandwidth with float4.
PEAK_GFLOPS = {"float32": 46.0, "float16": 94.0}
BANDWIDTH_GB_S = 7.3


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The launches of one operator with its epilogue. Times in microseconds; predicted_us is None without a prediction.

    flops: two a multiply-add of the plain algorithm, also for winograd, which does fewer; bytes: of all buffers of all
    its launches, each once a launch.
    """

    name: str
    workload: str | None
    rule: str
    knobs: dict[str, int]
    why: str
    launches: int
    registers: tuple[int, ...]
    spills: int
    fills: int
    flops: int
    bytes: int
    predicted_us: float | None
    dtype: str

    @property
    def gflops(self) -> float | None:
        return self.flops / self.predicted_us / 1e3 if self.predicted_us else None

    @property
    def gb_s(self) -> float | None:
        return self.bytes / self.predicted_us / 1e3 if self.predicted_us else None

    @property
    def compute_us(self) -> float:
        return self.flops / PEAK_GFLOPS[self.dtype] / 1e3

    @property
    def memory_us(self) -> float:
        return self.bytes / BANDWIDTH_GB_S / 1e3

    @property
    def roofline_us(self) -> float:
        """The least that the measured peak and bandwidth allow to the plain algorithm with these buffers."""
        return max(self.compute_us, self.memory_us)

    @property
    def limit(self) -> str:
        return "compute" if self.compute_us > self.memory_us else "bandwidth"


@dataclass(frozen=True, kw_only=True)
class Network:
    """All layers in order. `model` is the cost model's name and version."""

    name: str
    dtype: str
    layers: tuple[Layer, ...]
    model: str

    @property
    def predicted_ms(self) -> float:
        return sum(layer.predicted_us or 0.0 for layer in self.layers) / 1e3

    @property
    def roofline_ms(self) -> float:
        return sum(layer.roofline_us for layer in self.layers) / 1e3

    @property
    def flops(self) -> int:
        return sum(layer.flops for layer in self.layers)

    @property
    def bytes(self) -> int:
        return sum(layer.bytes for layer in self.layers)

    @property
    def without_prediction(self) -> int:
        return sum(layer.predicted_us is None for layer in self.layers)


def predict_network(model: NamedModel, *, target: str, dtype: str, tuning: Sequence[Path], processes: int) -> Network:
    """Raises what compiling and the oracle raise."""
    compiled = compile_with_notes(model.onnx, target=target, dtype=dtype, name=model.name, tuning=tuning)
    costs = plan_costs(compiled.plan, find_gpu(DEFAULT_GPU), processes=processes, title=f"{model.name} {dtype}")
    times = launch_times(compiled.plan, costs)
    models = sorted({t.prediction.model for t in times if t.prediction is not None})
    groups = _group(list(zip(times, compiled.notes, strict=True)))
    layers = tuple(_layer(compiled, group, dtype) for group in groups)
    return Network(name=model.name, dtype=dtype, layers=layers, model=", ".join(models) or "no prediction")


_Launches = list[tuple[LaunchTime, LaunchNote]]


def _group(launches: _Launches) -> list[_Launches]:
    """Launches that follow each other for one operator: the same layer, and no kernel twice."""
    groups: list[_Launches] = []
    for time, note in launches:
        last = groups[-1] if groups else []
        same = bool(last) and last[-1][0].launch.layer == time.launch.layer
        if same and all(t.launch.kernel != time.launch.kernel for t, _ in last):
            last.append((time, note))
        else:
            groups.append([(time, note)])
    return groups


def _layer(compiled: Compiled, group: _Launches, dtype: str) -> Layer:
    first, note = group[0]
    costs = [t.cost for t, _ in group if t.cost is not None]
    predictions = [t.prediction for t, _ in group if t.prediction is not None]
    choice = compiled.choices.get(note.workload or "")
    return Layer(
        name=first.launch.layer,
        workload=note.workload,
        rule=first.launch.rule,
        knobs=dict(note.knobs),
        why=choice.why if choice is not None else "",
        launches=len(group),
        registers=tuple(c.registers or 0 for c in costs),
        spills=sum(c.spills for c in costs),
        fills=sum(c.fills for c in costs),
        flops=sum(t.launch.flops for t, _ in group),
        bytes=sum(t.launch.bytes for t, _ in group),
        predicted_us=sum(p.time_us for p in predictions) if len(predictions) == len(group) else None,
        dtype=dtype,
    )
