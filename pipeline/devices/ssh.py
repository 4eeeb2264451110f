"""A board that the user reaches with their own ssh: their keys, their configuration, no password prompt.

Only a POSIX shell is expected there; files go through `cat`. What the remote shell prints is framed by marks, so that
the noise of login scripts, a lost connection and a program's own exit code 255 can be told apart.
"""

import contextlib
import secrets
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from .. import files, log, process
from ..errors import DeviceError
from .base import DISK_FULL, DeviceTimeoutError, Result, Session

_CONNECT_TIMEOUT_S = 10
_SMALL_TIMEOUT_S = 60.0
_COPY_TIMEOUT_S = 1800.0
# ssh gives up on a silent board after 4 of these intervals.
_ALIVE_INTERVAL_S = 15

# (in ssh's message, what it means, what helps; {target} is user@host)
_CAUSES = (
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key has changed", "ssh-keygen -R {host}, if that is expected"),
    ("Host key verification failed", "its host key is not known yet", "run `ssh {target}` once and accept the key"),
    ("Permission denied", "login refused", "ssh-copy-id {target}, or load the key into ssh-agent"),
    ("Too many authentication failures", "login refused", "name the key for this host in ~/.ssh/config"),
    ("Could not resolve hostname", "host name is not known", "check the name in device="),
    ("Connection refused", "nothing listens there", "check the port, and that sshd runs on the board"),
    ("timed out", "no answer", "check that the board is on and in this network"),
    ("No route to host", "no way to it", "check that the board is on and in this network"),
    ("Network is unreachable", "no way to it", "check that the board is on and in this network"),
)


