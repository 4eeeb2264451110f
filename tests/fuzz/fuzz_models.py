"""Damaged model files, one after another: each must end as a model or as one error that is explained.

    python tests/fuzz/fuzz_models.py --minutes 20 --keep FOLDER

A case is a model of the corpus (the onnx package's node cases; small MXNet symbols with parameters), damaged as the
seed and the case's number say, and then imported, looked through (`inspect`) or compiled. It runs in a worker, so that
a crash is found, too. Found is: any exception but the pipeline's own, more than LIMIT_S seconds, and more memory than
twice the files and SPARE_BYTES. The files of what was found are kept, with a text of how it ended; `--case FILE` runs
such a file again, with its traceback.
"""

import argparse
import json
import os
import random
import resource
import select
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS / name) for name in ("fuzz", "onnx_suite", "mxnet")]

import onnx  # noqa: E402

import mutate  # noqa: E402
import mutate_mxnet  # noqa: E402

# Of processor time, so that a busy machine makes no findings; a case that only waits is found by the clock.
LIMIT_S = 30.0
_LIMIT_WALL_S = 300.0
# What importing needs whatever the file is: onnxruntime's and TVM's own tables, freed memory that is not given back.
SPARE_BYTES = 256 << 20
_MAX_ADDRESS_SPACE_BYTES = 16 << 30
KINDS = ("onnx", "mxnet")
Files = dict[str, bytes]
_MODES = ("import", "inspect", "compile")
_LARGEST_SEED_BYTES = 1 << 18


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """`kind`: taken, refused, error, crash, hang or memory; the last four are findings. `seconds` of the processor."""

    kind: str
    text: str
    seconds: float
    peak_bytes: int

    @property
    def is_finding(self) -> bool:
        return self.kind not in ("taken", "refused")


class Worker:
    """A process that runs cases; it is started again after a crash or a hang."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, path: Path, mode: str) -> Outcome:
        if self._process is None:
            words = [sys.executable, __file__, "--worker"]
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert self._process.stdout is not None
            self._process.stdout.readline()
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        start = time.monotonic()
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps([str(path), mode]) + "\n")
            process.stdin.flush()
        begun, ready = _cpu_seconds(process.pid), []
        while not ready and _cpu_seconds(process.pid) - begun < LIMIT_S and time.monotonic() - start < _LIMIT_WALL_S:
            ready, _, _ = select.select([process.stdout], [], [], 1.0)
        line = process.stdout.readline() if ready else ""
        seconds = _cpu_seconds(process.pid) - begun
        if line:
            return Outcome(**json.loads(line), seconds=seconds)
        self.close()
        if ready:
            return Outcome(kind="crash", text=f"exit code {process.returncode}", seconds=seconds, peak_bytes=0)
        return Outcome(kind="hang", text=f"more than {LIMIT_S:.0f} s", seconds=seconds, peak_bytes=0)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _cpu_seconds(pid: int) -> float:
    """What a process has used; 0 of one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serve() -> None:
    """The worker: a line of JSON a case on stdin, one a result on the stdout that it was started with."""
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_ADDRESS_SPACE_BYTES, _MAX_ADDRESS_SPACE_BYTES))
    reply = os.fdopen(os.dup(1), "w", buffering=1)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    _import_everything()
    print("ready", file=reply)
    for line in sys.stdin:
        path, mode = json.loads(line)
        kind, text, peak_bytes = measured(Path(path), mode)
        print(json.dumps({"kind": kind, "text": text, "peak_bytes": peak_bytes}), file=reply)


