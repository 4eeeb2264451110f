"""One input is edited at a time; exactly what depends on it is made again."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .conftest import Tree, copy_tree

pytestmark = pytest.mark.slow

LIBRARY = {"link libmalisdk.so.0", "link malisdk", "link _core.so", "wheel", "bundle"}


@contextmanager
def edited(tree: Tree, file: str, old: str, new: str) -> Iterator[None]:
    """The file with one text replaced. Afterwards the tree is what it was, build folder and dates too."""
    path = tree.root / file
    before, date = path.read_text(), path.stat()
    assert old in before, f"{file}: no {old!r} in it"
    with build_kept(tree):
        path.write_text(before.replace(old, new, 1))
        try:
            yield
        finally:
            path.write_text(before)
            os.utime(path, ns=(date.st_atime_ns, date.st_mtime_ns))


@contextmanager
def build_kept(tree: Tree) -> Iterator[None]:
    kept = tree.root.with_name("kept")
    shutil.copytree(tree.root / "build", kept, symlinks=True)
    try:
        yield
    finally:
        shutil.rmtree(tree.root / "build")
        kept.rename(tree.root / "build")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_nothing_edited_nothing_made(built_tree):
    again = built_tree.build()
    assert again.steps == set()
    assert digest(built_tree.bundle) in again.output
    assert "smoke test: skipped, device=none" in again.output


@pytest.mark.parametrize(
    ("file", "old", "new", "made"),
    [
        pytest.param(
            "pipeline/schedules/mali/generic.py",
            'name = "generic"',
            'name = "plain"',
            {"compile", "bundle"},
            id="schedule",
        ),
        pytest.param(
            "pipeline/schedules/mali/generic.py", '"""', '"""Edited. ', {"compile"}, id="schedule-without-effect"
        ),
        pytest.param(
            "models/tiny.py", "GAIN = 2.0", "GAIN = 3.0", {"models", "golden", "compile", "bundle"}, id="recipe"
        ),
        pytest.param("models/vgg16.py", '"""', '"""Edited. ', set(), id="another-recipe"),
        pytest.param("pyproject.toml", "apache-tvm==0.27.0.post1", "apache-tvm==0.27.0", {"compile"}, id="tvm-pin"),
        pytest.param("pyproject.toml", '"pytest>=8"', '"pytest>=8.1"', set(), id="development-tool"),
        pytest.param("pipeline/golden.py", '"""', '"""Edited. ', {"golden"}, id="golden-cases"),
        pytest.param("pipeline/bundle/sdk.py", '"""', '"""Edited. ', {"bundle"}, id="packing"),
        pytest.param(
            "bindings/python/malisdk/_model.py", '"""', '"""Edited. ', {"wheel", "bundle"}, id="python-of-the-wheel"
        ),
        pytest.param("LICENSE", "Apache", "Apachee", {"wheel", "bundle"}, id="licence"),
        pytest.param("native/malisdk.map", "{\n", "{\n\n", {"link libmalisdk.so.0"}, id="version-script"),
    ],
)
def test_edit_makes_exactly_what_depends_on_it(built_tree, file, old, new, made):
    with edited(built_tree, file, old, new):
        assert built_tree.build().steps == made


def test_edit_of_a_native_source_makes_the_library_and_all_around_it(built_tree):
    mali = digest(built_tree.root / "build/host/tiny.mali")
    with edited(built_tree, "native/src/api.cpp", "\nnamespace", '\nextern "C" int malisdk_unused = 7;\nnamespace'):
        assert built_tree.build().steps == {"cc native/src/api.cpp", "link libmalisdk.so.0"}
    with edited(built_tree, "native/src/cl_check.cpp", '"unknown code"', '"unheard-of code"'):
        assert built_tree.build().steps == {"cc native/src/cl_check.cpp"} | LIBRARY
        assert digest(built_tree.root / "build/host/tiny.mali") == mali


def test_edit_of_a_header_compiles_only_what_includes_it(built_tree):
    including = {
        f"cc native/src/{path.name}"
        for path in (built_tree.root / "native/src").glob("*.cpp")
        if '"hash.h"' in path.read_text()
    }
    assert including
    with edited(built_tree, "native/src/hash.h", "#pragma once", "#pragma once\n"):
        # The objects are what they were, so nothing else is made.
        assert built_tree.build().steps == including


def test_option_of_the_model_makes_the_model_its_cases_and_the_bundle(built_tree):
    with build_kept(built_tree):
        assert built_tree.build("model=tiny", "dtype=float16").steps == {"compile", "golden", "bundle"}


def test_removed_outputs_are_made_again_alone(built_tree):
    before = digest(built_tree.bundle)
    (built_tree.root / "build/host/tiny.mali").unlink()
    assert built_tree.build().steps == {"compile"}
    next((built_tree.root / "build/host/golden/tiny").rglob("case.json")).unlink()
    assert built_tree.build().steps == {"golden"}
    built_tree.bundle.unlink()
    assert built_tree.build().steps == {"bundle"}
    assert digest(built_tree.bundle) == before


def test_broken_source_is_one_message_and_the_old_outputs_stay(built_tree):
    before = digest(built_tree.root / "build/host/tiny.mali")
    with edited(built_tree, "pipeline/schedules/mali/generic.py", "class ", "clas "):
        failed = built_tree.scons("sdk", "target=host", "device=none", "model=tiny")
        assert failed.code == 2
        assert "generic.py:" in failed.output
        assert "syntax error" in failed.output
        assert "Traceback" not in failed.output
        assert digest(built_tree.root / "build/host/tiny.mali") == before


def test_users_own_model_is_found_from_the_folder_of_the_call(built_tree, tmp_path):
    shutil.copy(built_tree.root / "build/models/tiny/model.onnx", tmp_path / "my own.onnx")
    built = built_tree.build(f"model={tmp_path / 'my own.onnx'}")
    assert built.steps == {"compile", "golden", "bundle"}
    assert (built_tree.root / "build/host/malisdk-my_own-host.tar.gz").is_file()
    assert built_tree.build(f"model={tmp_path / 'my own.onnx'}").steps == set()


def test_sources_are_left_as_they_were(built_tree):
    made = {p.name for p in built_tree.root.iterdir()} - {"build"}
    assert made == {"SConstruct", "site_scons", "pipeline", "models", "native", "bindings", "pyproject.toml", "LICENSE"}


def test_two_builds_in_different_folders_are_byte_identical(built_tree, tmp_path):
    other = copy_tree(tmp_path / "another folder", built_tree.root)
    other.build()
    assert digest(other.bundle) == digest(built_tree.bundle)


def test_clean_removes_what_was_made(built_tree, tmp_path):
    other = Tree(root=tmp_path / "copy")
    shutil.copytree(built_tree.root, other.root, symlinks=True)
    assert other.scons("-c", "sdk", "target=host", "device=none", "model=tiny").code == 0
    left = [p for p in (other.root / "build/host").rglob("*") if p.is_file() and "my_own" not in p.as_posix()]
    assert left == []
    assert not (other.root / "build/models/tiny/model.onnx").exists()
