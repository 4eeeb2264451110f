"""Activations, and softmax in all its forms."""

import math

from ...findings import Unsupported
from ..emitter import Emitter, Node, Tensor, normal_axis
from ..registry import converts

_ACTIVATIONS = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "softrelu": "Softplus", "softsign": "Softsign"}
# SELU's constants (Klambauer et al., Self-Normalizing Neural Networks, 2017) are ONNX's defaults, too.


@converts("Activation")
def activation(g: Emitter, node: Node) -> Tensor:
    return g.emit(_ACTIVATIONS[node.attributes.text("act_type", None, *_ACTIVATIONS)], node.data)


@converts("LeakyReLU", weights=(1,))
def leaky_relu(g: Emitter, node: Node) -> Tensor:
    a, x = node.attributes, node.data
    kind = a.text("act_type", "leaky", "leaky", "prelu", "elu", "selu", "gelu", "rrelu")
    slope = a.number("slope", 0.25)
    lower, upper = a.number("lower_bound", 0.125), a.number("upper_bound", 0.334)
    if kind == "prelu":
        gamma = node.input(1)
        if math.prod(gamma.shape) not in (1, x.shape[min(1, x.rank - 1)]):
            raise Unsupported(f"gamma of shape {gamma.shape}; expected {(x.shape[1],)}, or 1 number")
        return g.emit("PRelu", x, g.reshape(gamma, (math.prod(gamma.shape), *[1] * (x.rank - 2))))
    if kind == "gelu":
        erf = g.emit("Erf", g.emit("Mul", x, g.scalar(1 / math.sqrt(2), x)))
        return g.emit("Mul", g.emit("Mul", x, g.scalar(0.5, x)), g.emit("Add", erf, g.scalar(1, x)))
    if kind == "elu":
        return g.emit("Elu", x, alpha=slope)
    if kind == "selu":
        return g.emit("Selu", x)
    return g.emit("LeakyRelu", x, alpha=slope if kind == "leaky" else (lower + upper) / 2)


@converts("hard_sigmoid")
def hard_sigmoid(g: Emitter, node: Node) -> Tensor:
    a = node.attributes
    return g.emit("HardSigmoid", node.data, alpha=a.number("alpha", 0.2), beta=a.number("beta", 0.5))


@converts("softmax", "softmin", "log_softmax", uses=1)
def softmax(g: Emitter, node: Node) -> Tensor:
    a, x = node.attributes, node.data
    axis = node.axis("axis", -1)
    a.ignore("dtype")
    if a.flag("use_length", False):
        raise Unsupported("attribute use_length, got True; expected False")
    if (temperature := a.number("temperature", 1.0)) != 1:
        x = g.emit("Div", x, g.scalar(temperature, x))
    if node.operator == "softmin":
        x = g.emit("Neg", x)
    return g.emit("LogSoftmax" if node.operator == "log_softmax" else "Softmax", x, axis=axis)


@converts("SoftmaxActivation")
def softmax_activation(g: Emitter, node: Node) -> Tensor:
    """`instance` means the last axis: MXNet makes rows of whatever stands before it."""
    mode = node.attributes.text("mode", "instance", "instance", "channel")
    return g.emit("Softmax", node.data, axis=normal_axis(1 if mode == "channel" else -1, node.data.rank))


@converts("SoftmaxOutput", "Softmax", uses=1)
def softmax_output(g: Emitter, node: Node) -> Tensor:
    """Over everything but the batch, unless an attribute says over which axis."""
    a, x = node.attributes, node.data
    a.ignore("grad_scale", "ignore_label", "use_ignore", "normalization", "out_grad", "smooth_alpha")
    preserve = a.flag("preserve_shape", False)
    if a.flag("multi_output", False):
        return g.emit("Softmax", x, axis=normal_axis(1, x.rank))
    if preserve:
        return g.emit("Softmax", x, axis=x.rank - 1)
    flat = g.reshape(x, (x.shape[0], math.prod(x.shape[1:])))
    return g.reshape(g.emit("Softmax", flat, axis=1), x.shape)


@converts("LogisticRegressionOutput", uses=1)
def logistic(g: Emitter, node: Node) -> Tensor:
    node.attributes.ignore("grad_scale")
    return g.emit("Sigmoid", node.data)


@converts("clip")
def clip(g: Emitter, node: Node) -> Tensor:
    low, high = (g.scalar(node.attributes.number(name), node.data) for name in ("a_min", "a_max"))
    return g.emit("Clip", node.data, low, high)


@converts("smooth_l1")
def smooth_l1(g: Emitter, node: Node) -> Tensor:
    """0.5 (s x)^2 where |x| < 1 / s^2, else |x| - 0.5 / s^2."""
    x, square = node.data, node.attributes.number("scalar", 1.0) ** 2
    size = g.emit("Abs", x)
    inner = g.emit("Mul", g.emit("Mul", x, x), g.scalar(0.5 * square, x))
    return g.emit(
        "Where",
        g.emit("Less", size, g.scalar(1 / square, x)),
        inner,
        g.emit("Sub", size, g.scalar(0.5 / square, x)),
    )
