"""Conv, ConvTranspose and ConvInteger in one to three spatial dimensions."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tvm import relax

from ..findings import Unsupported
from ..node import Node
from ..registry import converts
from ..values import Array, Linear, Value, constant
from ..walk import Context
from ..windows import Window, read_kernel, read_window


@converts("Conv")
def convert_conv(ctx: Context, node: Node) -> Value:
    return convolve(ctx, node, node.tensor(0), node.tensor(1), node.optional(2))


def convolve(ctx: Context, node: Node, x: Value, weight: Value, bias: Value | None) -> Value:
    """A convolution by the node's attributes on NC... data and OI... weights of one type."""
    if not 3 <= x.rank <= 5 or weight.rank != x.rank:
        raise Unsupported(f"input and weight have ranks {x.rank} and {weight.rank}; expected 3, 4 or 5 for both")
    groups = int(node.attribute("group", 1))
    window = read_window(node, x.shape[2:], read_kernel(node, x.rank - 2, weight.shape[2:]))
    channels, outputs = x.shape[1], weight.shape[0]
    if groups < 1 or channels != weight.shape[1] * groups or outputs % groups:
        raise Unsupported(f"{channels} input channels do not fit weight {weight.shape} with {groups} groups")
    if bias is not None and bias.shape != (outputs,):
        raise Unsupported(f"bias has shape {bias.shape}; expected ({outputs},)")
    if weight.data is None or (bias is not None and bias.data is None):
        return _add_bias(ctx, _conv(ctx, x, weight, window, groups), bias)
    w, b = weight.data, None if bias is None else bias.data

    def emit(scale: Array, shift: Array) -> Value:
        scaled = w.astype(np.float64) * scale.reshape(-1, *[1] * (w.ndim - 1))
        shifted = (0.0 if b is None else b.astype(np.float64)) * scale + shift
        return _constant_conv(
            ctx, x, scaled.astype(w.dtype), shifted.astype(w.dtype), window, groups, emit, scale, shift
        )

    return _constant_conv(ctx, x, w, b, window, groups, emit, np.ones(outputs), np.zeros(outputs))


def _constant_conv(
    ctx: Context,
    x: Value,
    weight: Array,
    bias: Array | None,
    window: Window,
    groups: int,
    emit: "object",
    scale: Array,
    shift: Array,
) -> Value:
    """The layer with constant weights; the result remembers how to be made again with another scale and shift."""
    result = _add_bias(ctx, _conv(ctx, x, constant(weight), window, groups), None if bias is None else constant(bias))
    if not callable(emit) or weight.dtype.kind != "f":
        return result

    def again(more: Array, offset: Array) -> Value:
        value = emit(scale * more, shift * more + offset)
        assert isinstance(value, Value)
        return value

    return replace(result, linear=Linear(emit=again, channels=weight.shape[0], channel_axis=1))


def _add_bias(ctx: Context, x: Value, bias: Value | None) -> Value:
    if bias is None or (bias.data is not None and not bias.data.any()):
        return x
    return ctx.add(x, ctx.reshape(bias, (1, bias.size, *[1] * (x.rank - 2))))


def _conv(ctx: Context, x: Value, weight: Value, window: Window, groups: int) -> Value:
    """One spatial dimension is convolved as two, the first of size 1: schedules know two."""
    rank, pads = len(window.kernel), window.padding
    strides, dilations = list(window.strides), list(window.dilations)
    out_dtype = x.dtype
    if rank == 1:
        flat = ctx.reshape(x, (*x.shape[:2], 1, x.shape[2]))
        w = ctx.reshape(weight, (*weight.shape[:2], 1, weight.shape[2]))
        y = ctx.emit(
            relax.op.nn.conv2d(
                ctx.expr(flat),
                ctx.expr(w),
                (1, *strides),
                (0, pads[0], 0, pads[1]),
                (1, *dilations),
                groups,
                out_dtype=out_dtype,
            )
        )
        return ctx.reshape(y, (y.shape[0], y.shape[1], y.shape[3]))
    op = relax.op.nn.conv2d if rank == 2 else relax.op.nn.conv3d
    return ctx.emit(op(ctx.expr(x), ctx.expr(weight), strides, pads, dilations, groups, out_dtype=out_dtype))


