"""The plan's memory: no two tensors in use at once share bytes, and every array is stored once."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from malisdk_pipeline.plan import (
    ARENA_ALIGNMENT_BYTES,
    WEIGHT_ALIGNMENT_BYTES,
    Kernel,
    Place,
    Plan,
    TensorSpec,
    WeightPool,
    align,
    place_in_arena,
)

LIVES = st.tuples(st.integers(0, 12), st.integers(0, 6)).map(lambda t: (t[0], t[0] + t[1]))
TENSORS = st.lists(st.tuples(st.integers(1, 5 * ARENA_ALIGNMENT_BYTES), LIVES), max_size=25)


@given(TENSORS)
@settings(derandomize=True, database=None, max_examples=100)
def test_place_in_arena_keeps_living_tensors_apart(tensors):
    sizes, lives = [size for size, _ in tensors], [life for _, life in tensors]
    offsets, arena_bytes = place_in_arena(sizes, lives)
    assert len(offsets) == len(sizes)
    for step in range(20):
        used = sorted(
            (o, o + s) for o, s, (first, last) in zip(offsets, sizes, lives, strict=True) if first <= step <= last
        )
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(used))
    for offset, size in zip(offsets, sizes, strict=True):
        assert offset % ARENA_ALIGNMENT_BYTES == 0
        assert 0 <= offset <= arena_bytes - size
    # never worse than no reuse at all, never better than the busiest step needs
    assert arena_bytes <= sum(align(s, ARENA_ALIGNMENT_BYTES) for s in sizes)
    busiest = max((sum(s for s, (a, b) in tensors if a <= step <= b) for step in range(20)), default=0)
    assert arena_bytes >= busiest


@given(TENSORS)
@settings(derandomize=True, database=None, max_examples=100)
def test_place_in_arena_never_overlaps_in_part(tensors):
    """Two tensors either have the same start or share no byte: drivers do not keep overlapping sub-buffers coherent."""
    sizes, lives = [size for size, _ in tensors], [life for _, life in tensors]
    offsets, _ = place_in_arena(sizes, lives)
    ranges = list(zip(offsets, sizes, strict=True))
    for i, (a, a_bytes) in enumerate(ranges):
        for b, b_bytes in ranges[:i]:
            assert a == b or a + a_bytes <= b or b + b_bytes <= a


def test_place_in_arena_reuses_a_chain():
    """Of a chain of layers only two tensors live at once."""
    sizes = [4 * ARENA_ALIGNMENT_BYTES] * 10
    _, arena_bytes = place_in_arena(sizes, [(i, i + 1) for i in range(10)])
    assert arena_bytes == 2 * sizes[0]


def test_place_in_arena_of_nothing_is_empty():
    assert place_in_arena([], []) == ([], 0)


def test_weight_pool_stores_equal_arrays_once():
    pool = WeightPool()
    a = np.arange(100, dtype=np.float32)
    first, other, again = pool.add(a), pool.add(a + 1), pool.add(a.reshape(10, 10).copy())
    assert first == again != other
    assert first.place is Place.WEIGHT
    assert len(pool.data) == other.offset + other.size_bytes
    for buffer, array in ((first, a), (other, a + 1)):
        assert buffer.offset % WEIGHT_ALIGNMENT_BYTES == 0
        assert pool.data[buffer.offset : buffer.offset + buffer.size_bytes] == array.tobytes()


def test_weight_pool_stores_what_strides_show():
    pool = WeightPool()
    a = np.arange(12, dtype=np.int64).reshape(3, 4)
    buffer = pool.add(a.T)
    assert pool.data[buffer.offset :] == a.T.copy().tobytes()


@pytest.mark.parametrize(
    ("shape", "dtype", "size_bytes"), [((), "float32", 4), ((2, 3), "int64", 48), ((0, 3), "bool", 0)]
)
def test_tensor_spec_knows_its_bytes(shape, dtype, size_bytes):
    assert TensorSpec(name="x", dtype=dtype, shape=shape, buffer=0).size_bytes == size_bytes


def test_plan_knows_which_extensions_its_kernels_need():
    def plan(source: str) -> Plan:
        kernel = Kernel(name="k", source=source, local_size=(1, 1, 1))
        return Plan(
            model_name="m", target="host", dtype="float32", inputs=(), outputs=(), buffers=(), kernels=(kernel,),
            launches=(), weights=b"", arena_bytes=0, metadata={},
        )  # fmt: skip

    half = plan("#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n")
    double = plan("#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n")
    assert (half.needs_fp16, half.needs_fp64) == (True, False)
    assert (double.needs_fp16, double.needs_fp64) == (False, True)
    assert not plan("float x;").needs_fp16
