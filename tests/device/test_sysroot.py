"""Headers of the boards' Pythons, fetched from Debian."""

import json
import re
import shutil
from pathlib import Path

import pytest
from malisdk_pipeline.__main__ import main

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt is not installed"),
]


@pytest.mark.parametrize("version", ["3.9", "3.11", "3.13"])
def test_headers_are_those_of_arm64_python(version: str, tmp_path: Path) -> None:
    out = tmp_path / "headers"
    assert main(["sysroot", "python-headers", "--python", version, "--out", str(out)]) == 0
    level = (out / "patchlevel.h").read_text()
    numbers = re.findall(r"#define PY_(?:MAJOR|MINOR)_VERSION\s+(\d+)", level)
    assert ".".join(numbers) == version
    assert re.search(r"^#define (SIZEOF_LONG 8|SIZEOF_VOID_P 8)$", (out / "pyconfig.h").read_text(), re.MULTILINE)
    assert json.loads((out / "python.json").read_text())["ext_suffix"] == (
        f".cpython-{version.replace('.', '')}-aarch64-linux-gnu.so"
    )
    assert not (out / "stdio.h").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["headers"]
