"""Programs of this machine, with a time limit that holds for all their children."""

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from .. import log
from .base import DeviceTimeoutError, Result

# What is still in the pipes of a killed program is read within this time.
_DRAIN_S = 5.0


def run(
    argv: Sequence[str],
    *,
    name: str,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: BinaryIO | None = None,
    pass_fds: Sequence[int] = (),
    echo: Sequence[str] | None = None,
) -> Result:
    """Run a program in a process group of its own and wait for it; `echo` is what the log shows instead of `argv`.

    Raises DeviceTimeoutError naming the device `name` after `timeout_s`, with the group killed; OSError if the program
    cannot start.
    """
    shown = shlex.join(echo or argv)
    log.command(echo or argv)
    start = time.perf_counter()
    process = subprocess.Popen(
        list(argv),
        stdin=stdin or subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=None if env is None else dict(env),
        cwd=cwd,
        pass_fds=pass_fds,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        partial = Result(code=-1, output=_kill(process), seconds=time.perf_counter() - start)
        what = f"{name}: `{shown}` still running after {timeout_s:.0f} s; it was killed"
        raise DeviceTimeoutError(f"{what}\n{partial.tail}".rstrip()) from None
    except BaseException:
        _kill(process)
        raise
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return Result(code=code, output=output.decode(errors="replace"), seconds=time.perf_counter() - start)


def _kill(process: subprocess.Popen[bytes]) -> str:
    """Kill the group; returns what the program had printed."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        output, _ = process.communicate(timeout=_DRAIN_S)
    except subprocess.TimeoutExpired as e:
        output = e.output or b""
    return output.decode(errors="replace")
