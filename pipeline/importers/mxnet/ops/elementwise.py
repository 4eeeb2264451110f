"""Arithmetic of one and two tensors, of a tensor and a number; comparisons, which answer 0 and 1 as numbers."""

from collections.abc import Callable
from typing import TypeAlias

from ...findings import Unsupported
from ..emitter import Emitter, Node, Tensor
from ..registry import converts

_Unary: TypeAlias = Callable[[Emitter, Tensor], Tensor]
_Binary: TypeAlias = Callable[[Emitter, Tensor, Tensor], Tensor]


def _onnx(operator: str) -> _Binary:
    return lambda g, a, b: g.emit(operator, a, b)


def _compare(operator: str, *, negate: bool = False) -> _Binary:
    def apply(g: Emitter, a: Tensor, b: Tensor) -> Tensor:
        found = g.emit(operator, a, b)
        return g.cast(g.emit("Not", found) if negate else found, a.dtype)

    return apply


def _logical(operator: str) -> _Binary:
    def apply(g: Emitter, a: Tensor, b: Tensor) -> Tensor:
        return g.cast(g.emit(operator, g.cast(a, "bool"), g.cast(b, "bool")), a.dtype)

    return apply


def _modulo(g: Emitter, a: Tensor, b: Tensor) -> Tensor:
    """The sign of the divisor, as in Python; 0 where the divisor is 0."""
    if a.dtype != "float32":
        return g.emit("Mod", a, b)
    rest = g.emit("Sub", a, g.emit("Mul", g.emit("Floor", g.emit("Div", a, b)), b))
    return g.emit("Where", g.emit("Equal", b, g.scalar(0, b)), g.scalar(0, b), rest)


def _hypot(g: Emitter, a: Tensor, b: Tensor) -> Tensor:
    return g.emit("Sqrt", g.emit("Add", g.emit("Mul", a, a), g.emit("Mul", b, b)))


_BINARY: dict[str, _Binary] = {
    "add": _onnx("Add"),
    "sub": _onnx("Sub"),
    "mul": _onnx("Mul"),
    "div": _onnx("Div"),
    "mod": _modulo,
    "power": _onnx("Pow"),
    "maximum": _onnx("Max"),
    "minimum": _onnx("Min"),
    "hypot": _hypot,
    "equal": _compare("Equal"),
    "not_equal": _compare("Equal", negate=True),
    "greater": _compare("Greater"),
    "greater_equal": _compare("GreaterOrEqual"),
    "lesser": _compare("Less"),
    "lesser_equal": _compare("LessOrEqual"),
    "logical_and": _logical("And"),
    "logical_or": _logical("Or"),
    "logical_xor": _logical("Xor"),
}
# Names of operators on tensors of the same shape; broadcasting ones are `broadcast_` and the name in _BINARY.
_SAME_SHAPE = {
    "elemwise_add": "add",
    "_add": "add",
    "_plus": "add",
    "_Plus": "add",
    "_grad_add": "add",
    "elemwise_sub": "sub",
    "_sub": "sub",
    "_minus": "sub",
    "_Minus": "sub",
    "elemwise_mul": "mul",
    "_mul": "mul",
    "_Mul": "mul",
    "elemwise_div": "div",
    "_div": "div",
    "_Div": "div",
    "_mod": "mod",
    "_Mod": "mod",
    "_power": "power",
    "_Power": "power",
    "_maximum": "maximum",
    "_Maximum": "maximum",
    "_minimum": "minimum",
    "_Minimum": "minimum",
    "_hypot": "hypot",
    "_equal": "equal",
    "_not_equal": "not_equal",
    "_greater": "greater",
    "_greater_equal": "greater_equal",
    "_lesser": "lesser",
    "_lesser_equal": "lesser_equal",
    "_logical_and": "logical_and",
    "_logical_or": "logical_or",
    "_logical_xor": "logical_xor",
}
_BROADCAST = {"plus": "add", "minus": "sub"} | {name: name for name in _BINARY}
# With a number: `_NAME_scalar` and `_NameScalar`; r stands for the number in front.
_SCALAR = {
    "plus": "add",
    "minus": "sub",
    "rminus": "sub",
    "mul": "mul",
    "div": "div",
    "rdiv": "div",
    "mod": "mod",
    "rmod": "mod",
    "power": "power",
    "rpower": "power",
    **{name: name for name in list(_BINARY)[6:]},
}
_REVERSED = frozenset({"rminus", "rdiv", "rmod", "rpower"})
_OLD_SPELLING = {"rminus": "RMinus", "rdiv": "RDiv", "rmod": "RMod", "rpower": "RPower"}


