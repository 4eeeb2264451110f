"""An unpacked SDK as its users meet it: build systems, wheel, smoke script, manifest."""

import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """\
#include <malisdk/malisdk.h>
#include <stdio.h>

int main(void) {
  printf("%d %d\\n", (int)(malisdk_version() == MALISDK_VERSION), (int)malisdk_abi_version());
  return 0;
}
"""
CMAKE_LISTS = """\
cmake_minimum_required(VERSION 3.16)
project(app C)
find_package(malisdk {version} REQUIRED)
add_executable(app app.c)
target_link_libraries(app malisdk::malisdk)
"""


@pytest.fixture(scope="module")
def sdk(built_tree, tmp_path_factory) -> Path:
    """The unpacked host SDK, in a folder whose name has a space."""
    folder = tmp_path_factory.mktemp("my board")
    with tarfile.open(built_tree.bundle) as archive:
        archive.extractall(folder, filter="data")
    return folder / "malisdk-tiny-host"


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on this machine")


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_manifest_is_true_of_every_file(sdk):
    manifest = json.loads((sdk / "MANIFEST.json").read_text())
    assert (manifest["target"], manifest["model"]["name"]) == ("host", "tiny")
    found = {p.relative_to(sdk).as_posix(): p for p in sdk.rglob("*") if p.is_file()}
    assert found.keys() - {"MANIFEST.json"} == manifest["files"].keys()
    for name, facts in manifest["files"].items():
        if "link" in facts:
            assert str(found[name].readlink()) == facts["link"]
        else:
            assert hashlib.sha256(found[name].read_bytes()).hexdigest() == facts["sha256"]


def test_cmake_finds_the_package_and_its_program_runs(sdk, tmp_path):
    need("cmake", "make", "cc")
    (tmp_path / "app.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE_LISTS.format(version="0.1"))
    run("cmake", "-B", "out", f"-DCMAKE_PREFIX_PATH={sdk}", cwd=tmp_path)
    run("cmake", "--build", "out", cwd=tmp_path)
    assert run(tmp_path / "out" / "app", cwd=tmp_path) == "1 1\n"


def test_cmake_refuses_another_version(sdk, tmp_path):
    need("cmake", "make", "cc")
    (tmp_path / "app.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE_LISTS.format(version="9.0"))
    command = ["cmake", "-B", "out", f"-DCMAKE_PREFIX_PATH={sdk}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode != 0
    assert 'compatible with requested version "9.0"' in " ".join(done.stderr.split())


def test_pkg_config_finds_header_and_library(sdk, tmp_path):
    need("pkg-config", "cc")
    (tmp_path / "app.c").write_text(PROGRAM)
    script = (
        f'export PKG_CONFIG_PATH="{sdk}/lib/pkgconfig"\n'
        f"eval cc app.c $(pkg-config --cflags --libs malisdk) \"-Wl,-rpath,'{sdk}/lib'\" -o app && ./app\n"
    )
    assert run("sh", "-c", script, cwd=tmp_path) == "1 1\n"


def test_wheel_fits_this_python_and_carries_the_library(sdk, tmp_path):
    wheel = next((sdk / "python").glob("*.whl"))
    assert wheel.name.endswith(f"linux_{platform.machine()}.whl")
    run(sys.executable, "-m", "zipfile", "-e", wheel, tmp_path, cwd=tmp_path)
    program = "import malisdk; print(malisdk.__file__)"
    assert run(sys.executable, "-c", program, cwd=tmp_path).strip() == str(tmp_path / "malisdk" / "__init__.py")


@pytest.mark.host_opencl
def test_smoke_script_passes_and_fails_with_its_cases(sdk, tmp_path):
    devices = subprocess.run([sdk / "bin" / "malisdk", "devices"], capture_output=True, text=True, timeout=60)
    if devices.returncode != 0:
        pytest.skip(f"no OpenCL device on this machine (apt: pocl-opencl-icd): {devices.stderr.strip()}")
    run(sdk / "smoke" / "run.sh", cwd=tmp_path)
    copy = tmp_path / "sdk"
    shutil.copytree(sdk, copy, symlinks=True)
    expected = next((copy / "smoke" / "cases").rglob("expected_0.npy"))
    data = expected.read_bytes()
    expected.write_bytes(data[:-4] + b"\0\0\x80\x42")
    done = subprocess.run([copy / "smoke" / "run.sh"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stdout
