"""Imported models, run on the CPU by plain TVM, agree with onnxruntime: a small model for each trap of the field."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from malisdk_pipeline.importers import ImportedModel, import_onnx

from llvm_truth import run
from onnx_models import (
    model_of_node,
    model_of_text,
    onnxruntime_answers,
    random_array,
    relative_error,
    save,
)

# Sums of float32 in another order; of float16, whose step is 9.8e-4.
_TOLERANCE = {"float16": 4e-3}


def check(
    model: onnx.ModelProto, feeds: Mapping[str, Any], folder: Path, *, truth: onnx.ModelProto | None = None
) -> ImportedModel:
    """Import, run, compare every output with onnxruntime."""
    imported = import_onnx(save(model, folder), shapes={n: a.shape for n, a in feeds.items()})
    wanted = onnxruntime_answers(truth or model, feeds)
    found = run(imported, feeds)
    assert len(found) == len(wanted)
    for info, ours, theirs in zip(imported.outputs, found, wanted, strict=True):
        assert (info.shape, info.dtype) == (theirs.shape, str(theirs.dtype))
        assert relative_error(ours, theirs) <= _TOLERANCE.get(info.dtype, 1e-5), info.name
    return imported


_X = random_array((2, 6, 7, 9), seed=1)
_I64 = np.int64

_ONE_NODE: dict[str, Any] = {
    "softmax_before_13_is_two_dimensional": ("Softmax", 11, {"x": _X}, {}, {"axis": 2}),
    "softmax_before_13_defaults_to_axis_1": ("Softmax", 9, {"x": _X}, {}, {}),
    "log_softmax_negative_axis_before_13": ("LogSoftmax", 11, {"x": _X}, {}, {"axis": -3}),
    "softmax_13_takes_one_axis": ("Softmax", 13, {"x": _X}, {}, {"axis": 1}),
    "conv_same_upper_stride_odd": (
        "Conv",
        11,
        {"x": _X},
        {"w": random_array((4, 6, 3, 2))},
        {"auto_pad": "SAME_UPPER", "strides": [2, 3]},
    ),
    "conv_same_lower_even_kernel": (
        "Conv",
        11,
        {"x": _X},
        {"w": random_array((4, 6, 4, 2))},
        {"auto_pad": "SAME_LOWER"},
    ),
    "conv_grouped_dilated_asymmetric": (
        "Conv",
        11,
        {"x": _X},
        {"w": random_array((9, 2, 3, 2)), "b": random_array((9,))},
        {"group": 3, "dilations": [2, 1], "pads": [1, 0, 2, 3]},
    ),
    "conv_1d": ("Conv", 11, {"x": _X[:, :, 0]}, {"w": random_array((4, 6, 3))}, {"pads": [2, 1], "strides": [2]}),
    "conv_3d": ("Conv", 11, {"x": _X[None, :1]}, {"w": random_array((2, 1, 3, 3, 3))}, {"pads": [1, 0, 1, 1, 2, 0]}),
    "conv_weight_at_run_time": ("Conv", 11, {"x": _X, "w": random_array((4, 6, 1, 1))}, {}, {}),
    "conv_float16": (
        "Conv",
        11,
        {"x": _X.astype("float16")},
        {"w": random_array((4, 6, 3, 3), "float16")},
        {"pads": [1, 1, 1, 1]},
    ),
    "deconv_output_padding": (
        "ConvTranspose",
        11,
        {"x": _X},
        {"w": random_array((6, 3, 3, 3))},
        {"strides": [2, 3], "pads": [1, 1, 1, 1], "output_padding": [1, 2]},
    ),
    "deconv_grouped_with_bias": (
        "ConvTranspose",
        11,
        {"x": _X},
        {"w": random_array((6, 2, 3, 2)), "b": random_array((6,))},
        {"group": 3, "strides": [2, 2]},
    ),
    "deconv_dilated": ("ConvTranspose", 11, {"x": _X}, {"w": random_array((6, 2, 3, 2))}, {"dilations": [2, 3]}),
    "deconv_same_upper": (
        "ConvTranspose",
        11,
        {"x": _X},
        {"w": random_array((6, 2, 3, 3))},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ),
    "deconv_1d": ("ConvTranspose", 11, {"x": _X[:, :, 0]}, {"w": random_array((6, 2, 4))}, {"strides": [3]}),
    "max_pool_ceil": ("MaxPool", 12, {"x": _X}, {}, {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
    "max_pool_ceil_last_window_in_padding": (
        "MaxPool",
        12,
        {"x": _X[:, :, :5, :5]},
        {},
        {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    ),
    "average_pool_ceil_last_window_in_padding": (
        "AveragePool",
        11,
        {"x": _X[:, :, :5, :5]},
        {},
        {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    ),
    "average_pool_counts_padding_asymmetric": (
        "AveragePool",
        11,
        {"x": _X},
        {},
        {"kernel_shape": [3, 3], "pads": [0, 1, 2, 1], "count_include_pad": 1},
    ),
    "average_pool_leaves_padding_out": (
        "AveragePool",
        11,
        {"x": _X},
        {},
        {"kernel_shape": [3, 3], "pads": [0, 1, 2, 1], "strides": [2, 2]},
    ),
    "max_pool_indices_dilated": (
        "MaxPool",
        12,
        {"x": _X},
        {},
        {"kernel_shape": [2, 3], "dilations": [2, 1], "pads": [1, 1, 1, 1], "outputs": 2},
    ),
    "batch_norm_uses_stored_statistics": (
        "BatchNormalization",
        15,
        {"x": _X},
        {n: random_array((6,), seed=i) ** 2 * 9 + i for i, n in enumerate("gbmv")},
        {"epsilon": 1e-3},
    ),
    "prelu_slope_of_lower_rank": ("PRelu", 9, {"x": _X[:, :, :, :6]}, {"slope": random_array((6, 1, 1))}, {}),
    "gather_negative_constant": (
        "Gather",
        11,
        {"x": _X},
        {"i": np.asarray([[-1, 0], [2, -6]], _I64)},
        {"axis": 1},
    ),
    "gather_negative_at_run_time": (
        "Gather",
        11,
        {"x": _X, "i": np.asarray([[-1, 0, 3], [2, -6, 5]], _I64)},
        {},
        {"axis": 1},
    ),
    "clip_6_attributes": ("Clip", 6, {"x": _X}, {}, {"min": -0.5, "max": 0.25}),
    "clip_11_upper_only": ("Clip", 11, {"x": _X}, {"high": np.float32(0.1)}, {"left_out": [1]}),
    "clip_crossed_bounds": ("Clip", 13, {"x": _X}, {"low": np.float32(0.5), "high": np.float32(-0.5)}, {}),
    "clip_integers": (
        "Clip",
        13,
        {"x": random_array((3, 4), "int32")},
        {"low": np.int32(-5), "high": np.int32(7)},
        {},
    ),
    "pad_negative_crops_and_fills": (
        "Pad",
        13,
        {"x": _X},
        {"pads": np.asarray([0, 0, -1, 2, 0, 1, 3, -2], _I64), "value": np.float32(2.5)},
        {},
    ),
    "pad_reflects": ("Pad", 13, {"x": _X}, {"pads": np.asarray([0, 0, 2, 3, 0, 0, 1, 4], _I64)}, {"mode": "reflect"}),
    "pad_edges": ("Pad", 13, {"x": _X}, {"pads": np.asarray([1, 0, 2, 3, 0, 2, 1, 4], _I64)}, {"mode": "edge"}),
    "upsample_7_scales": ("Upsample", 7, {"x": _X}, {}, {"scales": [1.0, 1.0, 2.0, 3.0], "mode": "nearest"}),
    "upsample_9_linear": ("Upsample", 9, {"x": _X}, {"s": np.asarray([1, 1, 2, 1.5], "float32")}, {"mode": "linear"}),
    "resize_10_shrinks": ("Resize", 10, {"x": _X}, {"s": np.asarray([1, 1, 0.5, 0.6], "float32")}, {"mode": "nearest"}),
    "split_uneven": ("Split", 13, {"x": _X}, {"s": np.asarray([1, 2, 3], _I64)}, {"axis": 1, "outputs": 3}),
    "split_18_last_smaller": ("Split", 18, {"x": _X}, {}, {"axis": 2, "num_outputs": 3, "outputs": 3}),
    "hard_sigmoid_defaults": ("HardSigmoid", 6, {"x": _X * 3}, {}, {}),
    "hard_sigmoid_given": ("HardSigmoid", 6, {"x": _X * 3}, {}, {"alpha": 0.3, "beta": 0.4}),
    "gemm_scaled_and_broadcast": (
        "Gemm",
        11,
        {"a": random_array((4, 3))},
        {"b": random_array((5, 4)), "c": random_array((3, 1))},
        {"alpha": 0.5, "beta": 2.0, "transA": 1, "transB": 1},
    ),
    "slice_backwards": (
        "Slice",
        13,
        {"x": _X},
        {
            "starts": np.asarray([-1, 100], _I64),
            "ends": np.asarray([-100, 1], _I64),
            "axes": np.asarray([3, -2], _I64),
            "steps": np.asarray([-2, -1], _I64),
        },
        {},
    ),
    "reduce_max_of_infinities": ("ReduceMax", 13, {"x": np.full((2, 3), -np.inf, "float32")}, {}, {"axes": [1]}),
    "log_sum_exp_does_not_overflow": ("ReduceLogSumExp", 13, {"x": _X * 300}, {}, {"axes": [-1], "keepdims": 0}),
    "arg_max_takes_the_first": ("ArgMax", 13, {"x": np.round(_X)}, {}, {"axis": 2}),
    "arg_max_takes_the_last": ("ArgMax", 13, {"x": np.round(_X)}, {}, {"axis": 2, "select_last_index": 1}),
    "top_k_smallest": ("TopK", 11, {"x": np.round(_X)}, {"k": np.asarray([4], _I64)}, {"largest": 0, "outputs": 2}),
    "integer_division_rounds_to_zero": (
        "Div",
        13,
        {"a": np.asarray([-7, 7, -8, 8], "int32"), "b": np.asarray([2, -2, 3, -3], "int32")},
        {},
        {},
    ),
    "scatter_nd_last_wins": (
        "ScatterND",
        13,
        {"x": _X[0, 0], "i": np.asarray([[1], [3], [1]], _I64), "u": random_array((3, 9))},
        {},
        {},
    ),
    "scatter_elements_negative": (
        "ScatterElements",
        13,
        {"x": _X[0, 0], "i": np.asarray([[-1, 0], [2, -7]], _I64), "u": random_array((2, 2))},
        {},
        {},
    ),
    "lrn": ("LRN", 13, {"x": _X}, {}, {"size": 5, "alpha": 0.3, "beta": 0.6, "bias": 1.5}),
    "instance_norm": (
        "InstanceNormalization",
        6,
        {"x": _X},
        {"s": random_array((6,)), "b": random_array((6,), seed=3)},
        {"epsilon": 1e-2},
    ),
    "quantize_per_channel": (
        "QuantizeLinear",
        13,
        {"x": _X * 20},
        {"s": np.abs(random_array((6,))) + 0.1, "z": random_array((6,), "int8")},
        {"axis": 1},
    ),
    "cum_sum_reverse_exclusive": ("CumSum", 14, {"x": _X}, {"a": np.asarray(2, _I64)}, {"reverse": 1, "exclusive": 1}),
}


@pytest.mark.parametrize("name", sorted(_ONE_NODE))
def test_one_node_agrees_with_onnxruntime(name: str, tmp_path: Path) -> None:
    op, opset, inputs, weights, attributes = _ONE_NODE[name]
    check(model_of_node(op, inputs, opset=opset, weights=weights, **attributes), inputs, tmp_path)


_ROUNDING = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]
_RESIZES = [("nearest", kind) for kind in _ROUNDING] + [("linear", "floor"), ("cubic", "floor")]


@pytest.mark.parametrize(("mode", "kind"), _RESIZES)
@pytest.mark.parametrize("where", ["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"])
def test_resize_agrees_with_onnxruntime(kind: str, where: str, mode: str, tmp_path: Path) -> None:
    """Up, down, and to sizes that are no multiples."""
    for sizes in ([2, 6, 14, 18], [2, 6, 5, 4], [2, 6, 10, 9]):
        attributes = {"mode": mode, "coordinate_transformation_mode": where, "nearest_mode": kind}
        weights = {"sizes": np.asarray(sizes, _I64)}
        model = model_of_node("Resize", {"x": _X}, opset=13, weights=weights, left_out=[1, 2], **attributes)
        check(model, {"x": _X}, tmp_path)


def test_batch_frozen_in_a_reshape_follows_the_given_shape(tmp_path: Path) -> None:
    """Shape - Gather - Concat - Reshape is folded for the batch that is asked for."""
    model = model_of_text(
        """g (float[N,2,6,6] x) => (float[N,5] y) {
             c = Conv<pads = [1,1,1,1]>(x, w)
             r = Relu(c)
             s = Shape(r)
             zero = Constant<value = int64 {0}>()
             n = Gather(s, zero)
             axes = Constant<value = int64[1] {0}>()
             n1 = Unsqueeze(n, axes)
             rest = Constant<value = int64[1] {-1}>()
             wanted = Concat<axis = 0>(n1, rest)
             flat = Reshape(r, wanted)
             y = Gemm(flat, m)
           }""",
        opset=13,
        weights={"w": random_array((3, 2, 3, 3)), "m": random_array((108, 5))},
    )
    imported = check(model, {"x": random_array((3, 2, 6, 6))}, tmp_path)
    assert imported.outputs[0].shape == (3, 5)
    assert "shape_of" not in imported.mod.script()


def test_weights_listed_as_inputs_are_no_inputs(tmp_path: Path) -> None:
    """IR 3 lists initializers among the inputs, in any order."""
    model = model_of_text(
        "g (float[4,3,1,1] w, float[1,3,4,4] image) => (float[1,4,4,4] y) { y = Conv(image, w) }",
        opset=8,
        ir_version=3,
        weights={"w": random_array((4, 3, 1, 1))},
    )
    imported = check(model, {"image": random_array((1, 3, 4, 4))}, tmp_path)
    assert [t.name for t in imported.inputs] == ["image"]


def test_dropout_with_ratio_input_passes_the_data(tmp_path: Path) -> None:
    model = model_of_text(
        "g (float[2,3] x) => (float[2,3] y, bool[2,3] mask) { y, mask = Dropout(x, ratio) }",
        opset=12,
        weights={"ratio": np.float32(0.4)},
    )
    check(model, {"x": random_array((2, 3))}, tmp_path)


def test_outputs_that_nothing_computes_are_copied(tmp_path: Path) -> None:
    """An input, a weight, an empty tensor, the same tensor twice and two shapes of it."""
    model = model_of_text(
        """g (float[2,6] x, float[3] unused) =>
             (float[2,6] again, float[2] weight, float[2,0] none, float[2,6] y, float[2,6] y2, float[12] flat) {
             again = Identity(x)
             weight = Identity(w)
             none = Slice(x, zero, zero, one)
             y = Relu(x)
             y2 = Identity(y)
             flat = Reshape(y, long)
           }""",
        opset=13,
        weights={
            "w": np.asarray([1, 2], "float32"),
            "zero": np.asarray([0], _I64),
            "one": np.asarray([1], _I64),
            "long": np.asarray([12], _I64),
        },
    )
    feeds = {"x": random_array((2, 6)), "unused": random_array((3,))}
    imported = check(model, feeds, tmp_path)
    assert [t.name for t in imported.inputs] == ["x", "unused"]
    assert [t.name for t in imported.outputs] == ["again", "weight", "none", "y", "y2", "flat"]


def test_control_flow_with_known_conditions_is_resolved(tmp_path: Path) -> None:
    model = model_of_text(
        """g (float[3] x) => (float[3] y, float[4,3] rounds) {
             trips = Constant<value = int64 {4}>()
             go = Constant<value = bool {1}>()
             y, rounds = Loop(trips, go, x) <body = body (int64 i, bool c, float[3] before)
                 => (bool again, float[3] after, float[3] seen) {
               again = Identity(c)
               f = Cast<to = 1>(i)
               after = Add(before, f)
               small = Less(i, two)
               seen = If(small) <
                 then_branch = a () => (float[3] p) { p = Neg(after) },
                 else_branch = b () => (float[3] q) { q = Identity(after) }
               >
             }>
           }""",
        opset=16,
        weights={"two": np.asarray(2, _I64)},
    )
    check(model, {"x": random_array((3,))}, tmp_path)


def test_a_condition_at_run_time_selects_between_both_branches(tmp_path: Path) -> None:
    model = model_of_text(
        """g (bool c, float[3] x) => (float[3] y) {
             y = If(c) <
               then_branch = a () => (float[3] p) { p = Neg(x) },
               else_branch = b () => (float[3] q) { q = Exp(x) }
             >
           }""",
        opset=16,
    )
    for condition in (True, False):
        check(model, {"c": np.asarray(condition), "x": random_array((3,))}, tmp_path)


def test_functions_of_the_model_are_opened(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "my.own": 1]>
           g (float[2,3] x) => (float[2,3] y) { y = my.own.Scaled <by = 3.0> (x) }
           <domain: "my.own", opset_import: ["": 17]>
           Scaled <by> (a) => (b) { f = Constant <value_float: float = @by> () b = Mul(a, f) }"""
    )
    check(model, {"x": random_array((2, 3))}, tmp_path)


