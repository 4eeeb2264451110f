"""Progress for people on stderr; results go to stdout."""

import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


def _colour(code: str, text: str) -> str:
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        return f"\033[{code}m{text}\033[0m"
    return text


def info(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def warning(text: str) -> None:
    info(f"{_colour('33', 'warning:')} {text}")


def error(text: str) -> None:
    info(f"{_colour('31', 'error:')} {text}")


def command(argv: Sequence[str | os.PathLike[str]]) -> None:
    """Echo an external command, shell-quoted, before it runs."""
    info(_colour("2", "+ " + shlex.join(os.fspath(a) for a in argv)))


@contextmanager
def step(title: str) -> Iterator[None]:
    """A named stretch of work; its duration in seconds is printed when it ends."""
    start = time.perf_counter()
    info(f"{title} ...")
    try:
        yield
    except BaseException:
        info(f"{title}: {_colour('31', 'failed')} after {time.perf_counter() - start:.1f} s")
        raise
    info(f"{title}: {time.perf_counter() - start:.1f} s")
