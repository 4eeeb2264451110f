"""Run external programs: echoed, checked, with the tail of their output in the error."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import log
from .errors import MaliSdkError, ToolchainError

_TAIL_LINES = 20


def find_program(name: str, *, hint: str) -> Path:
    """The program's path; raises ToolchainError naming it and what to install."""
    found = shutil.which(name)
    if found is None:
        raise ToolchainError(f"{name}: program not found on PATH", hint=hint)
    return Path(found)


def call(
    argv: Sequence[str | os.PathLike[str]],
    *,
    timeout_s: float | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    log_path: Path | None = None,
    error: type[MaliSdkError] = ToolchainError,
) -> str:
    """Run a command and return what it printed (stdout and stderr together).

    Raises `error` with the command, its exit code and the last lines of its output; the whole output is kept in
    `log_path` when one is given.
    """
    log.command(argv)
    words = [os.fspath(a) for a in argv]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            env=dict(env) if env is not None else None,
            cwd=cwd,
            check=False,
        )
    except FileNotFoundError as e:
        raise error(f"{words[0]}: program not found") from e
    except subprocess.TimeoutExpired as e:
        tail = _tail((e.output or b"").decode(errors="replace"))
        raise error(f"{words[0]}: still running after {timeout_s:.0f} s\n{tail}") from e
    output = done.stdout.decode(errors="replace")
    if log_path is not None:
        log_path.parent.mkdir(parents=True, exist_ok=True)
        log_path.write_text(output)
    if done.returncode != 0:
        where = f" (all of it: {log_path})" if log_path is not None else ""
        raise error(f"{words[0]}: exit code {done.returncode}{where}\n{_tail(output)}")
    return output


def _tail(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-_TAIL_LINES:])
