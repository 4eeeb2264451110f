"""Compile a model: import, lower, schedule, assemble, write. One linear story."""

import importlib.metadata
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tvm

from . import __version__, container, log
from .assemble import Assembler, LaunchNote
from .errors import BundleError, ConfigError
from .importers import import_model
from .passes.choose_conv2d import Choice, Decide
from .passes.pipeline import lowering
from .plan import Plan
from .schedules.facts import Conv2dFacts
from .targets import DTYPES, OURS, SCHEDULES, check_choice, find_target
from .tuning import decisions, logged


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A plan, a note for each of its launches, and what was chosen for each convolution by its key."""

    plan: Plan
    notes: tuple[LaunchNote, ...]
    choices: Mapping[str, Choice]
    workloads: tuple[Conv2dFacts, ...]


def compile_model(
    path: Path,
    *,
    target: str,
    dtype: str = "float32",
    shapes: Mapping[str, Sequence[int]] | None = None,
    outputs: Sequence[str] | None = None,
    name: str | None = None,
    dump_ir: Path | None = None,
    schedules: str = OURS,
    tuning: Sequence[Path] = (),
    autotvm_log: Path | None = None,
) -> Plan:
    """The plan of a model file.

    `shapes` gives static shapes to inputs that the model leaves open, `outputs` cuts the model at the named tensors,
    `name` is what the plan calls itself (the file's stem by default), `dump_ir` is a folder for the IR after each
    phase, `schedules` says whose kernels: ours, or TVM's own to compare with; `tuning` are tuning logs beside the
    shipped one; convolutions with a record in `autotvm_log` get the kernels of 2018 with its knobs.
    Raises ConfigError for options that make no sense, ImportFailed for the model, ScheduleError for a kernel.
    """
    return compile_with_notes(
        path,
        target=target,
        dtype=dtype,
        shapes=shapes,
        outputs=outputs,
        name=name,
        dump_ir=dump_ir,
        schedules=schedules,
        tuning=tuning,
        autotvm_log=autotvm_log,
    ).plan


def compile_with_notes(
    path: Path,
    *,
    target: str,
    dtype: str = "float32",
    shapes: Mapping[str, Sequence[int]] | None = None,
    outputs: Sequence[str] | None = None,
    name: str | None = None,
    dump_ir: Path | None = None,
    schedules: str = OURS,
    tuning: Sequence[Path] = (),
    autotvm_log: Path | None = None,
) -> Compiled:
    """As compile_model, with how each launch came about."""
    spec = find_target(target)
    check_choice("dtype", dtype, DTYPES)
    check_choice("schedules", schedules, SCHEDULES)
    if schedules != OURS and autotvm_log is not None:
        raise ConfigError(f"--autotvm-log: only for our schedules, got --schedules {schedules}; expected {OURS}")
    decide = _decide(tuning, autotvm_log)
    with log.step(f"import {path.name}"):
        static = {k: tuple(v) for k, v in (shapes or {}).items()}
        model = import_model(path, shapes=static, outputs=outputs)
    choices: dict[str, Choice] = {}
    workloads: dict[str, Conv2dFacts] = {}
    layers: list[Choice] = []

    def chosen(facts: Conv2dFacts, choice: Choice) -> None:
        choices[facts.key], workloads[facts.key] = choice, facts
        layers.append(choice)

    passes = lowering(spec, dtype, _dumper(dump_ir), schedules=schedules, decide=decide, chosen=chosen)
    with log.step(f"lower {len(model.inputs)} input(s), {len(model.outputs)} output(s)"), spec.tvm_target():
        mod = passes(model.mod)
    if autotvm_log is not None:
        matched = sum(choice.nchw is not None for choice in layers)
        log.info(f"{autotvm_log.name}: its knobs are used for {matched} of {len(layers)} convolutions")
    metadata = {
        "malisdk": __version__,
        "tvm": importlib.metadata.version("apache-tvm"),
        "source": path.name,
        "source_sha256": model.sha256,
        "opset": str(model.opset),
        "dtype": dtype,
    }
    assembler = Assembler(mod=mod, target=spec, dtype=dtype, schedules=schedules)
    with log.step("schedule and print kernels"):
        plan = assembler.assemble(
            model_name=name or model_name(path), inputs=model.inputs, outputs=model.outputs, metadata=metadata
        )
    return Compiled(plan=plan, notes=assembler.notes, choices=choices, workloads=tuple(workloads.values()))


def _decide(tuning: Sequence[Path], autotvm_log: Path | None) -> Decide:
    ours = decisions.load(tuning)
    if autotvm_log is None:
        return ours
    recorded = logged.load(autotvm_log)
    return lambda facts: recorded(facts) or ours(facts)


def convolutions(
    path: Path, *, target: str, dtype: str, shapes: Mapping[str, Sequence[int]], outputs: Sequence[str] | None = None
) -> list[Conv2dFacts]:
    """The different convolutions of a model for which a rule of ours is chosen; raises what compile_model raises."""
    spec = find_target(target)
    check_choice("dtype", dtype, DTYPES)
    model = import_model(path, shapes={k: tuple(v) for k, v in shapes.items()}, outputs=outputs)
    found: dict[str, Conv2dFacts] = {}

    def chosen(facts: Conv2dFacts, _choice: Choice) -> None:
        found[facts.key] = facts

    with spec.tvm_target():
        lowering(spec, dtype, chosen=chosen)(model.mod)
    return list(found.values())


def build_model(
    model: str | Path,
    target: str = "host",
    dtype: str = "float32",
    shapes: Mapping[str, Sequence[int]] | None = None,
    out: str | Path | None = None,
    *,
    outputs: Sequence[str] | None = None,
    name: str | None = None,
    dump_ir: Path | None = None,
    schedules: str = OURS,
    tuning: Sequence[Path] = (),
    autotvm_log: Path | None = None,
) -> Path:
    """Compile `model` and write `out` (default: <model>.mali in the current folder); returns the path written.

    Nothing is written when anything fails.
    """
    source = Path(model)
    path = Path(out) if out is not None else Path(f"{model_name(source)}.mali")
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder; expected a file name", hint=f"--out {path / (source.stem + '.mali')}")
    plan = compile_model(
        source,
        target=target,
        dtype=dtype,
        shapes=shapes,
        outputs=outputs,
        name=name,
        dump_ir=dump_ir,
        schedules=schedules,
        tuning=tuning,
        autotvm_log=autotvm_log,
    )
    try:
        container.write(path, plan)
    except OSError as e:
        raise BundleError(f"{path}: cannot be written ({e.strerror})", hint="name another file with --out") from e
    return path


def model_name(path: Path) -> str:
    """A file's stem as a name that is fine in paths and file names of any system; of MXNet's names the prefix."""
    stem = re.sub(r"(-symbol\.json|-\d{4,}\.params|\.(onnx|json|params))$", "", path.name)
    return re.sub(r"[^\w.-]+", "_", stem, flags=re.ASCII).strip("._-") or "model"


def _dumper(folder: Path | None) -> Callable[[str, tvm.IRModule], None] | None:
    if folder is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    count = iter(range(100))

    def dump(phase: str, mod: tvm.IRModule) -> None:
        (folder / f"{next(count)}-{phase}.py").write_text(mod.script())

    return dump
