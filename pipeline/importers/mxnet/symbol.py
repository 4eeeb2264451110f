"""Read `-symbol.json`: the graph of every version since MXNet 0.5, brought to today's form.

Versions differ in where attributes stand (`param` and `attr`, then `attr`, then `attrs`), in the length of references
(node and output; since 0.9 also a version), in states that were left out (a BatchNorm's mean and variance before 0.9),
and in a few defaults. The upgrades follow what MXNet does when it loads such a file.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ImportFailed

VARIABLE = "null"
# Versions are 10000 major + 100 minor + patch; a file without one is older than 0.9.
_UNKNOWN_VERSION = 800
_MAX_BYTES = 256 << 20
_HINT = "export the model again, or copy the whole file"
_STATES = ("moving_mean", "moving_var")
_WITH_STATES = frozenset({"BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm"})
_INPUTS_WITHOUT_STATES = 3


@dataclass(frozen=True, kw_only=True)
class Reference:
    """An output of a node, both counted from 0."""

    node: int
    output: int


@dataclass(frozen=True, kw_only=True)
class SymbolNode:
    """A variable or a layer. Its inputs stand before it in `Symbol.nodes`."""

    operator: str
    name: str
    attributes: Mapping[str, str]
    inputs: tuple[Reference, ...]

    @property
    def is_variable(self) -> bool:
        return self.operator == VARIABLE


@dataclass(frozen=True, kw_only=True)
class Symbol:
    nodes: tuple[SymbolNode, ...]
    heads: tuple[Reference, ...]
    version: int


def read_symbol(path: Path) -> Symbol:
    """Raises ImportFailed for anything that is no MXNet symbol."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ImportFailed(f"{path}: too large, got {path.stat().st_size} bytes; expected at most {_MAX_BYTES}")
        text = path.read_bytes()
    except OSError as e:
        raise ImportFailed(f"{path}: cannot be read: {e.strerror}") from e
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as e:
        why = " ".join(str(e).split())
        raise ImportFailed(f"{path}: truncated, or no JSON: {why}", hint=_HINT) from e
    return _Reader(path).symbol(content)


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path

    def symbol(self, content: Any) -> Symbol:
        if not isinstance(content, dict) or "nodes" not in content or "heads" not in content:
            raise ImportFailed(f"{self._path}: no MXNet symbol; expected an object with nodes and heads", hint=_HINT)
        version = _version(content.get("attrs"))
        nodes: list[SymbolNode] = []
        places: list[int] = []
        for index, node in enumerate(self._list(content["nodes"], "nodes")):
            self._add(node, index, version, nodes, places)
        heads = [self._reference(h, "heads", places) for h in self._list(content["heads"], "heads")]
        if not heads:
            raise self._wrong("heads", "nothing", "at least one output")
        return Symbol(nodes=tuple(nodes), heads=tuple(heads), version=version)

    def _add(self, node: Any, index: int, version: int, nodes: list[SymbolNode], places: list[int]) -> None:
        """Append node `index` of the file; `places` says where the file's nodes are in `nodes`."""
        where = f"node {index}"
        if not isinstance(node, dict):
            raise self._wrong(where, type(node).__name__, "an object")
        operator, name = (self._text(node.get(key), f"{where}: {key}") for key in ("op", "name"))
        where = f"node {name!r}"
        inputs = [self._reference(r, f"{where}: inputs", places) for r in self._list(node.get("inputs", []), where)]
        attributes: dict[str, str] = {}
        for key in ("param", "attr", "attrs"):
            found = node.get(key) or {}
            if not isinstance(found, dict):
                raise self._wrong(f"{where}: {key}", type(found).__name__, "an object")
            attributes |= {k: self._text(v, f"{where}: {k}") for k, v in found.items()}
        if operator in _WITH_STATES and len(inputs) == _INPUTS_WITHOUT_STATES:
            for state in _STATES:
                inputs.append(Reference(node=len(nodes), output=0))
                nodes.append(SymbolNode(operator=VARIABLE, name=f"{name}_{state}", attributes={}, inputs=()))
        if version < 905 and operator in ("argmax", "argmin") and attributes.get("axis") == "-1":
            del attributes["axis"]  # it meant the whole array
        places.append(len(nodes))
        nodes.append(SymbolNode(operator=operator, name=name, attributes=attributes, inputs=tuple(inputs)))

    def _reference(self, found: Any, where: str, places: list[int]) -> Reference:
        numbers = self._list(found, where)
        if len(numbers) not in (2, 3) or not all(type(n) is int and 0 <= n < 2**31 for n in numbers):
            raise self._wrong(where, str(numbers)[:60], "node and output numbers")
        if numbers[0] >= len(places):
            raise self._wrong(where, f"a reference to node {numbers[0]}", "a node that stands before")
        return Reference(node=places[numbers[0]], output=numbers[1])

    def _list(self, found: Any, where: str) -> list[Any]:
        if not isinstance(found, list):
            raise self._wrong(where, type(found).__name__, "a list")
        return found

    def _text(self, found: Any, where: str) -> str:
        if not isinstance(found, str):
            raise self._wrong(where, type(found).__name__, "text")
        return found

    def _wrong(self, where: str, got: str, expected: str) -> ImportFailed:
        return ImportFailed(f"{self._path}: {where}, got {got}; expected {expected}", hint=_HINT)


def _version(attributes: Any) -> int:
    found = attributes.get("mxnet_version") if isinstance(attributes, dict) else None
    if isinstance(found, list) and len(found) == 2 and type(found[1]) is int:
        return found[1]
    return _UNKNOWN_VERSION
