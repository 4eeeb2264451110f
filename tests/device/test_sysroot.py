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


@pytest.mark.parametrize(
    ("version", "machine"), [("3.9", "aarch64"), ("3.11", "aarch64"), ("3.13", "aarch64"), ("3.13", "x86_64")]
)
def test_headers_are_those_of_the_machines_python(version: str, machine: str, tmp_path: Path) -> None:
    out = tmp_path / "headers"
    words = ["sysroot", "python-headers", "--python", version, "--machine", machine]
    assert main([*words, "--out", str(out)]) == 0
    level = (out / "patchlevel.h").read_text()
    numbers = re.findall(r"#define PY_(?:MAJOR|MINOR)_VERSION\s+(\d+)", level)
    assert ".".join(numbers) == version
    assert re.search(r"^#define (SIZEOF_LONG 8|SIZEOF_VOID_P 8)$", (out / "pyconfig.h").read_text(), re.MULTILINE)
    assert json.loads((out / "python.json").read_text())["ext_suffix"] == (
        f".cpython-{version.replace('.', '')}-{machine}-linux-gnu.so"
    )
    assert not (out / "stdio.h").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["headers"]
