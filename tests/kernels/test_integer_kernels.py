"""Integers, booleans, comparisons, casts and gathers: exact answers."""

import itertools

import numpy as np
import pytest
from kernel_cases import Cases

INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)


def _extremes(dtype: type) -> np.ndarray:
    if dtype in (np.int32, np.int64):  # where overflow means nothing in OpenCL C
        return np.array([-5, -1, 0, 1, 2, 3, 100, np.iinfo(dtype).max // 1000], dtype)
    info = np.iinfo(dtype)
    return np.array([info.min, info.min + 1, 0, 1, 2, 3, info.max - 1, info.max], dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_arithmetic_and_comparisons(check, dtype):
    cases = Cases(opset=14)
    a, b = cases.input(_extremes(dtype)[:, None]), cases.input(_extremes(dtype))
    for op in ("Add", "Sub", "Mul"):
        cases.output(op, cases.node(op, a, b))
        cases.output(f"{op} chain", cases.node("Add", cases.node(op, a, b), b))
    for op in ("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"):
        if op == "Equal" and dtype not in (np.int32, np.int64):
            continue
        if dtype in (np.int16, np.uint16) or (dtype in (np.int8, np.uint8) and "Or" in op):
            continue  # onnxruntime has no kernel
        cases.output(op, cases.node(op, a, b))
    check(cases)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.int8])
def test_integer_division_and_remainder(check, dtype):
    cases = Cases(opset=14)
    values = np.array([-7, -6, -1, 0, 1, 5, 6, 7]).astype(dtype)
    divisors = np.array([-3, -2, -1, 1, 2, 3, 4, 7]).astype(dtype)
    a, b = cases.input(values[:, None]), cases.input(divisors)
    cases.output("div", cases.node("Div", a, b))
    cases.output("mod", cases.node("Mod", a, b))
    if np.issubdtype(dtype, np.signedinteger):
        cases.output("fmod", cases.node("Mod", a, b, fmod=1))
        cases.output("abs", cases.node("Abs", a))
        cases.output("negative", cases.node("Neg", a))
    check(cases)


def test_float_remainder_and_powers(check):
    cases = Cases()
    x = cases.input(np.array([-5.5, -2, -0.5, 0.5, 2, 5.5], np.float32)[:, None])
    y = cases.input(np.array([-3, -1.5, 0.7, 2], np.float32))
    cases.output("fmod", cases.node("Mod", x, y, fmod=1))
    cases.output("pow", cases.node("Pow", cases.node("Abs", x), y))
    for exponent in (0, 0.5, 1, 2, 3, -1):
        cases.output(
            f"pow {exponent}", cases.node("Pow", cases.node("Abs", x), cases.weight(np.array(exponent, np.float32)))
        )
    cases.output("square", cases.node("Pow", x, cases.weight(np.array(2, np.float32))))
    check(cases)


@pytest.mark.parametrize("size", [4, 7, 16])
def test_comparisons_and_logic(check, size):
    cases = Cases()
    a, b = cases.input((3, size)), cases.input((3, size))
    p, q = cases.input(cases.integers(0, 1, (3, size), bool)), cases.input(cases.integers(0, 1, (3, size), bool))
    compared = {op: cases.node(op, a, b) for op in ("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal")}
    for op, value in compared.items():
        cases.output(op, value)
        cases.output(f"where {op}", cases.node("Where", value, a, b))
    for op in ("And", "Or", "Xor"):
        cases.output(op, cases.node(op, p, q))
        cases.output(f"{op} of comparisons", cases.node(op, compared["Less"], compared["Greater"]))
    cases.output("not", cases.node("Not", p))
    cases.output("not of and", cases.node("Not", cases.node("And", p, q)))
    cases.output("where", cases.node("Where", p, a, b))
    cases.output("count", cases.node("ReduceSum", cases.node("Cast", p, to=6), cases.weight(np.array([1]))))
    cases.output("masked", cases.node("Mul", a, cases.node("Cast", p, to=1)))
    check(cases)


def test_casts(check):
    cases = Cases()
    codes = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float64": 11, "uint32": 12}
    values = {
        "float32": np.array([-2.7, -1, -0.3, 0, 0.3, 1, 2.7, 100], np.float32),
        "int32": np.array([-129, -1, 0, 1, 127, 128, 255, 256], np.int32),
        "int64": np.array([-(2**31), -1, 0, 1, 255, 256, 2**31 - 1, 2**20], np.int64),
        "bool": np.array([True, False] * 4),
        "uint8": np.array([0, 1, 2, 127, 128, 200, 254, 255], np.uint8),
    }
    for (source, array), target in itertools.product(values.items(), codes):
        if source == "float32" and target in ("uint8", "uint32"):
            array = np.abs(array)  # negative floats to unsigned integers mean nothing in C
        cases.output(f"{source} to {target}", cases.node("Cast", cases.input(array), to=codes[target]))
    check(cases)


def test_gathers(check):
    cases = Cases()
    x = cases.input((5, 4, 6))
    for dtype in (np.int32, np.int64):
        indices = cases.input(np.array([[0, 3], [2, -1]], dtype))
        for axis in (0, 1, 2):
            cases.output(f"gather {dtype.__name__} {axis}", cases.node("Gather", x, indices, axis=axis))
    cases.output("fixed", cases.node("Gather", x, cases.weight(np.array([1, 3])), axis=1))
    cases.output("one", cases.node("Gather", x, cases.weight(np.array(2)), axis=0))
    positions = cases.input(cases.integers(0, 3, (5, 2, 6), np.int64))
    cases.output("elements", cases.node("GatherElements", x, positions, axis=1))
    words = cases.input(cases.integers(0, 9, (2, 7), np.int64))
    cases.output("embedding", cases.node("Gather", cases.weight((10, 12)), words))
    check(cases)


def test_int64_arithmetic_is_64_bits_wide(check):
    cases = Cases()
    x = cases.input(np.array([2**40, -(2**40), 2**50, 3], np.int64))
    y = cases.input(np.array([2**20, 5, 2, -(2**33)], np.int64))
    cases.output("add", cases.node("Add", x, y))
    cases.output("mul", cases.node("Mul", x, y))
    cases.output("div", cases.node("Div", x, y))
    cases.output("max", cases.node("Max", x, y))
    cases.output("sum", cases.node("ReduceSum", x, cases.weight(np.array([0]))))
    cases.output("constant", cases.node("Add", cases.node("Abs", x), cases.weight(np.array(-(2**63), np.int64))))
    check(cases)


def test_special_floats(check):
    cases = Cases()
    x = cases.input(np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, 1e38, -1e38, 1e-30], np.float32))
    for op in ("Neg", "Abs", "Sigmoid", "Tanh", "Exp", "Sqrt", "IsNaN", "IsInf", "Floor", "Round"):
        cases.output(op, cases.node(op, x))
    for name, value in (("inf", np.inf), ("-inf", -np.inf), ("nan", np.nan)):
        cases.output(f"add {name}", cases.node("Add", x, cases.weight(np.array(value, np.float32))))
    check(cases)


