"""One small symbol for each attribute that could be read wrongly. Made with MXNet's `sym`, which the callers pass in.

Variables whose names begin with `data` are inputs; all others become parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Build = Callable[[Any, Any], Any]
IMAGE = (2, 6, 9, 11)


@dataclass(frozen=True, kw_only=True)
class Case:
    """`build(sym, x)` makes the symbol of the input `data`; `shapes` are those of all inputs."""

    build: Build
    shapes: dict[str, tuple[int, ...]] = field(default_factory=lambda: {"data": IMAGE})
    positive: bool = False
    indices: tuple[str, ...] = ()


CASES: dict[str, Case] = {}


def _add(name: str, build: Build, shape: tuple[int, ...] = IMAGE, **more: Any) -> None:
    others = more.pop("others", {})
    CASES[name] = Case(build=build, shapes={"data": shape, **others}, **more)


def _two(sym: Any) -> Any:
    return sym.var("data2")


_add("conv_all", lambda s, x: s.Convolution(x, kernel=(3, 2), stride=(2, 1), pad=(1, 2), dilate=(2, 1), num_filter=5))
_add("conv_groups", lambda s, x: s.Convolution(x, kernel=(3, 3), num_filter=4, num_group=2, no_bias=True))
_add("conv_depthwise", lambda s, x: s.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=6, num_group=6))
_add("conv_1d", lambda s, x: s.Convolution(x, kernel=(3,), stride=(2,), pad=(1,), num_filter=5), (2, 4, 9))
_add("deconv", lambda s, x: s.Deconvolution(x, kernel=(3, 4), stride=(2, 3), pad=(1, 0), num_filter=4))
_add("deconv_bias", lambda s, x: s.Deconvolution(x, kernel=(2, 2), stride=(2, 2), num_filter=4, no_bias=False))
_add(
    "deconv_adj_groups",
    lambda s, x: s.Deconvolution(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), adj=(1, 0), num_filter=6, num_group=3),
)
_add(
    "deconv_target",
    lambda s, x: s.Deconvolution(x, kernel=(4, 4), stride=(2, 2), target_shape=(18, 21), num_filter=3),
)
_add("fc", lambda s, x: s.FullyConnected(x, num_hidden=7))
_add("fc_no_bias", lambda s, x: s.FullyConnected(x, num_hidden=7, no_bias=True))
_add("fc_rows", lambda s, x: s.FullyConnected(x, num_hidden=7, flatten=False))
_add("bn_defaults", lambda s, x: s.BatchNorm(x))
_add("bn_gamma", lambda s, x: s.BatchNorm(x, fix_gamma=False, eps=2e-5, use_global_stats=True))
_add("bn_last_axis", lambda s, x: s.BatchNorm(x, fix_gamma=False, axis=-1))
_add("bn_rows", lambda s, x: s.BatchNorm(x, fix_gamma=False), (4, 6))
for _axis in (1, 2, -1):
    _add(f"layer_norm_{_axis}", lambda s, x, axis=_axis: s.LayerNorm(x, axis=axis))
_add("instance_norm", lambda s, x: s.InstanceNorm(x, eps=1e-2))
_add("group_norm", lambda s, x: s.GroupNorm(x, num_groups=3))
for _mode in ("instance", "channel", "spatial"):
    _add(f"l2_{_mode}", lambda s, x, mode=_mode: s.L2Normalization(x, mode=mode))
_add("lrn", lambda s, x: s.LRN(x, nsize=5, alpha=0.1, beta=0.6, knorm=1.5))
_add("lrn_defaults", lambda s, x: s.LRN(x, nsize=3))
for _kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign"):
    _add(f"activation_{_kind}", lambda s, x, kind=_kind: s.Activation(x, act_type=kind))
_add("leaky_rrelu", lambda s, x: s.LeakyReLU(x, act_type="rrelu")[0])
for _kind in ("leaky", "elu", "selu", "gelu", "prelu"):
    _add(f"leaky_{_kind}", lambda s, x, kind=_kind: s.LeakyReLU(x, act_type=kind))
_add("leaky_slope", lambda s, x: s.LeakyReLU(x, slope=0.1))
_add("prelu_one", lambda s, x: s.LeakyReLU(x, s.var("g", shape=(1,)), act_type="prelu"))
_add("prelu_rows", lambda s, x: s.LeakyReLU(x, act_type="prelu"), (3, 6))
_add("hard_sigmoid", lambda s, x: s.hard_sigmoid(x, alpha=0.3, beta=0.4))
for _kind in ("max", "avg", "sum", "lp"):
    for _convention in ("valid", "full"):
        _more = {"p_value": 2} if _kind == "lp" else {}
        _add(
            f"pool_{_kind}_{_convention}",
            lambda s, x, kind=_kind, convention=_convention, more=_more: s.Pooling(
                x, kernel=(3, 4), stride=(2, 3), pad=(1, 1), pool_type=kind, pooling_convention=convention, **more
            ),
        )
    _add(
        f"pool_{_kind}_global",
        lambda s, x, kind=_kind, more=_more: s.Pooling(x, global_pool=True, pool_type=kind, kernel=(2, 2), **more),
    )
for _convention in ("valid", "full"):
    _add(
        f"pool_avg_{_convention}_without_pad",
        lambda s, x, convention=_convention: s.Pooling(
            x,
            kernel=(4, 3),
            stride=(3, 2),
            pad=(2, 1),
            pool_type="avg",
            pooling_convention=convention,
            count_include_pad=False,
        ),
    )
_add("pool_full_hangs", lambda s, x: s.Pooling(x, kernel=(2, 2), stride=(2, 2), pooling_convention="full"))
_add(
    "pool_avg_full_hangs",
    lambda s, x: s.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="avg", pooling_convention="full"),
)
_add("pool_default_stride", lambda s, x: s.Pooling(x, kernel=(2, 3), pool_type="max"))
_add("pool_1d", lambda s, x: s.Pooling(x, kernel=(3,), stride=(2,), pool_type="avg"), (2, 4, 9))
_add("adaptive_pool", lambda s, x: s.contrib.AdaptiveAvgPooling2D(x, output_size=(4, 5)))
_add("adaptive_pool_one", lambda s, x: s.contrib.AdaptiveAvgPooling2D(x))

_add("concat", lambda s, x: s.Concat(x, _two(s), dim=1), others={"data2": (2, 3, 9, 11)})
_add("concat_last", lambda s, x: s.concat(x, x, dim=-1))
_add("stack", lambda s, x: s.stack(x, x * 2, axis=2))
_add("split", lambda s, x: s.Group(list(s.SliceChannel(x, num_outputs=3))))
_add("split_squeeze", lambda s, x: s.split(x, num_outputs=9, axis=2, squeeze_axis=True)[4])
_add("split_v2", lambda s, x: s.split_v2(x, (2, 3), axis=1)[1])
_add("split_v2_sections", lambda s, x: s.split_v2(x, 3, axis=1)[2])
_add("slice", lambda s, x: s.slice(x, begin=(None, 1, -8), end=(None, 5, None), step=(1, 2, 3)))
_add("slice_back", lambda s, x: s.slice(x, begin=(None, None, 7), end=(None, None, 1), step=(1, -1, -2)))
_add("slice_axis", lambda s, x: s.slice_axis(x, axis=-1, begin=2, end=-3))
_add("slice_axis_rest", lambda s, x: s.slice_axis(x, axis=1, begin=-4, end=None))
_add("slice_like", lambda s, x: s.slice_like(x, _two(s), axes=(2, 3)), others={"data2": (1, 1, 5, 6)})
_add("crop_like", lambda s, x: s.Crop(x, _two(s), num_args=2, offset=(1, 2)), others={"data2": (2, 6, 5, 6)})
_add("crop_center", lambda s, x: s.Crop(x, num_args=1, h_w=(5, 6), center_crop=True))
for _codes in ((0, -1), (-1, 11), (0, 0, -3), (0, -4, 2, -1, -2), (-2, 1), (-3, -3), (2, -4, 2, 3, 9, 11), (-1,)):
    _name = "_".join(str(c).replace("-", "m") for c in _codes)
    _add(f"reshape_{_name}", lambda s, x, codes=_codes: s.Reshape(x, shape=codes))
_add("reshape_reverse", lambda s, x: s.Reshape(x, shape=(-1, 0), reverse=True))
_add("reshape_reverse_copies", lambda s, x: s.Reshape(x, shape=(-3, 0, 0), reverse=True))
_add("reshape_like", lambda s, x: s.reshape_like(x, _two(s)), others={"data2": (12, 99)})
_add("flatten", lambda s, x: s.Flatten(x))
_add("transpose", lambda s, x: s.transpose(x, axes=(0, 2, 3, 1)))
_add("transpose_all", lambda s, x: s.transpose(x))
_add("swap_axis", lambda s, x: s.SwapAxis(x, dim1=1, dim2=3))
_add("expand_dims", lambda s, x: s.expand_dims(x, axis=-1))
_add("squeeze", lambda s, x: s.squeeze(x), (2, 1, 3, 1))
_add("squeeze_axis", lambda s, x: s.squeeze(x, axis=(-1,)), (2, 1, 3, 1))
_add("tile", lambda s, x: s.tile(x, reps=(2, 1, 3)), (2, 3))
_add("repeat", lambda s, x: s.repeat(x, repeats=2, axis=1))
_add("repeat_flat", lambda s, x: s.repeat(x, repeats=3), (2, 3))
_add("flip", lambda s, x: s.flip(x, axis=(1, 3)))
for _mode in ("constant", "edge", "reflect"):
    _add(
        f"pad_{_mode}",
        lambda s, x, mode=_mode: s.Pad(x, mode=mode, pad_width=(0, 0, 0, 0, 1, 2, 3, 0), constant_value=0.5),
    )
_add("broadcast_to", lambda s, x: s.broadcast_to(x, shape=(2, 0, 4)), (1, 3, 1))
_add("broadcast_axis", lambda s, x: s.broadcast_axis(x, axis=(0, 2), size=(2, 4)), (1, 3, 1))
_add("broadcast_like", lambda s, x: s.broadcast_like(x, _two(s)), (1, 3, 1), others={"data2": (2, 3, 4)})
_add("depth_to_space", lambda s, x: s.depth_to_space(x, block_size=2), (2, 8, 3, 4))
_add("space_to_depth", lambda s, x: s.space_to_depth(x, block_size=2), (2, 3, 4, 6))

for _name in ("add", "sub", "mul", "div"):
    _add(
        f"elemwise_{_name}",
        lambda s, x, name=_name: getattr(s, f"elemwise_{name}")(x, _two(s)),
        others={"data2": IMAGE},
    )
for _name in (
    "add", "sub", "mul", "div", "power", "maximum", "minimum", "mod", "hypot", "equal", "not_equal", "greater",
    "greater_equal", "lesser", "lesser_equal", "logical_and", "logical_or", "logical_xor",
):  # fmt: skip
    _add(
        f"broadcast_{_name}",
        lambda s, x, name=_name: getattr(s, f"broadcast_{name}")(x, _two(s)),
        positive=_name == "power",
        others={"data2": (1, 6, 1, 11)},
    )
_SCALARS: dict[str, Build] = {
    "plus": lambda s, x: x + 1.5,
    "minus": lambda s, x: x - 1.5,
    "rminus": lambda s, x: 1.5 - x,
    "mul": lambda s, x: x * 1.5,
    "div": lambda s, x: x / 1.5,
    "rdiv": lambda s, x: 1.5 / x,
    "mod": lambda s, x: x % 0.7,
    "rmod": lambda s, x: 1.7 % x,
    "power": lambda s, x: x**1.5,
    "rpower": lambda s, x: s.pow(1.5, x),
    "greater": lambda s, x: x > 0.5,
    "lesser_equal": lambda s, x: x <= 0.5,
    "equal": lambda s, x: x == 0.5,
    "maximum": lambda s, x: s.maximum(x, 0.5),
    "minimum": lambda s, x: s.minimum(x, 0.5),
    "hypot": lambda s, x: s.hypot(x, 0.5),
}
for _name, _build in _SCALARS.items():
    _add(f"scalar_{_name}", _build, positive=_name in ("power", "rmod"))
_add("add_n", lambda s, x: s.add_n(x, x * 2, x * 3))
_add("where", lambda s, x: s.where(x > 0, x, _two(s)), others={"data2": IMAGE})
_add("where_rows", lambda s, x: s.where(s.slice_axis(x, axis=1, begin=0, end=1).reshape((-1,)) > 0, x, x * 2), (4, 3))
for _name in (
    "abs", "ceil", "cos", "cosh", "erf", "exp", "floor", "relu", "sigmoid", "sign", "sin", "sinh", "softsign", "tan",
    "tanh", "reciprocal", "arctan", "arcsinh", "negative", "square", "cbrt", "expm1", "fix", "trunc", "round", "rint",
    "logical_not",
):  # fmt: skip
    _add(f"unary_{_name}", lambda s, x, name=_name: getattr(s, name)(x))
for _name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt"):
    _add(f"unary_{_name}", lambda s, x, name=_name: getattr(s, name)(x), positive=True)
for _name in ("arcsin", "arccos", "arctanh"):
    _add(f"unary_{_name}", lambda s, x, name=_name: getattr(s, name)(s.tanh(x) * 0.9))
_add("round_halves", lambda s, x: s.Group([s.round(y), s.rint(y)]) if (y := s.floor(x * 2) / 2) is not None else None)
_add("clip", lambda s, x: s.clip(x, a_min=-0.5, a_max=0.7))
_add("smooth_l1", lambda s, x: s.smooth_l1(x, scalar=2.0))
for _name in ("sum", "mean", "max", "min", "prod"):
    _add(f"reduce_{_name}", lambda s, x, name=_name: getattr(s, name)(x, axis=(1, -1)))
    _add(f"reduce_{_name}_all", lambda s, x, name=_name: getattr(s, name)(x), (2, 3, 4))
_add("reduce_keep", lambda s, x: s.mean(x, axis=1, keepdims=True))
_add("reduce_exclude", lambda s, x: s.sum(x, axis=(1,), exclude=True))
_add("norm", lambda s, x: s.norm(x, ord=2, axis=1, keepdims=True))
_add("norm_1", lambda s, x: s.norm(x, ord=1, axis=(2,)))
_add("argmax", lambda s, x: s.argmax(x, axis=1))
_add("argmin_keep", lambda s, x: s.argmin(x, axis=-1, keepdims=True))
_add("argmax_all", lambda s, x: s.argmax(x))
_add("argmax_channel", lambda s, x: s.argmax_channel(x), (3, 5))
_add("dot", lambda s, x: s.dot(x, _two(s)), (3, 4), others={"data2": (4, 5)})
_add("dot_a", lambda s, x: s.dot(x, _two(s), transpose_a=True), (4, 3), others={"data2": (4, 5)})
_add("dot_b", lambda s, x: s.dot(x, _two(s), transpose_b=True), (2, 3, 4), others={"data2": (5, 4)})
_add("batch_dot", lambda s, x: s.batch_dot(x, _two(s)), (2, 3, 4), others={"data2": (2, 4, 5)})
_add(
    "batch_dot_both",
    lambda s, x: s.batch_dot(x, _two(s), transpose_a=True, transpose_b=True),
    (2, 4, 3),
    others={"data2": (2, 5, 4)},
)
_add("gemm2", lambda s, x: s.linalg.gemm2(x, _two(s), alpha=0.5), (2, 3, 4), others={"data2": (2, 4, 5)})
_add("softmax", lambda s, x: s.softmax(x))
_add("softmax_axis", lambda s, x: s.softmax(x, axis=1, temperature=2.0))
_add("softmin", lambda s, x: s.softmin(x, axis=2))
_add("log_softmax", lambda s, x: s.log_softmax(x, axis=-2))
_add("softmax_activation", lambda s, x: s.SoftmaxActivation(x))
_add("softmax_activation_channel", lambda s, x: s.SoftmaxActivation(x, mode="channel"))
_add("softmax_output", lambda s, x: s.SoftmaxOutput(x, name="softmax"))
_add("softmax_output_multi", lambda s, x: s.SoftmaxOutput(x, multi_output=True, name="softmax"))
_add("softmax_output_preserve", lambda s, x: s.SoftmaxOutput(x, preserve_shape=True, name="softmax"))
_add("logistic_output", lambda s, x: s.LogisticRegressionOutput(x, name="lro"), (3, 4))
_add("linear_output", lambda s, x: s.LinearRegressionOutput(x, name="lro"), (3, 4))
_add("upsampling", lambda s, x: s.UpSampling(x, scale=3, sample_type="nearest"))
for _mode in ("concat", "sum"):
    _add(
        f"upsampling_{_mode}",
        lambda s, x, mode=_mode: s.UpSampling(
            x, _two(s), scale=2, sample_type="nearest", num_args=2, multi_input_mode=mode
        ),
        (2, 3, 8, 8),
        others={"data2": (2, 3, 4, 4)},
    )
for _scale in (2, 3):
    _add(
        f"upsampling_bilinear_{_scale}",
        lambda s, x, scale=_scale: s.UpSampling(
            x, s.var("w"), scale=scale, sample_type="bilinear", num_filter=6, num_args=2
        ),
    )
_add("resize_size", lambda s, x: s.contrib.BilinearResize2D(x, height=13, width=20))
_add("resize_smaller", lambda s, x: s.contrib.BilinearResize2D(x, height=5, width=4))
_add("resize_half_pixel", lambda s, x: s.contrib.BilinearResize2D(x, height=13, width=7, align_corners=False))
_add("resize_scale", lambda s, x: s.contrib.BilinearResize2D(x, scale_height=2.0, scale_width=1.5))
_add(
    "resize_odd",
    lambda s, x: s.contrib.BilinearResize2D(x, scale_height=2.0, scale_width=0.5, mode="odd_scale"),
)
_add("resize_like", lambda s, x: s.contrib.BilinearResize2D(x, _two(s), mode="like"), others={"data2": (1, 1, 4, 5)})
_add("resize_even", lambda s, x: s.contrib.BilinearResize2D(x, mode="to_even_up"))
_add("embedding", lambda s, x: s.Embedding(x, input_dim=7, output_dim=5), (2, 3), indices=("data",))
_add("take", lambda s, x: s.take(x, _two(s), axis=2), others={"data2": (3,)}, indices=("data2",))
_add("take_wrap", lambda s, x: s.take(x, _two(s), axis=1, mode="wrap"), others={"data2": (2, 2)}, indices=("data2",))
_add("one_hot", lambda s, x: s.one_hot(x, depth=8, on_value=2.0, off_value=-1.0), (2, 3), indices=("data",))
_add("dropout", lambda s, x: s.Dropout(x, p=0.4) + 1)
_add("block_grad", lambda s, x: s.BlockGrad(x) + s.identity(x))
_add("cast", lambda s, x: s.cast(s.cast(x * 3, dtype="int32"), dtype="float32") * 2)
_add(
    "zeros_ones",
    lambda s, x: s.broadcast_add(s.ones_like(x) * x, s.broadcast_add(s.zeros((1, 6, 1, 1)), s.ones((1, 1, 9, 11)))),
)
_add("full", lambda s, x: s.broadcast_mul(x, s.full((1, 6, 1, 1), 2.5)))
_add("arange", lambda s, x: s.broadcast_add(x, s.arange(1, 7, 1).reshape((1, 6, 1, 1))))
_add("arange_repeat", lambda s, x: s.broadcast_add(x, s.arange(0, 3, repeat=2).reshape((1, 6, 1, 1))))
_add("arange_like", lambda s, x: s.broadcast_add(x, s.contrib.arange_like(x, axis=-1, start=2, step=0.5)))
_add("arange_like_all", lambda s, x: x + s.contrib.arange_like(x), (2, 3))
_add("div_sqrt_dim", lambda s, x: s.contrib.div_sqrt_dim(x))
_add(
    "multi_box_prior",
    lambda s, x: s.contrib.MultiBoxPrior(x, sizes=(0.2, 0.35), ratios=(1, 2, 0.5)) * 1.0,
)
_add(
    "multi_box_prior_steps",
    lambda s, x: (
        s.contrib.MultiBoxPrior(x, sizes=(0.8,), ratios=(2, 0.5), steps=(0.1, 0.2), offsets=(0.3, 0.6), clip=True) * 1.0
    ),
)


def _mtcnn(s: Any, x: Any) -> Any:
    """A face network in the style of MTCNN's first stage."""
    for i, filters in enumerate((8, 12)):
        x = s.Convolution(x, kernel=(3, 3), num_filter=filters, name=f"conv{i}")
        x = s.LeakyReLU(x, act_type="prelu", name=f"prelu{i}")
        if i == 0:
            x = s.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", pooling_convention="full", name="pool")
    scores = s.Convolution(x, kernel=(1, 1), num_filter=2, name="scores")
    boxes = s.Convolution(x, kernel=(1, 1), num_filter=4, name="boxes")
    return s.Group([boxes, s.SoftmaxActivation(scores, mode="channel", name="probabilities")])


