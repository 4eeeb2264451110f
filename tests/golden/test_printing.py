"""Lowered tensor programs as OpenCL C: what the text says, and what is refused."""

import re

import pytest
import tvm
from malisdk_pipeline.codegen.lower import lower
from malisdk_pipeline.errors import ScheduleError
from malisdk_pipeline.targets import find_target
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.script import tirx as T  # noqa: N812


def source(func: tirx.PrimFunc) -> str:
    (call,) = lower(func, "f", find_target("rk3399").tvm_target()).calls
    return call.kernel.source


def elementwise(compute, *inputs: tuple[str, str], size: int = 64, lanes: int = 1) -> str:
    """The kernel of out[i] = compute(inputs[0][i], ...), a work-item for each `lanes` elements."""
    tensors = [te.placeholder((size,), dtype=dtype, name=name) for name, dtype in inputs]
    out = te.compute((size,), lambda i: compute(*(t[i] for t in tensors)), name="out")
    sch = Schedule(te.create_prim_func([*tensors, out]))
    item, lane = sch.split(sch.get_loops(sch.get_sblock("out"))[0], [None, lanes])
    sch.bind(item, "threadIdx.x")
    if lanes > 1:
        sch.vectorize(lane)
    return source(sch.mod["main"])


def statement(text: str) -> str:
    """The one line of a kernel that writes the output."""
    (line,) = re.findall(r"^ *out\[item_x\] = (.*);$", text, re.MULTILINE)
    return line


def parameters(text: str) -> list[str]:
    return re.findall(r"restrict (\w+)", text)


def test_kernel_states_its_work_group_and_qualifies_its_pointers():
    text = elementwise(lambda a: a + 1, ("a", "float32"))
    assert text.startswith("__attribute__((reqd_work_group_size(64, 1, 1)))\n__kernel void KERNEL_NAME(")
    assert "const __global float* restrict a" in text
    assert re.search(r"(?<!const )__global float\* restrict out", text)


@pytest.mark.parametrize(
    "name",
    [
        "half", "float4", "kernel", "global", "max", "mad", "int", "while", "get_local_id", "get_group_id", "vload4",
        "vstore4", "vload_half", "vstore_half4", "convert_float4", "as_float", "rint", "fabs", "item_x", "uchar16",
        "__private", "2nd", "a b/c:0", "gpu_0/data_0", "", "größe", "true", "NAN", "bool", "double2", "lgamma", "hypot",
        "get_global_id", "fmin",
    ],
)  # fmt: skip
def test_tensor_names_become_identifiers_of_their_own(name):
    text = elementwise(lambda a: tvm.te.max(a, 0.5) * 2 + 1, (name, "float32"))
    identifier = next(p for p in parameters(text) if p != "out")
    assert re.fullmatch(r"[A-Za-z]\w*", identifier, re.ASCII)
    assert identifier != name or name == "item_x"
    assert len(re.findall(rf"\b{identifier}\b", text)) == 2  # its declaration and its use
    assert f"{identifier}[" in text


def test_equal_names_are_told_apart():
    text = elementwise(lambda a, b, c: a - b * c, ("x", "float32"), ("x", "float32"), ("out", "float32"))
    assert len(set(parameters(text))) == 4


def test_literals_keep_sign_and_precedence():
    text = elementwise(lambda a: tirx.const(3.0, "float32") - (a - tirx.const(-2.5, "float32")), ("a", "float32"))
    assert statement(text) in ("3.0f - (a[item_x] - -2.5f)", "3.0f - (a[item_x] + 2.5f)")
    text = elementwise(lambda a: a * tirx.const(-3, "int32") - tirx.const(-7, "int32"), ("a", "int32"))
    assert "--" not in text


