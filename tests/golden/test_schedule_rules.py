"""Which rule schedules which operator, and that rules decline what is not theirs."""

import onnx
import pytest
from malisdk_pipeline.compile import compile_model
from malisdk_pipeline.errors import ScheduleError
from malisdk_pipeline.schedules.apply import schedule
from malisdk_pipeline.schedules.base import work_group
from malisdk_pipeline.schedules.facts import Conv2dFacts
from malisdk_pipeline.schedules.mali import RULES
from malisdk_pipeline.schedules.mali.batch_matmul import BatchMatmul, MatmulFacts
from malisdk_pipeline.schedules.mali.conv2d_1x1 import Conv2d1x1
from malisdk_pipeline.schedules.mali.conv2d_direct import Conv2dDirect
from malisdk_pipeline.schedules.mali.conv2d_spatial_pack import Conv2dSpatialPack, SpatialPackKnobs
from malisdk_pipeline.schedules.mali.conv2d_transpose import Conv2dTranspose, Conv2dTransposeFacts
from malisdk_pipeline.schedules.mali.conv2d_winograd import Conv2dWinograd
from malisdk_pipeline.schedules.mali.conv2d_winograd_nchw import Conv2dWinogradNchw, WinogradKnobs
from malisdk_pipeline.schedules.mali.dense import Dense, DenseFacts
from malisdk_pipeline.schedules.mali.depthwise_conv2d import DepthwiseConv2d
from malisdk_pipeline.schedules.mali.depthwise_conv2d_nchw import DepthwiseConv2dNchw, DepthwiseKnobs
from malisdk_pipeline.schedules.mali.grouped_conv2d import GroupedConv2d
from malisdk_pipeline.schedules.mali.softmax import Softmax, SoftmaxFacts
from malisdk_pipeline.targets import TARGETS, find_target
from onnx import TensorProto, helper
from tvm import te

FACTS = Conv2dFacts(
    batch=1, in_channels=8, in_height=6, in_width=8, out_channels=8, kernel=(3, 3), stride=(1, 1), pad=(1, 1, 1, 1),
    dilation=(1, 1), groups=1, dtype="float32",
)  # fmt: skip
POINTWISE = Conv2dFacts(
    batch=1, in_channels=8, in_height=6, in_width=8, out_channels=8, kernel=(1, 1), stride=(1, 1), pad=(0, 0, 0, 0),
    dilation=(1, 1), groups=1, dtype="float32",
)  # fmt: skip
DEPTHWISE = Conv2dFacts(
    batch=1, in_channels=8, in_height=6, in_width=8, out_channels=8, kernel=(3, 3), stride=(1, 1), pad=(1, 1, 1, 1),
    dilation=(1, 1), groups=8, dtype="float32",
)  # fmt: skip
GROUPED = Conv2dFacts(
    batch=1, in_channels=8, in_height=6, in_width=8, out_channels=8, kernel=(3, 3), stride=(1, 1), pad=(1, 1, 1, 1),
    dilation=(1, 1), groups=2, dtype="float32",
)  # fmt: skip
TRANSPOSED = Conv2dTransposeFacts(
    batch=1, in_channels=8, in_height=6, in_width=8, out_channels=8, kernel=(4, 4), stride=(2, 2), pad=(1, 1, 1, 1),
    output_padding=(0, 0), groups=1, dtype="float32",
)  # fmt: skip
MATMUL = MatmulFacts(
    batch=2, rows=6, reduced=8, columns=8, out=(2, 6, 8), shared=False, packed=False, dtype="float32"
)  # fmt: skip


_SPLITS = {"tile_co": (1, 2, 4), "tile_oh": (6, 1, 1), "tile_ow": (1, 2, 4)}
_SPATIAL_PACK = SpatialPackKnobs(**_SPLITS, channels_first=True, reduce=("none",) * 2, spatial=("unroll",) * 3)
_WINOGRAD = WinogradKnobs(tile=2, bna=4, bnb=4, t1=2, t2=4, c_unroll=2, yt=2)
_DEPTHWISE = DepthwiseKnobs(tile_c=(4, 2, 1), tile_y=(6, 1, 1), tile_x=(1, 2, 4), annotation="vec")
IN_NCHW = {
    "conv2d_spatial_pack": (Conv2dSpatialPack, FACTS, _SPATIAL_PACK, (2, 8, 3, 3, 4)),
    "conv2d_winograd_nchw": (Conv2dWinogradNchw, FACTS, _WINOGRAD, (4, 4, 2, 8, 4)),
    "depthwise_conv2d_nchw": (DepthwiseConv2dNchw, DEPTHWISE, _DEPTHWISE, (8, 1, 3, 3)),
}


