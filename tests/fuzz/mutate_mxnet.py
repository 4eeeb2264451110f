"""Sound MXNet models of many operators, and damage for them: to bytes, to the symbol's JSON, to attributes' texts."""

import json
import random
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

import old_formats
from mutate import damage_bytes

SYMBOL, PARAMS = "net-symbol.json", "net-0000.params"
INPUT_SHAPE = (1, 3, 8, 8)

# Layers on an image of 1 x 3 x 8 x 8, each of its own; "w" and "b" are parameters of the shapes given.
_LAYERS: dict[str, tuple[str, dict[str, str], dict[str, tuple[int, ...]]]] = {
    "deconvolution": (
        "Deconvolution",
        {"kernel": "(2, 2)", "stride": "(2, 2)", "num_filter": "4"},
        {"w": (3, 4, 2, 2)},
    ),
    "depthwise": (
        "Convolution",
        {"kernel": "(3, 3)", "num_filter": "3", "num_group": "3", "no_bias": "True"},
        {"w": (3, 1, 3, 3)},
    ),
    "full_pool": ("Pooling", {"kernel": "(3, 3)", "stride": "(2, 2)", "pooling_convention": "full"}, {}),
    "average_pool": ("Pooling", {"kernel": "(3, 3)", "pool_type": "avg", "pad": "(1, 1)"}, {}),
    "global_pool": ("Pooling", {"global_pool": "True", "pool_type": "avg", "kernel": "(1, 1)"}, {}),
    "prelu": ("LeakyReLU", {"act_type": "prelu"}, {"w": (3,)}),
    "leaky": ("LeakyReLU", {"act_type": "leaky", "slope": "0.2"}, {}),
    "reshape": ("Reshape", {"shape": "(0, -4, 1, -1, -2)"}, {}),
    "transpose": ("transpose", {"axes": "(0, 2, 3, 1)"}, {}),
    "slice": ("slice_axis", {"axis": "1", "begin": "0", "end": "2"}, {}),
    "pad": ("Pad", {"mode": "edge", "pad_width": "(0, 0, 0, 0, 1, 2, 1, 2)"}, {}),
    "mean": ("mean", {"axis": "(2, 3)", "keepdims": "True"}, {}),
    "norm": ("L2Normalization", {"mode": "channel"}, {}),
    "lrn": ("LRN", {"nsize": "3", "alpha": "0.001"}, {}),
    "upsampling": ("UpSampling", {"scale": "2", "sample_type": "nearest", "num_args": "1"}, {}),
    "scalar": ("_mul_scalar", {"scalar": "0.5"}, {}),
    "clip": ("clip", {"a_min": "0", "a_max": "6"}, {}),
    "expand": ("expand_dims", {"axis": "2"}, {}),
    "tile": ("tile", {"reps": "(1, 2, 1, 1)"}, {}),
    "softmax": ("softmax", {"axis": "1"}, {}),
    "dense": ("FullyConnected", {"num_hidden": "6"}, {"w": (6, 192), "b": (6,)}),
}


def corpus() -> list[tuple[str, dict[str, bytes]]]:
    """Sound models by name: symbol and parameters."""
    found = [(f"mxnet layer {name}", _of_layer(*layer)) for name, layer in _LAYERS.items()]
    for name, (key, reference, version, states, layout) in old_formats.OLD_CASES.items():
        text = old_formats.symbol_text(key, reference=reference, version=version, states=states)
        params = old_formats.params_bytes(old_formats.example_params(), layout)
        found.append((f"mxnet {name}", {SYMBOL: text.encode(), PARAMS: params}))
    return found


def _of_layer(operator: str, attributes: dict[str, str], shapes: dict[str, tuple[int, ...]]) -> dict[str, bytes]:
    nodes: list[dict[str, Any]] = [{"op": "null", "name": name, "inputs": []} for name in ("data", *shapes)]
    inputs = [[i, 0, 0] for i in range(len(nodes))]
    nodes.append({"op": operator, "name": "layer", "attrs": attributes, "inputs": inputs})
    symbol = {"nodes": nodes, "arg_nodes": list(range(len(inputs))), "heads": [[len(inputs), 0, 0]]}
    rng = np.random.default_rng(1)
    arrays = {f"arg:{n}": rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    return {SYMBOL: json.dumps(symbol).encode(), PARAMS: old_formats.params_bytes(arrays, 2)}


def damage(model: dict[str, bytes], rng: random.Random) -> dict[str, bytes]:
    """The model with one of its files damaged, or without its parameters."""
    files = dict(model)
    match rng.randrange(8):
        case 0:
            files[SYMBOL] = damage_bytes(files[SYMBOL], rng)
        case 1:
            files[PARAMS] = damage_bytes(files[PARAMS], rng)
        case 2:
            files[PARAMS] = _damage_numbers(files[PARAMS], rng)
        case 3 if rng.random() < 0.2:
            del files[PARAMS]
        case _:
            content = json.loads(files[SYMBOL])
            for _ in range(rng.choice((1, 1, 2, 4))):
                _damage_json(content, rng)
            files[SYMBOL] = json.dumps(content).encode()
    return files


def _damage_numbers(data: bytes, rng: random.Random) -> bytes:
    """A count, extent or type among the headers made another number."""
    damaged = bytearray(data)
    at = rng.randrange(max(min(len(data), 80) - 8, 1))
    width = rng.choice(("<i", "<q"))
    limit = 2**31 if width == "<i" else 2**63
    number = rng.choice((0, 1, -1, 3, 255, 2**20, limit - 1, -limit, limit // 2))
    struct.pack_into(width, damaged, at, number)
    return bytes(damaged)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = range(len(value)) if isinstance(value, list) else list(value) if isinstance(value, dict) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _damage_json(content: Any, rng: random.Random) -> None:
    places = list(_places(content))
    if not places:
        return
    holder, key = rng.choice(places)
    value = holder[key]
    match rng.randrange(4):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 0:
            holder.pop(key)
        case 1:
            other, where = rng.choice(places)
            holder[key] = json.loads(json.dumps(other[where]))
        case 2 if isinstance(holder, list):
            holder.insert(key, json.loads(json.dumps(value)))
        case _:
            holder[key] = _other(value, rng)


def _other(value: Any, rng: random.Random) -> Any:
    numbers = (0, -1, 1, 2, 7, 10**6, 2**31, 2**63, 10**30, 0.5, -0.0)
    if isinstance(value, int):
        return rng.choice((*numbers, value + rng.choice((-1, 1)), True, None, "0", []))
    if isinstance(value, str):
        number = rng.choice(numbers)
        texts = (
            f"{number}",
            f"({number}, {number})",
            f"({number},)",
            "()",
            "None",
            "(3,",
            "nan",
            "",
            "x" * 5000,
            "True",
        )
        names = ("data", "layer", "conv_weight", "Convolution", "Reshape", "Concat", "SliceChannel", "dot", "\u0000")
        return rng.choice((*texts, *names))
    return rng.choice((None, {}, [], "text", *numbers))
