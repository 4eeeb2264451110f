"""Pooling. MXNet's windows are written out as explicit pads, since ONNX's ceil_mode means something else."""

import math

import numpy as np

from ...findings import Unsupported
from ..emitter import Emitter, Node, Tensor
from ..registry import converts

_KINDS = ("max", "avg", "sum", "lp")
_GLOBAL = {"max": "GlobalMaxPool", "avg": "GlobalAveragePool"}


@converts("Pooling", "Pooling_v1")
def pooling(g: Emitter, node: Node) -> Tensor:
    """`full` rounds the number of windows up: the last may hang over the pad, which an average does not count."""
    a, x = node.attributes, node.data
    rank = x.rank - 2
    kind = a.text("pool_type", "max", *_KINDS)
    if rank not in (1, 2, 3):
        raise Unsupported(f"data of shape {x.shape}; expected 3 to 5 dimensions")
    a.text("layout", "None", "None", {1: "NCW", 2: "NCHW", 3: "NCDHW"}[rank])
    count_pad, power = a.flag("count_include_pad", True), a.integer("p_value", 2)
    if a.flag("global_pool", False):
        a.ignore("kernel", "stride", "pad", "pooling_convention")
        return _global(g, x, kind, power)
    kernel, strides, pads = a.spatial("kernel", rank, 0), a.spatial("stride", rank, 1), a.spatial("pad", rank, 0)
    convention = a.text("pooling_convention", "valid", "valid", "full", "same")
    if min(kernel) < 1 or min(strides) < 1 or min(pads) < 0:
        raise Unsupported(f"kernel {kernel}, stride {strides}, pad {pads}; expected positive extents")
    if convention == "same":
        raise Unsupported(
            "attribute pooling_convention, got same; expected valid or full",
            hint="write the same windows with pad and full",
        )
    overhangs = []
    for size, k, s, p in zip(x.shape[2:], kernel, strides, pads, strict=True):
        room = size + 2 * p - k
        if room < 0:
            raise Unsupported(f"kernel {kernel} is larger than the padded data of shape {x.shape}")
        steps = room // s if convention == "valid" else -(-room // s)
        overhangs.append(max(steps * s - room, 0))
        if p >= k or (steps * s >= size + p):
            raise Unsupported(f"pad {pads} with kernel {kernel}: a window would hold nothing but pad")
    ends = [p + o for p, o in zip(pads, overhangs, strict=True)]
    windows = {"kernel_shape": list(kernel), "strides": list(strides)}
    if kind == "max":
        return g.emit("MaxPool", x, pads=[*pads, *ends], **windows)
    if kind == "lp":
        return g.emit("LpPool", x, pads=[*pads, *ends], p=power, **windows)
    if kind == "sum":
        mean = g.emit("AveragePool", x, pads=[*pads, *ends], count_include_pad=1, **windows)
        return g.emit("Mul", mean, g.scalar(math.prod(kernel), x))
    if not count_pad or not any(overhangs) or not any(pads):
        counted = int(count_pad and not any(overhangs))
        return g.emit("AveragePool", x, pads=[*pads, *ends], count_include_pad=counted, **windows)
    padded = g.emit("Pad", x, g.constant([0, 0, *pads, 0, 0, *pads]))
    return g.emit("AveragePool", padded, pads=[0] * rank + overhangs, count_include_pad=0, **windows)


def _global(g: Emitter, x: Tensor, kind: str, power: int) -> Tensor:
    if kind == "lp":
        return g.emit("GlobalLpPool", x, p=power)
    if kind == "sum":
        return g.emit("ReduceSum", x, g.constant(list(range(2, x.rank))))
    return g.emit(_GLOBAL[kind], x)


@converts("_contrib_AdaptiveAvgPooling2D")
def adaptive_average(g: Emitter, node: Node) -> Tensor:
    """Means over [floor(i n / o), ceil((i + 1) n / o)), as two products with constant matrices."""
    x = node.data
    if x.rank != 4:
        raise Unsupported(f"data of shape {x.shape}; expected N C H W")
    sizes = node.attributes.integers("output_size", (1,))
    height, width = sizes if len(sizes) == 2 else (*sizes, *sizes)
    if (height, width) == (1, 1):
        return g.emit("GlobalAveragePool", x)
    rows, columns = _averages(x.shape[2], height), _averages(x.shape[3], width)
    return g.emit("MatMul", g.emit("MatMul", g.constant(rows), x), g.constant(columns.T.copy()))


def _averages(size: int, parts: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """(parts, size) whose row i averages part i."""
    if not 1 <= parts <= 4096:
        raise Unsupported(f"attribute output_size, got {parts}; expected 1 to 4096")
    table = np.zeros((parts, size), np.float32)
    for i in range(parts):
        first, last = i * size // parts, -(-(i + 1) * size // parts)
        table[i, first:last] = 1 / (last - first)
    return table