def _register() -> None:
    for name, kind in _SAME_SHAPE.items():
        converts(name)(_binary(_BINARY[kind], broadcasts=False))
    for name, kind in _BROADCAST.items():
        converts(f"broadcast_{name}")(_binary(_BINARY[kind], broadcasts=True))
    for name, kind in _SCALAR.items():
        old = _OLD_SPELLING.get(name) or "".join(word.capitalize() for word in name.split("_"))
        converts(f"_{name}_scalar", f"_{old}Scalar")(_with_number(_BINARY[kind], reverse=name in _REVERSED))
    for name, unary in _UNARY.items():
        converts(name)(_one(unary))


def _binary(function: _Binary, *, broadcasts: bool) -> Callable[[Emitter, Node], Tensor]:
    def convert(g: Emitter, node: Node) -> Tensor:
        a, b = node.input(0), node.input(1)
        if a.dtype != b.dtype:
            raise Unsupported(f"adds or compares {a.dtype} and {b.dtype}; expected one type")
        if not broadcasts and a.shape != b.shape:
            raise Unsupported(f"has inputs of shapes {a.shape} and {b.shape}; expected equal ones")
        return function(g, a, b)

    return convert


def _with_number(function: _Binary, *, reverse: bool) -> Callable[[Emitter, Node], Tensor]:
    def convert(g: Emitter, node: Node) -> Tensor:
        node.attributes.ignore("is_int", "reverse")
        number = g.scalar(node.attributes.number("scalar", 1.0), node.data)
        return function(g, number, node.data) if reverse else function(g, node.data, number)

    return convert


def _one(function: _Unary) -> Callable[[Emitter, Node], Tensor]:
    def convert(g: Emitter, node: Node) -> Tensor:
        return function(g, node.data)

    return convert


def _simple(operator: str) -> _Unary:
    return lambda g, x: g.emit(operator, x)


def _to_zero(g: Emitter, x: Tensor) -> Tensor:
    return g.emit("Mul", g.emit("Sign", x), g.emit("Floor", g.emit("Abs", x)))


def _half_from_zero(g: Emitter, x: Tensor) -> Tensor:
    """Halves are rounded away from 0."""
    return g.emit("Mul", g.emit("Sign", x), g.emit("Floor", g.emit("Add", g.emit("Abs", x), g.scalar(0.5, x))))


def _half_down(g: Emitter, x: Tensor) -> Tensor:
    """Halves are rounded down."""
    return g.emit("Ceil", g.emit("Sub", x, g.scalar(0.5, x)))


def _log(base_scale: float) -> _Unary:
    return lambda g, x: g.emit("Mul", g.emit("Log", x), g.scalar(base_scale, x))


_UNARY: dict[str, _Unary] = {
    **{
        name: _simple(name.capitalize())
        for name in ("abs", "ceil", "cos", "cosh", "erf", "exp", "floor", "log", "relu", "sigmoid", "sign", "sin")
    },
    **{name: _simple(name.capitalize()) for name in ("sinh", "softsign", "sqrt", "tan", "tanh", "reciprocal")},
    "arccos": _simple("Acos"),
    "arccosh": _simple("Acosh"),
    "arcsin": _simple("Asin"),
    "arcsinh": _simple("Asinh"),
    "arctan": _simple("Atan"),
    "arctanh": _simple("Atanh"),
    "negative": _simple("Neg"),
    "square": lambda g, x: g.emit("Mul", x, x),
    "rsqrt": lambda g, x: g.emit("Reciprocal", g.emit("Sqrt", x)),
    "cbrt": lambda g, x: g.emit("Mul", g.emit("Sign", x), g.emit("Pow", g.emit("Abs", x), g.scalar(1 / 3, x))),
    "expm1": lambda g, x: g.emit("Sub", g.emit("Exp", x), g.scalar(1, x)),
    "log1p": lambda g, x: g.emit("Log", g.emit("Add", x, g.scalar(1, x))),
    "log2": _log(1.4426950408889634),
    "log10": _log(0.4342944819032518),
    "fix": _to_zero,
    "trunc": _to_zero,
    "round": _half_from_zero,
    "rint": _half_down,
    "logical_not": lambda g, x: g.cast(g.emit("Not", g.cast(x, "bool")), x.dtype),
}

_register()


@converts("add_n", "ElementWiseSum", "_sum", "ElemwiseSum")
def add_n(g: Emitter, node: Node) -> Tensor:
    total = node.data
    for term in node.inputs[1:]:
        if term.shape != total.shape:
            raise Unsupported(f"has inputs of shapes {total.shape} and {term.shape}; expected equal ones")
        total = g.emit("Add", total, term)
    return total


@converts("where")
def where(g: Emitter, node: Node) -> Tensor:
    condition, a, b = (node.input(i) for i in range(3))
    if condition.rank == 1 and a.rank > 1:
        condition = g.reshape(condition, (condition.shape[0], *[1] * (a.rank - 1)))
    return g.emit("Where", g.cast(condition, "bool"), a, b)