def test_quantised_model_agrees_with_onnxruntime(tmp_path: Path) -> None:
    """Quantise - dequantise pairs around a convolution, per output channel."""
    model = model_of_text(
        """g (float[1,3,6,6] x) => (float[1,4,6,6] y) {
             q = QuantizeLinear(x, xs, xz)
             d = DequantizeLinear(q, xs, xz)
             wd = DequantizeLinear<axis = 0>(w, ws, wz)
             c = Conv<pads = [1,1,1,1]>(d, wd)
             cq = QuantizeLinear(c, ys, yz)
             y = DequantizeLinear(cq, ys, yz)
           }""",
        opset=13,
        weights={
            "w": random_array((4, 3, 3, 3), "int8"),
            "xs": np.float32(0.03),
            "xz": np.uint8(120),
            "ws": np.asarray([0.01, 0.02, 0.03, 0.015], "float32"),
            "wz": np.zeros(4, "int8"),
            "ys": np.float32(0.05),
            "yz": np.uint8(100),
        },
    )
    x = {"x": random_array((1, 3, 6, 6))}
    imported = import_onnx(save(model, tmp_path))
    (found,), (wanted,) = run(imported, x), onnxruntime_answers(model, x)
    # A sum next to a half may round to the neighbouring step.
    assert np.abs(found - wanted).max() <= 0.05 * 1.001
    assert np.mean(found != wanted) < 0.02


def test_prepared_model_gives_the_same_answers(tmp_path: Path) -> None:
    """`ImportedModel.model` has static shapes and is what golden answers may be computed with."""
    model = model_of_text(
        "g (float[N,3,H,W] x) => (float[N,4,H,W] y) { c = Conv(x, w) y = Relu(c) dead = Neg(c) }",
        opset=13,
        weights={"w": random_array((4, 3, 1, 1)), "lost": random_array((5,))},
    )
    x = random_array((2, 3, 4, 5))
    imported = import_onnx(save(model, tmp_path), shapes={"x": x.shape})
    prepared = imported.model
    onnx.checker.check_model(prepared)
    assert [d.dim_value for d in prepared.graph.input[0].type.tensor_type.shape.dim] == [2, 3, 4, 5]
    assert [n.op_type for n in prepared.graph.node] == ["Conv", "Relu"]
    assert [t.name for t in prepared.graph.initializer] == ["w"]
    assert relative_error(onnxruntime_answers(prepared, {"x": x})[0], onnxruntime_answers(model, {"x": x})[0]) == 0
