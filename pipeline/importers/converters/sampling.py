"""GridSample, RoiAlign and DeformConv: reading between pixels at positions that are computed at run time."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from tvm import te, tirx

from ..findings import Unsupported
from ..node import Node
from ..registry import converts
from ..values import Value
from ..walk import Context


def _f(x: float, dtype: str) -> Any:
    return tirx.const(x, dtype)


def _reflect(x: Any, low: float, high: float, dtype: str) -> Any:
    """Mirror a position at `low` and `high` until it lies between them."""
    if high <= low:
        return _f(low, dtype)
    span = _f(high - low, dtype)
    distance = tirx.abs(x - _f(low, dtype))
    turns = tirx.floor(distance / span)
    rest = distance - turns * span
    odd = tirx.floor(turns / _f(2, dtype)) * _f(2, dtype) != turns
    return tirx.Select(odd, _f(high, dtype) - rest, _f(low, dtype) + rest)


def _limits(length: int, align: bool) -> tuple[float, float]:
    return (0.0, length - 1.0) if align else (-0.5, length - 0.5)


def _place(x: Any, length: int, padding: str, align: bool, dtype: str) -> Any:
    """A position moved into the image, for `border` and `reflection`."""
    if padding == "border":
        return tirx.max(tirx.min(x, _f(length - 1, dtype)), _f(0, dtype))
    return _reflect(x, *_limits(length, align), dtype) if padding == "reflection" else x


def _pixel(data: Any, lead: Sequence[Any], index: Sequence[Any], spatial: Sequence[int], zero: Any) -> Any:
    """The pixel at whole-number positions; 0 outside of the image, which is never read there."""
    inside = tirx.all(*(tirx.all(i >= 0, i < d) for i, d in zip(index, spatial, strict=True)))
    safe = [
        tirx.max(tirx.min(i, tirx.const(d - 1, "int64")), tirx.const(0, "int64"))
        for i, d in zip(index, spatial, strict=True)
    ]
    return tirx.Select(inside, data(*lead, *safe), zero)


def _linear(
    data: Any, lead: Sequence[Any], at: Sequence[Any], spatial: Sequence[int], dtype: str, place: Any = None
) -> Any:
    """Weighted mean of the 2**rank pixels around a position. `place(position, axis)` moves them into the image; pixels
    outside count as 0."""
    bases = [tirx.floor(x) for x in at]
    total: Any = _f(0, dtype)
    for corner in product((0, 1), repeat=len(at)):
        weight: Any = _f(1, dtype)
        index = []
        for axis, (x, base, side) in enumerate(zip(at, bases, corner, strict=True)):
            share = x - base
            weight = weight * (share if side else _f(1, dtype) - share)
            tap = base + _f(side, dtype)
            index.append((tap if place is None else place(tap, axis)).astype("int64"))
        total = total + weight * _pixel(data, lead, index, spatial, _f(0, dtype))
    return total


def _cubic_weights(t: Any, dtype: str) -> list[Any]:
    a = -0.75

    def near(d: Any) -> Any:
        return (_f(a + 2, dtype) * d - _f(a + 3, dtype)) * d * d + _f(1, dtype)

    def far(d: Any) -> Any:
        return ((_f(a, dtype) * d - _f(5 * a, dtype)) * d + _f(8 * a, dtype)) * d - _f(4 * a, dtype)

    one = _f(1, dtype)
    return [far(t + one), near(t), near(one - t), far(one - t + one)]


def _cubic(
    data: Any, lead: Sequence[Any], at: Sequence[Any], spatial: Sequence[int], padding: str, align: bool, dtype: str
) -> Any:
    bases = [tirx.floor(x) for x in at]
    weights = [_cubic_weights(x - b, dtype) for x, b in zip(at, bases, strict=True)]
    total: Any = _f(0, dtype)
    for taps in product(range(4), repeat=len(at)):
        weight: Any = _f(1, dtype)
        index = []
        for axis, tap in enumerate(taps):
            weight = weight * weights[axis][tap]
            moved = bases[axis] + _f(tap - 1, dtype)
            index.append(_place(moved, spatial[axis], padding, align, dtype).astype("int64"))
        total = total + weight * _pixel(data, lead, index, spatial, _f(0, dtype))
    return total


@converts("GridSample")
def convert_grid_sample(ctx: Context, node: Node) -> Value:
    """x is N C and the image, the grid is N, the output's size and one position per image axis, last axis first."""
    x, grid = node.tensor(0), node.tensor(1)
    rank, dtype = x.rank - 2, x.dtype
    mode = node.text("mode", "linear").removeprefix("bi").replace("tri", "")
    padding, align = node.text("padding_mode", "zeros"), bool(node.attribute("align_corners", 0))
    if padding not in ("zeros", "border", "reflection") or mode not in ("linear", "nearest", "cubic"):
        raise Unsupported(f"mode {mode!r} with padding_mode {padding!r} is unknown")
    if grid.rank != x.rank or grid.shape[-1] != rank or rank > 3 or (mode == "cubic" and rank > 2):
        raise Unsupported(f"image {x.shape} and grid {grid.shape} with mode {mode!r} are not supported")
    spatial = x.shape[2:]

    def compute(data: Any, positions: Any) -> Any:
        def at(n: Any, c: Any, *o: Any) -> Any:
            where = []
            for axis, length in enumerate(spatial):
                v = positions(n, *o, rank - 1 - axis).astype(dtype)
                half = (v + _f(1, dtype)) * _f(0.5, dtype)
                place = half * _f(length - 1, dtype) if align else half * _f(length, dtype) - _f(0.5, dtype)
                if mode == "nearest":
                    place = tirx.nearbyint(place)
                where.append(place if mode == "cubic" else _place(place, length, padding, align, dtype))
            if mode == "linear":
                return _linear(
                    data, (n, c), where, spatial, dtype, lambda x, a: _place(x, spatial[a], padding, align, dtype)
                )
            if mode == "cubic":
                return _cubic(data, (n, c), where, spatial, padding, align, dtype)
            index = [tirx.nearbyint(w).astype("int64") for w in where]
            return _pixel(data, (n, c), index, spatial, _f(0, dtype))

        return te.compute((*x.shape[:2], *grid.shape[1:-1]), at, name="T_grid_sample")

    return ctx.te("grid_sample", compute, x, grid)


