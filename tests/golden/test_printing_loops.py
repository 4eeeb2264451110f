"""How loops and the accesses around them are printed for Midgard's compilers."""

import re

import pytest
from malisdk_pipeline.codegen.keep import FENCE, IN_ORDER, KEEP, UNKNOWN_ZERO
from malisdk_pipeline.codegen.lower import lower
from malisdk_pipeline.codegen.pointers import ADVANCE
from malisdk_pipeline.targets import find_target
from tvm import te
from tvm.s_tir import Schedule

ROUNDS = 6


def product(*annotations: str, groups: int = 4, bias: bool = True) -> str:
    """out[i, 4 j + v] = sum over k of data[k, j] * weight[i, k, v], plus a bias; four j a work-item, 8 work-items."""
    data = te.placeholder((ROUNDS, 4, 4), name="data")
    weight = te.placeholder((8 * groups, ROUNDS, 4), name="weight")
    added = te.placeholder((8 * groups, 4), name="bias")
    k, c = te.reduce_axis((0, ROUNDS), "k"), te.reduce_axis((0, 4), "c")
    row = te.compute(data.shape, lambda *i: data[i], name="row")
    vector = te.compute(weight.shape, lambda *i: weight[i], name="vector")
    sums = te.compute(
        (8 * groups, 4, 4), lambda i, j, v: te.sum(row[k, j, c] * vector[i, k, v], axis=[k, c]), name="sums"
    )
    out = te.compute(sums.shape, lambda i, j, v: sums[i, j, v] + (added[i, v] if bias else 1.0), name="out")
    sch = Schedule(te.create_prim_func([data, weight, *([added] if bias else []), out]))
    i, j, v = sch.get_loops(sch.get_sblock("out"))
    group, item = sch.split(i, [groups, 8])
    sch.bind(group, "blockIdx.x")
    sch.bind(item, "threadIdx.x")
    sch.unroll(j)
    sch.vectorize(v)
    block = sch.get_sblock("sums")
    sch.set_scope(block, 0, "local")
    sch.compute_at(block, item)
    sj, sv, k, c = sch.get_loops(block)[-4:]
    sch.reorder(k, sj, c, sv)
    for copy, at in (("vector", k), ("row", sj)):
        sch.set_scope(sch.get_sblock(copy), 0, "local")
        sch.compute_at(sch.get_sblock(copy), at, preserve_unit_loops=False)
        sch.vectorize(sch.get_loops(sch.get_sblock(copy))[-1])
    for loop in (sj, c):
        sch.unroll(loop)
    sch.vectorize(sv)
    for annotation in annotations:
        sch.annotate(k, annotation, 1)
    sch.decompose_reduction(block, k)
    (call,) = lower(sch.mod["main"], "f", find_target("rk3399").tvm_target()).calls
    return call.kernel.source


def test_kept_loop_begins_at_a_number_that_no_compiler_knows():
    assert f"= {UNKNOWN_ZERO}; " in product(KEEP)
    assert "= 0; " in product()


def test_advancing_pointers_begin_before_the_loop():
    before, _, after = product(ADVANCE).partition("for (")
    assert "char* weight_row = " in before
    assert "weight_row + " in after
    assert "weight_row" not in product()


def test_loads_in_order_have_a_fence_before_all_runs_but_the_first():
    body = product(IN_ORDER).partition("for (")[2].partition("}")[0]
    lines = [line.strip() for line in body.splitlines()]
    loads = [i for i, line in enumerate(lines) if re.match(r"(row|vector)_local\w* = \w+_at\[", line)]
    assert len(loads) == 5  # one vector of weights, four of data
    assert [lines[i - 1] == FENCE for i in loads if "const" not in lines[i - 1]].count(True) == 3
    assert body.count(FENCE) == 3
    assert FENCE not in product()


def test_loads_that_stores_share_happen_once_and_before_the_output_has_a_pointer():
    text = product()
    assert text.count("bias_at[0]") == 1
    assert text.index("bias_value = bias_at[0]") < text.index("__global float4* out_at")
    assert text.count("+ bias_value;") == 4


@pytest.mark.parametrize("groups", [1, 4])
def test_work_item_has_one_number_an_axis(groups):
    text = product(groups=groups)
    assert ("get_global_id(0)" in text) == (groups > 1)
    assert ("get_local_id(0)" in text) == (groups == 1)
    assert "get_group_id" not in text


def test_parts_of_a_work_items_number_stay_apart_where_they_are_wanted():
    a = te.placeholder((4, 8), name="a")
    out = te.compute((8, 4), lambda i, j: a[j, i], name="out")
    sch = Schedule(te.create_prim_func([a, out]))
    i, j = sch.get_loops(sch.get_sblock("out"))
    sch.bind(j, "blockIdx.x")
    sch.bind(i, "threadIdx.x")
    (call,) = lower(sch.mod["main"], "f", find_target("rk3399").tvm_target()).calls
    assert "get_group_id(0)" in call.kernel.source and "get_local_id(0)" in call.kernel.source
