"""The wheel: same bytes every time, and refused when its Python could not load what is in it."""

import base64
import csv
import hashlib
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from malisdk_pipeline import __version__
from malisdk_pipeline.__main__ import main
from malisdk_pipeline.bundle.wheel import WheelTag, make_wheel
from malisdk_pipeline.errors import BundleError, ConfigError

ROOT = Path(__file__).resolve().parents[3]
E_MACHINE_OFFSET = 18
AARCH64 = 183
X86_64 = 62


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """A folder with stand-ins for the library and the extension, x86-64 code whatever this machine is."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler on PATH: apt install gcc")

    def link(source: str, *flags: str) -> None:
        subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-", *flags], input=source.encode(), check=True)

    library = tmp_path / "libmalisdk.so"
    link(
        'int puts(const char*);\nint malisdk_version(void) { return puts(""); }',
        "-Wl,-soname,libmalisdk.so.0",
        "-o",
        str(library),
    )
    link(
        'const char* v = "Python version";\nconst char* python = "3.11";\nint malisdk_version(void);\n'
        "int PyInit__core(void) { return malisdk_version(); }",
        *("-o", str(tmp_path / "_core.so"), f"-L{tmp_path}", "-lmalisdk", "-Wl,-rpath,$ORIGIN/_lib"),
    )
    for file in (library, tmp_path / "_core.so"):
        set_machine(file, X86_64)
    return tmp_path


def set_machine(file: Path, machine: int) -> None:
    data = bytearray(file.read_bytes())
    data[E_MACHINE_OFFSET : E_MACHINE_OFFSET + 2] = machine.to_bytes(2, "little")
    file.write_bytes(data)


def make(folder: Path, out: str = "out", *, python: str = "cp311", platform: str = "linux_x86_64") -> Path:
    return make_wheel(
        folder / out,
        tag=WheelTag(python=python, platform=platform),
        extension=folder / "_core.so",
        library=folder / "libmalisdk.so",
        sources=ROOT / "bindings/python",
        licences={"LICENSE": ROOT / "LICENSE"},
    )


@pytest.mark.parametrize(("platform", "machine"), [("linux_x86_64", X86_64), ("linux_aarch64", AARCH64)])
def test_wheel_holds_what_its_python_looks_for(parts, platform: str, machine: int) -> None:
    for name in ("_core.so", "libmalisdk.so"):
        set_machine(parts / name, machine)
    wheel = make(parts, platform=platform)
    assert wheel.name == f"malisdk-{__version__}-cp311-cp311-{platform}.whl"
    architecture = platform.removeprefix("linux_")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
        modes = {i.filename: i.external_attr >> 16 for i in archive.infolist()}
        info = f"malisdk-{__version__}.dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
        assert f"Tag: cp311-cp311-{platform}\n" in archive.read(f"{info}/WHEEL").decode()
        rows = list(csv.reader(archive.read(f"{info}/RECORD").decode().splitlines()))
        for name, digest, size in rows[:-1]:
            data = archive.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            assert (digest, int(size)) == (f"sha256={expected}", len(data))
    assert [row[0] for row in rows] == names and rows[-1] == [f"{info}/RECORD", "", ""]
    extension = f"malisdk/_core.cpython-311-{architecture}-linux-gnu.so"
    assert {extension, "malisdk/_lib/libmalisdk.so.0", "malisdk/py.typed", "malisdk/_core.pyi"} <= set(names)
    assert [n for n in names if n.endswith(".so")] == [extension]
    assert f"{info}/licenses/LICENSE" in names
    assert not [n for n in names if "__pycache__" in n or n.endswith((".cpp", ".h", ".pyc"))]
    assert modes[extension] == modes["malisdk/_lib/libmalisdk.so.0"] == 0o100755
    assert modes["malisdk/__init__.py"] == 0o100644
    assert f"Name: malisdk\nVersion: {__version__}\n" in metadata and "Requires-Python: >=3.8\n" in metadata


def test_wheel_bytes_do_not_depend_on_time_or_modes(parts) -> None:
    first = make(parts, "first").read_bytes()
    for name in ("_core.so", "libmalisdk.so"):
        os.utime(parts / name, (1, 1))
        (parts / name).chmod(0o600)
    assert make(parts, "second").read_bytes() == first


def refused(folder: Path, fragment: str, **options: str) -> None:
    with pytest.raises(BundleError, match=fragment):
        make(folder, **options)
    assert not (folder / "out").exists()


def test_wheel_of_other_machine_is_refused(parts) -> None:
    refused(parts, "libmalisdk.so: machine, got x64; expected AArch64 for linux_aarch64", platform="linux_aarch64")
    set_machine(parts / "libmalisdk.so", AARCH64)
    refused(parts, "_core.so: machine, got x64; expected AArch64", platform="linux_aarch64")


def test_wheel_of_other_python_is_refused(parts) -> None:
    refused(parts, "Python version, got 3.11; expected 3.9 for cp39", python="cp39")


def test_wheel_suffix_of_other_platform_is_refused(parts) -> None:
    right = parts / "_core.cpython-311-x86_64-linux-gnu.so"
    wrong = parts / "_core.cpython-311-aarch64-linux-gnu.so"
    (parts / "_core.so").rename(wrong)
    options = {"library": parts / "libmalisdk.so", "sources": ROOT / "bindings/python", "licences": {}}
    tag = WheelTag(python="cp311", platform="linux_x86_64")
    with pytest.raises(BundleError, match=f"got {wrong.name}; expected {right.name}"):
        make_wheel(parts / "out", tag=tag, extension=wrong, **options)
    wrong.rename(right)
    assert make_wheel(parts / "out", tag=tag, extension=right, **options).exists()


def test_wheel_of_swapped_or_foreign_files_is_refused(parts) -> None:
    core, library = (parts / "_core.so").read_bytes(), (parts / "libmalisdk.so").read_bytes()
    (parts / "libmalisdk.so").write_bytes(core)
    refused(parts, "soname, got None; expected libmalisdk.so")
    (parts / "libmalisdk.so").write_bytes(library)
    (parts / "_core.so").write_bytes(library)
    refused(parts, "needed libraries, got .*; expected libmalisdk.so.0 among them")
    for data in (b"", b"#!/bin/sh\n", core[:100]):
        (parts / "_core.so").write_bytes(data)
        refused(parts, "_core.so: not a readable ELF file")


def test_wheel_manylinux_promise_is_checked(parts) -> None:
    name = f"malisdk-{__version__}-cp311-cp311-manylinux_2_99_x86_64.whl"
    assert make(parts, platform="manylinux_2_99_x86_64").name == name
    shutil.rmtree(parts / "out")
    refused(parts, "glibc version, got .*; expected at most 2.1 for", platform="manylinux_2_1_x86_64")


@pytest.mark.parametrize(
    ("python", "platform"),
    [
        ("cp27", "linux_x86_64"),
        ("cp37", "linux_x86_64"),
        ("py3", "linux_x86_64"),
        ("cp311t", "linux_x86_64"),
        ("cp311", "linux_armv7l"),
        ("cp311", "win_amd64"),
        ("cp311", "linux-aarch64"),
    ],
)
def test_wheel_unknown_tag_is_refused(python: str, platform: str) -> None:
    with pytest.raises(ConfigError, match="tag, got"):
        WheelTag(python=python, platform=platform)


def test_wheel_command_ends_with_path_or_code(parts, capsys) -> None:
    words = ["wheel", "--python-tag", "cp311", "--extension", str(parts / "_core.so")]
    words += ["--library", str(parts / "libmalisdk.so"), "--licence", f"other.txt={ROOT / 'LICENSE'}"]
    good = parts / f"w/malisdk-{__version__}-cp311-cp311-linux_x86_64.whl"
    assert main([*words, "--platform", "linux_x86_64", "--out", str(good)]) == 0
    assert capsys.readouterr().out.strip() == str(good)
    with zipfile.ZipFile(good) as archive:
        assert f"malisdk-{__version__}.dist-info/licenses/other.txt" in archive.namelist()
    for options, code, fragment in [
        (["--platform", "linux_aarch64", "--out", str(parts / "w2")], 7, "expected AArch64"),
        (["--platform", "linux_x86_64", "--out", str(parts / "w2/other.whl")], 2, "wrong name for this wheel"),
        (["--platform", "amiga", "--out", str(parts / "w2")], 2, "platform tag, got amiga"),
        (
            ["--platform", "linux_x86_64", "--out", str(parts / "w2"), "--licence", "missing"],
            2,
            "missing: no such file",
        ),
        (
            ["--platform", "linux_x86_64", "--out", str(parts / "w2"), "--licence", str(ROOT / "LICENSE")],
            2,
            "taken twice",
        ),
    ]:
        assert main([*words, *options]) == code
        assert fragment in capsys.readouterr().err
    assert not (parts / "w2").exists()
