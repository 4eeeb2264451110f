"""Weights come out of pickles as they went in; what a hostile or damaged pickle asks for never runs."""

import contextlib
import os
import pickle
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from malisdk_pipeline.errors import ImportFailed
from malisdk_pipeline.unpickle import read_numpy_pickle, read_torch_legacy

MAGIC = 0x1950A86A20F9469CFC6C


def opcodes(value: object) -> bytes:
    """The opcodes that push a plain value, without protocol header and stop."""
    return pickle.dumps(value, 2)[2:-1]


def tensor(key: str, count: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    storage = b"(" + opcodes("storage") + b"ctorch\nFloatStorage\n" + opcodes(key) + opcodes("cpu") + opcodes(count)
    arguments = storage + b"NtQ" + opcodes(offset) + opcodes(shape) + opcodes(strides) + b"\x89"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + arguments + b"ccollections\nOrderedDict\n)RtR"


def torch_file(tensors: dict[str, bytes], storages: dict[str, Sequence[float]], *, magic: int = MAGIC) -> bytes:
    """A legacy torch file, put together by hand from the format's parts."""
    head = [pickle.dumps(v, 2) for v in (magic, 1001, {"protocol_version": 1001, "little_endian": True})]
    entries = b"".join(opcodes(name) + pushed + b"s" for name, pushed in tensors.items())
    state = b"\x80\x02ccollections\nOrderedDict\n)R" + entries + b"."
    data = [struct.pack(f"<q{len(v)}f", len(v), *v) for v in storages.values()]
    return b"".join([*head, state, pickle.dumps(list(storages), 2), *data])


SIX = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
GOOD = torch_file({"a.weight": tensor("7", 6, 0, (2, 3), (1, 2)), "b": tensor("7", 6, 4, (2,), (1,))}, {"7": SIX})


def write(folder: Path, data: bytes) -> Path:
    path = folder / "weights.bin"
    path.write_bytes(data)
    return path


def test_torch_legacy_transposed_and_shared_storage_gives_the_values(tmp_path):
    tensors = read_torch_legacy(write(tmp_path, GOOD))
    assert list(tensors) == ["a.weight", "b"]
    np.testing.assert_array_equal(tensors["a.weight"], np.array([[0, 2, 4], [1, 3, 5]], np.float32))
    np.testing.assert_array_equal(tensors["b"], np.array([4, 5], np.float32))


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (0, (2, 4), (4, 1)),
        (6, (1,), (1,)),
        (0, (1 << 40,), (0,)),
        (-1, (2,), (1,)),
        (5, (2,), (-1,)),
        (0, (2, 3), (1,)),
    ],
)
def test_torch_legacy_view_outside_of_its_storage_is_refused(tmp_path, offset, shape, strides):
    path = write(tmp_path, torch_file({"w": tensor("7", 6, offset, shape, strides)}, {"7": SIX}))
    with pytest.raises(ImportFailed, match="w: "):
        read_torch_legacy(path)


def test_torch_legacy_cut_anywhere_is_refused(tmp_path):
    for length in range(len(GOOD)):
        with pytest.raises(ImportFailed, match=r"weights\.bin"):
            read_torch_legacy(write(tmp_path, GOOD[:length]))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (GOOD + b"x", "bytes after the last storage, got 1"),
        (b"PK\x03\x04" + GOOD, "zip format"),
        (torch_file({}, {}, magic=5), "no legacy torch file, got magic 5"),
        (torch_file({"w": tensor("7", 6, 0, (2,), (1,))}, {"8": SIX}), "list of storages"),
        (torch_file({"w": tensor("7", 6, 0, (2,), (1,))}, {"7": SIX[:5]}), "length, got 5; expected 6"),
        (torch_file({"w": opcodes("text")}, {}), "no state dict"),
    ],
)
def test_torch_legacy_wrong_parts_are_named(tmp_path, data, message):
    with pytest.raises(ImportFailed, match=message):
        read_torch_legacy(write(tmp_path, data))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, len(GOOD) - 1), byte=st.integers(0, 255), length=st.integers(0, 6))
def test_torch_legacy_changed_bytes_give_tensors_or_import_failed(tmp_path, position, byte, length):
    data = GOOD[:position] + bytes([byte]) * length + GOOD[position + length :]
    with contextlib.suppress(ImportFailed):
        read_torch_legacy(write(tmp_path, data))


class _Command:
    """Unpickles by running a shell command."""

    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.victim}",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("read", [read_numpy_pickle, read_torch_legacy])
def test_hostile_pickle_is_refused_and_runs_nothing(tmp_path, read, protocol):
    victim = tmp_path / "victim"
    path = write(tmp_path, pickle.dumps({"conv": [_Command(victim)]}, protocol))
    with pytest.raises(ImportFailed, match=r"not allowed, got (posix|nt)\.system") as caught:
        read(path)
    assert caught.value.exit_code == 4
    assert not victim.exists()


@pytest.mark.parametrize(
    "name",
    ["builtins\neval", "numpy\nload", "numpy.core.multiarray\n_reconstruct.__globals__", "collections\nnamedtuple"],
)
def test_pickle_asking_for_other_names_is_refused(tmp_path, name):
    with pytest.raises(ImportFailed, match="not allowed"):
        read_numpy_pickle(write(tmp_path, b"\x80\x02c" + name.encode() + b"\n."))


def test_pickle_changing_a_name_it_got_does_not_change_the_next_load(tmp_path):
    set_attribute = b"\x80\x02cnumpy\ndtype\nN}X\x05\x00\x00\x00numpyK\x01s\x86b0}."
    good = {"conv": [np.arange(3, dtype=np.float32)]}
    with pytest.raises(ImportFailed):
        read_numpy_pickle(write(tmp_path, set_attribute))
    np.testing.assert_array_equal(read_numpy_pickle(write(tmp_path, pickle.dumps(good)))["conv"][0], good["conv"][0])


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02}r\xff\xff\xff\x7f.",  # a memo of 2**31 entries
        b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b".",  # 2**60 bytes to follow
        b"\x80\x02]q\x00h\x00a.",  # a list that holds itself
    ],
)
def test_pickle_asking_for_endless_memory_is_refused(tmp_path, data):
    with pytest.raises(ImportFailed):
        read_numpy_pickle(write(tmp_path, data))


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_numpy_pickle_gives_the_arrays(tmp_path, protocol):
    layers = {
        "conv": [np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.array([1, -2], ">i4")],
        "fortran": (np.asfortranarray(np.arange(6.0).reshape(2, 3)),),
    }
    got = read_numpy_pickle(write(tmp_path, pickle.dumps(layers, protocol)))
    assert list(got) == list(layers)
    for name, arrays in layers.items():
        for array, expected in zip(got[name], arrays, strict=True):
            assert array.dtype == expected.dtype
            np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        {"conv": 3},
        {"conv": ["text"]},
        {1: []},
        {"conv": [np.array(["a", None], object)]},
        {"c": [np.array("x")]},
    ],
)
def test_numpy_pickle_of_anything_else_is_refused(tmp_path, value):
    with pytest.raises(ImportFailed, match=r"weights\.bin"):
        read_numpy_pickle(write(tmp_path, pickle.dumps(value, 2)))
