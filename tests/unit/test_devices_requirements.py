"""What the build machine must have for the emulator and for Debian's packages, and what is said without it."""

import os
import platform
from pathlib import Path

import pytest
from malisdk_pipeline import debian
from malisdk_pipeline.__main__ import main
from malisdk_pipeline.devices import qemu
from malisdk_pipeline.devices.emulator import EmulatorDevice
from malisdk_pipeline.errors import ConfigError, DeviceError, ToolchainError

_STATIC = b"\x7fELF" + bytes(5000)
_DYNAMIC = b"\x7fELF" + bytes(500) + b"/lib64/ld-linux-x86-64.so.2" + bytes(5000)
_RULE = "{state}\ninterpreter /usr/libexec/qemu-aarch64\nflags: {flags}\noffset 0\nmagic 7f454c46\n"


def _program(folder: Path, name: str, content: bytes) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    (folder / name).chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up x86-64 machine, kernel 6.8, user root, with nothing on PATH; returns its folder."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "release", lambda: "6.8.0-31-generic")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(qemu, "BINFMT", tmp_path / "binfmt")
    (tmp_path / "binfmt").mkdir()
    return tmp_path


def _register(machine: Path, *, state: str, flags: str) -> None:
    (machine / "binfmt" / "qemu-aarch64").write_text(_RULE.format(state=state, flags=flags))


def test_static_qemu_and_new_kernel_need_nothing_else(machine: Path) -> None:
    _program(machine / "bin", "qemu-aarch64-static", _STATIC)
    assert qemu.find_runner() == qemu.Runner(interpreter=machine / "bin" / "qemu-aarch64-static", user_namespace=True)


def test_dynamic_qemu_is_not_taken(machine: Path) -> None:
    _program(machine / "bin", "qemu-aarch64", _DYNAMIC)
    with pytest.raises(ToolchainError, match="qemu-aarch64-static: program not found"):
        qemu.find_runner()


def test_no_qemu_says_what_to_install(machine: Path) -> None:
    with pytest.raises(ToolchainError) as caught:
        qemu.find_runner()
    assert caught.value.hint == "apt install qemu-user-static"


def test_old_kernel_without_registration_is_explained(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "release", lambda: "6.1.0-26-amd64")
    _program(machine / "bin", "qemu-aarch64-static", _STATIC)
    with pytest.raises(ToolchainError, match=r"kernel too old .*got 6\.1\.0-26-amd64; expected 6\.7") as caught:
        qemu.find_runner()
    assert caught.value.hint == "apt install qemu-user-static binfmt-support"


@pytest.mark.parametrize(
    ("state", "flags", "expected"),
    [("enabled", "OCF", True), ("enabled", "POCF", True), ("enabled", "OC", False), ("disabled", "OCF", False)],
)
def test_registered_qemu_counts_if_enabled_and_kept_open(machine: Path, state: str, flags: str, expected: bool) -> None:
    _register(machine, state=state, flags=flags)
    assert qemu.is_registered(machine / "binfmt") is expected


