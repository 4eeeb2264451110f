"""A build machine that cannot emulate the board: exit code 6 and what to install, on the command line."""

import os
import platform
import shutil
from pathlib import Path

import pytest
from malisdk_pipeline.devices import qemu

pytestmark = pytest.mark.skipif(platform.machine() == "aarch64", reason="an arm64 machine needs no emulator")


@pytest.mark.skipif(qemu.is_registered(qemu.BINFMT), reason="qemu-aarch64 is registered on this machine")
def test_machine_without_qemu_is_told_what_to_install(refused, tmp_path: Path) -> None:
    said = refused("emulator", "run", "--", "true", code=6, env={"PATH": str(tmp_path)})
    assert said.startswith("qemu-aarch64-static: program not found on PATH; expected it to run arm64 programs\n")
    assert said.endswith("hint: apt install qemu-user-static\n")


@pytest.mark.emulator
@pytest.mark.skipif(os.geteuid() != 0, reason="not root: the emulator needs namespaces")
@pytest.mark.skipif(shutil.which("qemu-aarch64-static") is None, reason="qemu-user-static is not installed")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_user_without_namespaces_is_told_to_be_root(refused) -> None:
    no_namespaces = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    under = ("unshare", "--user", "--map-root-user", "sh", "-c", no_namespaces, "sh")
    said = refused("emulator", "run", "--", "true", code=6, under=under)
    assert said.startswith("emulator: may not make namespaces, got unshare: ")
    assert "\nhint: run as root" in said
