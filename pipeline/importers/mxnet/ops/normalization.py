"""Batch, layer, instance, group, L2 and local response normalisation."""

import math

import numpy as np

from ...findings import Unsupported
from ..emitter import Emitter, Node, Tensor
from ..registry import converts

_STATES = ("gamma", "beta", "moving_mean", "moving_var")


@converts(
    "BatchNorm",
    "BatchNorm_v1",
    "CuDNNBatchNorm",
    "SyncBatchNorm",
    "_contrib_SyncBatchNorm",
    weights=(1, 2, 3, 4),
)
def batch_norm(g: Emitter, node: Node) -> Tensor:
    """Always with the stored mean and variance. With fix_gamma, the default, gamma counts as 1 whatever is stored."""
    a = node.attributes
    a.ignore("momentum", "use_global_stats", "key", "ndev", "min_calib_range", "max_calib_range")
    if a.flag("output_mean_var", False):
        raise Unsupported("attribute output_mean_var, got True; expected False: these are made in training only")
    epsilon, axis = a.number("eps", 1e-3), node.axis("axis", 1)
    channels = node.data.shape[axis]
    if len(node.inputs) != len(_STATES) + 1:
        raise Unsupported(f"has {len(node.inputs)} inputs; expected data, {', '.join(_STATES)}")
    for what, parameter in zip(_STATES, node.inputs[1:], strict=True):
        if parameter.shape != (channels,):
            raise Unsupported(f"{what} of shape {parameter.shape}; expected {(channels,)}")
    gamma = node.input(1)
    if a.flag("fix_gamma", True):
        gamma = g.constant(np.ones(channels, np.float32))
    parameters = [gamma, *node.inputs[2:5]]
    if axis == 1:
        return g.emit("BatchNormalization", node.data, *parameters, epsilon=epsilon)
    order = [i for i in range(node.data.rank) if i != axis]
    order.insert(1, axis)
    moved = g.transpose(node.data, order)
    return g.transpose(
        g.emit("BatchNormalization", moved, *parameters, epsilon=epsilon), [int(i) for i in np.argsort(order)]
    )


@converts("LayerNorm", weights=(1, 2))
def layer_norm(g: Emitter, node: Node) -> Tensor:
    a, x = node.attributes, node.data
    axis = node.axis("axis", -1)
    if a.flag("output_mean_var", False):
        raise Unsupported("attribute output_mean_var, got True; expected False")
    centred = g.emit("Sub", x, g.emit("ReduceMean", x, axes=[axis]))
    variance = g.emit("ReduceMean", g.emit("Mul", centred, centred), axes=[axis])
    scale = g.emit("Sqrt", g.emit("Add", variance, g.scalar(a.number("eps", 1e-5), x)))
    shape = [1] * x.rank
    shape[axis] = x.shape[axis]
    gamma, beta = (g.reshape(node.input(i), shape) for i in (1, 2))
    return g.emit("Add", g.emit("Mul", g.emit("Div", centred, scale), gamma), beta)


@converts("InstanceNorm", weights=(1, 2))
def instance_norm(g: Emitter, node: Node) -> Tensor:
    epsilon = node.attributes.number("eps", 1e-3)
    return g.emit("InstanceNormalization", node.data, node.input(1), node.input(2), epsilon=epsilon)


@converts("GroupNorm", weights=(1, 2))
def group_norm(g: Emitter, node: Node) -> Tensor:
    """gamma and beta are of each group (MXNet 1.x) or of each channel (2.0)."""
    a, x = node.attributes, node.data
    groups = a.integer("num_groups", 1)
    if a.flag("output_mean_var", False):
        raise Unsupported("attribute output_mean_var, got True; expected False")
    if x.rank < 3 or groups < 1 or x.shape[1] % groups:
        raise Unsupported(f"attribute num_groups, got {groups} for data of shape {x.shape}")
    parts = g.reshape(x, (x.shape[0], groups, math.prod(x.shape[1:]) // groups))
    gamma, beta, epsilon = node.input(1), node.input(2), a.number("eps", 1e-5)
    if gamma.shape == beta.shape == (groups,):
        return g.reshape(g.emit("InstanceNormalization", parts, gamma, beta, epsilon=epsilon), x.shape)
    ones, zeros = (g.constant(np.full(groups, v, np.float32)) for v in (1, 0))
    plain = g.reshape(g.emit("InstanceNormalization", parts, ones, zeros, epsilon=epsilon), x.shape)
    gamma, beta = (g.reshape(t, (1, x.shape[1], *[1] * (x.rank - 2))) for t in (gamma, beta))
    return g.emit("Add", g.emit("Mul", plain, gamma), beta)


@converts("L2Normalization")
def l2_normalization(g: Emitter, node: Node) -> Tensor:
    a, x = node.attributes, node.data
    mode = a.text("mode", "instance", "instance", "channel", "spatial")
    axes = {"instance": range(1, x.rank), "channel": [1], "spatial": range(2, x.rank)}[mode]
    squares = g.emit("ReduceSum", g.emit("Mul", x, x), g.constant(list(axes)))
    return g.emit("Div", x, g.emit("Sqrt", g.emit("Add", squares, g.scalar(a.number("eps", 1e-10), x))))


@converts("LRN")
def lrn(g: Emitter, node: Node) -> Tensor:
    a = node.attributes
    return g.emit(
        "LRN",
        node.data,
        size=a.integer("nsize"),
        alpha=a.number("alpha", 1e-4),
        beta=a.number("beta", 0.75),
        bias=a.number("knorm", 2.0),
    )
