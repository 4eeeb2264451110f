"""Layers written as ONNX compute what plain numpy computes, and weights are used completely."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from malisdk_pipeline.errors import ImportFailed
from malisdk_pipeline.onnx_builder import NetBuilder, Value, Weights, same_pads

RNG = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def run(net: NetBuilder, output: Value, x: np.ndarray) -> np.ndarray:
    session = ort.InferenceSession(net.model(output).SerializeToString(), providers=["CPUExecutionProvider"])
    y = session.run(None, {"x": x})[0]
    assert y.shape == output.shape
    return y


def conv_reference(x, weight, bias, stride, pads, groups):
    """Direct convolution by definition, float64."""
    n, _, h, w = x.shape
    o, c, kh, kw = weight.shape
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    out_h, out_w = (h + pads[0] + pads[2] - kh) // stride + 1, (w + pads[1] + pads[3] - kw) // stride + 1
    y = np.zeros((n, o, out_h, out_w))
    for f in range(o):
        first = f // (o // groups) * c
        for i in range(out_h):
            for j in range(out_w):
                window = padded[:, first : first + c, i * stride : i * stride + kh, j * stride : j * stride + kw]
                y[:, f, i, j] = (window * weight[f]).sum(axis=(1, 2, 3)) + bias[f]
    return y


@pytest.mark.parametrize(
    ("stride", "pads", "groups"),
    [(1, (1, 1, 1, 1), 1), (2, (0, 0, 1, 1), 1), (2, (0, 1, 2, 0), 4), (1, (0, 0, 0, 0), 2)],
)
def test_conv_equals_the_definition(stride, pads, groups):
    x, weight, bias = floats(1, 4, 7, 6), floats(8, 4 // groups, 3, 3), floats(8)
    net = NetBuilder("n", input_name="x", input_shape=x.shape)
    y = run(net, net.conv("c", net.input, weight, bias, stride=stride, pads=pads, groups=groups), x)
    np.testing.assert_allclose(y, conv_reference(x, weight, bias, stride, pads, groups), rtol=1e-4, atol=1e-5)


def test_batch_norm_relu6_add_pool_dense_softmax_equal_numpy():
    x, scale, shift, mean = floats(1, 3, 4, 4), floats(3), floats(3), floats(3)
    variance, weight, bias = np.abs(floats(3)) + 0.5, floats(5, 3), floats(5)
    net = NetBuilder("n", input_name="x", input_shape=x.shape)
    b = net.batch_norm("b", net.input, scale=scale, shift=shift, mean=mean, variance=variance, epsilon=0.25)
    total = net.add("add", net.relu6("six", b), net.relu("relu", b))
    flat = net.flatten("flat", net.global_average_pool("pool", total))
    y = run(net, net.softmax("p", net.dense("d", flat, weight, bias)), x)

    def channel(v):
        return v.reshape(1, 3, 1, 1).astype(np.float64)

    normal = (x - channel(mean)) / np.sqrt(channel(variance) + 0.25) * channel(scale) + channel(shift)
    pooled = (np.clip(normal, 0, 6) + np.maximum(normal, 0)).mean(axis=(2, 3))
    logits = pooled @ weight.T + bias
    np.testing.assert_allclose(y, np.exp(logits) / np.exp(logits).sum(), rtol=1e-5)


@pytest.mark.parametrize(("ceil_mode", "size"), [(False, 2), (True, 3)])
def test_max_pool_rounds_as_told(ceil_mode, size):
    x = floats(1, 2, 6, 6)
    net = NetBuilder("n", input_name="x", input_shape=x.shape)
    y = run(net, net.max_pool("p", net.input, kernel=3, stride=2, ceil_mode=ceil_mode), x)
    starts = [2 * i for i in range(size)]
    expected = [[x[0, :, i : i + 3, j : j + 3].max(axis=(1, 2)) for j in starts] for i in starts]
    np.testing.assert_array_equal(y[0], np.transpose(expected, (2, 0, 1)))


def test_concat_joins_channels():
    x = floats(1, 2, 3, 3)
    net = NetBuilder("n", input_name="x", input_shape=x.shape)
    y = run(net, net.concat("c", [net.input, net.relu("r", net.input)]), x)
    np.testing.assert_array_equal(y, np.concatenate([x, np.maximum(x, 0)], axis=1))


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pads"),
    [
        (224, 3, 2, (0, 0, 1, 1)),
        (7, 3, 2, (1, 1, 1, 1)),
        (56, 5, 2, (1, 1, 2, 2)),
        (7, 5, 1, (2, 2, 2, 2)),
        (8, 1, 2, (0,) * 4),
    ],
)
def test_same_pads_are_tensorflows(size, kernel, stride, pads):
    assert same_pads((size, size), kernel, stride) == pads


def test_model_names_follow_the_layers_and_bytes_repeat():
    def make() -> onnx.ModelProto:
        net = NetBuilder("n", input_name="x", input_shape=(1, 2, 3, 3))
        y = net.conv("blocks.0.expand.conv", net.input, np.ones((4, 2, 1, 1), np.float32), np.zeros(4, np.float32))
        return net.model(net.relu6("blocks.0.expand.relu6", y))

    model = make()
    assert [n.name for n in model.graph.node] == ["blocks.0.expand.conv", "blocks.0.expand.relu6"]
    assert [t.name for t in model.graph.initializer][:2] == ["blocks.0.expand.conv.weight", "blocks.0.expand.conv.bias"]
    assert model.SerializeToString(deterministic=True) == make().SerializeToString(deterministic=True)


def test_weights_missing_misshapen_reused_or_left_over_are_refused():
    weights = Weights({"a": floats(2, 3), "b": floats(4), "c.num_batches_tracked": floats(1)}, source="w.pth")
    with pytest.raises(ImportFailed, match=r"w\.pth: weight z is missing"):
        weights.take("z", (1,))
    with pytest.raises(ImportFailed, match=r"shape of b, got \(4,\); expected \(5,\)"):
        weights.take("b", (5,))
    weights.take("a", (2, 3))
    with pytest.raises(ImportFailed, match="weight a is missing or was used before"):
        weights.take("a", (2, 3))
    with pytest.raises(ImportFailed, match=r"unused weights, got c\.num_batches_tracked"):
        weights.finish()
    weights.drop(".num_batches_tracked")
    weights.finish()


def test_layers_that_do_not_fit_are_refused_by_name():
    net = NetBuilder("n", input_name="x", input_shape=(1, 2, 3, 3))
    with pytest.raises(ImportFailed, match="c: input channels, got 2; expected 3"):
        net.conv("c", net.input, floats(4, 3, 1, 1))
    with pytest.raises(ImportFailed, match="a: shapes"):
        net.add("a", net.input, Value(name="y", shape=(1, 2, 1, 1)))
