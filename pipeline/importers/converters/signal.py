"""Fourier transforms as products with constant matrices."""

import numpy as np

from ..findings import Unsupported
from ..limits import check_table_size
from ..node import Node, normal_axis
from ..registry import converts
from ..values import Value, constant
from ..walk import Context


@converts("DFT")
def convert_dft(ctx: Context, node: Node) -> Value:
    x = node.tensor(0)
    length = node.integers(1, "dft_length")[0] if node.has(1) else None
    axis = node.attribute("axis", 1) if node.version < 20 else node.integers(2, "axis")[0] if node.has(2) else -2
    axis = normal_axis(axis, x.rank)
    if axis == x.rank - 1:
        raise Unsupported("axis is that of real and imaginary parts; expected another one")
    inverse, onesided = bool(node.attribute("inverse", 0)), bool(node.attribute("onesided", 0))
    order = [a for a in range(x.rank - 1) if a != axis] + [axis, x.rank - 1]
    y = transform(ctx, ctx.transpose(x, order), length, inverse=inverse, onesided=onesided)
    return ctx.transpose(y, [order.index(a) for a in range(x.rank)])


def transform(ctx: Context, x: Value, length: int | None, *, inverse: bool, onesided: bool) -> Value:
    """Along the last axis but one of (..., n, 1 or 2); the last holds real and imaginary parts."""
    bins, parts = x.shape[-2:]
    if parts > 2:
        raise Unsupported(f"the last axis has {parts} elements; expected real parts, or real and imaginary ones")
    real = inverse and onesided
    n = length or (2 * (bins - 1) if real else bins)
    taken = min(n // 2 + 1 if real else n, bins)
    x = ctx.slice(x, [x.rank - 2], [0], [taken])
    check_table_size("a table of angles", taken, n)
    k = np.arange(taken)[:, None]
    outputs = np.arange(n // 2 + 1 if onesided and not inverse else n)[None, :]
    angle = 2 * np.pi * ((k * outputs) % n) / n * (1 if inverse else -1)
    factor = np.full((taken, 1), 1.0 / n if inverse else 1.0)
    if real:
        # Bins above the half are the conjugates of those below and double these.
        factor = factor * np.where((k == 0) | ((n % 2 == 0) & (k == n // 2)), 1.0, 2.0)
    cos, sin = np.cos(angle) * factor, np.sin(angle) * factor
    halves = [ctx.reshape(ctx.slice(x, [x.rank - 1], [p], [p + 1]), x.shape[:-1]) for p in range(parts)]
    re = ctx.matmul(halves[0], constant(cos, x.dtype))
    im = ctx.matmul(halves[0], constant(sin, x.dtype))
    if parts == 2:
        re = ctx.sub(re, ctx.matmul(halves[1], constant(sin, x.dtype)))
        im = ctx.add(im, ctx.matmul(halves[1], constant(cos, x.dtype)))
    return ctx.reshape(re, (*re.shape, 1)) if real else ctx.stack([re, im], re.rank)


@converts("STFT")
def convert_stft(ctx: Context, node: Node) -> Value:
    """Overlapping frames, each windowed and transformed."""
    x, step = node.tensor(0), node.integers(1, "frame_step")[0]
    window = node.optional(2)
    if node.has(3):
        length = node.integers(3, "frame_length")[0]
    elif window is not None:
        length = window.shape[0]
    else:
        raise Unsupported("has neither window nor frame_length")
    x = ctx.reshape(x, (*x.shape, 1)) if x.rank == 2 else x
    frames = (x.shape[1] - length) // step + 1
    check_table_size("a table of positions", max(frames, 0), length)
    index = np.arange(frames)[:, None] * step + np.arange(length)[None, :]
    framed = ctx.take(x, 1, index)
    if window is not None:
        framed = ctx.mul(framed, ctx.reshape(window, (window.size, 1)))
    return transform(ctx, framed, None, inverse=False, onesided=bool(node.attribute("onesided", 1)))
