"""Outcomes kept in the cache, by everything that they depend on: the compiler's packages, GPU, options, source."""

import hashlib
import json
from pathlib import Path

from .. import files
from ..errors import ConfigError
from . import root
from .cost import KernelCost, NoData, Outcome
from .gpus import Gpu

# Counts changes in what the oracle reads out of Mesa's prints, and in how programs are compiled.
_VERSION = 1


def key_of(gpu: Gpu, options: str, source: str) -> str:
    text = json.dumps([_VERSION, root.RECIPE.folder_name, gpu.product_id, options, source])
    return hashlib.sha256(text.encode()).hexdigest()


def load(key: str) -> list[Outcome] | None:
    """None for a key that is not there; also for a damaged file."""
    try:
        data = json.loads(_path(key).read_text())
        return [NoData(name=d["name"], reason=d["reason"]) if "reason" in d else KernelCost.from_json(d) for d in data]
    except (OSError, KeyError, TypeError, ValueError):
        return None


def save(key: str, outcomes: list[Outcome]) -> None:
    """Keep outcomes that would be the same again; raises ConfigError if the cache is not writable."""
    if any(isinstance(o, NoData) and not o.final for o in outcomes):
        return
    data = [{"name": o.name, "reason": o.reason} if isinstance(o, NoData) else o.to_json() for o in outcomes]
    path = _path(key)
    try:
        files.write_text(path, json.dumps(data) + "\n")
    except OSError as e:
        raise ConfigError(
            f"{path}: cannot write to the cache: {e.strerror}", hint="set MALISDK_CACHE_DIR to a folder of yours"
        ) from e


def _path(key: str) -> Path:
    return files.cache_dir() / "oracle" / "results" / key[:2] / f"{key[2:]}.json"
