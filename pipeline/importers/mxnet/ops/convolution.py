"""Convolution, transposed convolution, fully connected."""

import math

from ...findings import Unsupported
from ..emitter import Emitter, Node, Tensor
from ..registry import converts

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _kernel(node: Node) -> tuple[int, ...]:
    kernel = node.attributes.integers("kernel")
    rank = len(kernel)
    if rank not in _LAYOUTS or node.data.rank != rank + 2 or min(kernel) < 1:
        raise Unsupported(f"attribute kernel, got {kernel} for data of shape {node.data.shape}")
    node.attributes.text("layout", _LAYOUTS[rank], _LAYOUTS[rank], "None")
    return kernel


def _check_weight(node: Node, wanted: tuple[int, ...]) -> None:
    got = node.input(1).shape
    if got != wanted:
        raise Unsupported(f"weight of shape {got}; expected {wanted}")


def _bias(node: Node, count: int, default_no_bias: bool) -> Tensor | None:
    if node.attributes.flag("no_bias", default_no_bias):
        return None
    bias = node.input(2)
    if bias.shape != (count,):
        raise Unsupported(f"bias of shape {bias.shape}; expected {(count,)}")
    return bias


def _groups(node: Node, *counts: int) -> int:
    groups = node.attributes.integer("num_group", 1)
    if groups < 1 or any(n < 1 or n % groups for n in counts):
        raise Unsupported(f"attribute num_group, got {groups}; expected a divisor of {' and '.join(map(str, counts))}")
    return groups


@converts("Convolution", "Convolution_v1", weights=(1, 2))
def convolution(g: Emitter, node: Node) -> Tensor:
    a, kernel = node.attributes, _kernel(node)
    rank, channels, filters = len(kernel), node.data.shape[1], a.integer("num_filter")
    groups = _groups(node, channels, filters)
    _check_weight(node, (filters, channels // groups, *kernel))
    pads = a.spatial("pad", rank, 0)
    return g.emit(
        "Conv",
        node.data,
        node.input(1),
        _bias(node, filters, False),
        kernel_shape=list(kernel),
        strides=list(a.spatial("stride", rank, 1)),
        dilations=list(a.spatial("dilate", rank, 1)),
        pads=[*pads, *pads],
        group=groups,
    )


@converts("Deconvolution", weights=(1, 2))
def deconvolution(g: Emitter, node: Node) -> Tensor:
    """`target_shape` replaces pad and adj: what is too much is cut off, the odd pixel in front."""
    a, kernel = node.attributes, _kernel(node)
    rank, channels, filters = len(kernel), node.data.shape[1], a.integer("num_filter")
    groups = _groups(node, channels, filters)
    _check_weight(node, (channels, filters // groups, *kernel))
    strides, dilations = a.spatial("stride", rank, 1), a.spatial("dilate", rank, 1)
    pads, extras = a.spatial("pad", rank, 0), a.spatial("adj", rank, 0)
    if any(target := a.spatial("target_shape", rank, 0)):
        whole = [
            s * (n - 1) + d * (k - 1) + 1
            for s, n, d, k in zip(strides, node.data.shape[2:], dilations, kernel, strict=True)
        ]
        cut = [w - t for w, t in zip(whole, target, strict=True)]
        if min(cut) < 0:
            raise Unsupported(f"attribute target_shape, got {target}; expected at most {tuple(whole)}")
        pads, extras = tuple((c + 1) // 2 for c in cut), tuple(c % 2 for c in cut)
    return g.emit(
        "ConvTranspose",
        node.data,
        node.input(1),
        _bias(node, filters, True),
        kernel_shape=list(kernel),
        strides=list(strides),
        dilations=list(dilations),
        pads=[*pads, *pads],
        output_padding=list(extras),
        group=groups,
    )


@converts("FullyConnected", weights=(1, 2))
def fully_connected(g: Emitter, node: Node) -> Tensor:
    units, x = node.attributes.integer("num_hidden"), node.data
    if node.attributes.flag("flatten", True) or x.rank == 2:
        x = g.reshape(x, (x.shape[0], math.prod(x.shape[1:])))
        _check_weight(node, (units, x.shape[1]))
        return g.emit("Gemm", x, node.input(1), _bias(node, units, False), transB=1)
    _check_weight(node, (units, x.shape[-1]))
    product = g.emit("MatMul", x, g.transpose(node.input(1), (1, 0)))
    bias = _bias(node, units, False)
    return product if bias is None else g.emit("Add", product, bias)
