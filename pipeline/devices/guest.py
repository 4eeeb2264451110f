"""An unpacked Debian userland on this machine as a device, run in private namespaces."""

import json
import os
import posixpath
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from .. import files
from ..debian_root import RootRecipe, ensure_root
from ..errors import DeviceError, MaliSdkError, ToolchainError
from . import local, namespace
from .base import DeviceTimeoutError, Result, Session
from .host import copy
from .qemu import Runner

_FOLDER = "/tmp/work"
_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/tmp/home",
    "LC_ALL": "C.UTF-8",
}


class GuestDevice(Session):
    """`recipe` says what is in the userland; `env` is added to its programs' environment.

    The root is shared and read-only; a session's files are in a temporary folder, which the guest sees as /tmp. So
    kernel caches start empty in every session, and nothing stays behind.
    """

    def __init__(self, name: str, recipe: RootRecipe, env: Mapping[str, str]) -> None:
        self.name = name
        self._recipe = recipe
        self._env = {**_ENV, **env}
        self._tmp: Path | None = None

    def _find_runner(self) -> Runner:
        """How its programs run here. Raises ToolchainError if they cannot."""
        raise NotImplementedError

    @property
    def folder(self) -> str:
        return _FOLDER

    def open(self) -> None:
        """Raises ToolchainError if this machine cannot run the programs or get the packages."""
        self._runner = self._find_runner()
        self._root = ensure_root(self._recipe)
        self._tmp = Path(mkdtemp(prefix="malisdk-guest-"))
        for path in (_FOLDER, _ENV["HOME"]):
            self._on_host(path).mkdir()

    def close(self) -> None:
        if self._tmp is not None:
            shutil.rmtree(self._tmp, ignore_errors=True)
            self._tmp = None

    def push(self, local: Path, remote: str) -> None:
        copy(self.name, local, self._on_host(remote))

    def pull(self, remote: str, local: Path) -> None:
        with files.atomic_path(local) as temporary:
            copy(self.name, self._on_host(remote), temporary)

    def run(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, cwd: str = "."
    ) -> Result:
        with self._status_pipe() as write:
            words = self._launcher(argv, status=write, env=env, cwd=cwd)
            return local.run(words, name=self.name, timeout_s=timeout_s, pass_fds=[write], echo=argv)

    def run_attached(self, argv: Sequence[str], *, timeout_s: float) -> int:
        """Run a program on this process' own stdin, stdout and stderr; returns its exit code.

        Raises DeviceTimeoutError after `timeout_s`, with all of the guest killed.
        """
        with self._status_pipe() as write:
            words = self._launcher(argv, status=write, env=None, cwd=".")
            try:
                done = subprocess.run(words, pass_fds=[write], timeout=timeout_s, check=False)
            except subprocess.TimeoutExpired:
                what = f"`{shlex.join(argv)}` still running after {timeout_s:.0f} s; it was killed"
                raise DeviceTimeoutError(f"{self.name}: {what}") from None
        return done.returncode

    @contextmanager
    def _status_pipe(self) -> Iterator[int]:
        """The descriptor on which namespace.py says whether the guest was set up; raises if it was not."""
        read, write = os.pipe()
        with os.fdopen(read, "rb") as f:
            try:
                yield write
            finally:
                os.close(write)
            status = f.read().decode(errors="replace")
        if status != namespace.STARTED:
            raise self._setup_error(status or "it was killed")

    def _setup_error(self, reason: str) -> MaliSdkError:
        # Beside EPERM: ENOSPC where user.max_user_namespaces is 0, EINVAL from a kernel without namespaces.
        if reason.startswith("unshare:") or "not permitted" in reason or "denied" in reason:
            return ToolchainError(
                f"{self.name}: may not make namespaces, got {reason}; expected root or a kernel that allows it",
                hint="run as root (in a container: with --privileged)",
            )
        return DeviceError(f"{self.name}: cannot set up the guest: {reason}")

    def _launcher(self, argv: Sequence[str], *, status: int, env: Mapping[str, str] | None, cwd: str) -> list[str]:
        """The command on this machine that runs `argv` in the guest."""
        request = {
            "root": str(self._root),
            "tmp": str(self._on_host("/tmp")),
            "interpreter": None if self._runner.interpreter is None else str(self._runner.interpreter),
            "user_namespace": self._runner.user_namespace,
            "cwd": posixpath.join(_FOLDER, cwd),
            "env": {**self._env, **(env or {})},
            "argv": list(argv),
        }
        return [sys.executable, "-I", "-S", namespace.__file__, json.dumps(request), str(status)]

    def _on_host(self, remote: str) -> Path:
        """Where a guest path is on this machine. Only the session's own files can be reached."""
        if self._tmp is None:
            raise DeviceError(f"{self.name}: device is not open")
        path = posixpath.normpath(posixpath.join(_FOLDER, remote))
        if path != "/tmp" and not path.startswith("/tmp/"):
            raise DeviceError(f"{self.name}: path outside the session, got {remote}; expected one below /tmp")
        return self._tmp / posixpath.relpath(path, "/tmp")