class SshDevice(Session):
    """`user` and `port` are None where the user's ssh configuration decides."""

    def __init__(self, *, host: str, user: str | None, port: int | None) -> None:
        self._target = host if user is None else f"{user}@{host}"
        self._host = host
        self._port = port
        shown = f"[{host}]" if ":" in host else host
        self.name = "ssh://" + (f"{user}@" if user else "") + shown + (f":{port}" if port else "")
        self._folder: str | None = None

    @property
    def folder(self) -> str:
        if self._folder is None:
            raise DeviceError(f"{self.name}: device is not open")
        return self._folder

    def open(self) -> None:
        """Raises ToolchainError without ssh, DeviceError saying why the board cannot be used."""
        process.find_program("ssh", hint="apt install openssh-client")
        done = self._shell('mktemp -d "${TMPDIR:-/tmp}/malisdk.XXXXXX"', timeout_s=_SMALL_TIMEOUT_S)
        folder = done.output.strip()
        if done.code != 0 or not folder.startswith("/"):
            raise self._failure("cannot make a temporary folder", done.output)
        self._folder = folder

    def close(self) -> None:
        if self._folder is not None:
            folder, self._folder = self._folder, None
            try:
                self._shell(f"rm -rf {shlex.quote(folder)}", timeout_s=_SMALL_TIMEOUT_S)
            except DeviceError as e:
                log.warning(f"{self.name}: {folder} stays on the device: {e}")

    def push(self, local: Path, remote: str) -> None:
        path = self._path(remote)
        log.command(["push", str(local), f"{self.name}{path}"])
        try:
            source = local.open("rb")
        except OSError as e:
            raise DeviceError(f"{self.name}: cannot read {local}: {e.strerror}") from e
        with source:
            size_bytes = local.stat().st_size
            script = f"cat > {shlex.quote(path)} && wc -c < {shlex.quote(path)}"
            done = self._shell(script, timeout_s=_COPY_TIMEOUT_S, stdin=source)
        if done.code != 0:
            raise self._failure(f"cannot write {path} ({size_bytes} bytes)", done.output)
        if (written := done.output.strip()) != str(size_bytes):
            raise DeviceError(f"{self.name}: {path} was cut, got {written} bytes; expected {size_bytes}")

    def pull(self, remote: str, local: Path) -> None:
        path = self._path(remote)
        log.command(["pull", f"{self.name}{path}", str(local)])
        done = self._shell(f"test -r {shlex.quote(path)} && wc -c < {shlex.quote(path)}", timeout_s=_SMALL_TIMEOUT_S)
        if done.code != 0:
            raise self._failure(f"cannot read {path}", done.output)
        size_bytes = int(done.output)
        with files.atomic_path(local) as temporary:
            with temporary.open("wb") as f:
                # The last bytes, since the shell's start may print something of its own before.
                data = self._transfer(f"cat {shlex.quote(path)}")[-size_bytes:] if size_bytes else b""
                f.write(data)
            if len(data) != size_bytes:
                raise DeviceError(f"{self.name}: {path} was cut, got {len(data)} bytes; expected {size_bytes}")

    def run(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, cwd: str = "."
    ) -> Result:
        log.command([self.name, *argv])
        pid_file = shlex.quote(f"{self.folder}/.pid-{secrets.token_hex(4)}")
        program = shlex.join([*(["env", *(f"{k}={v}" for k, v in env.items())] if env else []), *argv])
        # A session of its own, so that its children can be killed with it; not every small system has setsid.
        script = (
            f"cd {shlex.quote(self._path(cwd))} || exit 125\n"
            f"if command -v setsid >/dev/null 2>&1; then setsid {program} </dev/null 2>&1 & "
            f"else {program} </dev/null 2>&1 & fi\n"
            f"echo $! > {pid_file}; wait $!; code=$?; rm -f {pid_file}; exit $code"
        )
        try:
            return self._shell(script, timeout_s=timeout_s)
        except DeviceTimeoutError as e:
            # Some shells' kill takes a group only after -s.
            kill = f"pid=$(cat {pid_file}) && {{ kill -s KILL -- -$pid || kill -s KILL $pid; }}; rm -f {pid_file}"
            with contextlib.suppress(DeviceError):
                self._shell(kill, timeout_s=_SMALL_TIMEOUT_S)
            what = f"{self.name}: `{shlex.join(argv)}` still running after {timeout_s:.0f} s; it was killed"
            raise DeviceTimeoutError(f"{what}\n{e}".rstrip()) from None

    def _path(self, remote: str) -> str:
        if remote.startswith("/"):
            return remote
        return self.folder if remote == "." else f"{self.folder}/{remote}"

    def _ssh(self, script: str) -> list[str]:
        port = [] if self._port is None else ["-p", str(self._port)]
        return [
            *("ssh", "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_TIMEOUT_S}"),
            *("-o", f"ServerAliveInterval={_ALIVE_INTERVAL_S}", "-o", "ServerAliveCountMax=4"),
            *port,
            *("--", self._target, f"sh -c {shlex.quote(script)}"),
        ]

    def _shell(self, script: str, *, timeout_s: float, stdin: BinaryIO | None = None) -> Result:
        """Run a script in the board's sh; its output is what it printed between our marks.

        Raises DeviceError if the connection failed or was lost, DeviceTimeoutError with what was printed until then.
        """
        mark = secrets.token_hex(8)
        framed = f"echo {mark}\n(\n{script}\n) 2>&1\nprintf '{mark}:%d\\n' $?"
        start = time.perf_counter()
        try:
            done = subprocess.run(
                self._ssh(framed),
                stdin=stdin or subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as e:
            printed = (e.stdout or b"").decode(errors="replace").partition(f"{mark}\n")[2]
            raise DeviceTimeoutError(Result(code=-1, output=printed, seconds=timeout_s).tail) from None
        body, ended, code = done.stdout.decode(errors="replace").partition(f"{mark}\n")[2].rpartition(f"{mark}:")
        if not ended:
            raise self._connection_error(done)
        return Result(code=int(code), output=body, seconds=time.perf_counter() - start)

    def _transfer(self, script: str) -> bytes:
        try:
            done = subprocess.run(
                self._ssh(script), stdin=subprocess.DEVNULL, capture_output=True, timeout=_COPY_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise DeviceTimeoutError(f"{self.name}: copying took more than {_COPY_TIMEOUT_S:.0f} s") from None
        if done.returncode != 0:
            raise self._connection_error(done)
        return done.stdout

    def _connection_error(self, done: subprocess.CompletedProcess[bytes]) -> DeviceError:
        message = done.stderr.decode(errors="replace").strip()
        for text, meaning, hint in _CAUSES:
            if text in message:
                hint = hint.format(target=self._target, host=self._host)
                return DeviceError(f"{self.name}: cannot connect: {meaning}\n{message}", hint=hint)
        return DeviceError(f"{self.name}: connection failed, ssh's exit code {done.returncode}\n{message}")

    def _failure(self, what: str, output: str) -> DeviceError:
        hint = "free some space on the device" if DISK_FULL in output else None
        return DeviceError(f"{self.name}: {what}: {output.strip()}", hint=hint)
