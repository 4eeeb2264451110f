"""Concatenations of channels: parts that lie in the whole from the beginning, and parts that are copied there."""

import pytest
from kernel_cases import Cases
from malisdk_pipeline import build_model, container
from malisdk_pipeline.codegen.parts import begin_at
from malisdk_pipeline.plan import Plan

SOURCE = """__attribute__((reqd_work_group_size(8, 1, 1)))
__kernel void KERNEL_NAME(
    const __global float* restrict x,
    __global half4* restrict y,
    __global float* restrict z) {
  y[0] = x[1];
}
"""


def test_kernels_begin_where_their_parts_do():
    assert begin_at(SOURCE, [0, 0, 0]) == SOURCE
    text = begin_at(SOURCE, [64, 128, 0])
    assert "    const __global float* restrict x_whole,\n    __global half4* restrict y_whole,\n" in text
    assert "  const __global float* x = x_whole + 16;\n  __global half4* y = y_whole + 16;\n  y[0]" in text
    assert "    __global float* restrict z) {\n" in text


@pytest.fixture
def plan_of(tmp_path):
    def run(cases: Cases) -> Plan:
        (tmp_path / "model.onnx").write_bytes(cases.model().SerializeToString())
        return container.read(build_model(tmp_path / "model.onnx", target="host", out=tmp_path / "model.mali"))

    return run


def _fire(cases: Cases, x: str, channels: int) -> str:
    branches = [cases.conv(x, (8, channels, k, k), pads=[k // 2] * 4) for k in (1, 3)]
    return str(cases.node("Concat", *(cases.node("Relu", b) for b in branches), axis=1))


def test_branches_are_joined_without_a_kernel(check, plan_of):
    cases = Cases()
    x = cases.input((1, 4, 6, 7))
    cases.output("out", cases.conv(_fire(cases, _fire(cases, x, 4), 16), (5, 16, 1, 1)))
    assert len(plan_of(cases).launches) == 2 + 2 * 2 + 1
    check(cases)


def test_a_dense_block(check):
    cases = Cases()
    value = cases.node("Relu", cases.conv(cases.input((1, 3, 5, 7)), (8, 3, 3, 3), pads=[1] * 4))
    for channels in (8, 12, 16):
        grown = cases.node("Relu", cases.conv(value, (4, channels, 3, 3), pads=[1] * 4))
        value = cases.node("Concat", value, grown, axis=1)
    cases.output("joined", value)
    cases.output("normalised", cases.node("Relu", cases.node("Mul", value, cases.weight((20, 1, 1)))))
    check(cases)


def test_parts_that_are_used_elsewhere_too(check):
    cases = Cases()
    x = cases.input((1, 4, 5, 5))
    a, b = (cases.node("Relu", cases.conv(x, (8, 4, 1, 1))) for _ in range(2))
    both = cases.node("Concat", a, b, axis=1)
    cases.output("part", a)
    cases.output("twice", cases.conv(cases.node("Concat", b, both, b, axis=1), (4, 32, 1, 1)))
    cases.output("sum", cases.node("Add", b, a))
    cases.output("whole", both)
    check(cases)


def test_parts_of_odd_channels_batches_and_inputs(check):
    cases = Cases()
    for batch, channels in ((1, (4, 8, 3)), (1, (3, 4)), (3, (4, 4))):
        x = cases.input((batch, 4, 4, 3))
        parts = [cases.node("Relu", cases.conv(x, (c, 4, 1, 1))) for c in channels]
        joined = cases.node("Concat", *parts, axis=1)
        cases.output(f"{batch} {channels}", cases.conv(joined, (4, sum(channels), 1, 1)))
    x = cases.input((1, 4, 3, 3))
    joined = cases.node(
        "Concat", x, cases.node("Relu", cases.conv(x, (4, 4, 1, 1))), cases.weight((1, 4, 3, 3)), axis=1
    )
    cases.output("inputs", joined)
    check(cases)
