"""Resize and Upsample. Which inputs an output element takes, and with which weights, is known while importing."""

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import te, tirx

from ..findings import Unsupported
from ..limits import check_table_size, check_tensor_size
from ..node import Node, normal_axis
from ..registry import converts
from ..values import Array, Value, constant
from ..walk import Context


@converts("Upsample")
def convert_upsample(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    if "scales" in node.attributes:
        scales = np.asarray(node.attributes["scales"], np.float32)
    elif "height_scale" in node.attributes:
        scales = np.asarray([1, 1, node.attributes["height_scale"], node.attributes["width_scale"]], np.float32)
    else:
        scales = node.constant(1, "scales").astype(np.float32)
    return _old_resize(ctx, node, x, scales)


def _old_resize(ctx: Context, node: Node, x: Value, scales: Array) -> Value:
    """Before opset 11: coordinates are asymmetric; nearest takes the pixel below, or above where it shrinks."""
    mode = node.text("mode", "nearest")
    if scales.size != x.rank:
        raise Unsupported(f"scales have the wrong length, got {scales.tolist()}; expected {x.rank} numbers")
    sizes = [float(np.floor(np.float32(d) * s)) for d, s in zip(x.shape, scales, strict=True)]
    if not all(1 <= size < 2**31 for size in sizes):
        raise Unsupported(f"scales make no sense, got {scales.tolist()}")
    check_tensor_size("the result", [int(size) for size in sizes], x.dtype)
    for axis, scale in enumerate(scales):
        if scale == 1:
            continue
        output = int(np.floor(np.float32(x.shape[axis]) * scale))
        at = np.arange(output, dtype=np.float32) / scale
        if mode == "nearest":
            index = np.ceil(at) if scale < 1 else np.floor(at)
            x = _nearest(ctx, x, axis, np.clip(index, 0, x.shape[axis] - 1).astype(np.int64))
        elif mode in ("linear", "bilinear"):
            x = _weighted(ctx, x, axis, *_taps(at, x.shape[axis], _linear))
        else:
            raise Unsupported(f"mode is unknown, got {mode!r}; expected nearest or linear")
    return x


@converts("Resize")
def convert_resize(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    if node.version < 11:
        return _old_resize(ctx, node, x, node.constant(1, "scales").astype(np.float32))
    axes = [normal_axis(a, x.rank) for a in node.ints("axes", range(x.rank)) or []]
    sizes = node.integers(3, "sizes") if node.has(3) and node.tensor(3).size else None
    roi = node.constant(1, "roi").astype(np.float64) if node.has(1) and node.tensor(1).size else None
    if sizes is None:
        if not node.has(2) or not node.tensor(2).size:
            raise Unsupported("has neither scales nor sizes")
        scales = [np.float32(s) for s in node.constant(2, "scales").reshape(-1)]
        if len(scales) != len(axes):
            raise Unsupported(f"scales have the wrong length, got {len(scales)} numbers; expected {len(axes)}")
        sizes = [int(np.floor(np.float32(x.shape[a]) * s)) for a, s in zip(axes, scales, strict=True)]
    else:
        sizes, scales = _sizes_and_scales(node, x, axes, sizes)
    result = {**dict(enumerate(x.shape)), **dict(zip(axes, sizes, strict=True))}
    check_tensor_size("the result", list(result.values()), x.dtype)
    extrapolated: list[tuple[int, Array]] = []
    for i, axis in enumerate(axes):
        region = (0.0, 1.0) if roi is None else (float(roi[i]), float(roi[i + len(axes)]))
        if node.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
            changes = sizes[i] != x.shape[axis] or region != (0.0, 1.0)
        else:
            changes = sizes[i] != x.shape[axis] or scales[i] != 1
        if changes:
            check_table_size("a table of positions", sizes[i])
            at = _coordinates(node, x.shape[axis], sizes[i], scales[i], region)
            if node.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
                extrapolated.append((axis, (at < 0) | (at > x.shape[axis] - 1)))
            x = _resize_axis(ctx, node, x, axis, at, scales[i])
    return _extrapolate(ctx, x, extrapolated, float(node.attribute("extrapolation_value", 0.0)))


def _sizes_and_scales(node: Node, x: Value, axes: list[int], sizes: list[int]) -> tuple[list[int], list[Any]]:
    if len(sizes) != len(axes):
        raise Unsupported(f"sizes have the wrong length, got {sizes}; expected {len(axes)} numbers")
    if any(s < 1 for s in sizes):
        raise Unsupported(f"sizes make no sense, got {sizes}; expected positive numbers")
    scales = [s / x.shape[a] for s, a in zip(sizes, axes, strict=True)]
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        common = min(scales) if policy == "not_larger" else max(scales)
        scales = [common] * len(axes)
        sizes = [int(np.floor(common * x.shape[a] + 0.5)) for a in axes]
    return sizes, scales


def _coordinates(node: Node, length: int, output: int, scale: Any, region: tuple[float, float]) -> Array:
    """Where each output element lies in the input, shape (output,).

    In float32, step by step as onnxruntime computes it: near a whole number, rounding decides which pixel `floor` and
    `ceil` take.
    """
    kind = node.text("coordinate_transformation_mode", "half_pixel")
    at = np.arange(output, dtype=np.float32)
    half, one, factor = np.float32(0.5), np.float32(1), np.float32(scale)
    last = np.float32(length - 1)
    exact = factor * np.float32(length)
    if kind == "align_corners":
        if abs(exact - output) > 1e-3:
            raise Unsupported(
                f"align_corners with a scale of {float(scale):g} on {length} elements gives no whole size, for which "
                "ONNX and onnxruntime disagree",
                hint="export the Resize with sizes",
            )
        return at * 0 if output == 1 else at * last / np.float32(output - 1)
    if kind == "asymmetric":
        return at / factor
    if kind == "tf_crop_and_resize":
        start, end = np.float32(region[0]), np.float32(region[1])
        if output == 1:
            return at * 0 + half * (start + end) * last
        return start * last + at * (end - start) * last / np.float32(output - 1)
    if kind == "pytorch_half_pixel" and output == 1:
        return at * 0
    if kind == "tf_half_pixel_for_nn":
        return (at + half) / factor
    if kind == "half_pixel_symmetric":
        offset = np.float32(length) / 2 * (one - np.float32(output) / exact)
        return offset + (at + half) / factor - half
    if kind in ("half_pixel", "pytorch_half_pixel"):
        return (at + half) / factor - half
    raise Unsupported(f"coordinate_transformation_mode is unknown, got {kind!r}")


def _resize_axis(ctx: Context, node: Node, x: Value, axis: int, at: Array, scale: Any) -> Value:
    mode, length = node.text("mode", "nearest"), x.shape[axis]
    if mode == "nearest":
        return _nearest(ctx, x, axis, np.clip(_round(node, at), 0, length - 1).astype(np.int64))
    shrink = min(float(scale), 1.0) if node.attribute("antialias", 0) else 1.0
    if mode == "linear":
        index, weights = _taps(at, length, _linear, reach=1, shrink=shrink)
    elif mode == "cubic":
        a = float(node.attribute("cubic_coeff_a", -0.75))
        index, weights = _taps(at, length, lambda d: _cubic(d, a), reach=2, shrink=shrink)
    else:
        raise Unsupported(f"mode is unknown, got {mode!r}; expected nearest, linear or cubic")
    if node.attribute("exclude_outside", 0):
        weights = np.where((index < 0) | (index >= length), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    return _weighted(ctx, x, axis, index, weights)


def _round(node: Node, at: Array) -> Array:
    kind = node.text("nearest_mode", "round_prefer_floor")
    rounders: dict[str, Callable[[Array], Any]] = {
        "round_prefer_floor": lambda v: np.ceil(v - 0.5),
        "round_prefer_ceil": lambda v: np.floor(v + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    if kind not in rounders:
        raise Unsupported(f"nearest_mode is unknown, got {kind!r}; expected {', '.join(rounders)}")
    return np.asarray(rounders[kind](at))


def _linear(distance: Array) -> Array:
    return np.maximum(1 - np.abs(distance), 0)


def _cubic(distance: Array, a: float) -> Array:
    d = np.abs(distance)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _taps(at: Array, length: int, kernel: Any, reach: int = 1, shrink: float = 1.0) -> tuple[Array, Array]:
    """Positions (may lie outside, where the edge is repeated) and weights per output element, shapes (output, taps)."""
    start = int(np.floor(-reach / shrink)) + 1
    taps = 2 - 2 * start
    check_table_size("a table of weights", at.size, taps)
    base = np.ceil(at).astype(np.int64) - 1
    index = base[:, None] + np.arange(start, start + taps)[None, :]
    weights = kernel((index - at[:, None]) * shrink)
    return index, weights / weights.sum(1, keepdims=True)


def _nearest(ctx: Context, x: Value, axis: int, index: Array) -> Value:
    """Whole-number enlargement needs no table of positions."""
    length, output = x.shape[axis], index.size
    if output > length and output % length == 0:
        times = output // length
        if (index == np.arange(output) // times).all() and x.data is None:
            shape = (*x.shape[:axis], output, *x.shape[axis + 1 :])

            def compute(data: Any) -> Any:
                return te.compute(
                    shape,
                    lambda *i: data(*i[:axis], tirx.indexdiv(i[axis], times), *i[axis + 1 :]),
                    name="T_resize_nearest",
                )

            return ctx.te("resize_nearest", compute, x)
    return ctx.take(x, axis, index)


def _weighted(ctx: Context, x: Value, axis: int, index: Array, weights: Array) -> Value:
    taps = index.shape[1]
    wide = ctx.cast(x, "float32") if x.dtype not in ("float32", "float64") else x
    table = constant(np.clip(index, 0, x.shape[axis] - 1).astype(np.int32))
    factors = constant(weights.astype(wide.dtype))
    shape = (*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :])

    def compute(data: Any, where: Any, weight: Any) -> Any:
        k = te.reduce_axis((0, taps), name="tap")

        def at(*i: Any) -> Any:
            return te.sum(data(*i[:axis], where(i[axis], k), *i[axis + 1 :]) * weight(i[axis], k), axis=k)

        return te.compute(shape, at, name="T_resize")

    y = ctx.te("resize", compute, wide, table, factors)
    if x.dtype.startswith(("int", "uint")):
        raise Unsupported(f"interpolates {x.dtype}; expected a floating-point type")
    return ctx.cast(y, x.dtype)


def _extrapolate(ctx: Context, x: Value, outside: list[tuple[int, Array]], fill: float) -> Value:
    if not outside:
        return x
    check_table_size("a mask", *x.shape)
    mask = np.zeros(x.shape, bool)
    for axis, flags in outside:
        mask |= flags.reshape([-1 if a == axis else 1 for a in range(x.rank)])
    return ctx.where(constant(mask), ctx.scalar(fill, x), x) if mask.any() else x
