"""Files as older MXNets wrote them, by writers of our own after the published formats.

`param` with two-number references and no states for BatchNorm (0.5 to 0.8), `attr` (0.9 to 0.12), `attrs` (1.x);
arrays without a magic number (v0), v1, v2.
"""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
LAYERS = [
    ("null", "data", {}, []),
    ("null", "conv_weight", {}, []),
    ("null", "conv_bias", {}, []),
    ("Convolution", "conv", {"kernel": "(3,3)", "num_filter": "4", "pad": "(1,1)", "stride": "(2L, 2L)"}, [0, 1, 2]),
    ("null", "bn_gamma", {}, []),
    ("null", "bn_beta", {}, []),
    ("BatchNorm", "bn", {"fix_gamma": "False", "momentum": "0.9"}, [3, 4, 5]),
    ("Activation", "relu", {"act_type": "relu"}, [6]),
    ("Pooling", "pool", {"kernel": "(2,2)", "pool_type": "max", "stride": "(2,2)"}, [7]),
    ("Flatten", "flat", {}, [8]),
    ("null", "fc_weight", {}, []),
    ("null", "fc_bias", {}, []),
    ("FullyConnected", "fc", {"num_hidden": "5", "no_bias": "False"}, [9, 10, 11]),
    ("null", "softmax_label", {}, []),
    ("SoftmaxOutput", "softmax", {"grad_scale": "1"}, [12, 13]),
]
_WITH_STATES = {"bn": ["bn_moving_mean", "bn_moving_var"]}


def symbol_text(key: str, *, reference: int, version: int | None, states: bool) -> str:
    """The network of LAYERS: attributes under `key`, references of 2 or 3 numbers, states as inputs or left out."""
    nodes: list[dict[str, Any]] = []
    places: list[int] = []
    for operator, name, attributes, inputs in LAYERS:
        references = [places[i] for i in inputs]
        for state in _WITH_STATES.get(name, []) if states else []:
            references.append(len(nodes))
            nodes.append({"op": "null", "name": state, "inputs": []})
        node: dict[str, Any] = {"op": operator, "name": name, "inputs": [[r, 0, 0][:reference] for r in references]}
        if attributes or key == "param":
            node[key] = attributes
        if key == "param":
            node["backward_source_id"] = -1
        places.append(len(nodes))
        nodes.append(node)
    content: dict[str, Any] = {
        "nodes": nodes,
        "arg_nodes": [i for i, n in enumerate(nodes) if n["op"] == "null"],
        "heads": [[len(nodes) - 1, 0, 0][:reference]],
    }
    if version is not None:
        content["attrs"] = {"mxnet_version": ["int", version]}
    return json.dumps(content, indent=2)


_FLAGS = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6}


def params_bytes(arrays: Arrays, layout: int) -> bytes:
    """A parameter file whose arrays are of layout 0, 1 or 2."""
    out = [struct.pack("<QQQ", 0x112, 0, len(arrays))]
    for array in arrays.values():
        if layout == 0:
            out.append(struct.pack(f"<I{array.ndim}I", array.ndim, *array.shape))
        elif layout == 1:
            out.append(struct.pack(f"<II{array.ndim}q", 0xF993FAC8, array.ndim, *array.shape))
        else:
            out.append(struct.pack(f"<IiI{array.ndim}q", 0xF993FAC9, 0, array.ndim, *array.shape))
        out.append(struct.pack("<iii", 1, 0, _FLAGS[str(array.dtype)]))
        out.append(np.ascontiguousarray(array).tobytes())
    out.append(struct.pack("<Q", len(arrays)))
    out += [struct.pack("<Q", len(name)) + name.encode() for name in arrays]
    return b"".join(out)


def example_params() -> Arrays:
    """Parameters of LAYERS for an input of 1 x 3 x 8 x 8."""
    rng = np.random.RandomState(3)

    def weight(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 0.5).astype(np.float32)

    return {
        "arg:conv_weight": weight(4, 3, 3, 3),
        "arg:conv_bias": weight(4),
        "arg:bn_gamma": rng.uniform(0.5, 1.5, 4).astype(np.float32),
        "arg:bn_beta": weight(4),
        "arg:fc_weight": weight(5, 16),
        "arg:fc_bias": weight(5),
        "aux:bn_moving_mean": weight(4),
        "aux:bn_moving_var": rng.uniform(0.5, 1.5, 4).astype(np.float32),
    }


# name: (key of attributes, numbers of a reference, version, states are inputs, layout of arrays)
OLD_CASES = {
    "0_5": ("param", 2, None, False, 0),
    "0_8": ("param", 2, None, True, 0),
    "0_9": ("attr", 3, 905, True, 0),
    "0_12": ("attr", 3, 1200, True, 1),
    "1_2": ("attrs", 3, 10200, True, 2),
    "mixed": ("attrs", 3, 10500, True, 1),
}


def write_old_case(folder: Path, name: str) -> Arrays:
    """Write the model's two files; returns its inputs."""
    key, reference, version, states, layout = OLD_CASES[name]
    text = symbol_text(key, reference=reference, version=version, states=states)
    (folder / "net-symbol.json").write_text(text)
    (folder / "net-0000.params").write_bytes(params_bytes(example_params(), layout))
    return {"data": np.random.RandomState(4).standard_normal((1, 3, 8, 8)).astype(np.float32)}
