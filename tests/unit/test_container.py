"""The .mali file: what is written is read back, and damage of every kind is refused."""

import struct
from pathlib import Path

import pytest
import xxhash
from malisdk_pipeline import container
from malisdk_pipeline.errors import BundleError
from malisdk_pipeline.plan import Buffer, Kernel, Launch, Place, Plan, TensorSpec

SOURCE = "__kernel void double_it(__global const float* x, __global float* y) { y[0] = 2.0f * x[0]; } // µ\n"


@pytest.fixture
def plan() -> Plan:
    weights = bytes(range(100))
    return Plan(
        model_name="some model",
        target="rk3399",
        dtype="float16",
        inputs=(
            TensorSpec(name="data/0", dtype="float32", shape=(1, 3, 2, 2), buffer=0),
            TensorSpec(name="scalar", dtype="int64", shape=(), buffer=1),
        ),
        outputs=(TensorSpec(name="prob", dtype="bool", shape=(0, 5), buffer=2),),
        buffers=(
            Buffer(place=Place.INPUT, size_bytes=48),
            Buffer(place=Place.INPUT, index=1, size_bytes=8),
            Buffer(place=Place.OUTPUT, size_bytes=1),
            Buffer(place=Place.WEIGHT, offset=64, size_bytes=36),
            Buffer(place=Place.ARENA, offset=4096, size_bytes=2**33),
        ),
        kernels=(
            Kernel(name="double_it", source=SOURCE, local_size=(4, 2, 1)),
            Kernel(name="again", source=SOURCE.replace("double_it", "again"), local_size=(1, 1, 1)),
        ),
        launches=(
            Launch(
                kernel=1,
                buffers=(0, 3, 4),
                global_size=(8, 6, 5),
                layer="conv1",
                rule="conv2d_1x1",
                flops=2**40,
                bytes=7,
            ),
            Launch(kernel=0, buffers=(4, 2), global_size=(4, 2, 1), layer="", rule="generic", flops=0, bytes=0),
        ),
        weights=weights + b"\0" * 28,
        arena_bytes=2**33 + 4096,
        metadata={"tvm": "0.27", "source": "münchen.onnx"},
    )


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _signed(body: bytes, tail: bytes = b"") -> bytes:
    """A file around `body` whose hashes are right."""
    size = 64 + len(body) + len(tail)
    head = struct.pack("<8sIIQQQQ", container.MAGIC, 1, 64, size, 64, len(body), xxhash.xxh64_intdigest(body))
    return (head + struct.pack("<Q", xxhash.xxh64_intdigest(head))).ljust(64, b"\0") + body + tail


def test_container_reads_back_what_it_wrote(tmp_path, plan):
    path = tmp_path / "some folder" / "model.mali"
    container.write(path, plan)
    assert container.read(path) == plan
    assert container.pack(container.read(path)) == path.read_bytes()
    assert [p.name for p in path.parent.iterdir()] == ["model.mali"]


def test_container_of_a_plan_without_anything(tmp_path):
    plan = Plan(
        model_name="", target="host", dtype="float32", inputs=(), outputs=(), buffers=(), kernels=(), launches=(),
        weights=b"", arena_bytes=0, metadata={},
    )  # fmt: skip
    container.write(tmp_path / "m.mali", plan)
    assert container.read(tmp_path / "m.mali") == plan


def test_every_flipped_byte_is_refused_or_means_nothing(tmp_path, plan):
    data = container.pack(plan)
    padding = 0
    for i in range(len(data)):
        path = _write(tmp_path / "m.mali", data[:i] + bytes([data[i] ^ 0x41]) + data[i + 1 :])
        try:
            assert container.read(path) == plan  # only padding is covered by no hash
            assert data[i] == 0
            padding += 1
        except BundleError as e:
            assert str(path) in str(e)
    assert padding < 8 + 64


def test_every_truncation_is_refused(tmp_path, plan):
    data = container.pack(plan)
    for size in (0, 1, 7, 8, 20, 63, 64, 65, len(data) // 2, len(data) - 1):
        with pytest.raises(BundleError, match=r"not a \.mali file|damaged"):
            container.read(_write(tmp_path / "m.mali", data[:size]))


def test_longer_file_is_refused(tmp_path, plan):
    data = container.pack(plan)
    with pytest.raises(BundleError, match=f"damaged, got {len(data) + 1} bytes; expected {len(data)}"):
        container.read(_write(tmp_path / "m.mali", data + b"\0"))


@pytest.mark.parametrize("name", ["weights", "sources"])
def test_damaged_segment_is_named(tmp_path, plan, name):
    data = container.pack(plan)
    i = data.index(plan.weights[:100]) if name == "weights" else data.index(b"double_it(")
    with pytest.raises(BundleError, match=f"damaged, the {name} do not match their hash"):
        container.read(_write(tmp_path / "m.mali", data[:i] + b"#" + data[i + 1 :]))


def test_newer_container_version_is_refused(tmp_path, plan):
    data = container.pack(plan)
    with pytest.raises(BundleError, match="got container version 9; expected 1") as e:
        container.read(_write(tmp_path / "m.mali", data[:8] + struct.pack("<I", 9) + data[12:]))
    assert "compile the model again" in (e.value.hint or "")


def test_newer_plan_schema_is_refused(tmp_path, plan, monkeypatch):
    monkeypatch.setattr(container, "SCHEMA_VERSION", 7)
    data = container.pack(plan)
    monkeypatch.undo()
    with pytest.raises(BundleError, match="got plan schema 7; expected 1"):
        container.read(_write(tmp_path / "m.mali", data))


@pytest.mark.parametrize(
    "body", [b"", b"\0", b"MPLN" * 30, b"\xff" * 200, b"\x10\0\0\0MPLN" + b"\x01" * 64], ids=range(5)
)
def test_foreign_plan_with_right_hashes_is_refused(tmp_path, body):
    with pytest.raises(BundleError, match="damaged, the plan cannot be read"):
        container.read(_write(tmp_path / "m.mali", _signed(body)))


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(BundleError, match="cannot be read"):
        container.read(tmp_path / "none.mali")


def test_failed_write_leaves_the_old_file(tmp_path, plan, monkeypatch):
    path = tmp_path / "m.mali"
    container.write(path, plan)
    before = path.read_bytes()

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as f:
            f.write(data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        container.write(path, plan)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
