"""Matrix products against onnxruntime: batches, shared and constant matrices, sizes around the 4 x 4 tile."""

import itertools

import pytest
from kernel_cases import Cases


@pytest.mark.parametrize("reduced", [4, 5, 33])
def test_batches_of_two_tensors(check, reduced):
    cases = Cases()
    for rows, columns in itertools.product((1, 4, 6), (1, 4, 7, 8)):
        value = cases.node("MatMul", cases.input((2, 3, rows, reduced)), cases.input((2, 3, reduced, columns)))
        cases.output(f"{rows} x {reduced} x {columns}", value)
    check(cases)


def test_one_matrix_for_all_batches(check):
    cases = Cases()
    for left, right in (((3, 9, 13), (13, 7)), ((2, 2, 5, 8), (1, 1, 8, 12)), ((6, 8), (8, 4)), ((3, 1, 6), (1, 6, 5))):
        cases.output(f"{left} x {right}", cases.node("MatMul", cases.input(left), cases.input(right)))
    check(cases)


def test_batches_that_are_broadcast(check):
    cases = Cases()
    for left, right in (((1, 4, 5), (3, 5, 4)), ((2, 1, 4, 5), (1, 3, 5, 4)), ((5,), (2, 5, 4)), ((2, 4, 5), (5,))):
        cases.output(f"{left} x {right}", cases.node("MatMul", cases.input(left), cases.input(right)))
    check(cases)


def test_constant_matrices_with_epilogue(check):
    cases = Cases()
    for left, right in (((17, 8), (8, 4)), ((3, 5, 12), (12, 20)), ((2, 2, 3, 7), (7, 9)), ((1, 33), (33, 5))):
        value = cases.node("MatMul", cases.input(left), cases.weight(right))
        value = cases.node("Add", value, cases.weight((right[1],)))
        cases.output(f"{left} x {right}", cases.node("Relu", value))
        cases.output(f"{left} x {right} added", cases.node("Add", value, cases.input((*left[:-1], right[1]))))
    check(cases)


def test_attention(check):
    cases = Cases()
    query, key, value = (cases.input((1, 2, 19, 8)) for _ in range(3))
    scores = cases.node("MatMul", query, cases.node("Transpose", key, perm=[0, 1, 3, 2]))
    shares = cases.node("Softmax", scores, axis=-1)
    heads = cases.node("Transpose", cases.node("MatMul", shares, value), perm=[0, 2, 1, 3])
    cases.output("attention", heads)
    check(cases)
