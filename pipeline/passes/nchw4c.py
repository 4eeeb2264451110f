"""Move convolutions and what lies between them to NCHW4c: (N, C/4, H, W, 4), a 128-bit vector of channels a pixel.

The pass picks the schedule rule of each convolution, packs its weights, and emits the rule's own compute definition.
Activations are packed once at the graph's edge and unpacked where an operator without a blocked form wants NCHW.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx

from ..schedules.facts import Conv2dFacts, blocks_of
from ..schedules.mali.conv2d_transpose import Conv2dTranspose, Conv2dTransposeFacts
from ..schedules.mali.softmax import Softmax, SoftmaxFacts
from .choose_conv2d import CONV2D_RULES, Choice, Chosen, Decide, InNchw, choose, packed_constants
from .emit import emit_anchored, emit_apart, emit_concat
from .matmul import matmul
from .rewrite import Rewriter, constant, operator_name, static_shape

Array = np.ndarray[Any, Any]

LANES = 4

# Elementwise operators that map finite numbers to finite numbers, so that the padding lanes of a channel count that is
# no multiple of four stay finite and later meet zero weights.
_UNARY = (
    "nn.relu",
    "nn.relu6",
    "clip",
    "sigmoid",
    "tanh",
    "nn.leakyrelu",
    "nn.silu",
    "negative",
    "abs",
    "nn.gelu",
    "astype",
)
_BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
_POOLS = ("nn.max_pool2d", "nn.avg_pool2d")


@tvm.transform.module_pass(opt_level=0, name="ToNCHW4c")
class ToNCHW4c:
    """Rewrites main; rules and weights' layouts are chosen here, knobs in the rules' `config`.

    `decide` may name rule and knobs of a convolution; where it says None, choose_conv2d.py estimates. `chosen` is told
    what became of each.
    """

    def __init__(self, decide: Decide | None = None, chosen: Chosen | None = None) -> None:
        self.decide = decide
        self.chosen = chosen

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        return _Blocking(mod, self.decide, self.chosen).run()


@dataclass(frozen=True, kw_only=True)
class _Blocked:
    """A tensor in NCHW4c with `channels` real channels."""

    expr: Any
    channels: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in NCHW."""
        n, _, h, w, _ = static_shape(self.expr)
        return (n, self.channels, h, w)