@pytest.mark.parametrize("size", [1, 3, 4, 5, 8, 63, 64, 65, 130, 1025])
def test_elementwise_sizes(check, size):
    cases = Cases()
    a, b = cases.input((size,)), cases.input((size,))
    cases.output("add", cases.node("Add", a, b))
    cases.output("scalar", cases.node("Mul", a, cases.weight(np.array(2, np.float32))))
    cases.output("sum", cases.node("ReduceSum", a, cases.weight(np.array([0])), keepdims=0))
    cases.output("reversed", cases.node("Slice", a, *(cases.weight(np.array([v])) for v in (-1, -size - 1, 0, -1))))
    cases.output("bool", cases.node("Less", a, b))
    cases.output("broadcast", cases.node("Add", a, cases.node("Unsqueeze", b, cases.weight(np.array([1])))))
    check(cases)


def test_scalars_and_high_ranks(check):
    cases = Cases()
    scalar, deep = cases.input(np.array(1.5, np.float32)), cases.input((2, 1, 3, 1, 2, 4))
    cases.output("scalar", cases.node("Exp", scalar))
    cases.output("scalar add", cases.node("Add", scalar, deep))
    cases.output("transposed", cases.node("Transpose", deep, perm=[5, 3, 1, 0, 4, 2]))
    cases.output("reduced", cases.node("ReduceMax", deep, axes=[0, 2, 5]))
    cases.output("everything", cases.node("ReduceMean", deep, keepdims=0))
    check(cases)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
