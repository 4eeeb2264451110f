"""The same model gives the same bytes, in any process and whatever order Python's sets take."""

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper


@pytest.fixture
def network(tmp_path):
    """A small network of every rule with a residual, a concatenation and equal weights."""
    random = np.random.default_rng(1)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(random.standard_normal(shape, dtype=np.float32), name)

    weights = [
        weight("w1", 8, 3, 3, 3),
        weight("w2", 8, 8, 1, 1),
        weight("w3", 8, 1, 3, 3),
        weight("w4", 16, 12),
        weight("b", 8),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "w2"], ["p"]),
        helper.make_node("Conv", ["p", "w3"], ["d"], pads=[1] * 4, group=8),
        helper.make_node("Conv", ["d", "w2"], ["q"]),
        helper.make_node("Add", ["q", "r"], ["s"]),
        helper.make_node("Concat", ["s", "p"], ["c"], axis=1),
        helper.make_node("GlobalAveragePool", ["c"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "w4"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 12])],
        weights,
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_two_processes_write_the_same_bytes(network, tmp_path, dtype):
    files = []
    for seed in ("1", "77"):
        out = tmp_path / f"seed {seed}" / "net.mali"
        subprocess.run(
            [sys.executable, "-m", "malisdk_pipeline", "compile", str(network), "--target", "rk3399", "--dtype", dtype,
             "--out", str(out)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            timeout=300,
            check=True,
        )  # fmt: skip
        files.append(out.read_bytes())
    assert files[0] == files[1]