class _Blocking(Rewriter):
    def __init__(self, mod: tvm.IRModule, decide: Decide | None, chosen: Chosen | None) -> None:
        super().__init__(mod)
        self._decide = decide
        self._chosen = chosen
        self._blocked: dict[Any, _Blocked] = {}
        self._packed: dict[Any, _Blocked] = {}
        # the convolution at hand, where its rule is one in NCHW
        self._nchw: Any | None = None
        self._convs: dict[str, Callable[[Any], _Blocked | None]] = {
            "nn.conv2d": self._conv2d,
            "nn.conv2d_transpose": self._conv2d_transpose,
            "mean": self._mean,
            "nn.adaptive_avg_pool2d": self._global_pool,
            "concat": self._concat,
            **dict.fromkeys(_POOLS, self._pool),
            **dict.fromkeys(_UNARY, self._unary),
            **dict.fromkeys(_BINARY, self._binary),
        }

    def binding(self, var: Any, value: Any) -> None:
        blocked = None
        if isinstance(value, tvm.ir.Call):
            handler = self._convs.get(operator_name(value))
            blocked = handler(value) if handler is not None else None
        if blocked is None:
            super().binding(var, value)
            return
        self._blocked[var] = blocked
        if not isinstance(var, relax.DataflowVar):
            self.env[var] = self._unpack(blocked)

    def call(self, call: Any) -> Any | None:
        name = operator_name(call)
        if name == "nn.conv2d":
            made, self._nchw = self._nchw, None
            return made
        if name == "matmul":
            return matmul(self, call)
        if name in ("reshape", "flatten"):
            return self._flatten(call)
        if name == "nn.softmax":
            return self._softmax(call)
        return None

    def map(self, e: Any) -> Any:
        if isinstance(e, tvm.ir.Var) and e not in self.env and e in self._blocked:
            self.env[e] = self._unpack(self._blocked[e])
        return super().map(e)

    # --- between layouts

    def _as_blocked(self, e: Any) -> _Blocked | None:
        """The NCHW tensor `e` in NCHW4c: as it was made, or packed."""
        if e in self._blocked:
            return self._blocked[e]
        if not isinstance(e, tvm.ir.Var) or len(e.ty.shape) != 4 or "float" not in str(e.ty.dtype):
            return None
        if e not in self._packed:
            plain = super().map(e)
            channels = static_shape(plain)[1]
            expr = self.bb.emit_te(_pack, plain, primfunc_name_hint="pack_nchw4c")
            self._packed[e] = _Blocked(expr=expr, channels=channels)
        return self._packed[e]

    def _unpack(self, b: _Blocked) -> Any:
        return self.bb.emit_te(_unpack, b.expr, b.channels, primfunc_name_hint="unpack_nchw4c")

    def _operand(self, e: Any, like: _Blocked) -> Any | None:
        """An operand of an elementwise operator on `like`, in the blocked layout; None if it has none."""
        array = constant(super().map(e)) if not isinstance(e, tvm.ir.Var) or e in self.env else None
        if array is not None:
            return _block_constant(array, like)
        if e in self._blocked:
            other = self._blocked[e]
            same = other.channels == like.channels and other.shape[0] in (1, like.shape[0])
            fits = all(o in (1, x) for o, x in zip(other.shape[2:], like.shape[2:], strict=True))
            return other.expr if same and fits else None
        if isinstance(e, tvm.ir.Var) and static_shape(e) == like.shape:
            other_blocked = self._as_blocked(e)
            return other_blocked.expr if other_blocked is not None else None
        return None

    # --- operators; each returns None when it has no blocked form

    def _conv2d(self, call: Any) -> _Blocked | None:
        a = call.attrs
        weight = constant(self.map(call.args[1]))
        if weight is None or str(a.data_layout) != "NCHW" or str(a.kernel_layout) != "OIHW":
            return None
        shape = self._blocked[call.args[0]].shape if call.args[0] in self._blocked else static_shape(call.args[0])
        pad = [int(p) for p in a.padding]
        facts = Conv2dFacts(
            batch=shape[0],
            in_channels=shape[1],
            in_height=shape[2],
            in_width=shape[3],
            out_channels=weight.shape[0],
            kernel=(weight.shape[2], weight.shape[3]),
            stride=(int(a.strides[0]), int(a.strides[1])),
            pad=(pad[0], pad[1], pad[2], pad[3]),
            dilation=(int(a.dilation[0]), int(a.dilation[1])),
            groups=int(a.groups),
            dtype=str(weight.dtype),
        )
        choice = choose(facts, self._decide)
        if choice is not None and choice.nchw is not None:
            self._nchw = self._conv2d_nchw(call, facts, choice, choice.nchw, weight)
            return None
        data = self._as_blocked(call.args[0]) if choice is not None else None
        if choice is None or data is None:
            return None
        rule, tile = CONV2D_RULES[choice.rule], choice.tile(facts)
        if self._chosen is not None:
            self._chosen(facts, choice)
        constants = [relax.const(a) for a in packed_constants(choice.rule, tile, weight, groups=facts.groups)]
        expr = emit_anchored(
            self.bb,
            lambda *tensors: rule.compute(facts, tile, *tensors),
            [data.expr, *constants],
            name=rule.name,
            workload=facts.key,
        )
        return _Blocked(expr=expr, channels=facts.out_channels)

    def _conv2d_nchw(self, call: Any, facts: Conv2dFacts, choice: Choice, made: InNchw, weight: Array) -> Any:
        if self._chosen is not None:
            self._chosen(facts, choice)
        arguments = [self.map(call.args[0]), relax.const(made.pack(weight))]
        return emit_anchored(
            self.bb,
            lambda data, packed: made.rule.compute(facts, made.knobs, data, packed),
            arguments,
            name=choice.rule,
            workload=facts.key,
            apart=True,
        )

    def _conv2d_transpose(self, call: Any) -> _Blocked | None:
        a = call.attrs
        weight = constant(self.map(call.args[1]))
        layouts = (str(a.data_layout), str(a.kernel_layout))
        if weight is None or layouts != ("NCHW", "IOHW") or any(int(d) != 1 for d in a.dilation):
            return None
        shape = self._blocked[call.args[0]].shape if call.args[0] in self._blocked else static_shape(call.args[0])
        pad = [int(p) for p in a.padding]
        facts = Conv2dTransposeFacts(
            batch=shape[0],
            in_channels=shape[1],
            in_height=shape[2],
            in_width=shape[3],
            out_channels=weight.shape[1] * int(a.groups),
            kernel=(weight.shape[2], weight.shape[3]),
            stride=(int(a.strides[0]), int(a.strides[1])),
            pad=(pad[0], pad[1], pad[2], pad[3]),
            output_padding=(int(a.output_padding[0]), int(a.output_padding[1])),
            groups=int(a.groups),
            dtype=str(weight.dtype),
        )
        rule = Conv2dTranspose
        data = self._as_blocked(call.args[0]) if rule.accepts(facts) else None
        if data is None:
            return None
        tile = rule.config(facts)
        packed = relax.const(rule.pack_weight(facts, weight))
        expr = self.bb.emit_te(
            lambda d, w: rule.compute(facts, tile, d, w), data.expr, packed, primfunc_name_hint=rule.name
        )
        if static_shape(expr)[2:4] != (facts.out_height, facts.out_width):
            expr = emit_apart(
                self.bb, lambda x: _crop(x, facts.out_height, facts.out_width), [expr], name="crop_nchw4c"
            )
        return _Blocked(expr=expr, channels=facts.out_channels)

    def _pool(self, call: Any) -> _Blocked | None:
        data = self._blocked.get(call.args[0])
        a = call.attrs
        if data is None or str(a.layout) != "NCHW":
            return None
        function = relax.op.nn.max_pool2d if operator_name(call) == "nn.max_pool2d" else relax.op.nn.avg_pool2d
        expr = function(
            data.expr,
            pool_size=list(a.pool_size),
            strides=list(a.strides),
            padding=list(a.padding),
            dilation=list(a.dilation),
            ceil_mode=bool(a.ceil_mode),
            count_include_pad=bool(a.count_include_pad),
            layout="NCHW4c",
            out_layout="NCHW4c",
        )
        return self._emit(expr, data.channels)

    def _mean(self, call: Any) -> _Blocked | None:
        data = self._blocked.get(call.args[0])
        axes = sorted(int(x) % 4 for x in call.attrs.axis) if call.attrs.axis is not None else []
        if data is None or axes != [2, 3] or not bool(call.attrs.keepdims):
            return None
        return self._emit(relax.op.mean(data.expr, axis=[2, 3], keepdims=True), data.channels)

    def _global_pool(self, call: Any) -> _Blocked | None:
        data = self._blocked.get(call.args[0])
        size = [int(s) for s in call.attrs.output_size] if call.attrs.output_size is not None else []
        if data is None or size != [1, 1] or str(call.attrs.layout) != "NCHW":
            return None
        return self._emit(relax.op.mean(data.expr, axis=[2, 3], keepdims=True), data.channels)

    def _unary(self, call: Any) -> _Blocked | None:
        data = self._blocked.get(call.args[0])
        if data is None:
            return None
        return self._emit(relax.Call(call.op, [data.expr, *call.args[1:]], call.attrs, call.ty_args), data.channels)

    def _binary(self, call: Any) -> _Blocked | None:
        candidates = [self._blocked[a] for a in call.args if a in self._blocked]
        result = tuple(int(d) for d in call.ty.shape)
        like = next((b for b in candidates if b.shape == result), None)
        if like is None:
            return None
        operands = [self._operand(a, like) for a in call.args]
        if any(o is None for o in operands):
            return None
        return self._emit(relax.Call(call.op, operands, call.attrs, call.ty_args), like.channels)

    def _concat(self, call: Any) -> _Blocked | None:
        fields = call.args[0].fields if isinstance(call.args[0], relax.Tuple) else []
        parts = [self._blocked.get(f) for f in fields]
        axis = call.attrs.axis
        if not parts or axis is None or int(axis) % 4 != 1:
            return None
        known = [p for p in parts if p is not None]
        if len(known) < len(parts) or any(p.channels % LANES for p in known[:-1]):
            return None
        channels = sum(p.channels for p in known)
        if known[0].shape[0] != 1 or len(known) == 1:
            return self._emit(relax.op.concat([p.expr for p in known], axis=1), channels)
        return _Blocked(expr=emit_concat(self.bb, [p.expr for p in known]), channels=channels)

    def _emit(self, expr: Any, channels: int) -> _Blocked:
        return _Blocked(expr=self.bb.emit(expr), channels=channels)

    def _flatten(self, call: Any) -> Any | None:
        """(N, C, 1, 1) to (N, C) in the blocked layout is a view when C is a multiple of four."""
        data = self._blocked.get(call.args[0])
        if data is None or data.shape[2:] != (1, 1) or data.channels % LANES:
            return None
        return relax.op.reshape(data.expr, [int(d) for d in call.ty.shape])

    def _softmax(self, call: Any) -> Any | None:
        shape = static_shape(call.args[0])
        if not shape or int(call.attrs.axis) % len(shape) != len(shape) - 1 or 0 in shape:
            return None
        facts = SoftmaxFacts(rows=math.prod(shape[:-1]), length=shape[-1], dtype=str(call.ty.dtype))
        rows = self.map(call.args[0])
        if len(shape) != 2:
            rows = self.bb.emit(relax.op.reshape(rows, (facts.rows, facts.length)))
        result = self.bb.emit_te(lambda x: Softmax.compute(facts, x), rows, primfunc_name_hint=Softmax.name)
        return result if len(shape) == 2 else relax.op.reshape(result, shape)