@converts("RoiAlign")
def convert_roi_align(ctx: Context, node: Node) -> Value:
    x, rois, batches = node.tensor(0), node.tensor(1), ctx.cast(node.tensor(2), "int64")
    height, width = int(node.attribute("output_height", 1)), int(node.attribute("output_width", 1))
    ratio, scale, dtype = int(node.attribute("sampling_ratio", 0)), float(node.attribute("spatial_scale", 1.0)), x.dtype
    if ratio < 1:
        raise Unsupported("sampling_ratio 0 makes the work depend on the data", hint="export with sampling_ratio=2")
    default = "half_pixel" if node.version >= 16 else "output_half_pixel"
    half = node.text("coordinate_transformation_mode", default) == "half_pixel"
    mode = node.text("mode", "avg")
    spatial = x.shape[2:]

    def compute(data: Any, boxes: Any, images: Any) -> Any:
        sy, sx = te.reduce_axis((0, ratio), name="sy"), te.reduce_axis((0, ratio), name="sx")

        def at(r: Any, c: Any, oy: Any, ox: Any) -> Any:
            places = []
            for axis, (o, s, count) in enumerate(((oy, sy, height), (ox, sx, width))):
                offset = _f(0.5 if half else 0.0, dtype)
                low = boxes(r, 1 - axis) * _f(scale, dtype) - offset
                size = boxes(r, 3 - axis) * _f(scale, dtype) - offset - low
                size = size if half else tirx.max(size, _f(1, dtype))
                cell = size / _f(count, dtype)
                inner = (s.astype(dtype) + _f(0.5, dtype)) * cell / _f(ratio, dtype)
                places.append(low + o.astype(dtype) * cell + inner)
            return _roi_value(data, (images(r), c), places, spatial, dtype, (sy, sx), mode, ratio)

        return te.compute((rois.shape[0], x.shape[1], height, width), at, name="T_roi_align")

    return ctx.te("roi_align", compute, x, rois, batches)


def _roi_value(
    data: Any,
    lead: Sequence[Any],
    places: Sequence[Any],
    spatial: Sequence[int],
    dtype: str,
    samples: Sequence[Any],
    mode: str,
    ratio: int,
) -> Any:
    """Mean, or largest weighted corner, over the samples of one cell; samples more than a pixel outside count as 0."""
    outside = tirx.any(*(tirx.any(p < _f(-1, dtype), p > _f(d, dtype)) for p, d in zip(places, spatial, strict=True)))
    near = [tirx.max(tirx.min(p, _f(d - 1, dtype)), _f(0, dtype)) for p, d in zip(places, spatial, strict=True)]
    if mode == "avg":
        value = tirx.Select(outside, _f(0, dtype), _linear(data, lead, near, spatial, dtype))
        return te.sum(value * _f(1.0 / (ratio * ratio), dtype), axis=list(samples))
    bases = [tirx.floor(p) for p in near]
    largest: Any = None
    for corner in product((0, 1), repeat=2):
        weight: Any = _f(1, dtype)
        for p, base, side in zip(near, bases, corner, strict=True):
            weight = weight * ((p - base) if side else _f(1, dtype) - (p - base))
        index = [b.astype("int64") + side for b, side in zip(bases, corner, strict=True)]
        value = weight * _pixel(data, lead, index, spatial, _f(0, dtype))
        largest = value if largest is None else tirx.max(largest, value)
    return te.max(tirx.Select(outside, _f(0, dtype), largest), axis=list(samples))


