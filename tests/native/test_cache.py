"""The kernel cache: it saves compiling, and nothing in it can make an answer wrong."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import native_plans as plans
import pytest
from native_abi import Abi
from native_build import Built
from native_stub import Stub

pytestmark = pytest.mark.usefixtures("opencl")


def run(abi: Abi, **options: str) -> int:
    """Kernels that came from the cache; the answer is checked."""
    inputs = plans.make_inputs()
    with abi.load(plans.pack(), **options) as model, model.session() as session:
        plans.check(session.run(inputs, plans.empty_outputs()), inputs)
        return int(model.info().kernels_from_cache)


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.clbin"))


def test_second_load_takes_all_kernels_from_the_cache(abi: Abi, cache: Path):
    assert run(abi) == 0
    assert [p.suffix for p in cache.iterdir()] == [".clbin"]
    assert run(abi) == 3


def test_option_goes_before_environment_and_empty_means_none(abi: Abi, cache: Path, tmp_path: Path):
    other = tmp_path / "a" / "b"
    run(abi, cache_dir=str(other))
    assert entries(other) and not cache.exists()
    run(abi, cache_dir="")
    assert not cache.exists()


@pytest.mark.parametrize(
    "where", ["magic", "key_bytes", "binary_bytes", "hash", "key", "binary", "truncated", "empty", "longer"]
)
def test_corrupt_entry_costs_only_time(abi: Abi, cache: Path, where: str):
    run(abi)
    (entry,) = entries(cache)
    good = entry.read_bytes()
    bad = bytearray(good)
    positions = {"magic": 0, "key_bytes": 8, "binary_bytes": 16, "hash": 24, "key": 40, "binary": len(good) - 5}
    if where in positions:
        bad[positions[where]] ^= 0x11
    elif where == "truncated":
        bad = bad[: len(bad) // 2]
    elif where == "empty":
        bad = bytearray()
    else:
        bad += b"x"
    entry.write_bytes(bad)
    assert run(abi) == 0
    assert run(abi) == 3


def test_binary_that_the_driver_refuses_is_replaced(abi: Abi, cache: Path, stub: Stub):
    stub.garbage_binaries()
    assert run(abi, opencl_library=str(stub.path)) == 0
    assert len(entries(cache)) == 1
    stub.reset()
    assert run(abi, opencl_library=str(stub.path)) == 0
    assert run(abi, opencl_library=str(stub.path)) == 3


def test_entry_under_another_programs_name_is_ignored(abi: Abi, cache: Path):
    run(abi)
    (entry,) = entries(cache)
    data = entry.read_bytes()
    plan = plans.make_plan()
    finish = plan.kernels[2]
    changed = type(finish)(
        name="finish", source=finish.source.replace("a[i] - b[i]", "a[i] + b[i]"), local_size=(16, 1, 1)
    )
    other = plans.pack(kernels=(*plan.kernels[:2], changed))
    abi.load(other).close()
    (fresh,) = set(entries(cache)) - {entry}
    fresh.write_bytes(data)
    with abi.load(other) as model:
        assert model.info().kernels_from_cache == 0


def test_folder_that_is_a_file_costs_only_time(abi: Abi, tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("here")
    assert run(abi, cache_dir=str(blocked)) == 0
    assert run(abi, cache_dir=str(blocked / "below")) == 0
    assert run(abi, cache_dir="/proc/nowhere") == 0
    assert blocked.read_text() == "here"


def test_entry_that_is_a_pipe_or_folder_is_ignored(abi: Abi, cache: Path):
    run(abi)
    (entry,) = entries(cache)
    entry.unlink()
    os.mkfifo(entry)
    assert run(abi) == 0
    entry.unlink()
    entry.mkdir()
    assert run(abi) == 0
    assert not [p for p in cache.iterdir() if p.suffix == ".tmp"]


def test_read_only_folder_costs_only_time(built: Built, opencl: None):
    """In a process without root's rights, since root may write anywhere."""
    if os.geteuid() != 0:
        pytest.skip("needs root to run a child as another user")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for source in (built.command, built.library):
            shutil.copy(source, folder)
        (folder / "tiny.mali").write_bytes(plans.pack())
        cache = folder / "read-only"
        cache.mkdir(0o555)
        (folder / "pocl").mkdir()
        (folder / "pocl").chmod(0o777)
        done = subprocess.run(
            [folder / "malisdk", "info", folder / "tiny.mali", "--cache-dir", cache],
            capture_output=True,
            text=True,
            user=65534,
            env={**os.environ, "POCL_CACHE_DIR": str(folder / "pocl"), "HOME": "/nonexistent"},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "kernels   3 (0 from the cache)" in done.stdout
        assert list(cache.iterdir()) == []


def test_writer_killed_at_any_time_leaves_a_sound_cache(built: Built, cache: Path, tmp_path: Path):
    path = tmp_path / "tiny.mali"
    path.write_bytes(plans.pack())
    script = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL)\n"
        "time.sleep(float(sys.argv[1])); p.kill(); p.wait()\n"
    )
    for delay in (0.01, 0.03, 0.06, 0.1, 0.15):
        subprocess.run([sys.executable, "-c", script, str(delay), built.command, "warmup", path], check=True)
    done = subprocess.run([built.command, "info", path], capture_output=True, text=True, check=True)
    assert "kernels   3" in done.stdout