@converts("ConvTranspose")
def convert_conv_transpose(ctx: Context, node: Node) -> Value:
    """Weights are IO...; dilated kernels are spread out while importing."""
    x, weight, bias = node.tensor(0), node.tensor(1), node.optional(2)
    rank = x.rank - 2
    if rank not in (1, 2, 3) or weight.rank != x.rank:
        raise Unsupported(f"input and weight have ranks {x.rank} and {weight.rank}; expected 3, 4 or 5 for both")
    groups = int(node.attribute("group", 1))
    kernel = read_kernel(node, rank, weight.shape[2:])
    if x.shape[1] != weight.shape[0] or weight.shape[0] % groups:
        raise Unsupported(f"{x.shape[1]} input channels do not fit weight {weight.shape} with {groups} groups")
    strides = node.ints("strides", [1] * rank) or [1] * rank
    dilations = node.ints("dilations", [1] * rank) or [1] * rank
    extra = node.ints("output_padding", [0] * rank) or [0] * rank
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    full = [s * (i - 1) + e for s, i, e in zip(strides, x.shape[2:], extents, strict=True)]
    before, after = _transpose_pads(node, [f + p for f, p in zip(full, extra, strict=True)], x.shape[2:], strides)
    if any(d != 1 for d in dilations):
        weight = _spread(weight, dilations)
    outputs = weight.shape[1] * groups
    if bias is not None and bias.shape != (outputs,):
        raise Unsupported(f"bias has shape {bias.shape}; expected ({outputs},)")
    # Everything is computed, then cropped by `pads` (or filled up where output_shape asks for more than there is).
    fill = [max(-a, 0) + 0 for a in after]
    sizes = [f + p - b - a for f, p, b, a in zip(full, extra, before, after, strict=True)]
    if min(sizes) < 1:
        raise Unsupported(f"the pads leave nothing of the output, got sizes {sizes}")
    inside = all(
        0 <= b <= e - 1 and 0 <= a <= e - 1 and p < max(s, d)
        for b, a, e, p, s, d in zip(before, after, extents, extra, strides, dilations, strict=True)
    )
    groups_ok = groups == 1 or rank > 1
    if inside and groups_ok:
        y = _transposed(ctx, x, weight, strides, [*before, *after], extra, groups)
    else:
        y = _transposed(ctx, x, weight, strides, [0] * 2 * rank, [0] * rank, groups)
        room = [max(b + s - f, 0) for b, s, f in zip(before, sizes, full, strict=True)]
        front = [max(-b, 0) for b in before]
        y = ctx.pad(y, [0, 0, *front], [0, 0, *(max(r, f) for r, f in zip(room, fill, strict=True))])
        starts = [max(b, 0) for b in before]
        ends = [s + n for s, n in zip(starts, sizes, strict=True)]
        y = ctx.slice(y, list(range(2, x.rank)), starts, ends)
    return _add_bias(ctx, y, bias)


def _transpose_pads(
    node: Node, sizes: list[int], spatial: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[int]]:
    """What is cropped at the beginning and end of the full output, per axis; negative where zeros are appended."""
    rank = len(sizes)
    auto = node.text("auto_pad", "NOTSET") or "NOTSET"
    wanted = node.ints("output_shape")
    if wanted is not None:
        wanted = wanted[-rank:]
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [i * s for i, s in zip(spatial, strides, strict=True)]
    if wanted is not None:
        total = [f - w for f, w in zip(sizes, wanted, strict=True)]
        small = [t // 2 for t in total]
        large = [t - t // 2 for t in total]
        return (small, large) if auto != "SAME_LOWER" else (large, small)
    if auto == "VALID":
        return [0] * rank, [0] * rank
    if auto != "NOTSET":
        raise Unsupported(f"auto_pad is unknown, got {auto!r}; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    pads = node.ints("pads", [0] * 2 * rank) or [0] * 2 * rank
    if len(pads) != 2 * rank or min(pads) < 0:
        raise Unsupported(f"pads make no sense, got {pads}; expected {2 * rank} numbers of 0 or more")
    return pads[:rank], pads[rank:]


def _spread(weight: Value, dilations: Sequence[int]) -> Value:
    if weight.data is None:
        raise Unsupported("dilations need a constant weight; this one is computed at run time")
    extents = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    spread = np.zeros((*weight.shape[:2], *extents), weight.data.dtype)
    spread[(slice(None), slice(None), *(slice(None, None, d) for d in dilations))] = weight.data
    return constant(spread)


def _transposed(
    ctx: Context,
    x: Value,
    weight: Value,
    strides: Sequence[int],
    pads: Sequence[int],
    extra: Sequence[int],
    groups: int,
) -> Value:
    rank = x.rank - 2
    if rank == 1:
        y = _transposed(
            ctx,
            ctx.reshape(x, (*x.shape[:2], 1, x.shape[2])),
            ctx.reshape(weight, (*weight.shape[:2], 1, weight.shape[2])),
            [1, *strides],
            [0, pads[0], 0, pads[1]],
            [0, *extra],
            groups,
        )
        return ctx.reshape(y, (y.shape[0], y.shape[1], y.shape[3]))
    op = relax.op.nn.conv2d_transpose if rank == 2 else relax.op.nn.conv3d_transpose
    return ctx.emit(
        op(ctx.expr(x), ctx.expr(weight), list(strides), list(pads), list(extra), groups=groups, out_dtype=x.dtype)
    )


@converts("ConvInteger")
def convert_conv_integer(ctx: Context, node: Node) -> Value:
    """int32 accumulation of (x - x_zero_point) * (w - w_zero_point)."""
    x, weight = ctx.cast(node.tensor(0), "int32"), ctx.cast(node.tensor(1), "int32")
    x_zero, w_zero = node.optional(2), node.optional(3)
    if x_zero is not None:
        x = ctx.sub(x, ctx.reshape(ctx.cast(x_zero, "int32"), ()))
    if w_zero is not None:
        w_zero = ctx.cast(w_zero, "int32")
        shape = () if w_zero.size == 1 else (w_zero.size, *[1] * (weight.rank - 1))
        weight = ctx.sub(weight, ctx.reshape(w_zero, shape))
    return convolve(ctx, node, x, weight, None)
