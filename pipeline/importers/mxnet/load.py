"""A symbol and its parameters become an ONNX model: find, read, cut, convert layer by layer."""

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from ... import __version__, files
from ...errors import ConfigError
from ..findings import Finding, Unsupported, raise_findings
from ..types import element_type
from . import registry
from .attributes import Attributes
from .emitter import IR_VERSION, OPSET, Emitter, Node, Tensor, fill
from .files import find_files
from .params import StoredArray, read_params
from .symbol import Reference, Symbol, SymbolNode, read_symbol

# Type flags that a variable's __dtype__ may hold.
_DTYPES = {"0": "float32", "1": "float32", "2": "float32", "3": "uint8", "4": "int32", "5": "int8", "6": "int64"}
_TO_FLOAT32 = ("float16", "float64", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """`model` holds what could be converted, with `findings` saying why something could not; `sha256` is of all files.

    `operators` are those of the symbol itself, one for each layer that the outputs need.
    """

    model: onnx.ModelProto
    findings: tuple[Finding, ...]
    operators: tuple[str, ...]
    sha256: str


def load_mxnet(path: Path, *, shapes: Mapping[str, tuple[int, ...]], outputs: Sequence[str] | None = None) -> Loaded:
    """The model at `path`: a symbol, its parameters or their prefix.

    `shapes` are the shapes of all inputs, which a symbol does not hold; `outputs` cuts it at these layers. Raises
    ImportFailed with everything that is wrong or not supported, by name; ConfigError for names that do not fit.
    """
    loaded = survey_mxnet(path, shapes=shapes, outputs=outputs)
    raise_findings(path, list(loaded.findings))
    return loaded


def survey_mxnet(path: Path, *, shapes: Mapping[str, tuple[int, ...]], outputs: Sequence[str] | None = None) -> Loaded:
    """As load_mxnet, but what a layer cannot do is in the result, not raised."""
    found = find_files(path)
    symbol = read_symbol(found.symbol)
    params = read_params(found.params) if found.params is not None else {}
    conversion = _Conversion(path, symbol, params, shapes, without_params=found.params is None)
    model = conversion.run(_heads(path, symbol, outputs))
    digests = [files.sha256(f) for f in (found.symbol, found.params) if f is not None]
    return Loaded(
        model=model,
        findings=tuple(conversion.findings),
        operators=tuple(conversion.operators),
        sha256=hashlib.sha256("".join(digests).encode()).hexdigest(),
    )


def _heads(path: Path, symbol: Symbol, outputs: Sequence[str] | None) -> list[Reference]:
    """What the model computes: the symbol's heads, or the outputs asked for by layer or tensor name."""
    if outputs is None:
        return list(dict.fromkeys(symbol.heads))
    if not outputs:
        raise ConfigError(f"{path}: outputs name no tensor; expected at least one")
    known: dict[str, Reference] = {}
    for index, node in enumerate(symbol.nodes):
        for name in (node.name, f"{node.name}_output", f"{node.name}_output0"):
            known.setdefault(name, Reference(node=index, output=0))
    heads = []
    for name in outputs:
        layer, _, number = name.rpartition("_output")
        if name in known:
            heads.append(known[name])
        elif layer in known and number.isascii() and number.isdecimal() and len(number) < 5:
            heads.append(Reference(node=known[layer].node, output=int(number)))
        else:
            near = difflib.get_close_matches(name, [n.name for n in symbol.nodes], 1)
            raise ConfigError(
                f"{path}: no such layer, got outputs={name}; expected the name of a layer, or with _output behind it",
                hint=f"did you mean {near[0]}?" if near else None,
            )
    return list(dict.fromkeys(heads))


def _where(node: SymbolNode) -> str:
    return f"variable {node.name!r}" if node.is_variable else f"node {node.name!r} ({node.operator})"


class _Conversion:
    """One run over the layers that the heads need; findings collect, and what depends on them is left out."""

    def __init__(
        self,
        path: Path,
        symbol: Symbol,
        params: Mapping[str, StoredArray],
        shapes: Mapping[str, tuple[int, ...]],
        *,
        without_params: bool,
    ) -> None:
        self._path = path
        self._symbol = symbol
        self._params = params
        self._shapes = shapes
        self._without_params = without_params
        self._emitter = Emitter()
        self._values: dict[int, list[Tensor] | None] = {}
        self._inputs: list[Tensor] = []
        self.findings: list[Finding] = []
        self.operators: list[str] = []

    def run(self, heads: Sequence[Reference]) -> onnx.ModelProto:
        needed, as_weight = self._needed(heads)
        self._check_shapes(needed)
        for index in needed:
            node = self._symbol.nodes[index]
            try:
                if node.is_variable:
                    self._values[index] = [self._variable(node, is_weight=index in as_weight)]
                else:
                    self.operators.append(node.operator)
                    self._values[index] = self._layer(node)
            except Unsupported as e:
                self.findings.append(Finding(where=_where(node), text=str(e), hint=e.hint))
                self._values[index] = None
            except Exception as e:  # numpy and onnx raise many kinds; each must end as this node's refusal
                text = f"cannot be converted: {type(e).__name__}: {' '.join(str(e).split())[:200]}"
                self.findings.append(Finding(where=_where(node), text=text))
                self._values[index] = None
        return self._model(heads)

    def _needed(self, heads: Sequence[Reference]) -> tuple[list[int], set[int]]:
        """Nodes that the heads depend on, in order; and which of them are read as parameters only."""
        wanted = {head.node for head in heads}
        as_data, as_weight = set(wanted), set[int]()
        for index in reversed(range(len(self._symbol.nodes))):
            if index not in wanted:
                continue
            node = self._symbol.nodes[index]
            entry = registry.find(node.operator)
            uses = len(node.inputs) if entry is None or entry.uses is None else entry.uses
            for position, reference in enumerate(node.inputs[:uses]):
                wanted.add(reference.node)
                is_weight = entry is not None and position in entry.weights
                (as_weight if is_weight else as_data).add(reference.node)
        return sorted(wanted), as_weight - as_data

    def _check_shapes(self, needed: Sequence[int]) -> None:
        """Raises ConfigError if a shape is given for something that is no input."""
        names = {self._symbol.nodes[i].name for i in needed if self._symbol.nodes[i].is_variable} - set(self._params)
        for name in self._shapes:
            if name not in names:
                near = difflib.get_close_matches(name, sorted(names), 1)
                known = ", ".join(sorted(names))[:200]
                raise ConfigError(
                    f"{self._path}: no such input, got --shape {name}; expected one of {known}",
                    hint=f"did you mean {near[0]}?" if near else None,
                )

    def _variable(self, node: SymbolNode, *, is_weight: bool) -> Tensor:
        attributes = Attributes(node.attributes)
        name = self._emitter.unique(node.name)
        if (stored := self._params.get(node.name)) is not None:
            if not all(stored.shape):
                raise Unsupported(f"has shape {stored.shape}; expected no empty dimension")
            if str(stored.dtype) in _TO_FLOAT32:
                return Tensor(
                    name=name,
                    shape=stored.shape,
                    dtype="float32",
                    load=lambda: stored.read().astype(np.float32),
                )
            return Tensor(name=name, shape=stored.shape, dtype=str(stored.dtype), load=stored.read)
        shape = self._shapes.get(node.name)
        if shape is None and is_weight:
            raise self._missing_parameter()
        shape = shape or attributes.integers("__shape__", ())
        if not shape or any(e < 1 for e in shape):
            raise Unsupported(
                "has no shape, got an MXNet symbol, which holds none for inputs; expected one for each",
                hint=f"give it, for example --shape {node.name}:1,3,224,224 (scons: shape={node.name}:1,3,224,224)",
            )
        dtype = _DTYPES.get(attributes.text("__dtype__", "0"), "float32")
        tensor = Tensor(name=name, shape=tuple(shape), dtype=dtype)
        self._inputs.append(tensor)
        return tensor

    def _missing_parameter(self) -> Unsupported:
        if self._without_params:
            text = "is a parameter that is missing; there is no .params file beside the symbol"
            return Unsupported(text, hint="put net-0000.params beside net-symbol.json")
        hint = "give the .params file of the same network"
        if not self._params.keys() & {n.name for n in self._symbol.nodes}:
            hint += "; gluon's save_parameters writes other names than a symbol has, export writes both files"
        return Unsupported("is a parameter that is missing; the .params file does not hold it", hint=hint)

    def _layer(self, node: SymbolNode) -> list[Tensor] | None:
        if (why := registry.refusal(node.operator)) is not None:
            raise why
        entry = registry.find(node.operator)
        assert entry is not None
        uses = len(node.inputs) if entry.uses is None else entry.uses
        inputs = []
        for reference in node.inputs[:uses]:
            values = self._values[reference.node]
            if values is None:
                return None
            if reference.output >= len(values):
                of = self._symbol.nodes[reference.node].name
                raise Unsupported(f"reads output {reference.output} of {of!r}, which is made in training only")
            inputs.append(values[reference.output])
        attributes = Attributes(node.attributes)
        self._emitter.begin(node.name)
        found = entry.convert(
            self._emitter,
            Node(name=node.name, operator=node.operator, inputs=tuple(inputs), attributes=attributes),
        )
        if unread := attributes.unread():
            raise Unsupported(
                f"attribute {unread[0]}, got {node.attributes[unread[0]][:80]}; expected none of this name"
            )
        results = [found] if isinstance(found, Tensor) else list(found)
        suffixes = [""] if len(results) == 1 else [str(i) for i in range(len(results))]
        return self._emitter.rename(results, [f"{node.name}_output{s}" for s in suffixes])

    def _model(self, heads: Sequence[Reference]) -> onnx.ModelProto:
        """The ONNX model of everything that was converted; `heads` that were not are left out."""
        outputs: dict[str, Tensor] = {}
        for head in heads:
            values = self._values[head.node]
            name = self._symbol.nodes[head.node].name
            if values is None:
                continue
            if head.output >= len(values):
                text = f"has {len(values)} outputs, got output {head.output}"
                self.findings.append(Finding(where=f"node {name!r}", text=text))
                continue
            tensor = values[head.output]
            if tensor.name in outputs or tensor.load is not None or tensor in self._inputs:
                self._emitter.begin(name)
                tensor = self._emitter.rename([self._emitter.emit("Identity", tensor)], [f"{name}_output"])[0]
            outputs[tensor.name] = tensor
        graph = helper.make_graph(
            self._emitter.nodes,
            "main",
            [helper.make_tensor_value_info(t.name, element_type(t.dtype), t.shape) for t in self._inputs],
            [helper.make_tensor_value_info(t.name, element_type(t.dtype), t.shape) for t in outputs.values()],
        )
        model = helper.make_model(
            graph,
            producer_name="malisdk",
            producer_version=__version__,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        for tensor in self._emitter.initializers.values():
            fill(model.graph.initializer.add(), tensor)
        return model
