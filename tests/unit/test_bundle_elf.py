"""What keeps a binary out of a bundle. Truth about real files: readelf's, from binutils."""

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from malisdk_pipeline.bundle.elf import Elf, check_elf, faults, parse_elf, read_elf
from malisdk_pipeline.errors import BundleError

GOOD = {
    "machine": "AArch64",
    "soname": "libmalisdk.so.0",
    "needed": ("libc.so.6", "libpthread.so.0", "libdl.so.2", "libm.so.6", "ld-linux-aarch64.so.1"),
    "search_paths": ("$ORIGIN/../lib",),
    "versions": ("GLIBC_2.17", "GLIBC_2.27"),
    "text_relocations": False,
}


def elf(**changes) -> Elf:
    return Elf(**(GOOD | changes))


def test_faults_of_a_clean_file_are_none():
    assert faults(elf(), machine="AArch64") == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machine": "x64"}, "machine, got x64; expected AArch64"),
        ({"versions": ("GLIBC_2.28",)}, "glibc version, got 2.28; expected at most 2.27"),
        ({"versions": ("GLIBC_2.17", "GLIBC_2.100")}, "glibc version, got 2.100; expected at most 2.27"),
        ({"needed": ("libOpenCL.so.1",)}, "needed library, got libOpenCL.so.1; "),
        ({"needed": ("libstdc++.so.6",)}, "needed library, got libstdc++.so.6; "),
        ({"needed": ("build/lib/libmalisdk.so/libx.so",)}, "needed library, got build/lib"),
        ({"search_paths": ("/usr/lib",)}, "library search path, got /usr/lib; "),
        ({"search_paths": ("$ORIGIN", "$ORIGINAL/x")}, "library search path, got $ORIGINAL/x; "),
        ({"versions": ("GLIBC_2.17", "GLIBCXX_3.4")}, "symbol versions, got GLIBCXX_3.4; "),
        ({"text_relocations": True}, "text relocations, got some; expected none"),
    ],
)
def test_faults_name_what_a_board_lacks(changes, message):
    found = faults(elf(**changes), machine="AArch64")
    assert len(found) == 1
    assert found[0].startswith(message)


def test_check_reports_every_fault_at_once():
    with pytest.raises(BundleError) as caught, Path(sys.executable).open("rb") as f:
        check_elf(f, name="python", machine="AArch64", limit_bytes=10)
    assert "python: machine, got " in str(caught.value)
    assert "python: size, got " in str(caught.value)


def test_read_agrees_with_readelf():
    if shutil.which("readelf") is None:
        pytest.skip("no readelf on this machine (apt: binutils)")
    file = Path(shutil.which("readelf")).resolve()
    text = subprocess.run(["readelf", "-dVh", file], capture_output=True, text=True, check=True).stdout
    found = read_elf(file)
    assert list(found.needed) == re.findall(r"\(NEEDED\).*\[(.*)\]", text)
    needs = text.partition(".gnu.version_r")[2]
    assert set(found.versions) == set(re.findall(r"Name: (\S+)", needs))
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"Name: GLIBC_([\d.]+)", needs)}
    assert found.glibc == max(versions)


@pytest.mark.parametrize("kept", [0, 3, 4, 20, 63, 64, 100, 0.5, 0.99])
def test_read_of_a_truncated_file_is_an_error(kept):
    data = Path("/bin/true").read_bytes()
    part = data[: int(kept * len(data)) if isinstance(kept, float) else kept]
    with pytest.raises(BundleError, match="x: not a readable ELF file"):
        parse_elf(io.BytesIO(part), name="x")


def test_read_of_a_missing_file_names_it(tmp_path):
    with pytest.raises(BundleError, match=r"gone\.so: cannot be read"):
        read_elf(tmp_path / "gone.so")