def _block_constant(array: "np.ndarray[Any, Any]", like: _Blocked) -> Any | None:
    """A constant that broadcasts to NCHW as one that broadcasts to NCHW4c; zeros in the padding channels."""
    if array.size == 1:
        return relax.const(array.reshape(1, 1, 1, 1, 1))
    if array.ndim > 4:
        return None
    full = array.reshape((1,) * (4 - array.ndim) + array.shape)
    n, c, h, w = full.shape
    if c == 1:
        return relax.const(full.reshape(n, 1, h, w, 1))
    if c != like.channels:
        return None
    padded = np.zeros((n, blocks_of(c) * LANES, h, w), full.dtype)
    padded[:, :c] = full
    return relax.const(np.ascontiguousarray(padded.reshape(n, -1, LANES, h, w).transpose(0, 1, 3, 4, 2)))


def _pack(x: te.Tensor) -> te.Tensor:
    n, c, h, w = (int(d) for d in x.shape)

    def value(b: Any, o: Any, y: Any, z: Any, v: Any) -> Any:
        pixel = x[b, tirx.min(o * LANES + v, c - 1), y, z] if c % LANES else x[b, o * LANES + v, y, z]
        if c % LANES == 0:
            return pixel
        return tirx.Select(o * LANES + v < c, pixel, tirx.const(0, x.dtype))

    return te.compute((n, blocks_of(c), h, w, LANES), value, name="pack_nchw4c")


def _crop(x: te.Tensor, height: int, width: int) -> te.Tensor:
    n, c, _, _, v = (int(d) for d in x.shape)
    return te.compute((n, c, height, width, v), lambda *i: x[i], name="crop_nchw4c")


def _unpack(x: te.Tensor, channels: int) -> te.Tensor:
    n, _, h, w, _ = (int(d) for d in x.shape)
    return te.compute(
        (n, int(channels), h, w), lambda b, c, y, z: x[b, c // LANES, y, z, c % LANES], name="unpack_nchw4c"
    )
