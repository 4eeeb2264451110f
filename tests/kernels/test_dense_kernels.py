"""Dense layers, matrix products, softmax and normalisation against onnxruntime."""

import itertools

import numpy as np
import pytest
from kernel_cases import Cases


@pytest.mark.parametrize("rows", [1, 2, 7, 16, 17])
def test_dense_sizes(check, rows):
    cases = Cases()
    for reduced, columns in itertools.product((1, 3, 31, 64, 257), (4, 5, 132)):
        x = cases.input((rows, reduced))
        scaled = cases.random(reduced, columns) / np.float32(np.sqrt(reduced))
        product = cases.node("MatMul", x, cases.weight(scaled))
        cases.output(f"{reduced} to {columns}", product)
        if columns in (4, 5):
            cases.output(
                f"{reduced} to {columns} with bias",
                cases.node("Gemm", x, cases.weight(scaled), cases.weight((columns,))),
            )
    check(cases)


def test_dense_of_many_elements(check):
    cases = Cases()
    for reduced, columns in ((1000, 12), (1024, 1000), (2048, 4), (1009, 8), (4096, 64)):
        x = cases.input((1, reduced))
        weight = cases.random(reduced, columns) / np.float32(np.sqrt(reduced))
        cases.output(f"{reduced} to {columns}", cases.node("Gemm", x, cases.weight(weight), cases.weight((columns,))))
    check(cases)


def test_dense_forms_of_gemm(check):
    cases = Cases()
    for trans_a, trans_b, alpha, beta in ((0, 1, 1.0, 1.0), (1, 0, 0.5, 1.0), (1, 1, 1.0, 0.25), (0, 0, 2.0, 3.0)):
        x = cases.input((9, 3) if trans_a else (3, 9))
        weight = cases.weight((8, 9) if trans_b else (9, 8))
        attributes = {"transA": trans_a, "transB": trans_b, "alpha": alpha, "beta": beta}
        for bias in ((8,), (1,), (3, 1), (3, 8)):
            value = cases.node("Gemm", x, weight, cases.weight(bias), **attributes)
            cases.output(f"transA {trans_a} transB {trans_b} alpha {alpha} beta {beta} bias {bias}", value)
    check(cases)


def test_dense_behind_convolution(check):
    cases = Cases()
    for channels, size in ((8, 1), (6, 1), (8, 3), (5, 3)):
        x = cases.input((2, 3, size, size))
        value = cases.node("Relu", cases.conv(x, (channels, 3, 1, 1)))
        flat = cases.node("Flatten", value)
        dense = cases.node("Gemm", flat, cases.weight((channels * size * size, 12)), cases.weight((12,)))
        cases.output(f"{channels} channels of {size}x{size}", dense)
        cases.output(f"{channels} channels of {size}x{size}, softmax", cases.node("Softmax", dense))
    check(cases)


def test_dense_residual_and_result_used_twice(check):
    cases = Cases()
    for columns in (8, 7):
        x = cases.input((3, columns))
        first = cases.node("Gemm", x, cases.weight((columns, columns)), cases.weight((columns,)))
        relu = cases.node("Relu", first)
        second = cases.node("MatMul", relu, cases.weight((columns, columns)))
        cases.output(f"{columns} residual", cases.node("Add", second, x))
        cases.output(f"{columns} skip", cases.node("Relu", cases.node("Add", second, relu)))
        cases.output(f"{columns} first", first)
        cases.output(f"{columns} square", cases.node("Mul", second, second))
    check(cases)


def test_matrix_products_of_activations(check):
    cases = Cases()
    for a, b in (
        ((3, 5), (5, 4)), ((1, 1), (1, 1)), ((2, 3, 5), (2, 5, 7)), ((2, 3, 5), (5, 7)), ((1, 4, 6, 5), (1, 4, 5, 6)),
        ((3, 1, 2, 5), (4, 5, 3)), ((5,), (5, 3)), ((4, 5), (5,)), ((5,), (5,)), ((2, 1), (1, 3)),
    ):  # fmt: skip
        product = cases.node("MatMul", cases.input(a), cases.input(b))
        cases.output(f"{a} x {b}", product)
        cases.output(f"{a} x {b} relu", cases.node("Relu", product))
    check(cases)


def test_matrix_products_with_weights_of_other_ranks(check):
    cases = Cases()
    for a, b in (((2, 3, 5), (5, 8)), ((1, 7, 16), (16, 32)), ((2, 3, 5), (2, 5, 4)), ((5,), (5, 8))):
        product = cases.node("MatMul", cases.input(a), cases.weight(b))
        cases.output(f"{a} x {b}", product)
        cases.output(f"{a} x {b} bias", cases.node("Add", product, cases.weight((b[-1],))))
    check(cases)


def test_softmax_sizes(check):
    cases = Cases()
    for size in (1, 2, 3, 4, 5, 31, 64, 65, 127, 1000, 1001):
        x = cases.input((2, size))
        cases.output(f"{size}", cases.node("Softmax", x))
        cases.output(f"log, {size}", cases.node("LogSoftmax", x))
    check(cases)


def test_softmax_axes(check):
    cases = Cases()
    x = cases.input((2, 5, 4, 6))
    blocked = cases.conv(x, (8, 5, 1, 1))
    for axis in (0, 1, 2, 3, -1):
        cases.output(f"axis {axis}", cases.node("Softmax", x, axis=axis))
        cases.output(f"axis {axis} behind convolution", cases.node("Softmax", blocked, axis=axis))
    check(cases)


def test_softmax_of_large_numbers(check):
    cases = Cases()
    x = cases.input(np.array([[1e4, 1e4 - 1, -1e4, 0], [88, 89, 90, 91], [-200, -201, -202, -203]], np.float32))
    cases.output("softmax", cases.node("Softmax", x))
    cases.output("log", cases.node("LogSoftmax", x))
    check(cases)


def test_layer_normalization_and_attention(check):
    cases = Cases()
    tokens, width, heads = 7, 24, 3
    x = cases.input((2, tokens, width))
    normal = cases.node("LayerNormalization", x, cases.weight((width,)), cases.weight((width,)), axis=-1, epsilon=1e-5)
    parts = []
    for _ in range(3):
        value = cases.node("MatMul", normal, cases.weight(cases.random(width, width) / np.float32(5)))
        shape = cases.weight(np.array([2, tokens, heads, width // heads]))
        parts.append(cases.node("Transpose", cases.node("Reshape", value, shape), perm=[0, 2, 1, 3]))
    query, key, value = parts
    scores = cases.node("MatMul", query, cases.node("Transpose", key, perm=[0, 1, 3, 2]))
    weights = cases.node("Softmax", cases.node("Mul", scores, cases.weight(np.array(0.35, np.float32))))
    mixed = cases.node("Transpose", cases.node("MatMul", weights, value), perm=[0, 2, 1, 3])
    flat = cases.node("Reshape", mixed, cases.weight(np.array([2, tokens, width])))
    cases.output("layer norm", normal)
    cases.output("attention", cases.node("Add", flat, x))
    check(cases)


def test_instance_normalization(check):
    cases = Cases()
    for channels in (4, 5):
        x = cases.conv(cases.input((2, 3, 6, 5)), (channels, 3, 3, 3))
        cases.output(
            f"{channels}", cases.node("InstanceNormalization", x, cases.weight((channels,)), cases.weight((channels,)))
        )
    check(cases)
