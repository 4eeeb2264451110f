"""Pairs of compiled models, ours and plain TVM's, with cases and a script: a folder to be run where there is a GPU.

The machine with the GPU needs the runtime (`malisdk`, libmalisdk.so) and Python, nothing of this pipeline.
"""

import json
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from .. import files, golden, log
from ..compile import build_model
from ..errors import ConfigError
from ..targets import SCHEDULES
from .models import NamedModel

ARCHIVE = "pairs.tar.xz"
SCRIPT = "run_pairs.py"
_FACTS = "pairs.json"
# Small tensors (biases) cost nothing and matter more.
_LEAST_ROUNDED = 1024


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """`weight_bits` rounds weights to that many significant bits, so that the archive compresses; 24 changes none."""

    target: str
    dtype: str
    weight_bits: int = 24


def write_pairs(models: Sequence[NamedModel], out: Path, options: PairOptions) -> None:
    """Write the folder, whole or not at all; raises what compiling raises."""
    if not 2 <= options.weight_bits <= 24:
        raise ConfigError(f"--weight-bits: got {options.weight_bits}; expected 2 to 24")
    with files.atomic_folder(out, marker=ARCHIVE) as folder:
        content = folder / "pairs"
        content.mkdir()
        for model in models:
            with log.step(f"pair of {model.name}"):
                _write_pair(model, content, options)
        facts = {"models": [m.name for m in models], "dtype": options.dtype, "weight_bits": options.weight_bits}
        (content / _FACTS).write_text(json.dumps(facts, indent=2) + "\n")
        # a quick preset, since numbers gain little from more
        with log.step("compress"), tarfile.open(folder / ARCHIVE, "w:xz", preset=1) as archive:
            archive.add(content, arcname="pairs")
        shutil.rmtree(content)
        shutil.copyfile(Path(__file__).parent / "templates" / SCRIPT, folder / SCRIPT)


def _write_pair(model: NamedModel, content: Path, options: PairOptions) -> None:
    source = content / f"{model.name}.onnx"
    proto = onnx.load(model.onnx)
    round_weights(proto, options.weight_bits)
    source.write_bytes(proto.SerializeToString(deterministic=True))
    for schedules in SCHEDULES:
        out = content / f"{model.name}.{schedules}.mali"
        build_model(source, options.target, options.dtype, None, out, schedules=schedules)
    cases = golden.make_cases(golden.Reference(source, given_shapes={}), folder=None, seed=0)
    golden.write_cases(cases, content / f"{model.name}.cases", dtype=options.dtype)
    source.unlink()


def round_weights(model: onnx.ModelProto, bits: int) -> None:
    """Round the float32 weights of a model in place to `bits` significant bits, the leading one among them."""
    if bits >= 24:
        return
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        array = numpy_helper.to_array(tensor)
        if array.size < _LEAST_ROUNDED:
            continue
        mantissa, exponent = np.frexp(array)
        rounded = np.ldexp(np.round(mantissa * 2.0**bits) / 2.0**bits, exponent).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(rounded, tensor.name))
