"""Conv, ConvTranspose and ConvInteger in one to three spatial dimensions."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from tvm import relax, topi

from ..findings import Unsupported
from ..limits import check_table_size
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
    if weight.dtype not in ("float16", "float32", "float64"):
        return _add_bias(ctx, _conv(ctx, x, weight, window, groups), bias)
    w, b = weight.data, None if bias is None else bias.data
    per_output = (outputs, *[1] * (weight.rank - 1))

    def layer(scaled: Array) -> Value:
        return _conv(ctx, x, constant(scaled), window, groups)

    return _foldable(ctx, layer, w, per_output, b, np.ones(outputs), np.zeros(outputs))


def _foldable(
    ctx: Context,
    layer: Callable[[Array], Value],
    weight: Array,
    per_output: Sequence[int],
    bias: Array | None,
    scale: Array,
    shift: Array,
) -> Value:
    """scale * (layer(weight) + bias) + shift per output channel, as one layer that later scales and shifts join.

    `per_output` is the shape in which the scale multiplies the weight.
    """
    scaled = weight
    if (scale != 1).any():
        scaled = (weight.astype(np.float64) * scale.reshape(per_output)).astype(weight.dtype)
    shifted = (np.zeros_like(scale) if bias is None else bias.astype(np.float64)) * scale + shift
    result = _add_bias(ctx, layer(scaled), constant(shifted.astype(weight.dtype)))

    def again(more: Array, offset: Array) -> Value:
        return _foldable(ctx, layer, weight, per_output, bias, scale * more, shift * more + offset)

    return replace(result, linear=Linear(emit=again, channels=scale.size, channel_axis=1))


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
        weight = _spread(ctx, weight, dilations)
    outputs = weight.shape[1] * groups
    if bias is not None and bias.shape != (outputs,):
        raise Unsupported(f"bias has shape {bias.shape}; expected ({outputs},)")
    sizes = [f + p - b - a for f, p, b, a in zip(full, extra, before, after, strict=True)]
    if min(sizes) < 1:
        raise Unsupported(f"the pads leave nothing of the output, got sizes {sizes}")

    def run(w: Value) -> Value:
        inside = all(
            0 <= b < e and 0 <= a < e and p < max(s, d)
            for b, a, e, p, s, d in zip(before, after, extents, extra, strides, dilations, strict=True)
        )
        if inside and (groups == 1 or rank > 1):
            return _transposed(ctx, x, w, strides, [*before, *after], extra, groups)
        return _cropped(ctx, _transposed(ctx, x, w, strides, [0] * 2 * rank, [0] * rank, groups), before, sizes)

    if weight.data is None or (bias is not None and bias.data is None) or weight.data.dtype.kind != "f":
        return _add_bias(ctx, run(weight), bias)
    # Output channel g * O / groups + o has its weights in the rows of group g.
    data = weight.data.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])

    def layer(scaled: Array) -> Value:
        return run(constant(scaled.reshape(weight.shape)))

    per_output = (groups, 1, weight.shape[1], *[1] * rank)
    bias_data = None if bias is None else bias.data
    return _foldable(ctx, layer, data, per_output, bias_data, np.ones(outputs), np.zeros(outputs))


def _cropped(ctx: Context, full: Value, before: Sequence[int], sizes: Sequence[int]) -> Value:
    """`sizes` elements from position `before` on per spatial axis; zeros where there is nothing."""
    front = [max(-b, 0) for b in before]
    behind = [max(b + s - d, 0) for b, s, d in zip(before, sizes, full.shape[2:], strict=True)]
    padded = ctx.pad(full, [0, 0, *front], [0, 0, *behind])
    starts = [max(b, 0) for b in before]
    ends = [s + n for s, n in zip(starts, sizes, strict=True)]
    return ctx.slice(padded, list(range(2, full.rank)), starts, ends)


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
        small = [t // 2 if t > 0 else 0 for t in total]
        large = [t - s for t, s in zip(total, small, strict=True)]
        # Where more is asked for than there is, zeros are appended.
        first = [s if auto == "SAME_UPPER" or t < 0 else n for t, s, n in zip(total, small, large, strict=True)]
        return first, [t - f for t, f in zip(total, first, strict=True)]
    if auto == "VALID":
        return [0] * rank, [0] * rank
    if auto != "NOTSET":
        raise Unsupported(f"auto_pad is unknown, got {auto!r}; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    pads = node.ints("pads", [0] * 2 * rank) or [0] * 2 * rank
    if len(pads) != 2 * rank or min(pads) < 0:
        raise Unsupported(f"pads make no sense, got {pads}; expected {2 * rank} numbers of 0 or more")
    return pads[:rank], pads[rank:]


def _spread(ctx: Context, weight: Value, dilations: Sequence[int]) -> Value:
    if weight.data is None:
        return ctx.te("dilate", lambda w: topi.nn.dilate(w, [1, 1, *dilations]), weight)
    extents = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    check_table_size("a spread weight", *weight.shape[:2], *extents)
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
