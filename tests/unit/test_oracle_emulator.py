"""Where the oracle gets its emulator from: the cache, Debian, else what is installed."""

import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from malisdk_pipeline import debian
from malisdk_pipeline.errors import ToolchainError
from malisdk_pipeline.oracle import emulator


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MALISDK_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def installed(monkeypatch, *names):
    monkeypatch.setattr(emulator.shutil, "which", lambda name: f"/usr/bin/{name}" if name in names else None)


@contextmanager
def _no_mirror(suite, architecture):
    raise ToolchainError("no mirror")
    yield


@contextmanager
def _mirror(suite, architecture):
    yield "apt"


def test_debians_emulator_is_kept_in_the_cache(cache, monkeypatch):
    installed(monkeypatch)
    monkeypatch.setattr(debian, "private_apt", _mirror)
    monkeypatch.setattr(debian, "download", lambda apt, names, dependencies: [Path("qemu-user.deb")])
    monkeypatch.setattr(debian, "read_file", lambda package, member: member.encode())
    assert not emulator.can_emulate()
    found = emulator.ensure_emulator()
    assert found.is_relative_to(cache)
    assert found.read_bytes() == b"./usr/bin/qemu-aarch64"
    assert found.stat().st_mode & 0o111
    monkeypatch.setattr(debian, "private_apt", _no_mirror)
    assert emulator.ensure_emulator() == emulator.find_emulator() == found


def test_an_installed_emulator_serves_where_debian_cannot_be_reached(cache, monkeypatch):
    installed(monkeypatch, "qemu-aarch64")
    monkeypatch.setattr(debian, "private_apt", _no_mirror)
    assert emulator.can_emulate()
    assert emulator.ensure_emulator() == Path("/usr/bin/qemu-aarch64")


def test_no_emulator_at_all_is_one_clear_error(cache, monkeypatch):
    installed(monkeypatch)
    monkeypatch.setattr(debian, "private_apt", _no_mirror)
    with pytest.raises(ToolchainError, match="qemu-aarch64-static: program not found on PATH") as caught:
        emulator.ensure_emulator()
    assert caught.value.hint == "apt install qemu-user-static"


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")
def test_one_file_of_a_package_is_read_without_unpacking_it(tmp_path):
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: nobody <n@example.org>\nDescription: x\n"
    )
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/x").write_bytes(b"program")
    subprocess.run(["dpkg-deb", "--build", tree, tmp_path / "x.deb"], check=True, capture_output=True)
    assert debian.read_file(tmp_path / "x.deb", "./usr/bin/x") == b"program"
    with pytest.raises(ToolchainError, match=r"x\.deb: no file \./usr/bin/y in it"):
        debian.read_file(tmp_path / "x.deb", "./usr/bin/y")
    (tmp_path / "no.deb").write_bytes(b"no package")
    with pytest.raises(ToolchainError, match=r"no\.deb: dpkg-deb cannot read it"):
        debian.read_file(tmp_path / "no.deb", "./usr/bin/x")
