"""Benchmark tables: shares and limits that can be worked out by hand, published numbers, and the script for pairs."""

import importlib.util
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from malisdk_pipeline.bench import network as network_module
from malisdk_pipeline.bench.models import NamedModel
from malisdk_pipeline.bench.network import Layer, Network, predict_network
from malisdk_pipeline.bench.pairs import ARCHIVE, SCRIPT
from malisdk_pipeline.bench.plots import write_plots
from malisdk_pipeline.bench.published import PUBLISHED, best_on_gpu
from malisdk_pipeline.bench.report import doubts, layers_table, published_table, summary_table, to_json
from malisdk_pipeline.errors import ConfigError
from malisdk_pipeline.oracle import NoData
from rich.console import Console

from onnx_models import model_of_text, random_array, save


def layer(*, flops: int, size_bytes: int, us: float | None, rule: str = "conv2d_1x1") -> Layer:
    return Layer(
        name="a_layer",
        workload=None,
        rule=rule,
        knobs={"pixels": 4},
        why="default",
        launches=1,
        registers=(16,),
        spills=0,
        fills=0,
        flops=flops,
        bytes=size_bytes,
        predicted_us=us,
        dtype="float32",
    )


def text(table: Any) -> str:
    console = Console(file=io.StringIO(), width=300, record=True)
    console.print(table)
    return console.export_text()


def test_layer_is_limited_by_the_longer_of_arithmetic_and_memory() -> None:
    heavy = layer(flops=46_000_000, size_bytes=730_000, us=2000.0)
    assert (heavy.compute_us, heavy.memory_us, heavy.roofline_us) == (1000.0, 100.0, 1000.0)
    assert heavy.limit == "compute" and heavy.gflops == 23.0
    light = layer(flops=0, size_bytes=7_300_000, us=1500.0)
    assert light.limit == "bandwidth" and light.roofline_us == 1000.0
    assert light.gb_s == pytest.approx(7300 / 1500)


def test_tables_say_what_is_predicted_and_what_is_measured() -> None:
    layers = (layer(flops=46_000_000, size_bytes=730_000, us=2000.0), layer(flops=0, size_bytes=730_000, us=None))
    net = Network(name="vgg16", dtype="float32", layers=layers, model="model 1")
    summary = text(summary_table([net]))
    assert "2.0 without 1 layers" in summary and "50 %" in summary and "679.5 (AutoTVM 2018-10)" in summary
    assert "predicted (model 1)" in text(layers_table(net))
    rows = text(published_table([net])).splitlines()
    assert any("malisdk" in row and "predicted" in row for row in rows)
    assert sum("measured" in row for row in rows) == len(PUBLISHED)
    (data,) = to_json([net])
    assert data["how"] == "predicted" and json.dumps(data)


def test_prediction_beyond_the_roofline_is_doubted_but_not_for_winograd() -> None:
    fast = layer(flops=46_000_000, size_bytes=0, us=500.0)
    net = Network(name="n", dtype="float32", layers=(fast,), model="m")
    assert doubts([net]) == ["n, float32: 1 layers are predicted 0.5 ms faster in all than the roofline"]
    winograd = layer(flops=46_000_000, size_bytes=0, us=500.0, rule="conv2d_winograd")
    assert doubts([Network(name="n", dtype="float32", layers=(winograd,), model="m")]) == []


def test_best_published_is_the_fastest_on_the_gpu() -> None:
    assert best_on_gpu("mobilenet_v1", "float16") == ("ncnn Vulkan, Android", 36.0)
    assert best_on_gpu("my_net", "float16") is None


def test_network_whose_kernels_have_no_data_is_reported_without_predictions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "g (float[1,8,6,6] x) => (float[1,8,6,6] y) { y = Conv<pads = [1, 1, 1, 1]>(x, w) }"
    model = save(model_of_text(body, opset=17, weights={"w": random_array((8, 8, 3, 3))}), tmp_path)

    def no_data(plan: Any, *_args: object, **_options: object) -> list[list[NoData]]:
        return [[NoData(name=k.name, reason="no compiler in this test")] for k in plan.kernels]

    monkeypatch.setattr(network_module, "plan_costs", no_data)
    net = predict_network(NamedModel(name="n", onnx=model), target="rk3399", dtype="float32", tuning=[], processes=1)
    assert net.without_prediction == len(net.layers) and net.flops == 2 * 8 * 8 * 9 * 36
    assert sum(found.launches for found in net.layers if found.flops) in (1, 3)


def test_plots_are_written_where_matplotlib_is_there(tmp_path: Path) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed: pip install 'malisdk-pipeline[bench]'")
    layers = (layer(flops=46_000_000, size_bytes=730_000, us=2000.0),)
    made = write_plots([Network(name="vgg16", dtype="float32", layers=layers, model="m")], tmp_path)
    assert [p.name for p in made] == ["roofline-float32.svg", "published-float32.svg"]
    assert all("<svg" in p.read_text() for p in made)


def test_script_for_pairs_prints_ratio_and_what_is_wrong(tmp_path: Path) -> None:
    content = tmp_path / "pairs"
    content.mkdir()
    (content / "pairs.json").write_text('{"models": ["net"], "dtype": "float32", "weight_bits": 24}')
    with tarfile.open(tmp_path / ARCHIVE, "w:xz") as archive:
        archive.add(content, arcname="pairs")
    script = Path(network_module.__file__).parent / "templates" / SCRIPT
    (tmp_path / SCRIPT).write_bytes(script.read_bytes())
    program = tmp_path / "malisdk"
    program.write_text(
        "#!/bin/sh\n"
        'case "$1 $2" in\n'
        '  "smoke "*.mali.mali) echo "random_0 output y relative error 1e-06 (limit 0.001) ok";;\n'
        '  "smoke "*) echo "random_0 output y relative error 0.5 (limit 0.001) WRONG"; exit 1;;\n'
        '  *.mali.mali) echo "latency     min 1.000  median 2.000  p95";;\n'
        '  *) echo "latency     min 4.000  median 5.000  p95";;\n'
        "esac\n"
    )
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, tmp_path / SCRIPT, "--malisdk", program, "--json", tmp_path / "results.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    row = done.stdout.splitlines()[2].split()
    assert row[0] == "net" and "right" in row and "WRONG" in row and row[-1] == "2.50"
    (result,) = json.loads((tmp_path / "results.json").read_text())["results"]
    assert result["mali"]["right"] and not result["plain"]["right"] and result["ratio"] == 2.5


def test_model_argument_that_is_no_model_is_refused(tmp_path: Path) -> None:
    from malisdk_pipeline.bench.models import find_model

    with pytest.raises(ConfigError, match="no such file"):
        find_model(str(tmp_path / "net.onnx"))
    with pytest.raises(ConfigError, match=r"no recipe\.json"):
        find_model(str(tmp_path))
