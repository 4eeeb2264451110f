"""A copy of this tree that tests may edit and build."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("SConstruct", "site_scons", "pipeline", "models", "native", "bindings", "pyproject.toml", "LICENSE")
# What the small builds of these tests are: no board, no download, one wheel.
CHEAP = ("target=host", "device=none")
TINY_RECIPE = '''"""A seeded network of two layers."""

from malisdk_pipeline.recipes import Recipe

GAIN = 2.0


def build(_):
    from malisdk_pipeline.seeded_net import SeededNet

    net = SeededNet("tiny", input_shape=(1, 4, 8, 8))
    return net.net.model(net.conv("conv", net.input, 8, kernel=3, gain=GAIN, bias=True))


RECIPE = Recipe(
    name="tiny", summary="two layers", input_name="image", input_shape=(1, 4, 8, 8), build=build
)
'''


@dataclass(frozen=True, kw_only=True)
class Build:
    """How a run of scons ended and what it ran, see `steps`."""

    code: int
    output: str

    @property
    def steps(self) -> set[str]:
        """`compile`, `bundle`, ... for the pipeline's commands; `cc FILE` and `link FILE` for the compiler."""
        found = set()
        for line in self.output.splitlines():
            if command := re.search(r" -m malisdk_pipeline ([a-z]+) ", line):
                found.add(command[1])
            elif compiled := re.search(r"/zig c\+\+ .* -c .* (\S+\.cpp)$", line):
                found.add(f"cc {compiled[1]}")
            elif linked := re.search(r"/zig c\+\+ .* -o (\S+) ", line):
                found.add(f"link {Path(linked[1]).name}")
        return found


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A source tree of its own."""

    root: Path

    def scons(self, *words: str) -> Build:
        cache = os.environ.get("MALISDK_CACHE_DIR") or str(ROOT / "build")
        done = subprocess.run(
            [sys.executable, "-m", "SCons", *words],
            cwd=self.root,
            env=os.environ | {"MALISDK_CACHE_DIR": cache},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=800,
            check=False,
        )
        return Build(code=done.returncode, output=done.stdout)

    def build(self, *words: str) -> Build:
        built = self.scons("sdk", *CHEAP, *(words or ("model=tiny",)))
        assert built.code == 0, built.output
        return built

    @property
    def bundle(self) -> Path:
        return self.root / "build" / "host" / "malisdk-tiny-host.tar.gz"


def copy_tree(folder: Path, source: Path = ROOT) -> Tree:
    folder.mkdir(parents=True)
    for name in SOURCES:
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source / name, folder / name)
    (folder / "models" / "tiny.py").write_text(TINY_RECIPE)
    return Tree(root=folder)


@pytest.fixture(scope="session")
def built_tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    """A built copy; whoever edits it puts it back. It is built once for all of pytest's workers."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    first = shared / "built"
    with (shared / "built.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (first / "done").exists():
            shutil.rmtree(first, ignore_errors=True)
            copy_tree(first / "tree").build()
            (first / "done").touch()
    tree = Tree(root=tmp_path_factory.mktemp("build") / "tree")
    shutil.copytree(first / "tree", tree.root, symlinks=True)
    yield tree
    shutil.rmtree(tree.root)
