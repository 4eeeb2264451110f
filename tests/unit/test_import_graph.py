"""The direction of imports inside the pipeline, and what the command line may not load."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from malisdk_build.imports import ImportGraph, SourceSyntaxError

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "malisdk_pipeline"
HEAVY = ("tvm", "onnx", "onnxruntime")

# From the bottom up; a module imports from its own layer and those below it.
LAYERS = (
    ("errors", "log"),
    ("files", "process", "shapes"),
    ("targets", "recipes", "downloads", "images", "imagenet", "onnx_builder", "seeded_net", "unpickle", "debian"),
    ("debian_root",),
    ("importers", "passes", "schedules", "model_folder", "golden", "sysroot"),
    ("codegen", "plan", "planfb", "container"),
    ("oracle",),
    ("assemble", "compile", "bundle", "devices", "tuning"),
    ("bench",),
    ("commands", "__main__"),
)


@pytest.fixture(scope="module")
def graph() -> ImportGraph:
    return ImportGraph(PACKAGE, ROOT / "pipeline")


def layer(module: str) -> int:
    """The layer of a module, by the first name below the package. The package itself holds only its version."""
    name = module.split(".")[1] if "." in module else "errors"
    for depth, names in enumerate(LAYERS):
        if name in names:
            return depth
    raise AssertionError(f"{module}: in no layer; add {name} to LAYERS where it belongs")


def edges(graph: ImportGraph) -> dict[str, set[str]]:
    """Module -> the modules of the package that its imports name; the package's own __init__ is a front for users."""
    return {
        module: {m for m in graph.imports(path, module).modules if m in graph.modules and m not in (PACKAGE, module)}
        for module, path in graph.modules.items()
        if module != PACKAGE
    }


def test_imports_never_lead_upward(graph):
    wrong = [
        f"{module} imports {other}"
        for module, others in edges(graph).items()
        for other in others
        if layer(other) > layer(module)
    ]
    assert wrong == []


def test_imports_at_module_level_have_no_cycle(graph):
    remaining = {
        module: {m for m in graph.imports(path, module).at_module_level if m in graph.modules and m != module}
        for module, path in graph.modules.items()
    }
    while leaves := {m for m, others in remaining.items() if not others & remaining.keys()}:
        remaining = {m: others for m, others in remaining.items() if m not in leaves}
    stuck = {m: sorted(others & remaining.keys()) for m, others in remaining.items()}
    assert stuck == {}


def test_help_loads_nothing_heavy():
    program = (
        "import sys\n"
        "from malisdk_pipeline.__main__ import build_parser\n"
        "build_parser().format_help()\n"
        f"print([m for m in {HEAVY} if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_pyproject_lists_every_package():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = [
        ".".join((PACKAGE, *init.parent.relative_to(ROOT / "pipeline").parts))
        for init in (ROOT / "pipeline").rglob("__init__.py")
    ]
    assert listed == sorted(found)


@pytest.fixture
def small(tmp_path):
    """A package `p` with a module of every kind that the graph has to follow."""

    def write(name: str, text: str = "") -> Path:
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    write("__init__.py")
    write("top.py", "import json\nfrom . import low\nfrom .sub.one import thing\ndef f():\n    from p import late\n")
    write("low.py", "import numpy.linalg\n")
    write("late.py")
    write("unused.py")
    write("typed.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import unused\n")
    write("sub/__init__.py")
    write("sub/one.py", "from ..typed import x\n")
    write("sub/two.py")
    write("sub/data/table.txt", "1")
    write("plugins/__init__.py", "import pkgutil\nnames = list(pkgutil.iter_modules(__path__))\n")
    write("plugins/a.py", "from . import b\n")
    write("plugins/b.py")
    write("user.py", "from .plugins import names\n")
    return tmp_path / "src"


def closure(folder: Path, *roots: str | Path) -> set[str]:
    return {f.relative_to(folder).as_posix() for f in ImportGraph("p", folder).closure(roots).files}


def test_closure_follows_module_and_function_level_imports(small):
    expected = {"__init__.py", "top.py", "low.py", "late.py", "typed.py", "sub/__init__.py", "sub/one.py"}
    assert closure(small, "p.top") == expected | {"sub/data/table.txt"}


def test_closure_names_foreign_packages_but_not_the_standard_library(small):
    assert ImportGraph("p", small).closure(["p.top"]).foreign == ("numpy",)


def test_closure_does_not_run_functions_of_packages_on_the_way(small):
    (small / "__init__.py").write_text("__version__ = '1'\ndef api():\n    from .top import x\n")
    (small / "low.py").write_text("from . import __version__\nfrom .sub import one\n")
    assert "top.py" not in closure(small, "p.low")
    (small / "low.py").write_text("from . import api\n")
    assert "top.py" in closure(small, "p.low")


def test_closure_of_a_package_that_lists_itself_takes_all_of_it(small):
    assert {"plugins/a.py", "plugins/b.py"} <= closure(small, "p.user")


def test_closure_of_a_file_outside_the_package_follows_its_imports(small):
    recipe = small.parent / "recipe.py"
    recipe.write_text("from p.low import x\n")
    files = ImportGraph("p", small).closure([recipe]).files
    assert {f.name for f in files} == {"recipe.py", "__init__.py", "low.py"}


def test_closure_of_a_broken_file_names_file_and_line(small):
    (small / "low.py").write_text("x = 1\ndef (:\n")
    with pytest.raises(SourceSyntaxError, match=r"low\.py:2: syntax error"):
        closure(small, "p.top")


def test_closure_holds_every_module_that_a_real_run_loads(graph):
    """The reader of sources against Python itself: what `models list` really imported."""
    program = (
        "import sys\n"
        "from malisdk_pipeline.__main__ import main\n"
        "main(['models', 'list'])\n"
        f"print('\\n'.join(m for m in sys.modules if m.startswith('{PACKAGE}')), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {m for m in done.stderr.splitlines() if not m.startswith(f"{PACKAGE}.commands.")}
    # Other commands' files are loaded for their help texts, with what they import at their top.
    roots = [f"{PACKAGE}.__main__", *(m for m in graph.modules if m.startswith(f"{PACKAGE}.commands"))]
    files = set(graph.closure(roots).files)
    assert {m for m in loaded if graph.modules[m] not in files} == set()