@pytest.mark.parametrize(
    ("value", "dtype", "literal"),
    [
        (float("inf"), "float32", "INFINITY"),
        (float("-inf"), "float32", "-INFINITY"),
        (float("nan"), "float32", "NAN"),
        (1e-45, "float32", "1e-45f"),
        (0.1, "float32", "0.1f"),
        (-(2**31), "int32", "(-2147483647 - 1)"),
        (-(2**63), "int64", "(-9223372036854775807L - 1L)"),
        (2**63 - 1, "int64", "9223372036854775807L"),
        (2**32 - 1, "uint32", "4294967295u"),
    ],
)
def test_extreme_literals(value, dtype, literal):
    text = elementwise(lambda a: tirx.Select(a > 0, tirx.const(value, dtype), tirx.const(1, dtype)), ("a", "int32"))
    assert re.search(rf"\? {re.escape(literal)} : ", text), text


def test_bool_is_uchar_in_memory():
    text = elementwise(lambda a, b: tirx.And(a, b), ("a", "bool"), ("b", "bool"))
    assert len(re.findall(r"__global uchar\* restrict", text)) == 3
    assert "bool*" not in text


@pytest.mark.parametrize(
    ("dtype", "c_name"), [("int8", "char"), ("uint8", "uchar"), ("int16", "short"), ("uint16", "ushort")]
)
def test_narrow_integers_wrap_after_each_operation(dtype, c_name):
    text = statement(elementwise(lambda a, b: (a * b + a) - b, ("a", dtype), ("b", dtype)))
    assert text.count(f"({c_name})(") == 3


def test_wide_integers_are_computed_wide():
    text = elementwise(lambda a, b: a * b, ("a", "int64"), ("b", "int64"))
    assert text.count("__global long*") == 3
    assert statement(text) == "a[item_x] * b[item_x]"


def test_doubles_ask_for_their_extension():
    text = elementwise(lambda a: a * 2.0, ("a", "float64"))
    assert text.startswith("#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n")
    assert "cl_khr_fp16" not in text


def test_half_in_memory_needs_no_extension():
    text = elementwise(lambda a: (a.astype("float32") * 2.0 + 1.0).astype("float16"), ("a", "float16"))
    assert "vload_half(item_x, a)" in text
    assert "vstore_half(" in text
    assert "#pragma" not in text
    text = elementwise(lambda a: (a.astype("float32") * 2.0).astype("float16"), ("a", "float16"), lanes=4)
    assert "vload_half4(" in text
    assert "vstore_half4(" in text
    assert "#pragma" not in text


def test_half_arithmetic_asks_for_its_extension():
    text = elementwise(lambda a: a * a, ("a", "float16"))
    assert text.startswith("#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n")
    assert "vload_half" not in text


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_aligned_vectors_are_reached_through_vector_pointers(lanes):
    text = elementwise(lambda a: a * 2, ("a", "float32"), lanes=lanes)
    assert f"(const __global float{lanes}*)" in text
    assert f"(__global float{lanes}*)" in text
    assert "vload" not in text and "vstore" not in text


def test_unaligned_vectors_are_loaded_by_elements():
    @T.prim_func(s_tir=True)
    def shifted(a: T.Buffer((65,), "float32"), b: T.Buffer((65,), "float32")):
        for i in T.thread_binding(16, thread="threadIdx.x"):
            for j in T.vectorized(4):
                with T.sblock("b"):
                    v = T.axis.spatial(64, i * 4 + j)
                    b[v + 1] = a[v + 1]

    text = source(shifted)
    assert "vload4(0, a +" in text
    assert "vstore4(" in text
    assert "float4*" not in text


def test_strided_and_constant_vectors():
    @T.prim_func(s_tir=True)
    def strided(a: T.Buffer((128,), "float32"), c: T.Buffer((1,), "float32"), b: T.Buffer((64,), "float32")):
        for i in T.thread_binding(16, thread="threadIdx.x"):
            for j in T.vectorized(4):
                with T.sblock("b"):
                    v = T.axis.spatial(64, i * 4 + j)
                    b[v] = a[v * 2 + 1] + c[0]

    text = source(strided)
    assert [f"a[item_x * 8 + {k}]" in text for k in (1, 3, 5, 7)] == [True] * 4
    assert "(float4)(c[0])" in text


