"""The build machine as a device."""

import os
import time
from pathlib import Path

import pytest
from malisdk_pipeline.devices import DeviceTimeoutError
from malisdk_pipeline.devices.base import check, python_tag
from malisdk_pipeline.devices.host import HostDevice
from malisdk_pipeline.errors import DeviceError


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_run_returns_exit_code(script: str, code: int) -> None:
    with HostDevice() as device:
        assert device.run(["sh", "-c", script], timeout_s=20).code == code


def test_run_joins_output_and_adds_environment() -> None:
    with HostDevice() as device:
        result = device.run(["sh", "-c", 'echo "$WORD"; echo err >&2; pwd'], env={"WORD": "a b"}, timeout_s=20)
        assert result.output == f"a b\nerr\n{device.folder}\n"


def test_relative_program_is_looked_up_from_cwd() -> None:
    with HostDevice() as device:
        program = Path(device.folder, "sdk", "bin", "tool")
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\necho here\n")
        program.chmod(0o755)
        assert device.run(["bin/tool"], cwd="sdk", timeout_s=20).output == "here\n"
        program.chmod(0o644)
        assert device.run(["bin/tool"], cwd="sdk", timeout_s=20).code == 126
        assert device.run(["bin/none"], cwd="sdk", timeout_s=20).code == 127


def test_timeout_kills_children_too() -> None:
    with HostDevice() as device:
        pid_file = Path(device.folder, "pid")
        start = time.monotonic()
        with pytest.raises(DeviceTimeoutError, match="still running after 1 s") as caught:
            device.run(["sh", "-c", f"echo begun; sleep 1000 & echo $! > {pid_file}; wait"], timeout_s=1)
        assert time.monotonic() - start < 5
        assert "begun" in str(caught.value)
        assert _ends(int(pid_file.read_text()))


def test_files_go_and_come_and_folder_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\0data")
    with HostDevice() as device:
        folder = Path(device.folder)
        device.push(tmp_path / "a", "b")
        device.pull("b", tmp_path / "c")
        with pytest.raises(DeviceError, match="cannot copy"):
            device.pull("absent", tmp_path / "d")
    assert (tmp_path / "c").read_bytes() == b"\0data"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "c"]
    assert not folder.exists()


def test_closed_device_is_refused() -> None:
    with pytest.raises(DeviceError, match="not open"):
        HostDevice().run(["true"], timeout_s=5)


def test_check_adds_hint_for_full_disk() -> None:
    with HostDevice() as device:
        result = device.run(["sh", "-c", "cat /etc/passwd > /dev/full"], timeout_s=20)
        with pytest.raises(DeviceError, match="cannot do it, got exit code 1") as caught:
            check(device, result, "cannot do it")
        assert "free some space" in str(caught.value)


def test_device_without_python_is_reported() -> None:
    with HostDevice() as device:
        device.python = "no-such-python3"
        with pytest.raises(DeviceError, match="no-such-python3 does not run, got exit code 127"):
            python_tag(device, timeout_s=20)


def _ends(pid: int) -> bool:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False
