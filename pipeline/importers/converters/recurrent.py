"""RNN, GRU and LSTM, unrolled over the sequence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from tvm import relax

from ..findings import Unsupported
from ..node import Node
from ..registry import converts
from ..values import Value, constant
from ..walk import Context
from .activations import softplus

_MAX_STEPS = 512


@dataclass(frozen=True, kw_only=True)
class _Layer:
    """One direction: weights transposed for x @ w, biases of input and recurrence, activations in ONNX's order."""

    w: Value
    r: Value
    w_bias: Value | None
    r_bias: Value | None
    peephole: Value | None
    activations: list[tuple[str, float | None, float | None]]
    hidden: int
    clip: float | None


_Step: TypeAlias = Callable[[Context, _Layer, Value, Value, Value | None], tuple[Value, Value | None]]


def _activate(ctx: Context, layer: _Layer, which: int, x: Value) -> Value:
    name, alpha, beta = layer.activations[which]
    if layer.clip is not None:
        x = ctx.emit(relax.op.clip(ctx.expr(x), -layer.clip, layer.clip))
    if name in ("sigmoid", "tanh"):
        return ctx.unary(name, x)
    if name == "relu":
        return ctx.emit(relax.op.nn.relu(ctx.expr(x)))
    if name == "affine":
        return ctx.add(ctx.mul(x, ctx.scalar(1.0 if alpha is None else alpha, x)), ctx.scalar(beta or 0.0, x))
    if name == "leakyrelu":
        return ctx.emit(relax.op.nn.leakyrelu(ctx.expr(x), 0.01 if alpha is None else alpha))
    if name == "hardsigmoid":
        line = ctx.add(
            ctx.mul(x, ctx.scalar(0.2 if alpha is None else alpha, x)), ctx.scalar(0.5 if beta is None else beta, x)
        )
        return ctx.emit(relax.op.clip(ctx.expr(line), 0.0, 1.0))
    if name == "softsign":
        return ctx.div(x, ctx.add(ctx.unary("abs", x), ctx.scalar(1, x)))
    if name == "softplus":
        return softplus(ctx, x)
    raise Unsupported(f"activation {name!r} is not supported")


def _part(ctx: Context, x: Value, axis: int, index: int, size: int) -> Value:
    return ctx.slice(x, [axis], [index * size], [(index + 1) * size])


def _product(ctx: Context, x: Value, w: Value, bias: Value | None) -> Value:
    y = ctx.matmul(x, w)
    return y if bias is None else ctx.add(y, bias)


def _rnn_step(ctx: Context, layer: _Layer, given: Value, h: Value, c: Value | None) -> tuple[Value, Value | None]:
    return _activate(ctx, layer, 0, ctx.add(given, _product(ctx, h, layer.r, layer.r_bias))), None


def _lstm_step(ctx: Context, layer: _Layer, given: Value, h: Value, c: Value | None) -> tuple[Value, Value | None]:
    """Gates come as input, output, forget, cell; peepholes as input, output, forget."""
    if c is None:
        raise Unsupported("has no cell state")
    gates = ctx.add(given, _product(ctx, h, layer.r, layer.r_bias))
    i, o, f, g = (_part(ctx, gates, 1, k, layer.hidden) for k in range(4))

    def peep(x: Value, k: int, cell: Value) -> Value:
        if layer.peephole is None:
            return x
        return ctx.add(x, ctx.mul(_part(ctx, layer.peephole, 0, k, layer.hidden), cell))

    i, f = _activate(ctx, layer, 0, peep(i, 0, c)), _activate(ctx, layer, 0, peep(f, 2, c))
    cell = ctx.add(ctx.mul(f, c), ctx.mul(i, _activate(ctx, layer, 1, g)))
    o = _activate(ctx, layer, 0, peep(o, 1, cell))
    return ctx.mul(o, _activate(ctx, replace(layer, clip=None), 2, cell)), cell


def _gru_step(linear_before_reset: bool) -> _Step:
    def step(ctx: Context, layer: _Layer, given: Value, h: Value, c: Value | None) -> tuple[Value, Value | None]:
        """Gates come as update, reset, hidden."""
        size = layer.hidden
        rz, rr, rh = (_part(ctx, layer.r, 1, k, size) for k in range(3))
        bz, br, bh = (None if layer.r_bias is None else _part(ctx, layer.r_bias, 0, k, size) for k in range(3))
        gz, gr, gh = (_part(ctx, given, 1, k, size) for k in range(3))
        z = _activate(ctx, layer, 0, ctx.add(gz, _product(ctx, h, rz, bz)))
        r = _activate(ctx, layer, 0, ctx.add(gr, _product(ctx, h, rr, br)))
        reset_after = linear_before_reset
        inner = ctx.mul(r, _product(ctx, h, rh, bh)) if reset_after else _product(ctx, ctx.mul(r, h), rh, bh)
        fresh = _activate(ctx, layer, 1, ctx.add(gh, inner))
        return ctx.add(ctx.mul(ctx.sub(ctx.scalar(1, z), z), fresh), ctx.mul(z, h)), None

    return step


_KINDS = {"RNN": (1, ["tanh"]), "GRU": (3, ["sigmoid", "tanh"]), "LSTM": (4, ["sigmoid", "tanh", "tanh"])}


