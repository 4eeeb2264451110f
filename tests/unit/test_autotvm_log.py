"""AutoTVM's logs in both spellings, and what is said of files that are none."""

import json

import pytest
from malisdk_pipeline.errors import ConfigError
from malisdk_pipeline.tuning.autotvm import Workload, read_log

ENTITY = [["tile_co", "sp", [4, 2, 4]], ["yt", "ot", 8], ["ann_reduce", "an", ["unroll", "none"]]]
DATA, WEIGHT = ["TENSOR", [1, 3, 8, 8], "float32"], ["TENSOR", [32, 3, 3, 3], "float32"]
NEW = {
    "input": ["opencl", "conv2d_nchw_spatial_pack.mali", [DATA, WEIGHT, [2, 2], [1, 0, 1, 0], [1, 1], "float32"], {}],
    "config": {"index": 1, "code_hash": None, "entity": ENTITY},
    "result": [[0.001, 0.003], 0, 1.5, 1538219132.0],
}


def old(task, template, arguments):
    return {
        "i": ["opencl", task, arguments, {}, [], {"i": 1, "t": template, "c": None, "e": ENTITY}],
        "r": NEW["result"],
    }


def write(tmp_path, *records):
    path = tmp_path / "tophub.log"
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records))
    return path


def test_new_records_are_read(tmp_path):
    (record,) = read_log(write(tmp_path, NEW))
    assert (record.line, record.operator, record.dtype) == (1, "conv2d_nchw_spatial_pack", "float32")
    assert record.workload == Workload(
        data=(1, 3, 8, 8), weight=(32, 3, 3, 3), dtype="float32", stride=(2, 2), pad=(1, 0, 1, 0), dilation=(1, 1)
    )
    assert record.knobs == {"tile_co": (4, 2, 4), "yt": 8, "ann_reduce": ("unroll", "none")}
    assert record.time_s == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("task", "template", "operator"),
    [
        ("topi_nn_conv2d", "direct", "conv2d_nchw_spatial_pack"),
        ("topi_nn_conv2d", "winograd", "conv2d_nchw_winograd"),
        ("topi_nn_depthwise_conv2d_nchw", "direct", "depthwise_conv2d_nchw"),
    ],
)
def test_old_records_mean_the_same(tmp_path, task, template, operator):
    arguments = [DATA, WEIGHT, [2, 2], [1, 0], [1, 1], "NCHW", "float32"]
    oldest = [DATA, WEIGHT, [2, 2], [1, 0], "NCHW", "float32"]
    first, second = read_log(write(tmp_path, old(task, template, arguments), "", old(task, template, oldest)))
    assert (first.operator, second.line) == (operator, 3)
    assert first.workload == second.workload == read_log(write(tmp_path, NEW))[0].workload


def test_one_number_stands_for_both_axes(tmp_path):
    arguments = [DATA, WEIGHT, 2, 1, 1, "NCHW", "float32"]
    (record,) = read_log(write(tmp_path, old("topi_nn_conv2d", "direct", arguments)))
    w = record.workload
    assert (w.stride, w.pad, w.dilation) == ((2, 2), (1, 1, 1, 1), (1, 1))


def test_records_of_arm_cpus_are_told_apart(tmp_path):
    target = "llvm -device=arm_cpu -model=rk3399 -mattr=+neon"
    made = {**NEW, "input": [target, "conv2d_nchw_spatial_pack.arm_cpu", NEW["input"][2], {}]}
    before = {**old("topi_nn_conv2d", "direct", [DATA, WEIGHT, [1, 1], [1, 1], [1, 1], "NCHW", "float32"])}
    before["i"][0] = target
    records = read_log(write(tmp_path, made, before, NEW))
    assert [r.device for r in records] == ["arm_cpu", "arm_cpu", "mali"]
    assert {r.operator for r in records} == {"conv2d_nchw_spatial_pack"}


def test_dense_has_no_stride(tmp_path):
    arguments = [["TENSOR", [1, 64], "float16"], ["TENSOR", [10, 64], "float16"], ["TENSOR", [10], "float16"], None]
    (record,) = read_log(write(tmp_path, old("topi_nn_dense", "direct", arguments)))
    assert record.workload == Workload(data=(1, 64), weight=(10, 64), dtype="float16")


def test_failed_configurations_are_passed_over(tmp_path):
    assert read_log(write(tmp_path, {**NEW, "result": [[1e9], 4, 1.5, 1.0]})) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not json", "tophub.log:2: no AutoTVM record"),
        ("{}", "tophub.log:2: no AutoTVM record"),
        (json.dumps({**NEW, "result": [[0.0], 0, 1, 1]}), "no AutoTVM record"),
        (
            json.dumps({**NEW, "input": ["opencl", "conv3d.cuda", NEW["input"][2], {}]}),
            "unknown operator, got conv3d.cuda",
        ),
        (json.dumps(old("topi_nn_conv2d", "direct", [DATA, WEIGHT, [1, 1], [1, 1], [1, 1], "NHWC"])), "layout NHWC"),
        (
            json.dumps(NEW).replace(".mali", ".cuda"),
            "unknown operator, got conv2d_nchw_spatial_pack.cuda; expected one of",
        ),
        (json.dumps(NEW).replace("float32", "int8"), "unknown dtype, got int8; expected one of float32, float16"),
    ],
)
def test_what_is_no_record_is_named_with_its_line(tmp_path, line, message):
    with pytest.raises(ConfigError, match=message):
        read_log(write(tmp_path, NEW, line))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"tophub\.log: cannot be read"):
        read_log(tmp_path / "tophub.log")
