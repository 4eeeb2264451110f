"""A board over ssh, tried against a real sshd on the loopback interface with keys of its own."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from malisdk_pipeline.devices import Device, DeviceTimeoutError, parse_device
from malisdk_pipeline.errors import DeviceError

_START_S = 10.0
_PRIVILEGE_SEPARATION = Path("/run/sshd")
_SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

pytestmark = pytest.mark.skipif(_SSHD is None or shutil.which("ssh") is None, reason="openssh-server is not installed")


@dataclass(frozen=True, kw_only=True)
class Board:
    address: str
    port: int
    config: Path
    known_hosts: Path
    key: Path


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _make_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    folder = tmp_path_factory.mktemp("sshd")
    key, host_key, port = _make_key(folder / "user"), _make_key(folder / "host"), _free_port()
    made_folder = os.geteuid() == 0 and not _PRIVILEGE_SEPARATION.exists()
    if made_folder:
        _PRIVILEGE_SEPARATION.mkdir(mode=0o755)
    settings = folder / "sshd_config"
    settings.write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {host_key}\nAuthorizedKeysFile {key}.pub\nStrictModes no\n"
        "UsePAM no\nPidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
    )
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(f"[127.0.0.1]:{port} {Path(f'{host_key}.pub').read_text()}")
    config = folder / "ssh_config"
    config.write_text(
        f"Host *\n  IdentityFile {key}\n  IdentitiesOnly yes\n  IdentityAgent none\n  StrictHostKeyChecking yes\n"
        f"  UserKnownHostsFile {known_hosts}\n  GlobalKnownHostsFile none\n"
    )
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([str(_SSHD), "-D", "-e", "-f", settings], stdout=log, stderr=log)
        try:
            _wait_for(port, server, folder / "log")
            address = f"ssh://{getpass.getuser()}@127.0.0.1:{port}"
            yield Board(address=address, port=port, config=config, known_hosts=known_hosts, key=key)
        finally:
            server.terminate()
            server.wait(10)
            if made_folder:
                _PRIVILEGE_SEPARATION.rmdir()


def _wait_for(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end and server.poll() is None:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"sshd does not start: {log.read_text()}")


def _use_config(monkeypatch: pytest.MonkeyPatch, folder: Path, config: Path) -> None:
    """Make `ssh` read this configuration instead of the user's."""
    wrapper = folder / "bin" / "ssh"
    wrapper.parent.mkdir(exist_ok=True)
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh", path="/usr/bin:/bin")} -F {config} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")


@pytest.fixture
def board(sshd: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    _use_config(monkeypatch, tmp_path, sshd.config)
    return sshd


@pytest.fixture
def device(board: Board) -> Iterator[Device]:
    with parse_device(board.address) as opened:
        yield opened


@pytest.mark.parametrize("code", [0, 7, 255])
def test_run_returns_exit_code_of_program(device: Device, code: int) -> None:
    result = device.run(["sh", "-c", f"echo out; echo err >&2; exit {code}"], timeout_s=20)
    assert (result.code, result.output) == (code, "out\nerr\n")


def test_run_killed_program_gives_128_plus_signal(device: Device) -> None:
    assert device.run(["sh", "-c", "kill -9 $$"], timeout_s=20).code == 137


def test_run_missing_program_gives_127(device: Device) -> None:
    assert device.run(["no-such-program"], timeout_s=20).code == 127


def test_run_passes_words_and_environment_unchanged(device: Device) -> None:
    word = "a b'c\"d$e*`f\\g"
    result = device.run(["sh", "-c", 'printf %s "$1/$W"', "sh", word], env={"W": word}, timeout_s=20)
    assert result.output == f"{word}/{word}"


def test_files_come_back_unchanged_and_folder_is_removed(board: Board, tmp_path: Path) -> None:
    data = os.urandom(300_000) + b"\r\n\x00end"
    (tmp_path / "a").write_bytes(data)
    with parse_device(board.address) as device:
        folder = Path(device.folder)
        device.push(tmp_path / "a", "sub file.bin")
        assert (folder / "sub file.bin").read_bytes() == data
        device.pull("sub file.bin", tmp_path / "b")
        result = device.run(["ls"], cwd=".", timeout_s=20)
    assert (tmp_path / "b").read_bytes() == data
    assert result.output == "sub file.bin\n"
    assert not folder.exists()


def test_pull_missing_file_raises_and_leaves_nothing(device: Device, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="cannot read"):
        device.pull("absent", tmp_path / "b")
    assert not list(tmp_path.glob("*b*.tmp")) and not (tmp_path / "b").exists()


def test_push_to_full_disk_says_so(device: Device, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    with pytest.raises(DeviceError, match=r"cannot write /dev/full \(100000 bytes\).*No space left") as caught:
        device.push(tmp_path / "a", "/dev/full")
    assert "free some space" in str(caught.value)


def test_timeout_kills_program_and_children(device: Device) -> None:
    mark = f"3{os.getpid()}"
    start = time.monotonic()
    with pytest.raises(DeviceTimeoutError, match="still running after 2 s") as caught:
        device.run(["sh", "-c", f"echo begun; sleep {mark} & sleep {mark}"], timeout_s=2)
    assert "begun" in str(caught.value)
    assert time.monotonic() - start < 15
    end = time.monotonic() + 5
    while (left := _processes_with(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == []


def test_lost_connection_raises(device: Device) -> None:
    kill_server = (
        'p=$$; while [ "$(cat /proc/$p/comm)" != sshd ]; do p=$(cut -d" " -f4 /proc/$p/stat); done; kill -9 $p'
    )
    with pytest.raises(DeviceError, match="connection"):
        device.run(["sh", "-c", kill_server], timeout_s=20)


def test_closed_port_says_nothing_listens(board: Board) -> None:
    device = parse_device(f"ssh://someone@127.0.0.1:{_free_port()}")
    with pytest.raises(DeviceError, match="nothing listens there"):
        device.open()


def test_unknown_host_name_is_reported(board: Board) -> None:
    with pytest.raises(DeviceError, match="host name is not known"):
        parse_device("ssh://someone@no-such-board.invalid").open()


def test_refused_key_names_ssh_copy_id(board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = _make_key(tmp_path / "other")
    config = tmp_path / "config"
    config.write_text(board.config.read_text().replace(f"IdentityFile {board.key}", f"IdentityFile {other}"))
    _use_config(monkeypatch, tmp_path, config)
    with pytest.raises(DeviceError, match="login refused") as caught:
        parse_device(board.address).open()
    assert f"ssh-copy-id {getpass.getuser()}@127.0.0.1" in str(caught.value)


@pytest.mark.parametrize(("is_known", "expected"), [(False, "not known yet"), (True, "has changed")])
def test_host_key_problem_is_reported(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_known: bool, expected: str
) -> None:
    known_hosts = tmp_path / "hosts"
    other = Path(f"{_make_key(tmp_path / 'other')}.pub").read_text()
    known_hosts.write_text(f"[127.0.0.1]:{board.port} {other}" if is_known else "")
    config = tmp_path / "config"
    config.write_text(board.config.read_text().replace(str(board.known_hosts), str(known_hosts)))
    _use_config(monkeypatch, tmp_path, config)
    with pytest.raises(DeviceError, match=expected):
        parse_device(board.address).open()


def _processes_with(argument: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"sleep") and argument.encode() in words:
            found.append(str(path))
    return found