def _function(name: str):
    """The tensor program of the named rule's own compute definition."""
    data = te.placeholder((1, 2, 6, 8, 4), name="data")
    if name == "conv2d_direct":
        inputs = [data, te.placeholder((2, 2, 3, 3, 4, 4), name="weight")]
        out = Conv2dDirect.compute(FACTS, Conv2dDirect.config(FACTS), *inputs)
    elif name == "conv2d_1x1":
        inputs = [data, te.placeholder((2, 2, 1, 1, 4, 4), name="weight")]
        out = Conv2d1x1.compute(POINTWISE, Conv2d1x1.config(POINTWISE), *inputs)
    elif name == "conv2d_winograd":
        shapes = {"weight": (36, 2, 2, 4, 4), "row_table": (6, 4), "output_table": (4, 6)}
        inputs = [data, *(te.placeholder(shape, name=name) for name, shape in shapes.items())]
        out = Conv2dWinograd.compute(FACTS, Conv2dWinograd.config(FACTS, 4), *inputs)
    elif name == "conv2d_transpose":
        inputs = [data, te.placeholder((4, 2, 2, 2, 2, 4, 4), name="weight")]
        out = Conv2dTranspose.compute(TRANSPOSED, Conv2dTranspose.config(TRANSPOSED), *inputs)
    elif name == "grouped_conv2d":
        inputs = [data, te.placeholder((2, 1, 3, 3, 4, 4), name="weight")]
        out = GroupedConv2d.compute(GROUPED, GroupedConv2d.config(GROUPED), *inputs)
    elif name == "depthwise_conv2d":
        inputs = [data, te.placeholder((2, 3, 3, 4), name="weight")]
        out = DepthwiseConv2d.compute(DEPTHWISE, DepthwiseConv2d.config(DEPTHWISE), *inputs)
    elif name == "batch_matmul":
        inputs = [te.placeholder((2, 6, 8), name="a"), te.placeholder((2, 8, 8), name="b")]
        out = BatchMatmul.compute(MATMUL, BatchMatmul.config(MATMUL), *inputs)
    elif name == "dense":
        inputs = [te.placeholder((1, 64), name="data"), te.placeholder((2, 64, 4), name="weight")]
        out = Dense.compute(DenseFacts(rows=1, reduced=64, columns=8, dtype="float32"), *inputs)
    elif name == "softmax":
        inputs = [te.placeholder((2, 100), name="data")]
        out = Softmax.compute(SoftmaxFacts(rows=2, length=100, dtype="float32"), *inputs)
    elif name in IN_NCHW:
        rule, facts, knobs, weight = IN_NCHW[name]
        inputs = [te.placeholder((1, 8, 6, 8), name="data"), te.placeholder(weight, name="weight")]
        out = rule.compute(facts, knobs, *inputs)
    else:
        inputs = [data]
        out = te.compute((1, 2, 6, 8, 4), lambda *i: data[i] + 1, name="add")
    return te.create_prim_func([*inputs, out])


