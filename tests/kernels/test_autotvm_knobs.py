"""Models compiled with an AutoTVM log: layers with a record get its knobs, all others the usual rules; answers stay."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from kernel_cases import Cases, differences, reference
from malisdk_pipeline import container
from malisdk_pipeline.compile import build_model
from malisdk_pipeline.errors import ConfigError

SPLITS: dict[str, Any] = {"tile_co": [2, 2, 4], "tile_oh": [8, 1, 1], "tile_ow": [1, 2, 4]}


def line(task: str, weight: list[int], knobs: list[list[Any]], time_s: float = 0.001, **given: Any) -> str:
    data = given.get("data", [1, 8, 8, 8])
    arguments = [["TENSOR", data, "float32"], ["TENSOR", weight, "float32"], [1, 1], [1, 1], [1, 1], "NCHW", "float32"]
    return json.dumps(
        {
            "input": ["opencl -model=rk3399 -device=mali", f"{task}.mali", arguments, {}],
            "config": {"index": 1, "code_hash": None, "entity": knobs},
            "result": [[time_s], 0, 1.0, 1.0],
            "version": 0.2,
        }
    )


def spatial_pack(time_s: float = 0.001, **splits: Any) -> str:
    knobs = [[name, "sp", sizes] for name, sizes in (SPLITS | splits).items()]
    knobs += [
        ["reorder_0", "re", list(range(10))],
        ["ann_reduce", "an", ["unroll", "unroll"]],
        ["ann_spatial", "an", ["unroll", "unroll", "vec"]],
    ]
    return line("conv2d_nchw_spatial_pack", [16, 8, 3, 3], knobs, time_s)


def depthwise() -> str:
    knobs = [["tile_c", "sp", [4, 4, 1]], ["tile_y", "sp", [4, 2, 1]], ["tile_x", "sp", [1, 2, 4]]]
    knobs += [["ann_spatial", "an", ["unroll", "unroll", "vec"]]]
    return line("depthwise_conv2d_nchw", [16, 1, 3, 3], knobs, data=[1, 16, 8, 8])


@pytest.fixture
def cases() -> Cases:
    """The recorded convolution with a bias and relu, a depthwise one, a 1x1 without a record, and a sum of two."""
    cases = Cases(seed=3)
    x = cases.input((1, 8, 8, 8))
    first = cases.node("Relu", cases.node("Conv", x, cases.weight((16, 8, 3, 3)), cases.weight((16,)), pads=[1] * 4))
    second = cases.node("Conv", first, cases.weight((16, 1, 3, 3)), cases.weight((16,)), pads=[1] * 4, group=16)
    third = cases.node("Conv", second, cases.weight((12, 16, 1, 1)))
    cases.output("sum", cases.node("Add", first, second))
    cases.output("pointwise", third)
    return cases


def compiled(cases: Cases, folder: Path, *lines: str) -> Path:
    onnx.save(cases.model(), folder / "m.onnx")
    (folder / "tophub.log").write_text("\n".join(lines))
    return build_model(folder / "m.onnx", out=folder / "m.mali", autotvm_log=folder / "tophub.log")


@pytest.mark.parametrize("lines", [[spatial_pack()], [depthwise()], [spatial_pack(), depthwise()]], ids=len)
def test_answers_stay_right(lines: list[str], cases: Cases, tmp_path: Path, malisdk: Any) -> None:
    path = compiled(cases, tmp_path, *lines)
    with malisdk.load(path, cache_dir="") as model:
        got = {name: np.array(array) for name, array in model.run(cases.feeds).items()}
    assert differences(got, reference(cases.model(), cases.feeds), 1e-5) == []


def test_a_matching_layer_gets_the_rule_and_the_others_do_not(
    cases: Cases, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = container.read(compiled(cases, tmp_path, spatial_pack()))
    (sums,) = [x for x in plan.launches if x.rule == "conv2d_spatial_pack" and x.flops]
    # work-items: 16 channels in fours, 8 rows, 8 columns in fours
    assert (sums.global_size, plan.kernels[sums.kernel].local_size) == ((2, 8, 4), (2, 1, 2))
    assert sums.flops == 2 * 16 * 8 * 9 * 64
    assert {"depthwise_conv2d", "conv2d_1x1"} <= {x.rule for x in plan.launches}
    assert "tophub.log: its knobs are used for 1 of 3 convolutions" in capsys.readouterr().err


def test_the_fastest_record_counts(cases: Cases, tmp_path: Path) -> None:
    lines = [spatial_pack(0.003), spatial_pack(0.001, tile_co=[1, 1, 16]), spatial_pack(0.002)]
    plan = container.read(compiled(cases, tmp_path, *lines))
    (sums,) = [x for x in plan.launches if x.rule == "conv2d_spatial_pack" and x.flops]
    assert sums.global_size == (2, 8, 1)


def test_knobs_that_do_not_fit_are_passed_over_with_a_warning(
    cases: Cases, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = container.read(compiled(cases, tmp_path, spatial_pack(tile_oh=[3, 1, 1])))
    assert "conv2d_spatial_pack" not in {x.rule for x in plan.launches}
    assert "tophub.log: record passed over: conv2d_spatial_pack: knobs do not fit" in capsys.readouterr().err


def test_a_file_that_is_no_log_is_named_with_its_line(cases: Cases, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tophub\.log:2: no AutoTVM record"):
        compiled(cases, tmp_path, spatial_pack(), "{")
