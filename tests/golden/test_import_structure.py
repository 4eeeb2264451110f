"""What the Relax module of an import looks like: what is folded, what is dropped, how things are called."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
import tvm_ffi
from malisdk_pipeline.errors import ConfigError
from malisdk_pipeline.importers import ImportedModel, import_onnx
from tvm import relax

from llvm_truth import run
from onnx_models import model_of_node, model_of_text, onnxruntime_answers, random_array, relative_error, save


def operators(imported: ImportedModel) -> Counter[str]:
    """Relax operators and called kernels of `main`, by name."""
    found: Counter[str] = Counter()

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.Call) and isinstance(expr.op, tvm.ir.Op):
            name = expr.op.name.removeprefix("relax.")
            found[expr.args[0].name_hint if name == "call_tir" else name] += 1

    for block in imported.mod["main"].body.blocks:
        for binding in block.bindings:
            visit(binding.value)
    return found


_NORM = {n: np.abs(random_array((4,), seed=i)) + 0.5 for i, n in enumerate("gbmv")}


def test_batch_norm_is_folded_into_the_convolution(tmp_path: Path) -> None:
    model = model_of_text(
        """g (float[1,3,5,5] x) => (float[1,4,5,5] y) {
             c = Conv<pads = [1,1,1,1]>(x, w)
             n = BatchNormalization(c, g, b, m, v)
             s = Mul(n, k)
             y = Relu(s)
           }""",
        opset=13,
        weights={"w": random_array((4, 3, 3, 3)), "k": random_array((4, 1, 1), seed=9), **_NORM},
    )
    imported = import_onnx(save(model, tmp_path))
    assert operators(imported) == {"nn.conv2d": 1, "add": 1, "nn.relu": 1}
    x = {"x": random_array((1, 3, 5, 5))}
    assert relative_error(run(imported, x)[0], onnxruntime_answers(model, x)[0]) < 1e-5


def test_batch_norm_is_folded_into_the_deconvolution(tmp_path: Path) -> None:
    model = model_of_text(
        """g (float[1,4,5,5] x) => (float[1,4,10,10] y) {
             c = ConvTranspose<strides = [2,2], group = 2>(x, w)
             y = BatchNormalization(c, g, b, m, v)
           }""",
        opset=13,
        weights={"w": random_array((4, 2, 2, 2)), **_NORM},
    )
    imported = import_onnx(save(model, tmp_path))
    assert operators(imported) == {"nn.conv2d_transpose": 1, "add": 1}
    x = {"x": random_array((1, 4, 5, 5))}
    assert relative_error(run(imported, x)[0], onnxruntime_answers(model, x)[0]) < 1e-5


def test_batch_norm_stays_where_the_convolution_has_another_reader(tmp_path: Path) -> None:
    model = model_of_text(
        """g (float[1,3,5,5] x) => (float[1,4,3,3] y, float[1,4,3,3] c) {
             c = Conv(x, w)
             y = BatchNormalization(c, g, b, m, v)
           }""",
        opset=13,
        weights={"w": random_array((4, 3, 3, 3)), **_NORM},
    )
    imported = import_onnx(save(model, tmp_path))
    assert operators(imported)["nn.conv2d"] == 1
    x = {"x": random_array((1, 3, 5, 5))}
    for found, wanted in zip(run(imported, x), onnxruntime_answers(model, x), strict=True):
        assert relative_error(found, wanted) < 1e-5


def test_identities_dropouts_and_dead_nodes_leave_nothing(tmp_path: Path) -> None:
    model = model_of_text(
        """g (float[1,3] x) => (float[1,3] y) {
             i = Identity(x)
             d = Dropout(i)
             dead = Exp(x)
             c = Cast<to = 1>(d)
             t = Transpose<perm = [0,1]>(c)
             r = Reshape(t, same)
             y = Relu(r)
           }""",
        opset=13,
        weights={"same": np.asarray([0, -1], np.int64)},
    )
    assert operators(import_onnx(save(model, tmp_path))) == {"nn.relu": 1}


def test_constants_are_computed_while_importing(tmp_path: Path) -> None:
    model = model_of_text(
        """g (float[2,3] x) => (float[2,3] y) {
             s = Shape(x)
             f = Cast<to = 1>(s)
             p = ReduceProd<keepdims = 0>(f)
             q = Softmax<axis = 0>(w)
             k = Mul(q, p)
             y = Mul(x, k)
           }""",
        opset=13,
        weights={"w": random_array((3,))},
    )
    assert operators(import_onnx(save(model, tmp_path))) == {"multiply": 1}


def test_max_pool_and_convolution_keep_the_operators_that_schedules_know(tmp_path: Path) -> None:
    model = model_of_text(
        """g (float[1,3,9,9] x) => (float[1,5] y) {
             c = Conv<strides = [2,2], pads = [1,1,1,1], group = 3>(x, w)
             r = Relu(c)
             m = MaxPool<kernel_shape = [3,3], strides = [2,2], ceil_mode = 1>(r)
             a = AveragePool<kernel_shape = [2,2]>(m)
             g0 = GlobalAveragePool(a)
             f = Flatten(g0)
             d = Gemm<transB = 1>(f, k, b)
             y = Softmax(d)
           }""",
        opset=13,
        weights={"w": random_array((3, 1, 3, 3)), "k": random_array((5, 3)), "b": random_array((5,))},
    )
    assert operators(import_onnx(save(model, tmp_path))) == {
        "nn.conv2d": 1,
        "nn.relu": 1,
        "nn.max_pool2d": 1,
        "nn.avg_pool2d": 1,
        "mean": 1,
        "reshape": 1,
        "matmul": 1,
        "add": 1,
        "nn.softmax": 1,
    }


@pytest.mark.parametrize("name", ["gpu_0/data_0", "Eingabe größe", "1st", "kernel", "a.b", "a b", "输入"])
def test_input_names_become_identifiers_and_stay_themselves_outside(name: str, tmp_path: Path) -> None:
    other = f"{name}_0"
    model = model_of_node("Add", {name: random_array((2, 3)), other: random_array((2, 3))}, opset=13)
    imported = import_onnx(save(model, tmp_path))
    assert [t.name for t in imported.inputs] == [name, other]
    names = [p.name for p in imported.mod["main"].params]
    assert all(re.fullmatch(r"input\d+(_[A-Za-z0-9_]+)?", n) for n in names) and len(set(names)) == 2
    kernel_names = [g.name_hint for g in imported.mod.get_global_vars()]
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", n) for n in kernel_names)


def test_outputs_cut_the_model(tmp_path: Path) -> None:
    """What lies behind the cut is not even looked at."""
    model = model_of_text(
        "g (float[2,3] x) => (int64[2,M] y) { a = Relu(x) b = Neg(a) y = NonZero(b) }",
        opset=13,
    )
    imported = import_onnx(save(model, tmp_path), outputs=["b", "a"])
    assert [t.name for t in imported.outputs] == ["b", "a"]
    with pytest.raises(ConfigError, match=r"no such tensor, got outputs=bb"):
        import_onnx(save(model, tmp_path), outputs=["bb"])


def test_external_weights_are_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "modèles 模型 (v1)"
    folder.mkdir()
    model = model_of_node("MatMul", {"x": random_array((2, 64))}, opset=13, weights={"w": random_array((64, 64))})
    onnx.save(model, folder / "a model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    monkeypatch.chdir(tmp_path)
    imported = import_onnx(Path(folder.name) / "a model.onnx")
    x = random_array((2, 64))
    inline = model_of_node("MatMul", {"x": x}, opset=13, weights={"w": random_array((64, 64))})
    assert relative_error(run(imported, {"x": x})[0], onnxruntime_answers(inline, {"x": x})[0]) < 1e-5


def test_the_same_file_gives_the_same_module(tmp_path: Path) -> None:
    model = model_of_node(
        "Conv", {"x": random_array((1, 3, 5, 5))}, opset=13, weights={"w": random_array((4, 3, 3, 3))}
    )
    path = save(model, tmp_path)
    first, second = import_onnx(path), import_onnx(path)
    assert tvm_ffi.structural_equal(first.mod, second.mod)
    assert first.sha256 == second.sha256