def test_shifts(check, dtype):
    cases = Cases()
    x = cases.input(np.array([[1], [3], [100], [np.iinfo(dtype).max]], dtype))
    amount = cases.input(np.array([0, 1, 5, 7], dtype))
    for direction in ("LEFT", "RIGHT"):
        cases.output(direction, cases.node("BitShift", x, amount, direction=direction))
    check(cases)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64])
def test_bitwise_operators(check, dtype):
    cases = Cases(opset=18)
    a = cases.input(cases.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (3, 8), dtype))
    b = cases.input(cases.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (8,), dtype))
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        cases.output(op, cases.node(op, a, b))
    cases.output("BitwiseNot", cases.node("BitwiseNot", a))
    check(cases)


@pytest.mark.parametrize("size", [7, 8])
def test_functions_of_one_number(check, size):
    cases = Cases()
    x = cases.input((2, size))
    inside = cases.node("Tanh", x)
    for op in ("Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh", "Exp", "Ceil", "Floor", "Round", "Erf", "Sign"):
        cases.output(op, cases.node(op, x))
    for op in ("Asin", "Acos", "Atanh"):
        cases.output(op, cases.node(op, inside))
    positive = cases.node("Exp", x)
    for op in ("Log", "Sqrt", "Reciprocal", "Acosh"):
        value = cases.node("Add", positive, cases.weight(np.array(1, np.float32))) if op == "Acosh" else positive
        cases.output(op, cases.node(op, value))
    halves = cases.input(np.arange(-4, 4, dtype=np.float32)[:size] + np.float32(0.5))
    cases.output("round halves", cases.node("Round", halves))
    check(cases)


def test_cumulative_sums_and_sorted_values(check):
    cases = Cases()
    x = cases.input((3, 7))
    for exclusive, reverse in itertools.product((0, 1), (0, 1)):
        value = cases.node("CumSum", x, cases.weight(np.array(1)), exclusive=exclusive, reverse=reverse)
        cases.output(f"exclusive {exclusive} reverse {reverse}", value)
    values, places = cases.node("TopK", x, cases.weight(np.array([3])), outputs=2, axis=1)
    cases.output("largest", values)
    cases.output("places", places)
    check(cases)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("width", [4, 5])
def test_narrow_integers_stay_narrow(check, dtype, width):
    """C computes them in int, which shows in wider casts and in built-in functions that go by types."""
    cases = Cases(opset=18)
    a = cases.input(cases.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (3, width), dtype))
    b = cases.input(cases.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (3, width), dtype))
    low, high = cases.weight(np.array(3, dtype)), cases.weight(np.array(100, dtype))
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        cases.output(f"clipped {op}", cases.node("Clip", cases.node(op, a, b), low, high))
        cases.output(f"wide {op}", cases.node("Cast", cases.node(op, a, b), to=6))
    cases.output("wide not", cases.node("Cast", cases.node("BitwiseNot", a), to=6))
    chosen = cases.node("Where", cases.node("Cast", a, to=9), a, b)
    cases.output("clipped choice", cases.node("Clip", chosen, low, high))
    image = cases.input(cases.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (1, 3, 5, width), dtype))
    cases.output("padded pool", cases.node("MaxPool", image, kernel_shape=[3, 3], pads=[1] * 4))
    check(cases)
