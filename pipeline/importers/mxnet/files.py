"""Which files a model is made of: `net-symbol.json` and `net-0000.params`, by either name or their prefix `net`."""

import re
from dataclasses import dataclass
from pathlib import Path

from ...errors import ImportFailed

SYMBOL_SUFFIX = "-symbol.json"
_PARAMS = re.compile(r"(?P<prefix>.+)-(?P<epoch>\d{4,})\.params", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """`params` is None where no such file is there: some symbols need none."""

    symbol: Path
    params: Path | None


def is_mxnet(path: Path) -> bool:
    """Whether a path names an MXNet model: one of its files, or a prefix with a symbol beside it."""
    if path.suffix in (".json", ".params"):
        return True
    return path.suffix != ".onnx" and not path.exists() and _symbol_of(path).is_file()


def find_files(path: Path) -> ModelFiles:
    """The files of a model. Of several epochs the highest is taken, unless `path` names one.

    Raises ImportFailed if the symbol is not there.
    """
    if path.suffix == ".params":
        prefix = _prefix(path)
        return ModelFiles(symbol=_existing(_symbol_of(prefix), path), params=_existing(path, path))
    if path.name.endswith(SYMBOL_SUFFIX):
        prefix = path.with_name(path.name.removesuffix(SYMBOL_SUFFIX))
    elif path.suffix == ".json":
        prefix = path.with_suffix("")
    else:
        prefix = path
        path = _symbol_of(prefix)
    return ModelFiles(symbol=_existing(path, path), params=_params_of(prefix))


def _prefix(params: Path) -> Path:
    found = _PARAMS.fullmatch(params.name)
    return params.with_name(found["prefix"]) if found else params.with_suffix("")


def _params_of(prefix: Path) -> Path | None:
    epochs: dict[int, Path] = {}
    for file in sorted(prefix.parent.iterdir()):
        found = _PARAMS.fullmatch(file.name)
        if found and found["prefix"] == prefix.name and file.is_file():
            epochs[int(found["epoch"])] = file
    if epochs:
        return epochs[max(epochs)]
    plain = prefix.with_name(f"{prefix.name}.params")
    return plain if plain.is_file() else None


def _symbol_of(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + SYMBOL_SUFFIX)


def _existing(path: Path, given: Path) -> Path:
    if not path.exists():
        hint = "give net-symbol.json with net-0000.params beside it, or their common prefix"
        what = "no such file" if path == given else f"no {path.name} beside it"
        raise ImportFailed(f"{given}: {what}", hint=hint)
    if not path.is_file():
        raise ImportFailed(f"{path}: not a file, got a folder or device; expected a file")
    return path
