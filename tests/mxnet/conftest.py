"""MXNet 1.9.1 as the oracle, in an environment of its own, since it needs an old numpy."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from malisdk_pipeline import files

from mxnet_truth import Truth

HERE = Path(__file__).resolve().parent
SCRIPTS = [HERE / f"{name}.py" for name in ("make_answers", "operator_cases", "zoo_cases", "old_formats")]
PACKAGES = ("numpy<1.24", "mxnet==1.9.1")
PYTHON = "python3.11"
# MXNet's oneDNN corrupts its heap in some of the cases.
_ENVIRONMENT = {
    "MXNET_MKLDNN_ENABLED": "0",
    "MXNET_SUBGRAPH_BACKEND": "NONE",
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def _answers_folder() -> Path:
    """Where the answers are, made once for each state of the scripts; skips if MXNet cannot be installed."""
    root = files.cache_dir() / "mxnet-1.9.1"
    root.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in SCRIPTS)).hexdigest()[:16]
    folder = root / f"answers-{digest}"
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            python = _mxnet_python(root / "venv")
            with files.atomic_folder(folder, marker="*/net-symbol.json") as new:
                done = subprocess.run(
                    [python, "-W", "ignore", SCRIPTS[0], new],
                    env={**os.environ, **_ENVIRONMENT},
                    capture_output=True,
                    text=True,
                    timeout=600,
                    check=False,
                )
                assert done.returncode == 0, done.stderr[-2000:]
    return folder


def _mxnet_python(venv: Path) -> Path:
    python = venv / "bin" / "python"
    if (venv / "complete").is_file():
        return python
    base = shutil.which(PYTHON)
    if base is None and sys.version_info[:2] == (3, 11):
        base = sys.executable
    if base is None:
        pytest.skip(f"no {PYTHON} on this machine, which MXNet 1.9.1 needs")
    shutil.rmtree(venv, ignore_errors=True)
    for command in ([base, "-m", "venv", venv], [python, "-m", "pip", "install", "-q", *PACKAGES]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            pytest.skip(f"MXNet 1.9.1 cannot be installed: {(done.stderr or done.stdout).strip()[-200:]}")
    (venv / "complete").touch()
    return python


@pytest.fixture(scope="session")
def mxnet_answers() -> Path:
    return _answers_folder()


@pytest.fixture
def truth(mxnet_answers: Path) -> Callable[[str], Truth]:
    """`truth(case)`: fails with MXNet's own error if MXNet could not answer."""

    def read(case: str) -> Truth:
        folder = mxnet_answers / case
        if (error := folder / "error.txt").is_file():
            pytest.fail(f"MXNet itself fails:\n{error.read_text()[-1500:]}")
        answers = np.load(folder / "answers.npz")
        return Truth(
            symbol=folder / "net-symbol.json",
            inputs=dict(np.load(folder / "inputs.npz")),
            answers=[answers[f"out{i}"] for i in range(len(answers.files))],
        )

    return read