def measured(path: Path, mode: str) -> tuple[str, str, int]:
    """Kind, text, and by how much the memory grew while the case ran."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts over
    before = _memory_bytes("VmRSS")
    kind, text = run_case(path, mode)
    peak_bytes = _memory_bytes("VmHWM") - before
    size_bytes = sum(p.stat().st_size for p in path.parent.iterdir())
    if kind in ("taken", "refused") and peak_bytes > 2 * size_bytes + SPARE_BYTES:
        kind, text = "memory", f"{peak_bytes >> 20} MiB for files of {size_bytes} bytes; was {kind}: {text}"
    return kind, text, peak_bytes


def _memory_bytes(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return 0


def run_case(path: Path, mode: str) -> tuple[str, str]:
    from malisdk_pipeline.compile import compile_model
    from malisdk_pipeline.errors import MaliSdkError
    from malisdk_pipeline.importers.model_import import import_model
    from malisdk_pipeline.importers.survey import survey_file

    shapes = {} if path.suffix == ".onnx" else {"data": mutate_mxnet.INPUT_SHAPE}
    try:
        if mode == "import":
            import_model(path, shapes=shapes)
        elif mode == "inspect":
            survey_file(path, shapes=shapes, outputs=None)
        else:
            compile_model(path, target="host", shapes=shapes)
    except MaliSdkError as e:
        return "refused", str(e)
    except BaseException as e:  # whatever it is, a user would see its traceback
        return "error", "".join(traceback.format_exception(e))
    return "taken", ""


def _import_everything() -> None:
    import malisdk_pipeline.compile
    import malisdk_pipeline.importers.survey  # noqa: F401


def corpus(kinds: Sequence[str]) -> list[tuple[str, Files]]:
    """Sound models, small ones, by name."""
    found: list[tuple[str, Files]] = []
    if "onnx" in kinds:
        import node_suite

        models = [(case.name, case.model.SerializeToString()) for case in node_suite.cases()]
        found += [(name, {"model.onnx": data}) for name, data in models if len(data) <= _LARGEST_SEED_BYTES]
    if "mxnet" in kinds:
        found += mutate_mxnet.corpus()
    return found


def damaged(seeds: list[tuple[str, Files]], seed: int, number: int) -> tuple[str, Files]:
    """The case of a number: the name of what it was made of, and its files."""
    rng = random.Random(seed * 1_000_003 + number)
    name, files = rng.choice(seeds)
    if "model.onnx" not in files:
        return name, mutate_mxnet.damage(files, rng)
    data = files["model.onnx"]
    if rng.random() < 0.25:
        return name, {"model.onnx": mutate.damage_bytes(data, rng)}
    model = onnx.ModelProto.FromString(data)
    mutate.damage_fields(model, rng)
    return name, {"model.onnx": model.SerializeToString()}


def fuzz(
    *, seed: int, first: int, count: int | None, seconds: float, keep: Path | None, kinds: Sequence[str] = KINDS
) -> Iterator[Outcome]:
    """Outcomes of cases from the number `first` on, until there were `count` or the time is over."""
    seeds = corpus(kinds)
    worker = Worker()
    start = time.monotonic()
    number = first
    try:
        while (count is None or number < first + count) and time.monotonic() - start < seconds:
            name, files = damaged(seeds, seed, number)
            with TemporaryDirectory() as folder:
                for file, data in files.items():
                    Path(folder, file).write_bytes(data)
                mode = _MODES[number % len(_MODES)]
                outcome = worker.run(Path(folder, next(iter(files))), mode)
                if outcome.is_finding and keep is not None:
                    kept = keep / f"{outcome.kind}-{seed}-{number}-{mode}"
                    shutil.copytree(folder, kept, dirs_exist_ok=True)
                    (kept / "outcome.txt").write_text(f"{name}, damaged; {mode}: {outcome.kind}\n{outcome.text}\n")
            yield outcome
            number += 1
    finally:
        worker.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--kinds", default=",".join(KINDS), help="which models, with commas (default: %(default)s)")
    parser.add_argument("--keep", type=Path, help="folder for the files of what is found")
    parser.add_argument("--case", type=Path, help="run this file in every mode, here")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        serve()
        return 0
    if args.case is not None:
        for mode in _MODES:
            kind, text, peak_bytes = measured(args.case, mode)
            print(f"{mode}: {kind}, {peak_bytes >> 20} MiB\n{text}")
        return 0
    counts: Counter[str] = Counter()
    slowest, largest = (0.0, 0), (0, 0)
    kinds = args.kinds.split(",")
    seconds = args.minutes * 60
    for outcome in fuzz(seed=args.seed, first=args.first, count=None, seconds=seconds, keep=args.keep, kinds=kinds):
        counts[outcome.kind] += 1
        number = args.first + counts.total() - 1
        slowest, largest = max(slowest, (outcome.seconds, number)), max(largest, (outcome.peak_bytes, number))
        if outcome.is_finding:
            print(f"case {number}: {outcome.kind}: {outcome.text.strip()[-300:]}", flush=True)
    print(f"{counts.total()} cases: " + ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))
    print(f"slowest {slowest[0]:.1f} s (case {slowest[1]}), most memory {largest[0] >> 20} MiB (case {largest[1]})")
    return 1 if counts.total() > counts["taken"] + counts["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