@converts("RNN", "GRU", "LSTM")
def convert_recurrent(ctx: Context, node: Node) -> list[Value | None]:
    """x is (steps, batch, inputs), or batch first with layout=1. Steps beyond a sequence's length leave its state."""
    x, w = node.tensor(0), node.tensor(1)
    batch_first = bool(node.attribute("layout", 0))
    x = ctx.transpose(x, [1, 0, 2]) if batch_first else x
    steps, batch, _ = x.shape
    gates, _ = _KINDS[node.op]
    directions, hidden = w.shape[0], w.shape[1] // gates
    if not 0 < steps <= _MAX_STEPS:
        raise Unsupported(f"has {steps} steps; expected 1 to {_MAX_STEPS}, since they are unrolled")
    if node.attribute("input_forget", 0):
        raise Unsupported("input_forget=1 is not supported")
    direction = node.text("direction", "forward")
    lengths = ctx.cast(node.tensor(4), "int64") if node.has(4) else None
    outputs, states, cells = [], [], []
    for d in range(directions):
        layer = _layer(ctx, node, d, gates, hidden)
        h = _initial(ctx, node, 5, d, (batch, hidden), x.dtype, batch_first)
        c = _initial(ctx, node, 6, d, (batch, hidden), x.dtype, batch_first) if node.op == "LSTM" else None
        backwards = direction == "reverse" or d == 1
        ys, h, c = _unroll(ctx, node, layer, x, h, c, lengths, backwards)
        outputs.append(ctx.stack(ys, 0))
        states.append(h)
        cells.append(c)
    y = ctx.stack(outputs, 1)
    last = ctx.stack(states, 0)
    results: list[Value | None] = [ctx.transpose(y, [2, 0, 1, 3]) if batch_first else y]
    results.append(ctx.transpose(last, [1, 0, 2]) if batch_first else last)
    if node.op == "LSTM":
        cell = ctx.stack([c for c in cells if c is not None], 0)
        results.append(ctx.transpose(cell, [1, 0, 2]) if batch_first else cell)
    return results


def _layer(ctx: Context, node: Node, d: int, gates: int, hidden: int) -> _Layer:
    defaults = _KINDS[node.op][1]
    names = [n.decode() if isinstance(n, bytes) else str(n) for n in node.attribute("activations", [])]
    names = [n.lower() for n in names] or defaults * 2
    alphas, betas = list(node.attribute("activation_alpha", [])), list(node.attribute("activation_beta", []))
    chosen = []
    for n in names:
        # Parameters are listed only for the functions that have some.
        alpha = alphas.pop(0) if alphas and n in ("affine", "leakyrelu", "hardsigmoid", "elu") else None
        beta = betas.pop(0) if betas and n in ("affine", "hardsigmoid") else None
        chosen.append((n, alpha, beta))
    count = len(defaults)
    bias = node.optional(3)
    biases = None if bias is None else ctx.reshape(_part(ctx, bias, 0, d, 1), (bias.shape[1],))
    peephole = node.optional(7) if node.op == "LSTM" else None

    def weights(index: int) -> Value:
        value = node.tensor(index)
        return ctx.transpose(ctx.reshape(_part(ctx, value, 0, d, 1), value.shape[1:]), [1, 0])

    return _Layer(
        w=weights(1),
        r=weights(2),
        w_bias=None if biases is None else _part(ctx, biases, 0, 0, gates * hidden),
        r_bias=None if biases is None else _part(ctx, biases, 0, 1, gates * hidden),
        peephole=None if peephole is None else ctx.reshape(_part(ctx, peephole, 0, d, 1), (peephole.shape[1],)),
        activations=chosen[d * count : (d + 1) * count] if len(chosen) > count else chosen,
        hidden=hidden,
        clip=float(node.attributes["clip"]) if "clip" in node.attributes else None,
    )


def _initial(
    ctx: Context, node: Node, index: int, d: int, shape: Sequence[int], dtype: str, batch_first: bool
) -> Value:
    if not node.has(index):
        return constant(np.zeros(shape, dtype))
    value = node.tensor(index)
    value = ctx.transpose(value, [1, 0, 2]) if batch_first else value
    return ctx.reshape(_part(ctx, value, 0, d, 1), shape)


def _unroll(
    ctx: Context,
    node: Node,
    layer: _Layer,
    x: Value,
    h: Value,
    c: Value | None,
    lengths: Value | None,
    backwards: bool,
) -> tuple[list[Value], Value, Value | None]:
    step = {"RNN": _rnn_step, "LSTM": _lstm_step}.get(node.op) or _gru_step(
        bool(node.attribute("linear_before_reset", 0))
    )
    steps, batch = x.shape[:2]
    # All steps' input products at once: one large matrix product in place of many small ones.
    given = _product(ctx, ctx.reshape(x, (steps * batch, x.shape[2])), layer.w, layer.w_bias)
    ys: list[Value] = []
    for t in reversed(range(steps)) if backwards else range(steps):
        fresh, cell = step(ctx, layer, _part(ctx, given, 0, t, batch), h, c)
        if lengths is None:
            h, c, y = fresh, cell, fresh
        else:
            alive = ctx.reshape(ctx.binary("less", constant(np.int64(t)), lengths), (batch, 1))
            y = ctx.where(alive, fresh, constant(np.zeros(fresh.shape, fresh.dtype)))
            h = ctx.where(alive, fresh, h)
            c = ctx.where(alive, cell, c) if cell is not None and c is not None else None
        ys.append(y)
    return ys[::-1] if backwards else ys, h, c
