"""Targets that end in a report or a log, not in an SDK: tune, bench, ladder and bench-gpu."""

import shlex
from pathlib import Path
from typing import Any

from .options import Options

# What `tune` appends to and the SDK's model is compiled with; decisions are for a GPU, not for a platform.
LOG = Path("build", "tuning", "mali_t860.jsonl")
_PIPELINE = "$PYTHON -m malisdk_pipeline"


def tune_action(options: Options) -> str:
    shapes = shlex.join(word for shape in options.shapes for word in ("--shape", shape))
    return f"{_PIPELINE} tune $SOURCE --target {options.target} --dtype {options.dtype} {shapes} --log {LOG}"


def bench_action() -> str:
    log = f" --tuning-log {LOG}" if LOG.is_file() else ""
    return f"{_PIPELINE} bench{log} --out build/bench"


def ladder_action() -> str:
    return f"{_PIPELINE} ladder --out build/ladder"


def bench_gpu_action(command: Any) -> str:
    return f"{_PIPELINE} bench-gpu --out build/bench-gpu --run {command}"