def test_conditions_of_vectors_are_printed_lane_by_lane():
    text = elementwise(lambda a, b: tirx.Select(a < b, a, b), ("a", "float32"), ("b", "float32"), lanes=4)
    assert text.count(" ? ") == 4
    text = elementwise(lambda p, b: tirx.Select(p, b, 0.0), ("p", "bool"), ("b", "float32"), lanes=4)
    assert [f"p[item_x * 4 + {k}]" in text for k in (1, 2, 3)] == [True] * 3


def through_cache(index, *, scope: str, lanes: int, unroll: bool = True) -> str:
    """Each work-item copies a row of 16 elements through memory of its own and reads it at `index(j)`."""
    a = te.placeholder((64, 16), name="a")
    cache = te.compute((64, 16), lambda i, j: a[i, j], name="cache")
    b = te.compute((64, 16), lambda i, j: cache[i, index(j)], name="b")
    sch = Schedule(te.create_prim_func([a, b]))
    cached, block = sch.get_sblock("cache"), sch.get_sblock("b")
    item, column = sch.get_loops(block)
    sch.bind(item, "threadIdx.x")
    sch.set_scope(cached, 0, scope)
    sch.compute_at(cached, item)
    for loop in (sch.get_loops(cached)[-1], column):
        outer, inner = sch.split(loop, [None, lanes])
        if lanes > 1:
            sch.vectorize(inner)
        if unroll:
            sch.unroll(outer)
    return source(sch.mod["main"])


def test_private_arrays_with_constant_indices_become_vectors():
    text = through_cache(lambda j: j, scope="local", lanes=4)
    assert "  float4 cache_local_0, cache_local_1, cache_local_2, cache_local_3;\n" in text
    assert "cache_local[" not in text


def test_private_arrays_read_by_elements_become_variables():
    text = through_cache(lambda j: 15 - j, scope="local", lanes=1)
    assert "  float cache_local_0, cache_local_1, " in text
    assert "cache_local[" not in text


@pytest.mark.parametrize(("lanes", "unroll"), [(1, False), (4, False), (4, True)])
def test_private_arrays_with_other_indices_stay_arrays(lanes, unroll):
    text = through_cache(lambda j: 15 - j, scope="local", lanes=lanes, unroll=unroll)
    assert "  float cache_local[16];\n" in text


def test_shared_memory_is_refused():
    with pytest.raises(ScheduleError, match="wants shared memory"):
        through_cache(lambda j: j, scope="shared", lanes=4)


def test_barrier_is_refused():
    @T.prim_func(s_tir=True)
    def waits(a: T.Buffer((64,), "float32")):
        for i in T.thread_binding(64, thread="threadIdx.x"):
            T.evaluate(T.tvm_storage_sync("global"))
            a[i] = T.float32(0)

    with pytest.raises(ScheduleError, match="expected no barrier"):
        source(waits)


def test_unknown_function_is_refused():
    def foreign(x):
        return tirx.call_pure_extern("float32", "my_own_function", x)

    with pytest.raises(ScheduleError, match="OpenCL C does not have, got my_own_function"):
        elementwise(foreign, ("a", "float32"))


def test_function_without_kernel_is_refused():
    @T.prim_func(s_tir=True)
    def on_host(a: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("a"):
                v = T.axis.spatial(4, i)
                a[v] = T.float32(0)

    with pytest.raises(ScheduleError, match=r"^f: "):
        source(on_host)


def test_sums_of_products_become_mad():
    assert statement(elementwise(lambda a, b: a * b + 1.0, ("a", "float32"), ("b", "float32"))) == (
        "mad(a[item_x], b[item_x], 1.0f)"
    )
    assert "mad" not in elementwise(lambda a, b: a * b + 1, ("a", "int32"), ("b", "int32"))
    assert "mad" not in elementwise(lambda a, b: a * b + tirx.const(1, "float64"), ("a", "float64"), ("b", "float64"))
