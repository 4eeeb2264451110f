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


def _reflect(x: Any, low: Any, high: Any, dtype: str) -> Any:
    """Mirror a position at `low` and `high` until it lies between them."""
    span = high - low
    distance = tirx.abs(x - low)
    turns = tirx.floor(distance / span)
    rest = distance - turns * span
    odd = tirx.floor(turns / _f(2, dtype)) * _f(2, dtype) != turns
    return tirx.Select(span > _f(0, dtype), tirx.Select(odd, high - rest, low + rest), low)


def _place(x: Any, length: Any, padding: str, align: bool, dtype: str) -> Any:
    """A position moved into the image, for `border` and `reflection`; `length` is of the position's type."""
    if padding == "border":
        return tirx.max(tirx.min(x, length - _f(1, dtype)), _f(0, dtype))
    if padding == "reflection" and align:
        return _reflect(x, _f(0, dtype), length - _f(1, dtype), dtype)
    return _reflect(x, _f(-0.5, dtype), length - _f(0.5, dtype), dtype) if padding == "reflection" else x


def _pixel(data: Any, lead: Sequence[Any], index: Sequence[Any], spatial: Sequence[int], zero: Any) -> Any:
    """The pixel at whole-number positions; 0 outside of the image, which is never read there."""
    inside = tirx.all(*(tirx.all(i >= 0, i < d) for i, d in zip(index, spatial, strict=True)))
    safe = [
        tirx.max(tirx.min(i, tirx.const(d - 1, "int64")), tirx.const(0, "int64"))
        for i, d in zip(index, spatial, strict=True)
    ]
    return tirx.Select(inside, data(*lead, *safe), zero)


def _linear(data: Any, lead: Sequence[Any], at: Sequence[Any], spatial: Sequence[int], dtype: str) -> Any:
    """Weighted mean of the 2**rank pixels around a position; pixels outside count as 0."""
    bases = [tirx.floor(x) for x in at]
    total: Any = _f(0, dtype)
    for corner in product((0, 1), repeat=len(at)):
        weight: Any = _f(1, dtype)
        index = []
        for x, base, side in zip(at, bases, corner, strict=True):
            share = x - base
            weight = weight * (share if side else _f(1, dtype) - share)
            index.append((base + _f(side, dtype)).astype("int64"))
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


def _choose(which: Any, values: Sequence[Any]) -> Any:
    """values[which]."""
    chosen = values[-1]
    for i in reversed(range(len(values) - 1)):
        chosen = tirx.Select(which.equal(i), values[i], chosen)
    return chosen


@converts("GridSample")
def convert_grid_sample(ctx: Context, node: Node) -> Value:
    """x is N C and the image, the grid is N, the output's size and one position per image axis, last axis first.

    Which pixels an output takes, and their weights, is the same in all channels and computed first: tables of (N, axis,
    tap, output's size), -1 for a pixel outside.
    """
    x, grid = node.tensor(0), node.tensor(1)
    rank, dtype = x.rank - 2, x.dtype
    mode = node.text("mode", "linear").removeprefix("bi").replace("tri", "")
    padding, align = node.text("padding_mode", "zeros"), bool(node.attribute("align_corners", 0))
    if padding not in ("zeros", "border", "reflection") or mode not in ("linear", "nearest", "cubic"):
        raise Unsupported(f"mode {mode!r} with padding_mode {padding!r} is unknown")
    if grid.rank != x.rank or grid.shape[-1] != rank or rank > 3 or (mode == "cubic" and rank > 2):
        raise Unsupported(f"image {x.shape} and grid {grid.shape} with mode {mode!r} are not supported")
    spatial, output = x.shape[2:], grid.shape[1:-1]
    taps, first = {"nearest": (1, 0), "linear": (2, 0), "cubic": (4, -1)}[mode]

    def length(axis: Any) -> Any:
        return _choose(axis, [_f(d, dtype) for d in spatial])

    def positions(given: Any) -> Any:
        def at(n: Any, axis: Any, *o: Any) -> Any:
            half = (given(n, *o, rank - 1 - axis).astype(dtype) + _f(1, dtype)) * _f(0.5, dtype)
            place = half * (length(axis) - _f(1, dtype)) if align else half * length(axis) - _f(0.5, dtype)
            if mode == "nearest":
                place = tirx.nearbyint(place)
            return place if mode == "cubic" else _place(place, length(axis), padding, align, dtype)

        return te.compute((grid.shape[0], rank, *output), at, name="T_grid_positions")

    def pixels(place: Any) -> Any:
        def at(n: Any, axis: Any, tap: Any, *o: Any) -> Any:
            if mode == "nearest":
                index = tirx.nearbyint(place(n, axis, *o))
            else:
                whole = tirx.floor(place(n, axis, *o)) + (tap + first).astype(dtype)
                index = _place(whole, length(axis), padding, align, dtype)
            inside = tirx.all(index >= _f(0, dtype), index < length(axis))
            return tirx.Select(inside, index.astype("int32"), tirx.const(-1, "int32"))

        return te.compute((grid.shape[0], rank, taps, *output), at, name="T_grid_pixels")

    def weights(place: Any) -> Any:
        def at(n: Any, axis: Any, tap: Any, *o: Any) -> Any:
            share = place(n, axis, *o) - tirx.floor(place(n, axis, *o))
            if mode == "linear":
                return tirx.Select(tap.equal(0), _f(1, dtype) - share, share)
            return _choose(tap, _cubic_weights(share, dtype)) if mode == "cubic" else _f(1, dtype)

        return te.compute((grid.shape[0], rank, taps, *output), at, name="T_grid_weights")

    def compute(data: Any, where: Any, share: Any) -> Any:
        def at(n: Any, c: Any, *o: Any) -> Any:
            total: Any = _f(0, dtype)
            for chosen in product(range(taps), repeat=rank):
                weight: Any = _f(1, dtype)
                for axis, tap in enumerate(chosen):
                    weight = weight * share(n, axis, tap, *o)
                index = [where(n, axis, tap, *o) for axis, tap in enumerate(chosen)]
                safe = [tirx.max(i, tirx.const(0, "int32")) for i in index]
                pixel = tirx.Select(tirx.all(*(i >= 0 for i in index)), data(n, c, *safe), _f(0, dtype))
                total = total + weight * pixel
            return total

        return te.compute((*x.shape[:2], *output), at, name="T_grid_sample")

    placed = ctx.te("grid_positions", positions, grid)
    tables = (ctx.te("grid_pixels", pixels, placed), ctx.te("grid_weights", weights, placed))
    return ctx.te("grid_sample", compute, x, *tables)


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
