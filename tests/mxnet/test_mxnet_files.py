"""Which files a model is made of, and what damaged, foreign or incomplete ones are answered with. Needs no MXNet."""

import json
import os
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from malisdk_pipeline.errors import ConfigError, ImportFailed, MaliSdkError
from malisdk_pipeline.importers.mxnet import is_mxnet, load_mxnet
from malisdk_pipeline.importers.mxnet.params import read_params

from old_formats import example_params, params_bytes, symbol_text
from onnx_models import onnxruntime_answers, relative_error

# Models of public bug reports with inputs and answers, kept beside the project; MALISDK_CASES names another folder.
REPORTS = Path(os.environ.get("MALISDK_CASES", Path(__file__).parents[3] / "shared" / "cases"))
SHAPES = {"data": (1, 3, 8, 8)}
TEXT = symbol_text("attrs", reference=3, version=10500, states=True)
ARRAYS = example_params()


@pytest.fixture
def net(tmp_path: Path) -> Path:
    (tmp_path / "net-symbol.json").write_text(TEXT)
    (tmp_path / "net-0000.params").write_bytes(params_bytes(ARRAYS, 2))
    return tmp_path / "net-symbol.json"


def refusal(path: Path, shapes: dict[str, tuple[int, ...]] | None = None, **more: Any) -> str:
    with pytest.raises(MaliSdkError) as caught:
        load_mxnet(path, shapes=SHAPES if shapes is None else shapes, **more)
    assert isinstance(caught.value, (ImportFailed, ConfigError))
    return str(caught.value)


def change(net: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(TEXT)
    edit(content)
    net.write_text(json.dumps(content))


def node(content: dict[str, Any], name: str) -> dict[str, Any]:
    return next(n for n in content["nodes"] if n["name"] == name)


def test_model_is_named_by_symbol_parameters_or_prefix(net: Path) -> None:
    models = []
    for name in ("net-symbol.json", "net-0000.params", "net"):
        assert is_mxnet(net.with_name(name))
        models.append(load_mxnet(net.with_name(name), shapes=SHAPES))
    assert len({m.model.SerializeToString(deterministic=True) for m in models}) == 1
    assert not is_mxnet(net.with_name("gone")) and not is_mxnet(net.with_name("net.onnx"))


def test_highest_epoch_is_taken_unless_one_is_named(net: Path) -> None:
    net.with_name("net-0012.params").write_bytes(params_bytes(ARRAYS | {"arg:fc_bias": np.ones(5, "f4")}, 2))
    net.with_name("net-other-0099.params").write_bytes(b"")
    sums = []
    for name in ("net-symbol.json", "net-0000.params", "net-0012.params"):
        model = load_mxnet(net.with_name(name), shapes=SHAPES).model
        (bias,) = [t for t in model.graph.initializer if t.name == "fc_bias"]
        sums.append(float(np.frombuffer(bias.raw_data, "f4").sum()))
    assert sums[0] == sums[2] == 5 != sums[1]


@pytest.mark.parametrize("layout", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "int32", "int8", "int64"])
def test_arrays_of_every_layout_and_type_are_read(layout: int, dtype: str, tmp_path: Path) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    path = tmp_path / "a.params"
    path.write_bytes(params_bytes({"arg:a": array, "aux:b": array[0, 0].copy()}, layout))
    found = read_params(path)
    assert list(found) == ["a", "b"]
    assert found["a"].dtype == array.dtype and np.array_equal(found["a"].read(), array)


def test_half_parameters_compute_in_float32(net: Path) -> None:
    halves = {name: array.astype(np.float16) for name, array in ARRAYS.items()}
    net.with_name("net-0000.params").write_bytes(params_bytes(halves, 2))
    model = load_mxnet(net, shapes=SHAPES).model
    assert {t.data_type for t in model.graph.initializer if not t.name.endswith("const")} == {1}


def test_sparse_array_is_refused(tmp_path: Path) -> None:
    data = bytearray(params_bytes({"arg:a": np.ones((2, 2), "f4")}, 2))
    data[28:32] = struct.pack("<i", 1)
    (tmp_path / "a.params").write_bytes(data)
    with pytest.raises(ImportFailed, match=r"array 0 is sparse, got row_sparse; expected dense"):
        read_params(tmp_path / "a.params")


