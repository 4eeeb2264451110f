"""Which function converts which MXNet operator; the files in `ops/` fill it."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..findings import Unsupported
from .emitter import Emitter, Node, Tensor

Converter: TypeAlias = Callable[[Emitter, Node], Tensor | Sequence[Tensor]]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """`uses` is how many inputs matter (None: all): labels do not. Inputs numbered in `weights` hold parameters."""

    convert: Converter
    uses: int | None
    weights: frozenset[int]
    refuses: bool


_ENTRIES: dict[str, Entry] = {}
_REFUSALS: dict[str, Unsupported] = {}


def converts(*names: str, uses: int | None = None, weights: Sequence[int] = ()) -> Callable[[Converter], Converter]:
    """Register the decorated function for these operators and aliases."""

    def register(function: Converter) -> Converter:
        for name in names:
            _ENTRIES[name] = Entry(convert=function, uses=uses, weights=frozenset(weights), refuses=False)
        return function

    return register


def refuse(*names: str, why: str, hint: str) -> None:
    """Operators that are known, and known not to be converted."""

    def fail(_emitter: Emitter, _node: Node) -> Tensor:
        raise Unsupported(why, hint=hint)

    for name in names:
        _ENTRIES[name] = Entry(convert=fail, uses=0, weights=frozenset(), refuses=True)
        _REFUSALS[name] = Unsupported(why, hint=hint)


def find(name: str) -> Entry | None:
    _load()
    return _ENTRIES.get(name)


def refusal(name: str) -> Unsupported | None:
    """Why an operator is refused whatever its inputs are; None if it may be converted."""
    _load()
    if name not in _ENTRIES:
        return Unsupported("this MXNet operator is not supported", hint=CUT_HINT)
    return _REFUSALS.get(name)


def supported() -> list[str]:
    """The names of all operators that have a converter, sorted."""
    _load()
    return sorted(name for name, entry in _ENTRIES.items() if not entry.refuses)


def _load() -> None:
    if _ENTRIES:
        return
    package = importlib.import_module(f"{__package__}.ops")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        importlib.import_module(f"{package.__name__}.{module.name}")


CUT_HINT = "end the model before such nodes, with --cut NODE or scons outputs=NODE,NODE"
