"""What the library shows to the outside."""

import re
import subprocess
from pathlib import Path

from native_build import NATIVE, Built


def listed() -> list[str]:
    return (NATIVE / "abi" / "malisdk.symbols").read_text().split()


def test_exported_symbols_are_the_committed_list(built: Built):
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", built.library], capture_output=True, text=True, check=True
    ).stdout
    names = [line.split()[2].split("@")[0] for line in shown.splitlines()]
    assert sorted(name for name in names if name != "MALISDK_0.1") == listed()
    assert "MALISDK_0.1" in names


def test_header_version_script_and_list_agree():
    header = (NATIVE / "include" / "malisdk" / "malisdk.h").read_text()
    declared = sorted(set(re.findall(r"\b(malisdk_\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.S))))
    script = re.findall(r"^\s+(malisdk_\w+);$", (NATIVE / "malisdk.map").read_text(), flags=re.M)
    assert declared == listed() == sorted(script)


def test_library_links_no_opencl_and_has_its_soname(built: Built):
    dynamic = subprocess.run(["readelf", "-d", built.library], capture_output=True, text=True, check=True).stdout
    assert "soname: [libmalisdk.so.0]" in dynamic
    needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
    assert not [name for name in needed if "OpenCL" in name or "pocl" in name]


def test_generated_code_matches_the_schema(tmp_path: Path):
    import shutil

    import pytest

    flatc = shutil.which("flatc")
    if flatc is None:
        pytest.skip("no flatc on this machine (apt: flatbuffers-compiler)")
    version = subprocess.run([flatc, "--version"], capture_output=True, text=True, check=True).stdout
    if "2.0.8" not in version:
        pytest.skip(f"flatc is {version.strip()}, the committed code is from 2.0.8")
    subprocess.run([flatc, "--cpp", "-o", tmp_path, NATIVE / "schema" / "plan.fbs"], check=True)
    assert (tmp_path / "plan_generated.h").read_text() == (NATIVE / "schema" / "plan_generated.h").read_text()