def test_parameters_cut_anywhere_are_refused(tmp_path: Path) -> None:
    whole = params_bytes({"arg:a": np.ones((2, 3), "f4"), "aux:b": np.ones(2, "i1")}, 2)
    for size in range(len(whole)):
        (tmp_path / "a.params").write_bytes(whole[:size])
        with pytest.raises(ImportFailed, match=r"a\.params: "):
            read_params(tmp_path / "a.params")


@pytest.mark.parametrize(
    ("offset", "form", "value"),
    [(16, "<Q", 2**63), (32, "<I", 2**31 - 1), (36, "<q", 2**62), (36, "<q", -1), (60, "<i", 99)],
    ids=["arrays", "rank", "extent", "negative", "type"],
)
def test_absurd_sizes_are_refused_without_memory(tmp_path: Path, offset: int, form: str, value: int) -> None:
    data = bytearray(params_bytes({"arg:a": np.ones((2, 3), "f4")}, 2))
    struct.pack_into(form, data, offset, value)
    (tmp_path / "a.params").write_bytes(data)
    tracemalloc.start()
    with pytest.raises(ImportFailed, match="damaged: "):
        read_params(tmp_path / "a.params")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_symbol_cut_anywhere_is_refused(net: Path) -> None:
    for size in range(0, len(TEXT.rstrip()), 37):
        net.write_text(TEXT[:size])
        assert "truncated, or no JSON" in refusal(net)


@pytest.mark.parametrize(
    "text", ["[]", "{}", "3", '{"nodes": 1, "heads": []}', '{"nodes": [], "heads": []}', "[" * 9999]
)
def test_json_that_is_no_symbol_is_refused(net: Path, text: str) -> None:
    net.write_text(text)
    assert "net-symbol.json: " in refusal(net)


def test_cycle_is_refused(net: Path) -> None:
    change(net, lambda c: node(c, "conv")["inputs"].__setitem__(0, [len(c["nodes"]) - 1, 0, 0]))
    assert "node 'conv': inputs, got a reference to node" in refusal(net)


def test_missing_parameters_are_all_named(net: Path) -> None:
    kept = {n: a for n, a in ARRAYS.items() if n not in ("arg:conv_weight", "aux:bn_moving_var")}
    net.with_name("net-0000.params").write_bytes(params_bytes(kept, 2))
    said = refusal(net)
    assert "variable 'conv_weight': is a parameter that is missing" in said and "'bn_moving_var'" in said
    net.with_name("net-0000.params").unlink()
    assert "there is no .params file beside the symbol" in refusal(net)


def test_parameters_under_gluons_own_names_are_explained(net: Path) -> None:
    renamed = {f"features.{i}.weight": a for i, a in enumerate(ARRAYS.values())}
    net.with_name("net-0000.params").write_bytes(params_bytes(renamed, 2))
    assert "save_parameters writes other names" in refusal(net)


def test_input_without_shape_says_how_to_give_it(net: Path) -> None:
    said = refusal(net, shapes={})
    assert "'data'" in said and "--shape data:1,3,224,224" in said and "shape=data:1,3,224,224" in said


def test_shape_of_something_else_is_refused(net: Path) -> None:
    assert "did you mean data?" in refusal(net, shapes={"dat": (1, 3, 8, 8)})


def test_shapes_that_do_not_fit_are_refused_by_node(net: Path) -> None:
    assert "node 'conv' (Convolution): weight of shape (4, 3, 3, 3); expected (4, 5, 3, 3)" in refusal(
        net, shapes={"data": (1, 5, 8, 8)}
    )
    assert "node 'fc' (FullyConnected): weight of shape (5, 16)" in refusal(net, shapes={"data": (1, 3, 16, 8)})
    assert "node 'conv' (Convolution): " in refusal(net, shapes={"data": (3, 8)})


def test_every_refused_operator_is_reported_by_node(net: Path) -> None:
    def edit(content: dict[str, Any]) -> None:
        node(content, "relu")["op"] = "ROIPooling"
        content["nodes"].append({"op": "_contrib_MultiBoxDetection", "name": "boxes", "inputs": [[3, 0, 0]] * 3})
        content["heads"].append([len(content["nodes"]) - 1, 0, 0])

    change(net, edit)
    said = refusal(net)
    assert "node 'relu' (ROIPooling): this MXNet operator is not supported" in said
    assert "node 'boxes' (_contrib_MultiBoxDetection): chooses among boxes" in said and "outputs=" in said