def _ssd(s: Any, x: Any) -> Any:
    """Two scales of an SSD head, up to what the detection layer takes."""
    scores, boxes, anchors = [], [], []
    for i in range(2):
        x = s.Activation(s.Convolution(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), num_filter=8), act_type="relu")
        score = s.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=9, name=f"score{i}")
        box = s.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=12, name=f"box{i}")
        scores.append(s.Flatten(s.transpose(score, axes=(0, 2, 3, 1))))
        boxes.append(s.Flatten(s.transpose(box, axes=(0, 2, 3, 1))))
        prior = s.contrib.MultiBoxPrior(x, sizes=(0.2 + 0.3 * i, 0.4 + 0.3 * i), ratios=(1, 2), name=f"anchors{i}")
        anchors.append(s.Flatten(prior))
    joined = s.Reshape(s.Concat(*scores, dim=1), shape=(0, -1, 3))
    probabilities = s.SoftmaxActivation(s.transpose(joined, axes=(0, 2, 1)), mode="channel")
    return s.Group([probabilities, s.Concat(*boxes, dim=1), s.Reshape(s.Concat(*anchors, dim=1), shape=(0, -1, 4))])


def _mobilenet_v2(s: Any, x: Any) -> Any:
    """MobileNetV2 as written for MXNet's symbol API, a block of each kind: no biases, BatchNorm with gamma, clip to 6,
    global pooling with a kernel and `full`, Reshape and FullyConnected at the end.
    """

    def unit(x: Any, filters: int, name: str, *, kernel: int = 1, stride: int = 1, groups: int = 1) -> Any:
        pad = (kernel // 2, kernel // 2)
        x = s.Convolution(
            x, kernel=(kernel, kernel), stride=(stride, stride), pad=pad, num_filter=filters, num_group=groups,
            no_bias=True, name=name,
        )  # fmt: skip
        return s.BatchNorm(x, fix_gamma=False, momentum=0.9, eps=1e-5, name=f"{name}_bn")

    x = s.clip(unit(x, 8, "first", kernel=3, stride=2), a_min=0, a_max=6)
    for i, (filters, stride) in enumerate(((8, 1), (12, 2), (12, 1))):
        wide = s.clip(unit(x, 24, f"expand{i}"), a_min=0, a_max=6)
        wide = s.clip(unit(wide, 24, f"depthwise{i}", kernel=3, stride=stride, groups=24), a_min=0, a_max=6)
        narrow = unit(wide, filters, f"project{i}")
        x = s.elemwise_add(narrow, x) if i != 1 else narrow
    x = s.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg", pooling_convention="full", name="pool")
    return s.SoftmaxOutput(s.FullyConnected(s.Reshape(x, shape=(0, -1)), num_hidden=10), name="softmax")


_add("mobilenet_v2", _mobilenet_v2, (1, 3, 32, 32))
_add("mtcnn", _mtcnn, (1, 3, 23, 30))
_add("ssd", _ssd, (1, 3, 20, 28))
