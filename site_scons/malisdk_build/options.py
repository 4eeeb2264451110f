"""The command line of the build: targets and KEY=VALUE options, checked before anything else happens."""

import difflib
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from SCons.Errors import UserError
from SCons.Variables import Variables

TARGETS = ("rk3399", "host")
DTYPES = ("float32", "float16")
DEFAULT_MODEL = "efficientnet_lite0"
# The Pythons of Debian's last three releases, whose arm64 headers can be fetched.
PYTHONS = ("3.9", "3.11", "3.13")
GOALS = {
    "sdk": "build the SDK and run its smoke test (default)",
    "smoke": "build the SDK and run its smoke test again",
    "native": "build only the C++ library and command",
    "host-wheel": "build the Python wheel for this machine",
    "tune": "search rules and knobs for the model's layers; may be stopped, goes on where it was",
    "bench": "predict the benchmark networks on the board, beside published times",
    "ladder": "predict each step of the 2018 schedules, beside published rates; also `bench ladder`",
    "bench-gpu": "compare our kernels with plain TVM's on this machine's OpenCL",
    "models": "list the models that `model=` knows by name",
}
_SSH_DEVICE = re.compile(r"ssh://(?:[^@/\s:]+@)?[^@/\s:]+(?::\d{1,5})?")
_SHAPE = re.compile(r"[^:\s]+:\d+(?:,\d+)*")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The resolved options. `model_file` is set when the user gave a file instead of a recipe's name; `params` are
    the parameters that belong to an MXNet symbol.
    """

    target: str
    model: str
    model_file: Path | None
    params: Path | None
    dtype: str
    shapes: tuple[str, ...]
    outputs: tuple[str, ...]
    autotvm_log: Path | None
    device: str
    pythons: tuple[str, ...]
    python_headers: tuple[Path, ...]

    def __str__(self) -> str:
        model = f"{self.model} ({self.model_file})" if self.model_file else self.model
        words = [f"target={self.target}", f"model={model}", f"dtype={self.dtype}"]
        words += [f"shape={s}" for s in self.shapes]
        words += [f"outputs={','.join(self.outputs)}"] if self.outputs else []
        words += [f"autotvm_log={self.autotvm_log}"] if self.autotvm_log else []
        words += [f"device={self.device}"]
        words += [f"python_headers={d}" for d in self.python_headers]
        return " ".join(words)


def declare(arguments: Mapping[str, str]) -> Variables:
    """The options with their help texts; what they may hold is checked by `resolve`."""
    variables = Variables(None, arguments)
    variables.Add("target", f"what the SDK is for: {' or '.join(TARGETS)}", TARGETS[0], _one_of(TARGETS))
    variables.Add("model", "a name out of `scons models`, or your own .onnx or -symbol.json file", DEFAULT_MODEL)
    variables.Add("dtype", f"what the model computes in: {' or '.join(DTYPES)}", DTYPES[0], _one_of(DTYPES))
    variables.Add("shape", "an input's shape where the file leaves it open, NAME:1,3,224,224; may be repeated", "")
    variables.Add("outputs", "tensors to cut your model at, NAME,NAME; what comes behind them is left out", "")
    variables.Add("autotvm_log", "an AutoTVM log; convolutions with a record in it get its knobs", "")
    variables.Add("device", "where the smoke test runs: emulator, host, rusticl, ssh://user@host[:port], or none", "")
    variables.Add("pythons", f"Pythons to build wheels for, or none; of {','.join(PYTHONS)}", "")
    variables.Add("python_headers", "folder with another target Python's Python.h; may be repeated", "")
    return variables


def _one_of(allowed: Sequence[str]) -> Callable[[str, str, Any], None]:
    def validate(key: str, value: str, env: Any) -> None:
        if value not in allowed:
            raise UserError(unknown(f"{key}: unknown value", value, allowed))

    return validate


def unknown(what: str, got: str, expected: Iterable[str], *, hint: str = "scons -h lists targets and options") -> str:
    """A message that names the nearest of what would have been right."""
    names = sorted(expected)
    near = difflib.get_close_matches(got, names, 1, cutoff=0.5)
    return f"{what}, got {got}; expected {_listed(names)}\nhint: {f'did you mean {near[0]}?' if near else hint}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def check_goals(goals: Sequence[str]) -> None:
    """Refuse misspelt targets before SCons looks for files of that name."""
    for goal in goals:
        if goal not in GOALS and not (goal == "build" or goal.startswith("build/")):
            raise UserError(unknown("unknown target", goal, GOALS))


def resolve(
    values: Mapping[str, Any],
    *,
    unknown_options: Iterable[str],
    repeated: Mapping[str, Sequence[str]],
    recipes: Sequence[str],
    goals: Sequence[str],
    user_folder: Path,
) -> Options:
    """Check everything and fill in what depends on something else.

    values: the variables; repeated: all values of the options that may be given more than once.
    user_folder: what relative paths of the command line start from. Raises UserError.
    """
    known = ("target", "model", "dtype", "shape", "outputs", "autotvm_log", "device", "pythons", "python_headers")
    for key in unknown_options:
        raise UserError(unknown("unknown option", key, known))
    target = str(values["target"])
    name, file = _model(str(values["model"]), recipes, user_folder)
    for shape in repeated["shape"]:
        if not _SHAPE.fullmatch(shape):
            raise UserError(f"shape: cannot be read, got {shape}; expected NAME:1,3,224,224")
    device = _device(str(values["device"]), target)
    if device == "none" and "smoke" in goals:
        raise UserError("device: nowhere to run the smoke test, got none; expected a device for the target smoke")
    return Options(
        target=target,
        model=name,
        model_file=file,
        params=_params(file),
        dtype=str(values["dtype"]),
        shapes=tuple(repeated["shape"]),
        outputs=_outputs(str(values["outputs"]), file),
        autotvm_log=_autotvm_log(str(values["autotvm_log"]), user_folder),
        device=device,
        pythons=_pythons(str(values["pythons"]), target),
        python_headers=tuple(_headers(d, user_folder) for d in repeated["python_headers"]),
    )


def _model(given: str, recipes: Sequence[str], user_folder: Path) -> tuple[str, Path | None]:
    if given in recipes:
        return given, None
    if not given.endswith((".onnx", ".json", ".params")) and "/" not in given:
        hint = "scons models lists them; a model of your own is given by its path, x.onnx or x-symbol.json"
        raise UserError(unknown("model: unknown name", given, recipes, hint=hint))
    file = user_folder / Path(given).expanduser()
    expected = "expected an .onnx or -symbol.json file"
    if not file.is_file():
        raise UserError(f"model: no such file, got {given}; {expected}\nhint: relative to {user_folder}")
    if file.suffix not in (".onnx", ".json"):
        raise UserError(f"model: unknown kind of file, got {given}; {expected}")
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", file.stem.removesuffix("-symbol")), file.resolve()


def _params(file: Path | None) -> Path | None:
    """The parameters beside a symbol: those of the highest epoch, `net-0012.params`, else `net.params`."""
    if file is None or file.suffix != ".json":
        return None
    prefix = file.stem.removesuffix("-symbol")
    epochs = {int(found[1]): p for p in file.parent.iterdir() if (found := _epoch(prefix, p.name)) and p.is_file()}
    plain = file.with_name(f"{prefix}.params")
    return epochs[max(epochs)] if epochs else plain if plain.is_file() else None


def _epoch(prefix: str, name: str) -> re.Match[str] | None:
    return re.fullmatch(re.escape(prefix) + r"-(\d{4,})\.params", name)


def _outputs(given: str, file: Path | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in given.split(",")) if given else ()
    if not all(names):
        raise UserError(f"outputs: an empty name, got {given}; expected NAME,NAME")
    if names and file is None:
        raise UserError(f"outputs: only for a model file of your own, got {given}; expected none with a model of ours")
    return names


def _autotvm_log(given: str, user_folder: Path) -> Path | None:
    if not given:
        return None
    file = user_folder / Path(given).expanduser()
    if not file.is_file():
        raise UserError(
            f"autotvm_log: no such file, got {given}; expected an AutoTVM log\nhint: relative to {user_folder}"
        )
    return file.resolve()


def _device(given: str, target: str) -> str:
    native = "host" if target == "host" or platform.machine() == "aarch64" else None
    names = ["emulator"] if target != "host" else []
    names += [native] if native else []
    # Only what this machine runs by itself runs there, too.
    names += ["rusticl"] if target == "host" else []
    if not given:
        return names[0]
    if given in (*names, "none") or (_SSH_DEVICE.fullmatch(given) and target != "host"):
        return given
    expected = [*names, "none"] + (["ssh://user@host[:port]"] if target != "host" else [])
    raise UserError(unknown(f"device: does not fit target={target}", given, expected))


def _pythons(given: str, target: str) -> tuple[str, ...]:
    """Versions to build wheels for; the host has one wheel, for the Python that runs the build."""
    if given == "none" or target == "host":
        return ()
    versions = tuple(given.split(",")) if given else PYTHONS
    for version in versions:
        if version not in PYTHONS:
            hint = "for any other: python_headers=DIR with that Python's arm64 headers"
            raise UserError(unknown("pythons: no headers known", version, [*PYTHONS, "none"], hint=hint))
    return versions


def _headers(given: str, user_folder: Path) -> Path:
    folder = user_folder / Path(given).expanduser()
    if not (folder / "patchlevel.h").is_file() or not (folder / "Python.h").is_file():
        raise UserError(f"python_headers: no Python headers, got {given}; expected a folder with Python.h in it")
    return folder.resolve()


def help_text(option_help: str) -> str:
    lines = ["usage: scons [TARGET ...] [OPTION=VALUE ...]", "", "Targets:"]
    lines += [f"  {name:<12}{text}" for name, text in GOALS.items()]
    return "\n".join([*lines, "", "Options:", option_help.rstrip(), "", "scons -c TARGET removes what it made.", ""])


def project_version(init: Path) -> str:
    """`__version__` out of the pipeline's sources."""
    found = re.search(r'^__version__ = "([^"]+)"', init.read_text(), re.MULTILINE)
    if found is None:
        raise UserError(f'{init}: no version; expected a line __version__ = "..."')
    return found[1]