def test_model_is_cut_before_a_refused_operator(net: Path) -> None:
    change(net, lambda c: node(c, "flat").update(op="ROIPooling"))
    for name in ("pool", "pool_output"):
        model = load_mxnet(net, shapes=SHAPES, outputs=[name]).model
        assert [o.name for o in model.graph.output] == ["pool_output"]
    assert "did you mean pool?" in refusal(net, outputs=["poool"])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"kernel": "(3"}, "attribute kernel, got (3; expected an integer"),
        ({"kernel": "(9999999999999999999,3)"}, "attribute kernel"),
        ({"num_filter": "-4"}, "expected a divisor of 3 and -4"),
        ({"num_group": "0"}, "attribute num_group, got 0"),
        ({"dilate": "(0,0)"}, "node 'conv' (Convolution): "),
        ({"stride": "(0,0)"}, "node 'conv' (Convolution): "),
        ({"pad": "(1000000000,1000000000)"}, "node 'conv' (Convolution): "),
        ({"layout": "NHWC"}, "attribute layout, got NHWC; expected NCHW or None"),
        ({"no_bias": "maybe"}, "attribute no_bias, got maybe; expected True or False"),
        ({"no_such": "1"}, "attribute no_such, got 1; expected none of this name"),
    ],
)
def test_wrong_attribute_is_refused(net: Path, attributes: dict[str, str], message: str) -> None:
    change(net, lambda c: node(c, "conv")["attrs"].update(attributes))
    assert message in refusal(net)


def test_reading_needs_no_more_memory_than_twice_the_file(tmp_path: Path) -> None:
    """Measured in a process of its own, beside one that reads a small model."""
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from malisdk_pipeline.importers.mxnet import load_mxnet\n"
        "load_mxnet(Path(sys.argv[1]), shapes={'data': (1, int(sys.argv[2]))})\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))\n"
    )
    nodes = [{"op": "null", "name": name, "inputs": []} for name in ("data", "w", "b")]
    nodes.append({"op": "FullyConnected", "name": "fc", "inputs": [[i, 0, 0] for i in range(3)], "attrs": {}})
    peaks = []
    for i, width in enumerate((16, 4096)):
        nodes[3]["attrs"] = {"num_hidden": str(width)}
        (tmp_path / f"n{i}-symbol.json").write_text(json.dumps({"nodes": nodes, "heads": [[3, 0, 0]]}))
        weights = {"arg:w": np.ones((width, width), "f4"), "arg:b": np.ones(width, "f4")}
        (tmp_path / f"n{i}-0000.params").write_bytes(params_bytes(weights, 2))
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / f"n{i}-symbol.json"), str(width)],
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        peaks.append(int(done.stdout) * 1024)
    size = (tmp_path / "n1-0000.params").stat().st_size
    assert peaks[1] - peaks[0] <= 2.05 * size


def _reports() -> list[Path]:
    folders = sorted(REPORTS.iterdir()) if REPORTS.is_dir() else []
    return [folder for folder in folders if any(folder.glob("*-symbol.json"))]


@pytest.mark.skipif(not _reports(), reason=f"no MXNet model folders in {REPORTS}")
@pytest.mark.parametrize("folder", _reports(), ids=lambda folder: folder.name)
def test_reported_model_is_right_or_refused(folder: Path) -> None:
    (path,) = folder.glob("*-symbol.json")
    feeds = dict(np.load(folder / "inputs.npz"))
    shapes = {name: array.shape for name, array in feeds.items()}
    if path.stem.startswith("must_refuse"):
        refusal(path, shapes=shapes)
        return
    found = onnxruntime_answers(load_mxnet(path, shapes=shapes).model, feeds)
    for ours, theirs in zip(found, np.load(folder / "expected.npz").values(), strict=True):
        assert relative_error(ours, theirs) <= 1e-5


def test_batch_norm_with_another_number_of_inputs_is_refused(net: Path) -> None:
    change(net, lambda c: node(c, "bn")["inputs"].pop())
    assert "node 'bn' (BatchNorm): has 4 inputs; expected data, gamma, beta" in refusal(net)


def test_command_line_says_one_error(refused: Callable[..., str], net: Path) -> None:
    assert "'data': has no shape, got an MXNet symbol" in refused("convert", net, "--out", "a.onnx", code=4)
    net.with_name("net-0000.params").write_bytes(b"\x12\x01")
    assert "no MXNet parameters" in refused("convert", net, "--shape", "data:1,3,8,8", "--out", "a.onnx", code=4)