@pytest.mark.parametrize("owner", [r.name for r in RULES])
def test_rules_decline_what_is_not_theirs(owner):
    func = _function(owner)
    assert [r.name for r in RULES if r.match(func) is not None] == list(dict.fromkeys([owner, "generic"]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("owner", [r.name for r in RULES])
def test_rule_schedules_its_own_function(owner, target):
    scheduled = schedule(_function(owner), "f", find_target(target))
    assert scheduled.rule == owner
    text = scheduled.func.script()
    assert "threadIdx.x" in text
    assert '"shared"' not in text and "tvm_storage_sync" not in text


def test_unmatched_function_is_named():
    with pytest.raises(ScheduleError, match="some_kernel: no rule takes this function"):
        schedule(_function("generic"), "some_kernel", find_target("host"), rules=RULES[:-1])


def test_failing_rule_is_named():
    class Broken:
        name = "broken"

        def match(self, func):
            return func

        def apply(self, sch, facts, target):
            raise ValueError("tile does not fit")

    with pytest.raises(ScheduleError, match="some_kernel: rule broken matched and failed\ntile does not fit"):
        schedule(_function("generic"), "some_kernel", find_target("host"), rules=(Broken(),))


@pytest.mark.parametrize(
    "counts", [(1, 1, 1), (7, 7, 5), (56, 56, 64), (13, 1, 1), (1009, 1, 1), (64, 64, 64), (3, 3, 2)]
)
@pytest.mark.parametrize("limit", [64, 128])
def test_work_group_divides_the_items(counts, limit):
    group = work_group(counts, limit)
    assert all(c % g == 0 for c, g in zip(counts, group, strict=True))
    size = group[0] * group[1] * group[2]
    assert size <= limit
    if all(c % 8 == 0 for c in counts):
        assert size >= 32


def _layers(tmp_path, nodes, inputs, weights) -> list[tuple[str, str]]:
    """(layer, rule) of each launch of a model; inputs and weights are (name, shape)."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs],
        [onnx.ValueInfoProto(name="y")],
        [helper.make_tensor(n, TensorProto.FLOAT, s, [0.1] * _count(s)) for n, s in weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), tmp_path / "m.onnx")
    plan = compile_model(tmp_path / "m.onnx", target="rk3399")
    return [(launch.layer, launch.rule) for launch in plan.launches]


def _count(shape) -> int:
    count = 1
    for d in shape:
        count *= d
    return count


def _conv_rule(tmp_path, shape, weight, **attributes) -> str:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], **attributes)]
    launches = _layers(tmp_path, nodes, [("x", shape)], [("w", weight)])
    (rule,) = {r for layer, r in launches if "pack" not in layer}
    return rule


@pytest.mark.parametrize(
    ("shape", "weight", "attributes", "rule"),
    [
        ((1, 8, 6, 8), (8, 8, 3, 3), {"pads": [1] * 4}, "conv2d_direct"),
        ((1, 3, 9, 9), (8, 3, 3, 3), {"strides": [2, 2]}, "conv2d_direct"),
        ((1, 64, 56, 56), (64, 64, 3, 3), {"pads": [1] * 4}, "conv2d_winograd"),
        ((1, 5, 9, 9), (7, 5, 5, 5), {"dilations": [2, 2]}, "conv2d_direct"),
        ((1, 8, 6, 8), (8, 8, 1, 1), {}, "conv2d_1x1"),
        ((3, 5, 1, 1), (7, 5, 1, 1), {}, "conv2d_1x1"),
        ((1, 8, 6, 8), (8, 8, 1, 1), {"strides": [2, 2]}, "conv2d_direct"),
        ((1, 8, 6, 8), (8, 8, 1, 1), {"pads": [1] * 4}, "conv2d_direct"),
        ((1, 8, 6, 8), (8, 1, 3, 3), {"group": 8}, "depthwise_conv2d"),
        ((1, 5, 6, 8), (5, 1, 5, 5), {"group": 5, "strides": [2, 2]}, "depthwise_conv2d"),
        ((1, 1, 6, 8), (1, 1, 3, 3), {"group": 1}, "conv2d_direct"),
        ((1, 8, 6, 8), (8, 4, 3, 3), {"group": 2}, "grouped_conv2d"),
        ((1, 8, 6, 8), (16, 1, 3, 3), {"group": 8}, "grouped_conv2d"),
        ((1, 8, 6), (8, 8, 3), {}, "conv2d_direct"),
    ],
)
def test_rule_of_convolution(tmp_path, shape, weight, attributes, rule):
    assert _conv_rule(tmp_path, shape, weight, **attributes) == rule


@pytest.mark.parametrize(
    ("rows", "reduced", "columns", "rule"),
    [(1, 64, 1000, "dense"), (16, 31, 8, "dense"), (17, 64, 8, "batch_matmul"), (1, 64, 10, "batch_matmul")],
)
def test_rule_of_dense(tmp_path, rows, reduced, columns, rule):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    launches = _layers(tmp_path, nodes, [("x", (rows, reduced))], [("w", (reduced, columns))])
    assert {r for _, r in launches} == {rule}


def test_rule_of_softmax(tmp_path):
    launches = _layers(tmp_path, [helper.make_node("Softmax", ["x"], ["y"])], [("x", (1, 1000))], [])
    assert {r for _, r in launches} == {"softmax"}


def test_activation_and_residual_run_in_the_convolution(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "w", "b"], ["d"], pads=[1] * 4),
        helper.make_node("Add", ["d", "r"], ["s"]),
        helper.make_node("Clip", ["s", "low", "high"], ["y"]),
    ]
    weights = [("w", (4, 4, 3, 3)), ("b", (4,)), ("low", ()), ("high", ())]
    launches = _layers(tmp_path, nodes, [("x", (1, 4, 8, 8))], weights)
    assert [rule for _, rule in launches] == ["generic", "conv2d_direct", "conv2d_direct", "generic"]
    assert "pack" in launches[0][0] and "unpack" in launches[-1][0]
