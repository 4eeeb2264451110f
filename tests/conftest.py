"""What tests of all kinds share: the pipeline's command line as a user calls it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Refused = Callable[..., str]


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    """Run `python -m malisdk_pipeline WORDS`, which must refuse them; returns the message, with its hint.

    It must be one error with the exit code `code`, no traceback, nothing on stdout and no new file in tmp_path.
    """

    def run(*words: object, code: int, env: dict[str, str] | None = None, under: tuple[str, ...] = ()) -> str:
        before = sorted(tmp_path.rglob("*"))
        done = subprocess.run(
            [*under, sys.executable, "-m", "malisdk_pipeline", *map(str, words)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            timeout=300,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        assert done.stdout == ""
        assert "Traceback" not in said and said.count("error: ") == 1, said
        assert sorted(tmp_path.rglob("*")) == before
        return done.stderr.partition("error: ")[2]

    return run