def test_old_kernel_with_registration_works_without_user_namespace(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "release", lambda: "5.10.0-8-amd64")
    _register(machine, state="enabled", flags="POCF")
    assert qemu.find_runner() == qemu.Runner(interpreter=None, user_namespace=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert qemu.find_runner() == qemu.Runner(interpreter=None, user_namespace=True)


def test_arm64_machine_needs_no_qemu(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert qemu.find_runner() == qemu.Runner(interpreter=None, user_namespace=False)


def test_emulator_command_without_qemu_exits_6(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emulator", "run", "--", "true"]) == 6
    assert "hint: apt install qemu-user-static" in capsys.readouterr().err


@pytest.mark.parametrize("reason", ["Operation not permitted", "No space left on device", "Invalid argument"])
def test_refused_namespace_says_to_be_root(reason: str) -> None:
    device = EmulatorDevice()
    error = device._setup_error(f"unshare: {reason}")
    assert isinstance(error, ToolchainError)
    assert error.hint is not None and "root" in error.hint
    assert isinstance(device._setup_error("mount proc: Invalid argument"), DeviceError)


def test_unknown_suite_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="expected bookworm, bullseye, trixie") as caught:
        EmulatorDevice("bookwurm")
    assert caught.value.hint == "did you mean emulator:bookworm?"


def test_unwritable_cache_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MALISDK_CACHE_DIR", str(tmp_path / "file"))
    _fake_runner(monkeypatch)
    with pytest.raises(ConfigError, match="cannot write to the cache") as caught:
        EmulatorDevice().open()
    assert caught.value.hint is not None and "MALISDK_CACHE_DIR" in caught.value.hint


def _fake_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "malisdk_pipeline.devices.emulator.find_runner", lambda: qemu.Runner(interpreter=None, user_namespace=False)
    )


def test_missing_apt_says_what_to_install(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MALISDK_DEBIAN_MIRROR", raising=False)
    with pytest.raises(ToolchainError, match="apt-get: program not found") as caught:
        debian.find_mirror()
    assert caught.value.hint is not None and "apt install" in caught.value.hint


@pytest.mark.parametrize(
    ("targets", "mirror"),
    [
        ("Debian|http://a.test/debian\n", "http://a.test/debian"),
        ("Debian-Security|http://a.test/debian-security\nDebian|http://b.test/deb/\n", "http://b.test/deb"),
        ("|http://a.test/other\n|http://c.test/debian/\n", "http://c.test/debian"),
        ("|mirror+file:/etc/apt/mirrors/debian.list\n", "mirror+file:/etc/apt/mirrors/debian.list"),
    ],
)
def test_mirror_is_the_machines_own(machine: Path, monkeypatch: pytest.MonkeyPatch, targets: str, mirror: str) -> None:
    monkeypatch.delenv("MALISDK_DEBIAN_MIRROR", raising=False)
    _program(machine / "bin", "apt-get", f"#!/bin/sh\nprintf '{targets}'\n".replace("\n'", "\\n'").encode())
    assert debian.find_mirror() == mirror


def test_machine_without_debian_mirror_is_told_how_to_name_one(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(machine / "bin", "apt-get", b"#!/bin/sh\necho 'Ubuntu|http://u.test/ubuntu'\n")
    monkeypatch.delenv("MALISDK_DEBIAN_MIRROR", raising=False)
    with pytest.raises(ToolchainError, match=r"no Debian mirror, got http://u\.test/ubuntu") as caught:
        debian.find_mirror()
    assert caught.value.hint is not None and "MALISDK_DEBIAN_MIRROR" in caught.value.hint
    monkeypatch.setenv("MALISDK_DEBIAN_MIRROR", "http://d.test/debian/")
    assert debian.find_mirror() == "http://d.test/debian"


def test_missing_keyring_is_reported(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("apt-get", "dpkg-deb"):
        _program(machine / "bin", name, b"#!/bin/sh\n")
    monkeypatch.setattr(debian, "KEYRING", machine / "absent.gpg")
    with pytest.raises(ToolchainError, match=r"absent\.gpg: no such file"), debian.private_apt("bookworm"):
        pass


def test_unreachable_mirror_leaves_no_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not debian.KEYRING.is_file():
        pytest.skip("debian-archive-keyring is not installed")
    monkeypatch.setenv("MALISDK_DEBIAN_MIRROR", f"file:{tmp_path}/absent")
    out = tmp_path / "out"
    assert main(["sysroot", "python-headers", "--python", "3.11", "--out", str(out)]) == 6
    assert list(tmp_path.iterdir()) == []


def test_unsupported_python_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sysroot", "python-headers", "--python", "3.12", "--out", str(tmp_path / "out")]) == 2
    assert "3.9" in capsys.readouterr().err
