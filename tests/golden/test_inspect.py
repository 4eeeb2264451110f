"""`inspect` of models: counts that can be worked out by hand, and every problem at once."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from malisdk_pipeline.__main__ import main
from malisdk_pipeline.importers.survey import survey_onnx

import old_formats
from onnx_models import model_of_node, model_of_text, random_array, save


def survey(model: onnx.ModelProto, folder: Path, **given: Any) -> Any:
    return survey_onnx(save(model, folder), **{"shapes": {}, "outputs": None, **given})


@pytest.mark.parametrize(
    ("op", "x", "weights", "attributes", "multiply_adds"),
    [
        ("Conv", (1, 3, 8, 8), [(8, 3, 3, 3)], {"pads": [1] * 4}, 8 * 8 * 8 * 27),
        ("Conv", (1, 4, 8, 8), [(8, 1, 3, 3)], {"group": 4, "strides": [2, 2], "pads": [1] * 4}, 8 * 4 * 4 * 9),
        ("ConvTranspose", (1, 4, 5, 5), [(4, 2, 3, 3)], {"strides": [2, 2], "group": 2}, 4 * 25 * 2 * 9),
        ("Gemm", (2, 5), [(7, 5)], {"transB": 1}, 2 * 7 * 5),
        ("Gemm", (5, 2), [(5, 7)], {"transA": 1}, 2 * 7 * 5),
        ("MatMul", (3, 2, 5), [(5, 7)], {}, 3 * 2 * 5 * 7),
        ("Einsum", (3, 2, 5), [(5, 7)], {"equation": "bij,jk->bik"}, 3 * 2 * 5 * 7),
        ("Einsum", (3, 2, 5), [(4, 5)], {"equation": "...i,ki->...k"}, 3 * 2 * 5 * 4),
        ("LSTM", (6, 2, 5), [(1, 16, 5), (1, 16, 4)], {"hidden_size": 4}, 6 * 2 * 16 * (5 + 4)),
        ("Relu", (3, 4), [], {}, 0),
    ],
)
def test_multiply_adds_of_a_node(
    op: str, x: Any, weights: list[Any], attributes: dict[str, Any], multiply_adds: int, tmp_path: Path
) -> None:
    arrays = {f"w{i}": random_array(shape) for i, shape in enumerate(weights)}
    found = survey(model_of_node(op, {"x": random_array(x)}, opset=13, weights=arrays, **attributes), tmp_path)
    assert found.findings == ()
    assert found.multiply_adds == multiply_adds
    assert found.parameters == sum(a.size for a in arrays.values())
    assert found.parameter_bytes == 4 * found.parameters


def test_composite_operator_counts_the_products_in_it(tmp_path: Path) -> None:
    """Attention is opened into two products of (4 x 6) x (6 x 4) and (4 x 4) x (4 x 6), for 2 heads."""
    feeds = {name: random_array((1, 2, 4, 6)) for name in "qkv"}
    found = survey(model_of_node("Attention", feeds, opset=23), tmp_path)
    (operator,) = found.operators
    assert (operator.operator, operator.nodes, operator.states) == ("Attention", 1, {"gpu": 1})
    assert operator.multiply_adds == 2 * (2 * 4 * 6 * 4)


def test_states_of_nodes_and_ports(tmp_path: Path) -> None:
    body = """g (float[2,3] x, float[2,3] z) => (float[2,3] y, int64[N] n) {
        shape = Shape(x)
        two = Constant <value_int: int = 2> ()
        n = NonZero(x)
        more = Cast <to = 1> (n)
        flat = Reshape(x, shape)
        y = Add(flat, z)
    }"""
    found = survey(model_of_text(body, opset=13), tmp_path)
    states = {o.operator: dict(o.states) for o in found.operators}
    assert states == {"Add": {"gpu": 1}, "Reshape": {"gpu": 1}, "Shape": {"build": 1}, "NonZero": {"refused": 1}}
    assert [(p.name, p.dtype, p.shape) for p in found.outputs] == [("y", "float32", (2, 3)), ("n", "int64", ("N",))]
    assert [f.where for f in found.findings] == ["node 'n' (NonZero)"]


def test_open_shape_hides_no_unsupported_operator(tmp_path: Path) -> None:
    body = """g (float[N,3] x) => (float[N,3] y, int64[M] u) {
        t = Abs(x)
        u = NonZero(t)
        v = com.example.Twist(t)
        y = Add(t, v)
    }"""
    model = model_of_text(body, opset=13, domains=', "com.example": 2')
    found = survey(model, tmp_path)
    assert [f.where for f in found.findings] == ["node 'u' (NonZero)", "node 'v' (Twist)", "input 'x'"]
    assert found.findings[-1].hint == "give it, for example --shape x:1,3"
    assert {o.operator: dict(o.states) for o in found.operators}["Add"] == {"unreached": 1}
    assert found.domains == {"com.example": 2}
    given = survey(model, tmp_path, shapes={"x": (4, 3)}, outputs=["t"])
    assert given.findings == ()
    assert given.outputs[0].shape == (4, 3)


def test_command_prints_the_report_then_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "g (float[2,3] x) => (float[2,3] y) { y = Twist(x) }"
    path = save(model_of_text(body, opset=13), tmp_path)
    assert main(["inspect", str(path), "--json"]) == 4
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["operators"] == [{"operator": "Twist", "nodes": 1, "refused": 1, "multiply_adds": 0}]
    assert [f["where"] for f in found["findings"]] == ["node 'y' (Twist)"]
    assert "node 'y' (Twist): the operator is unknown in opset 13" in said.err
    assert main(["inspect", str(path)]) == 4
    assert "Twist                             1               0  not supported" in capsys.readouterr().out


def test_sound_model_exits_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = model_of_node(
        "Conv", {"x": np.ones((1, 1, 4, 4), np.float32)}, opset=13, weights={"w": random_array((2, 1, 3, 3))}
    )
    assert main(["inspect", str(save(model, tmp_path))]) == 0
    out = capsys.readouterr().out
    assert "work    72 multiply-adds" in out
    assert "weights 18 numbers, 72 bytes" in out


@pytest.mark.parametrize(
    ("name", "words", "code", "message"),
    [
        ("model.onnx", ["--kernels"], 2, "only a .mali file has kernels"),
        ("model.mali", ["--shape", "x:1"], 2, "--shape and --cut are for models"),
        ("model.onnx", ["--shape", "y:1,2"], 2, "no such input"),
        ("model.onnx", ["--cut", "z"], 2, "no such tensor"),
    ],
)
def test_options_of_the_other_kind_are_refused(refused, tmp_path, name, words, code, message) -> None:
    save(model_of_text("g (float[2] x) => (float[2] y) { y = Abs(x) }", opset=13), tmp_path, name)
    assert message in refused("inspect", name, *words, code=code)


def test_damaged_model_exits_4(refused, tmp_path) -> None:
    path = save(model_of_text("g (float[2] x) => (float[2] y) { y = Abs(x) }", opset=13), tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    assert "truncated, or no ONNX model" in refused("inspect", path.name, code=4)


def test_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    path = save(model_of_node("Abs", {"x": random_array((2,))}, opset=13), tmp_path)
    words = [sys.executable, "-m", "malisdk_pipeline", "inspect", str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.parametrize("name", ["net", "net-symbol.json", "net-0000.params"])
def test_mxnet_model_by_any_of_its_names(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old_formats.write_old_case(tmp_path, "0_9")
    assert main(["inspect", str(tmp_path / name), "--shape", "data:1,3,8,8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["producer"] == "MXNet"
    assert found["layers"]["Convolution"] == 1
    assert found["multiply_adds"] == 4 * 4 * 4 * 27 + 5 * 16
    assert [p["shape"] for p in found["outputs"]] == [[1, 5]]


def test_mxnet_model_without_a_shape_says_which_to_give(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old_formats.write_old_case(tmp_path, "1_2")
    assert main(["inspect", str(tmp_path / "net")]) == 4
    said = capsys.readouterr()
    assert "1 Convolution" in said.out
    assert "variable 'data'" in said.err and "--shape data:1,3,224,224" in said.err
