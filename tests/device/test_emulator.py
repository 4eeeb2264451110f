"""The emulated arm64 device: programs, exit codes, time limits, and that nothing stays behind."""

import os
import platform
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from malisdk_pipeline.__main__ import main
from malisdk_pipeline.debian_root import place_of
from malisdk_pipeline.devices import DeviceTimeoutError
from malisdk_pipeline.devices.emulator import EmulatorDevice
from malisdk_pipeline.devices.emulator_root import find_recipe
from malisdk_pipeline.errors import DeviceError

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: the emulator needs namespaces"),
    pytest.mark.skipif(
        platform.machine() != "aarch64" and shutil.which("qemu-aarch64-static") is None,
        reason="qemu-user-static is not installed",
    ),
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt is not installed"),
]


@pytest.fixture(scope="module")
def device() -> Iterator[EmulatorDevice]:
    with EmulatorDevice() as opened:
        yield opened


def test_machine_is_arm64(device: EmulatorDevice) -> None:
    result = device.run(["uname", "-m"], timeout_s=60)
    assert (result.code, result.output) == (0, "aarch64\n")


def test_python_has_numpy_with_lapack(device: EmulatorDevice) -> None:
    code = "import numpy as np; print(round(float(np.linalg.inv(np.array([[2.0, 0], [0, 4]])).sum()), 3))"
    result = device.run(["python3", "-c", code], timeout_s=120)
    assert (result.code, result.output) == (0, "0.75\n")


def test_opencl_lists_a_device(device: EmulatorDevice) -> None:
    result = device.run(["clinfo", "-l"], timeout_s=120)
    assert result.code == 0
    assert "Device #0" in result.output


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137)])
def test_exit_code_passes_through(device: EmulatorDevice, script: str, code: int) -> None:
    assert device.run(["sh", "-c", script], timeout_s=60).code == code


def test_missing_program_gives_127(device: EmulatorDevice) -> None:
    result = device.run(["no-such-program"], timeout_s=60)
    assert (result.code, result.output) == (127, "no-such-program: not found\n")


def test_aborting_guest_ends(device: EmulatorDevice) -> None:
    assert device.run(["python3", "-c", "import os; os.abort()"], timeout_s=60).code == 134


def test_newer_instructions_than_the_board_has_are_illegal(device: EmulatorDevice) -> None:
    # fp16 arithmetic (ARMv8.2): fadd h0, h0, h0; ret. A Cortex-A72 has neither this nor atomics of ARMv8.1.
    code = (
        "import ctypes, mmap; m = mmap.mmap(-1, 4096, prot=7); m.write(bytes.fromhex('0028e01ec0035fd6'));"
        "ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()"
    )
    assert device.run(["python3", "-c", code], timeout_s=60).code == 132


def test_timeout_kills_the_whole_guest(device: EmulatorDevice) -> None:
    mark = f"3{os.getpid()}"
    start = time.monotonic()
    with pytest.raises(DeviceTimeoutError, match="still running after 2 s") as caught:
        device.run(["sh", "-c", f"echo begun; setsid sleep {mark} & trap '' TERM; sleep {mark}"], timeout_s=2)
    assert time.monotonic() - start < 10
    assert "begun" in str(caught.value)
    assert _gone(mark)


def test_background_process_ends_with_the_program(device: EmulatorDevice) -> None:
    mark = f"4{os.getpid()}"
    assert device.run(["sh", "-c", f"sleep {mark} >/dev/null 2>&1 & exit 0"], timeout_s=60).code == 0
    assert _gone(mark)


def test_root_is_read_only_and_session_is_not(device: EmulatorDevice) -> None:
    assert "Read-only" in device.run(["touch", "/usr/new"], timeout_s=60).output
    assert device.run(["sh", "-c", "echo kept > file"], timeout_s=60).code == 0
    assert device.run(["cat", "file"], timeout_s=60).output == "kept\n"


def test_close_leaves_no_files_and_no_mounts(tmp_path: Path) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    (tmp_path / "a").write_bytes(b"\0data")
    with EmulatorDevice() as device:
        device.push(tmp_path / "a", "b")
        device.run(["sh", "-c", "cat b b > c; mkdir -p /tmp/x/y"], timeout_s=60)
        device.pull("c", tmp_path / "c")
        session = device._tmp
        assert session is not None and session.is_dir()
    assert (tmp_path / "c").read_bytes() == b"\0data\0data"
    assert not session.exists()
    assert Path("/proc/self/mountinfo").read_text() == before


def test_path_outside_the_session_is_refused(device: EmulatorDevice, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(DeviceError, match="outside the session"):
        device.push(tmp_path / "a", "../../etc/passwd")


def test_half_made_root_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without packages to be had, a root that lacks its listing is made anew and not run."""
    monkeypatch.setenv("MALISDK_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("MALISDK_DEBIAN_MIRROR", "http://127.0.0.1:9/debian")
    (place_of(find_recipe(None)) / "root").mkdir(parents=True)
    assert main(["emulator", "run", "--", "true"]) == 6


def test_command_returns_the_guests_exit_code() -> None:
    assert main(["emulator", "run", "--", "sh", "-c", "exit 9"]) == 9


def _gone(mark: str) -> bool:
    """Whether no process has this argument, soon."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if not any(_has_argument(path, mark) for path in Path("/proc").glob("[0-9]*/cmdline")):
            return True
        time.sleep(0.1)
    return False


def _has_argument(cmdline: Path, mark: str) -> bool:
    try:
        return mark.encode() in cmdline.read_bytes().split(b"\0")
    except OSError:
        return False
