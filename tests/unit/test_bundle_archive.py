"""Archives and manifests: right contents, and the same bytes for the same contents."""

import hashlib
import json
import tarfile
from importlib import metadata

import pytest
from malisdk_pipeline.bundle.archive import Entry, write_archive
from malisdk_pipeline.bundle.manifest import manifest_text, versions
from malisdk_pipeline.errors import BundleError

ENTRIES = {
    "lib/libx.so.0": Entry(data=b"\x7fELF", executable=True),
    "lib/libx.so": Entry(link="libx.so.0"),
    "README.md": Entry(data=b"hello\n"),
    "a/b/c/deep.txt": Entry(data=b"deep"),
    "empty": Entry(),
}


def test_archive_unpacks_to_what_was_put_in(tmp_path):
    write_archive(tmp_path / "x.tar.gz", root="sdk", entries=ENTRIES)
    with tarfile.open(tmp_path / "x.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
        names = archive.getnames()
    assert names == sorted(names)
    assert (tmp_path / "sdk/README.md").read_bytes() == b"hello\n"
    assert (tmp_path / "sdk/a/b/c/deep.txt").read_bytes() == b"deep"
    assert (tmp_path / "sdk/empty").read_bytes() == b""
    assert (tmp_path / "sdk/lib/libx.so").readlink().name == "libx.so.0"
    assert (tmp_path / "sdk/lib/libx.so.0").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "sdk/README.md").stat().st_mode & 0o777 == 0o644


def test_archive_bytes_depend_only_on_contents(tmp_path, monkeypatch):
    write_archive(tmp_path / "one.tar.gz", root="sdk", entries=ENTRIES)
    monkeypatch.setattr("time.time", lambda: 4_000_000_000.0)
    backwards = dict(reversed(ENTRIES.items()))
    write_archive(tmp_path / "sub" / "another-name.tar.gz", root="sdk", entries=backwards)
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "sub" / "another-name.tar.gz").read_bytes()


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "", "a//b", "./a"])
def test_archive_refuses_names_that_lead_out_of_it(tmp_path, name):
    with pytest.raises(BundleError, match="expected a plain path inside the archive"):
        write_archive(tmp_path / "x.tar.gz", root="sdk", entries={name: Entry()})
    assert list(tmp_path.iterdir()) == []


def test_archive_that_cannot_be_written_leaves_the_old_one(tmp_path):
    target = tmp_path / "x.tar.gz"
    target.mkdir()
    with pytest.raises(BundleError, match=r"x\.tar\.gz: cannot be written"):
        write_archive(target, root="sdk", entries=ENTRIES)
    assert [p.name for p in tmp_path.iterdir()] == ["x.tar.gz"]


def manifest(entries):
    facts = {"name": "net", "dtype": "float32"}
    return manifest_text(name="sdk", target="rk3399", model=facts, versions={"malisdk": "1.2.3"}, entries=entries)


def test_manifest_lists_sizes_and_digests():
    facts = json.loads(manifest(ENTRIES))
    assert facts["files"]["README.md"] == {"bytes": 6, "sha256": hashlib.sha256(b"hello\n").hexdigest()}
    assert facts["files"]["lib/libx.so"] == {"link": "libx.so.0"}
    assert facts["files"].keys() == ENTRIES.keys()
    assert facts["model"]["dtype"] == "float32"


def test_manifest_text_depends_only_on_contents():
    assert manifest(ENTRIES) == manifest(dict(reversed(ENTRIES.items())))


def test_versions_come_from_the_header_and_the_installed_tools(tmp_path):
    header = tmp_path / "malisdk.h"
    header.write_text("#define MALISDK_VERSION 100\n#define MALISDK_ABI_VERSION 7\n")
    found = versions(header)
    assert found["malisdk_abi"] == 7
    assert found["apache-tvm"] == metadata.version("apache-tvm")


def test_versions_of_a_header_without_one_is_an_error(tmp_path):
    (tmp_path / "malisdk.h").write_text("#pragma once\n")
    with pytest.raises(BundleError, match=r"malisdk\.h: no ABI version"):
        versions(tmp_path / "malisdk.h")
