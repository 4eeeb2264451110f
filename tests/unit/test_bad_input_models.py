"""Models that cannot be compiled, on the command line: the exit code, the message, and no file."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

Shape = list[int | str] | None


def write_model(
    path: Path, nodes: list[onnx.NodeProto], *, x: Shape, weights: tuple[onnx.TensorProto, ...] = ()
) -> bytes:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        list(weights),
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path.read_bytes()


def relu(path: Path, *, x: Shape) -> bytes:
    return write_model(path, [helper.make_node("Relu", ["x"], ["y"], name="act")], x=x)


@pytest.fixture
def compile_refused(refused, tmp_path: Path):
    def run(*words: object, code: int, model: str = "net.onnx") -> str:
        return refused("compile", model, "--target", "rk3399", "--out", tmp_path / "net.mali", *words, code=code)

    return run


def test_missing_file_is_named(compile_refused) -> None:
    said = compile_refused(code=4)
    assert said == "net.onnx: no such file\nhint: give the path of an .onnx file\n"


def test_empty_truncated_and_foreign_files_are_told_apart_from_models(compile_refused, tmp_path: Path) -> None:
    weight = onnx.numpy_helper.from_array(np.ones(1000, np.float32), "w")
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    whole = write_model(tmp_path / "net.onnx", nodes, x=[1000], weights=(weight,))
    for data, message in (
        (b"", "net.onnx: the file is empty; expected an ONNX model"),
        (whole[:-100], "net.onnx: truncated, or no ONNX model: its"),
        (b"hello world\n", "net.onnx: truncated, or no ONNX model: its 12 bytes do not parse"),
        # Sound protobuf of another kind.
        (
            onnx.OperatorSetIdProto(domain="net", version=3).SerializeToString(),
            "net.onnx: no ONNX model; expected a graph",
        ),
    ):
        (tmp_path / "net.onnx").write_bytes(data)
        said = compile_refused(code=4)
        assert said.startswith(message) and "\nhint: export the model again, or copy the whole file\n" in said


def test_folder_is_no_model(compile_refused, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").mkdir()
    assert "net.onnx: not a file, got a folder or device" in compile_refused(code=4)


def test_symbolic_shape_says_which_and_how_to_give_it(compile_refused, tmp_path: Path) -> None:
    relu(tmp_path / "net.onnx", x=["batch", 3, "height", 8])
    said = compile_refused(code=2)
    assert said.startswith("net.onnx: input shape is not static, got x [batch,3,height,8]; expected positive integers")
    assert said.endswith("hint: give it, for example --shape x:1,3,1,8 (scons: shape=x:1,3,1,8)\n")


def test_shape_that_does_not_fit_is_refused(compile_refused, tmp_path: Path) -> None:
    relu(tmp_path / "net.onnx", x=["batch", 3, 8, 8])
    assert "--shape contradicts the model, got x [1,4,8,8] for" in compile_refused("--shape", "x:1,4,8,8", code=2)
    assert "hint: did you mean x?" in compile_refused("--shape", "xx:1,3,8,8", code=2)
    assert "extents of x, got '1,three'" in compile_refused("--shape", "x:1,three", code=2)


def test_all_unsupported_operators_are_named_at_once(compile_refused, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Fancy", ["x"], ["a"], name="first", domain="my.ops"),
        helper.make_node("StringConcat", ["a", "a"], ["b"], name="second"),
        helper.make_node("Relux", ["x"], ["c"], name="third"),
        helper.make_node("NonZero", ["x"], ["d"], name="fourth"),
        helper.make_node("Concat", ["b", "c", "d"], ["y"], name="last", axis=0),
    ]
    write_model(tmp_path / "net.onnx", nodes, x=[1, 4])
    said = compile_refused(code=4)
    assert said.startswith("net.onnx: 4 problems\n")
    for word in ("'first' (Fancy): ", "'second' (StringConcat): ", "'third' (Relux): ", "'fourth' (NonZero): "):
        assert f"\n  node {word}" in said
    assert "'last'" not in said
    assert "hint: end the model before such nodes with --cut TENSOR" in said


def test_unknown_tensor_to_cut_at_suggests_the_nearest(compile_refused, tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["hidden"]), helper.make_node("Abs", ["hidden"], ["y"])]
    write_model(tmp_path / "net.onnx", nodes, x=[1, 4])
    assert "hint: did you mean hidden?" in compile_refused("--cut", "hiden", code=2)


@pytest.mark.parametrize("out", ["folder", "file/net.mali"])
def test_output_that_cannot_be_written_is_refused(refused, tmp_path: Path, out: str) -> None:
    relu(tmp_path / "net.onnx", x=[1, 4])
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    said = refused("compile", "net.onnx", "--target", "host", "--out", out, code=2 if out == "folder" else 7)
    assert said.startswith(f"{out}: ") and "hint: " in said
