"""The reader of kernel texts, held against kernels whose rounds, work and cache lines are counted by hand."""

import pytest
from malisdk_pipeline.errors import ScheduleError
from malisdk_pipeline.oracle.clc import For, If, read_kernel
from malisdk_pipeline.oracle.cost import Bundles, KernelCost, Loop
from malisdk_pipeline.oracle.loops import executed
from malisdk_pipeline.oracle.traffic import fetched_lines, footprint
from malisdk_pipeline.oracle.walk import walk

GEMM = """
__attribute__((reqd_work_group_size(8, 4, 1)))
__kernel void gemm(const __global float* restrict a, const __global float* restrict b, __global float* restrict c) {
  float4 sum_0, sum_1;
  const int row = get_group_id(1) * 4 + get_local_id(1);
  const int item_x = get_local_id(0);
  sum_0 = (float4)(0.0f);
  sum_1 = (float4)(0.0f);
  for (int k = 0; k < 64; ++k) {  /* 64 rounds */
    const __global float4* b_at = (const __global float4*)(b + k * 64 + item_x * 8);
    sum_0 = mad((float4)(a[row * 64 + k]), b_at[0], sum_0);
    sum_1 = (float4)(a[row * 64 + k]) * b_at[1] + sum_1;
  }
  vstore4(sum_0, 0, c + row * 64 + item_x * 8);
  *(__global float4*)(c + row * 64 + item_x * 8 + 4) = sum_1;
}
"""
SIZES = {"global_size": (8, 64, 1), "local_size": (8, 4, 1)}


def test_loops_and_conditions_are_read():
    text = (
        "kernel void f(global int* p) { for (int i = 2; i <= 8; i += 3) { if (i > 3) { p[i] = 1; } else p[0] = 2; } }"
    )
    kernel = read_kernel(text, "f")
    (loop,) = kernel.body
    assert isinstance(loop, For)
    (condition,) = loop.body
    assert isinstance(condition, If)
    assert (len(condition.then), len(condition.otherwise)) == (1, 1)
    assert walk(kernel, global_size=(1, 1, 1), local_size=(1, 1, 1)).loops[0].trips == 3


def test_unknown_words_are_errors_that_name_the_kernel():
    with pytest.raises(ScheduleError, match="f: not understood near"):
        read_kernel("__kernel void f(__global int* p) { do { p[0] = 1; } while (p[1]); }", "f")
    with pytest.raises(ScheduleError, match="g: no such kernel"):
        read_kernel("__kernel void f(__global int* p) { }", "g")


def test_walk_counts_rounds_and_multiply_adds():
    root = walk(read_kernel(GEMM, "gemm"), **SIZES)
    (loop,) = root.loops
    assert loop.trips == 64
    assert loop.mads == {("float", 4): 2.0}
    assert loop.operations == {("float", 4): 0.0}
    assert len(loop.accesses) == 4
    assert [(a.buffer, a.size_bytes) for a in root.accesses] == [("c", 16), ("c", 16)]
    assert all(a.is_store for a in root.accesses)


def test_walk_knows_addresses_and_what_a_round_adds():
    (loop,) = walk(read_kernel(GEMM, "gemm"), **SIZES).loops
    vector = next(a for a in loop.accesses if a.buffer == "b")
    assert list(vector.address[:3]) == [0, 32, 64]
    assert set(vector.strides[0]) == {256}


def test_bounds_that_depend_on_the_work_item_count_as_their_mean():
    text = """__kernel void f(__global float* p) {
      for (int i = max(0, 1 - get_local_id(0)); i < min(3, 9 - get_local_id(0)); ++i) { p[i] = p[i] * 2.0f; }
    }"""
    (loop,) = walk(read_kernel(text, "f"), global_size=(8, 1, 1), local_size=(8, 1, 1)).loops
    # of items 0 to 7 the first and the last do two rounds
    assert loop.trips == pytest.approx((2 + 6 * 3 + 2) / 8)


def test_guarded_accesses_weigh_as_often_as_they_happen():
    text = "__kernel void f(__global float* p) { float x; x = get_local_id(0) < 2 ? p[0] : 0.0f; p[1] = x; }"
    root = walk(read_kernel(text, "f"), global_size=(8, 1, 1), local_size=(8, 1, 1))
    assert [a.weight for a in root.accesses] == [0.25, 1.0]


def test_lines_are_shared_inside_a_work_group():
    root = walk(read_kernel(GEMM, "gemm"), **SIZES)
    touched = footprint(root, 32)
    # 4 rows of a and 64 of b, each 256 bytes, and 4 of c: 4 lines a row
    assert touched.lines == pytest.approx((4 + 64 + 4) * 4)
    assert fetched_lines(touched, fits=1000) == pytest.approx(288)
    # A round touches 4 lines of a and 4 of b; with room for only that, a is fetched again each time.
    assert fetched_lines(touched, fits=10) == pytest.approx(64 * 8 + 4 * 4)


def cost(bundles, loops):
    return KernelCost(
        name="k",
        registers=8,
        threads=128,
        spills=0,
        fills=0,
        bundles=bundles,
        loops=tuple(loops),
        statistics={},
        arguments=1,
        work_group=128,
        required=(0, 0, 0),
        warnings=(),
    )


def bundles(alu, load_store, mads):
    return Bundles(alu=alu, load_store=load_store, texture=0, vec4_mads=mads)


NEST = """__kernel void k(__global float* p) {
  float x;
  for (int i = 0; i < 100; ++i) { for (int j = 0; j < 3; ++j) { x = mad(p[i], p[j], x); } }
  for (int i = 0; i < 7; ++i) { x = mad(p[i], p[0], x); }
  p[0] = x;
}"""


@pytest.mark.parametrize(
    ("kept", "alu"),
    [
        # all three loops kept: 10 + 100 x (2 + 3 x 4) + 7 x 5
        ([(1, bundles(6, 0, 0.25)), (2, bundles(4, 0, 0.25)), (1, bundles(5, 0, 0.25))], 10 + 1400 + 35),
        # the inner one unrolled: its three multiply-adds stand in the outer one
        ([(1, bundles(14, 0, 0.75)), (1, bundles(5, 0, 0.25))], 10 + 1400 + 35),
        # only the long one kept, the last unrolled
        ([(1, bundles(14, 0, 0.75))], 45 + 1400),
    ],
)
def test_kept_loops_are_named_by_their_multiply_adds(kept, alu):
    loops = [
        Loop(depth=depth, innermost=i + 1 == len(kept) or kept[i + 1][0] <= depth, bundles=b)
        for i, (depth, b) in enumerate(kept)
    ]
    outside = 10 if len(kept) > 1 else 45
    whole = bundles(outside + sum(b.alu for depth, b in kept if depth == 1), 0, 1)
    root = walk(read_kernel(NEST, "k"), global_size=(1, 1, 1), local_size=(1, 1, 1))
    counts = executed(cost(whole, loops), root)
    assert counts.is_sure
    assert counts.alu == pytest.approx(alu)


def test_a_loop_that_the_text_does_not_have_is_a_guess():
    root = walk(read_kernel("__kernel void k(__global float* p) { p[0] = 1.0f; }", "k"), **SIZES)
    counts = executed(cost(bundles(9, 1, 0), [Loop(depth=1, innermost=True, bundles=bundles(4, 0, 0))]), root)
    assert (counts.is_sure, counts.alu) == (False, 9)
