"""Which function converts which ONNX operator; the files in `converters/` fill it."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from .node import Node
from .values import AnyValue

if TYPE_CHECKING:
    from .walk import Context

Converter: TypeAlias = "Callable[[Context, Node], AnyValue | Sequence[AnyValue | None]]"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """`structural` operators are converted even where all inputs are constants: they never compute anything.

    A converter that `refuses` does so whatever its inputs are, so that it is reported behind other refused nodes, too.
    """

    convert: "Converter"
    structural: bool
    refuses: bool


_ENTRIES: dict[tuple[str, str], Entry] = {}


def converts(
    *names: str, domain: str = "", structural: bool = False, refuses: bool = False
) -> "Callable[[Converter], Converter]":
    """Register the decorated function for ONNX operators of all versions."""

    def register(function: "Converter") -> "Converter":
        for name in names:
            _ENTRIES[domain, name] = Entry(convert=function, structural=structural, refuses=refuses)
        return function

    return register


def find(domain: str, name: str) -> Entry | None:
    _load()
    return _ENTRIES.get((domain, name))


def supported() -> list[str]:
    """The names of all operators that have a converter, sorted; those of other domains as `domain.name`."""
    _load()
    return sorted(f"{domain}.{name}" if domain else name for (domain, name), e in _ENTRIES.items() if not e.refuses)


def _load() -> None:
    if _ENTRIES:
        return
    package = importlib.import_module(f"{__package__}.converters")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        importlib.import_module(f"{package.__name__}.{module.name}")
