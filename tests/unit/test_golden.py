"""Smoke cases: what onnxruntime answers to small models equals plain numpy, and bad input is explained."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from malisdk_pipeline.__main__ import main
from malisdk_pipeline.errors import ConfigError, ImportFailed
from malisdk_pipeline.golden import Case, Reference, write_cases
from onnx import TensorProto, helper, numpy_helper


def save(path: Path, nodes, inputs, outputs, constants=()) -> Path:
    def info(name, element, shape):
        return helper.make_tensor_value_info(name, element, shape)

    graph = helper.make_graph(
        nodes,
        "small",
        [info(*i) for i in inputs],
        [info(*o) for o in outputs],
        [numpy_helper.from_array(a, n) for n, a in constants],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3) / 7


def linear(path: Path, rows: int | str = 2) -> Path:
    """y = x W + table[i]."""
    nodes = [
        helper.make_node("MatMul", ["x:0", "w"], ["xw"]),
        helper.make_node("Gather", ["table", "i"], ["picked"]),
        helper.make_node("Add", ["xw", "picked"], ["y/out"]),
    ]
    table = np.arange(30, dtype=np.float32).reshape(10, 3)
    inputs = [("x:0", TensorProto.FLOAT, [rows, 4]), ("i", TensorProto.INT64, [rows])]
    return save(path, nodes, inputs, [("y/out", TensorProto.FLOAT, [rows, 3])], [("w", WEIGHT), ("table", table)])


def golden(*words: object) -> int:
    return main(["golden", *map(str, words)])


def test_golden_random_case_holds_what_numpy_computes(tmp_path, capsys):
    out = tmp_path / "cases"
    assert golden(linear(tmp_path / "m.onnx"), "--out", out) == 0
    assert capsys.readouterr().out == f"{out / 'random_0'}\n"
    assert json.loads((out / "random_0" / "case.json").read_text()) == {
        "inputs": ["x:0", "i"],
        "outputs": ["y/out"],
        "rtol": 1e-3,
        "top1": None,
        "image": None,
        "preprocess": None,
    }
    x, i, y = (np.load(out / "random_0" / f"{n}.npy") for n in ("input_0", "input_1", "expected_0"))
    assert (x.dtype, i.dtype, y.dtype) == (np.float32, np.int64, np.float32)
    assert i.min() >= 0
    assert i.max() < 10
    np.testing.assert_allclose(y, x @ WEIGHT + np.arange(30).reshape(10, 3)[i], rtol=1e-6)


def test_golden_of_a_half_model_allows_the_rounding_of_half(tmp_path):
    out = tmp_path / "cases"
    assert golden(linear(tmp_path / "m.onnx"), "--dtype", "float16", "--out", out) == 0
    limit = json.loads((out / "random_0" / "case.json").read_text())["rtol"]
    assert np.finfo(np.float16).eps < limit <= 2e-2


def test_golden_same_seed_same_bytes_other_seed_other_inputs(tmp_path):
    model = linear(tmp_path / "m.onnx")

    def files(name, seed):
        assert golden(model, "--seed", seed, "--out", tmp_path / name) == 0
        return {p.name: p.read_bytes() for p in (tmp_path / name / "random_0").iterdir()}

    first = files("a", 0)
    assert files("b", 0) == first
    assert files("c", 1)["input_0.npy"] != first["input_0.npy"]


def test_golden_random_floats_are_standard_normal(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    shape = [64, 64]
    model = save(tmp_path / "m.onnx", nodes, [("x", TensorProto.FLOAT, shape)], [("y", TensorProto.FLOAT, shape)])
    assert golden(model, "--out", tmp_path / "cases") == 0
    x = np.load(tmp_path / "cases/random_0/input_0.npy")
    assert abs(x.mean()) < 0.1
    assert abs(x.std() - 1) < 0.1


def test_golden_open_shape_takes_the_option(tmp_path):
    model = linear(tmp_path / "m.onnx", rows="N")
    assert golden(model, "--shape", "x:0:5,4", "--shape", "i:5", "--out", tmp_path / "cases") == 0
    assert np.load(tmp_path / "cases/random_0/expected_0.npy").shape == (5, 3)


def test_golden_open_shape_without_option_names_the_inputs(tmp_path, capsys):
    assert golden(linear(tmp_path / "m.onnx", rows="N"), "--out", tmp_path / "cases") == 2
    error = capsys.readouterr().err
    assert "m.onnx: input shape is not static, got x:0 [N,4]; i [N]" in error
    assert "--shape x:0:1,4 --shape i:1" in error
    assert not (tmp_path / "cases").exists()


@pytest.mark.parametrize(("extra", "message"), [("--seed=-1", "--seed, got -1"), ("--shape=4,4", "no input name")])
def test_golden_bad_option_is_a_config_error(tmp_path, capsys, extra, message):
    assert golden(linear(tmp_path / "m.onnx"), extra, "--out", tmp_path / "cases") == 2
    assert message in capsys.readouterr().err


def test_golden_missing_empty_foreign_or_truncated_model_is_refused(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    whole = linear(tmp_path / "whole.onnx").read_bytes()
    for data in (None, b"", b"not a model", b"\x89PNG\r\n\x1a\n", whole[: len(whole) // 2], whole[:-1]):
        if data is not None:
            path.write_bytes(data)
        assert golden(path, "--out", tmp_path / "cases") == 4
        error = capsys.readouterr().err
        assert error.count(str(path)) == 1, error
        assert "Traceback" not in error
        assert not (tmp_path / "cases").exists()


def test_golden_output_without_finite_values_is_refused(tmp_path):
    nodes = [helper.make_node("Log", ["x"], ["y"])]
    model = save(tmp_path / "m.onnx", nodes, [("x", TensorProto.FLOAT, [8])], [("y", TensorProto.FLOAT, [8])])
    reference = Reference(model, given_shapes={})
    with pytest.raises(ImportFailed, match="output y, got infinite or undefined"):
        reference.run({"x": -np.ones(8, np.float32)})
    np.testing.assert_allclose(reference.run({"x": np.full(8, np.e, np.float32)})["y"], np.ones(8), rtol=1e-6)


def test_golden_input_of_text_is_refused(tmp_path):
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    model = save(tmp_path / "m.onnx", nodes, [("x", TensorProto.STRING, [1])], [("y", TensorProto.STRING, [1])])
    with pytest.raises(ImportFailed, match=r"input x, got tensor\(string\)"):
        Reference(model, given_shapes={})


def test_write_cases_arrays_are_little_endian_c_order_npy_1_0_and_keep_rank_0(tmp_path):
    fortran = np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3))
    write_cases([Case(name="c", inputs={"a": fortran}, expected={"b": np.float32(3).reshape(())})], tmp_path / "out")
    data = (tmp_path / "out/c/input_0.npy").read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    assert b"'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)" in data
    assert data.endswith(np.arange(6, dtype="<f4").tobytes())
    assert np.load(tmp_path / "out/c/expected_0.npy").shape == ()


def test_write_cases_replaces_earlier_cases_and_nothing_else(tmp_path):
    case = Case(name="new", inputs={}, expected={})
    write_cases([Case(name="old", inputs={}, expected={})], tmp_path / "out")
    write_cases([case], tmp_path / "out")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["new"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="output folder holds something else"):
        write_cases([case], tmp_path / "mine")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine", "out"]
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"