@converts("DeformConv")
def convert_deform_conv(ctx: Context, node: Node) -> Value:
    """Every tap of the kernel reads at its own offset; the columns gathered so are multiplied with the weights."""
    x, weight, offset = node.tensor(0), node.tensor(1), node.tensor(2)
    bias, mask = node.optional(3), node.optional(4)
    if x.rank != 4:
        raise Unsupported(f"input has rank {x.rank}; expected 4")
    strides, dilations = node.ints("strides", [1, 1]) or [], node.ints("dilations", [1, 1]) or []
    pads, groups = node.ints("pads", [0] * 4) or [], int(node.attribute("group", 1))
    shared = x.shape[1] // int(node.attribute("offset_group", 1))
    kernel, spatial, dtype = weight.shape[2:], x.shape[2:], x.dtype
    output = offset.shape[2:]
    taps, inner = kernel[0] * kernel[1], weight.shape[1]

    def columns(data: Any, moves: Any, *masks: Any) -> Any:
        def at(n: Any, c: Any, k: Any, oy: Any, ox: Any) -> Any:
            places = []
            steps = (tirx.indexdiv(k, kernel[1]), tirx.indexmod(k, kernel[1]))
            for axis, (o, step) in enumerate(zip((oy, ox), steps, strict=True)):
                base = o * strides[axis] - pads[axis] + step * dilations[axis]
                which = (tirx.indexdiv(c, shared) * taps + k) * 2 + axis
                places.append(base.astype(dtype) + moves(n, which, oy, ox))
            value = _linear(data, (n, c), places, spatial, dtype)
            return value * masks[0](n, tirx.indexdiv(c, shared) * taps + k, oy, ox) if masks else value

        return te.compute((*x.shape[:2], taps, *output), at, name="T_deform_columns")

    gathered = ctx.te("deform_columns", columns, x, offset, *([mask] if mask is not None else []))
    per_group = (x.shape[0], groups, inner * taps, output[0] * output[1])
    matrix = ctx.reshape(weight, (groups, weight.shape[0] // groups, inner * taps))
    y = ctx.matmul(matrix, ctx.reshape(gathered, per_group))
    y = ctx.reshape(y, (x.shape[0], weight.shape[0], *output))
    return y if bias is None else ctx.add(y, ctx.reshape(bias, (bias.size, 1, 1)))


@converts("Col2Im")
def convert_col2im(ctx: Context, node: Node) -> Value:
    """Each pixel sums the blocks that cover it."""
    x = node.tensor(0)
    image, block = node.integers(1, "image_shape"), node.integers(2, "block_shape")
    rank = len(image)
    strides, dilations = node.ints("strides", [1] * rank) or [], node.ints("dilations", [1] * rank) or []
    pads = node.ints("pads", [0] * 2 * rank) or []
    extents = [d * (b - 1) + 1 for d, b in zip(dilations, block, strict=True)]
    counts = [
        (i + pads[a] + pads[a + rank] - e) // s + 1
        for a, (i, e, s) in enumerate(zip(image, extents, strides, strict=True))
    ]
    taps = int(np.prod(block))
    if x.shape[1] % taps or x.shape[2] != int(np.prod(counts)):
        raise Unsupported(f"columns {x.shape} do not fit blocks {block} over an image of {image}")
    channels = x.shape[1] // taps
    laid = ctx.reshape(x, (x.shape[0], channels, *block, *counts))

    def compute(data: Any) -> Any:
        axes = [te.reduce_axis((0, b), name=f"k{i}") for i, b in enumerate(block)]

        def at(n: Any, c: Any, *p: Any) -> Any:
            hits, index = [], []
            for a in range(rank):
                place = p[a] + pads[a] - axes[a] * dilations[a]
                which = tirx.floordiv(place, strides[a])
                hits.append(tirx.all((which * strides[a]).equal(place), which >= 0, which < counts[a]))
                index.append(tirx.max(tirx.min(which, counts[a] - 1), 0))
            value = tirx.Select(tirx.all(*hits), data(n, c, *axes, *index), tirx.const(0, x.dtype))
            return te.sum(value, axis=axes)

        return te.compute((x.shape[0], channels, *image), at, name="T_col2im")

    return ctx.te("col2im", compute, laid)


@converts("Det")
def convert_det(ctx: Context, node: Node) -> Value:
    """Leibniz's sum over permutations, for matrices up to 4 by 4."""
    x = node.tensor(0)
    n = x.shape[-1]
    if n > 4 or x.shape[-2] != n:
        raise Unsupported(f"matrices are {x.shape[-2]} by {n}; expected square ones up to 4 by 4")

    def minor(data: Any, lead: Sequence[Any], row: int, columns: tuple[int, ...]) -> Any:
        if not columns:
            return tirx.const(1, x.dtype)
        total: Any = None
        for position, column in enumerate(columns):
            rest = minor(data, lead, row + 1, columns[:position] + columns[position + 1 :])
            term = data(*lead, row, column) * rest
            total = term if total is None else (total - term if position % 2 else total + term)
        return total

    def compute(data: Any) -> Any:
        return te.compute(x.shape[:-2], lambda *i: minor(data, i, 0, tuple(range(n))), name="T_det")

    return ctx.te("det", compute, x)
