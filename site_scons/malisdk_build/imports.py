"""Which files a Python module can load: its imports, and theirs, read from the sources without running them."""

import ast
import functools
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# A module that calls one of these loads by name what no reader can see: everything in its folder counts then.
_DYNAMIC_CALLS = frozenset({"__import__", "import_module", "iter_modules", "walk_packages"})
_CONSTANT = re.compile(r"__\w+__|[A-Z][A-Z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class Imports:
    """What one file imports, at module level and inside functions. Names are dotted and absolute.

    constants: packages of which only constants, such as __version__, are taken: none of their functions can run.
    """

    modules: frozenset[str]
    at_module_level: frozenset[str]
    constants: frozenset[str]
    dynamic: bool


@dataclass(frozen=True, kw_only=True)
class Closure:
    """The files that a root can load, sorted, and the top-level names of the foreign packages among its imports."""

    files: tuple[Path, ...]
    foreign: tuple[str, ...]


class SourceSyntaxError(Exception):
    """A Python file that cannot be parsed: `<file>:<line>: <what>`."""


class ImportGraph:
    """The modules of one package, kept in `folder`, which may have another name than the package."""

    def __init__(self, package: str, folder: Path) -> None:
        self.package = package
        self.folder = folder
        self.modules = {self._name(path): path for path in sorted(folder.rglob("*.py"))}

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self.folder).with_suffix("").parts
        return ".".join((self.package, *(parts[:-1] if parts[-1] == "__init__" else parts)))

    @functools.cache  # noqa: B019  (one graph a build)
    def imports(self, path: Path, module: str) -> Imports:
        """The imports of one file; `module` is the name that its relative imports start from."""
        try:
            tree = ast.parse(path.read_bytes(), filename=str(path))
        except SyntaxError as e:
            raise SourceSyntaxError(f"{path}:{e.lineno}: syntax error: {e.msg}") from e
        base = module if path.name == "__init__.py" else module.rpartition(".")[0]
        everywhere: set[str] = set()
        at_module_level: set[str] = set()
        constants: set[str] = set()
        for node in _running_code(tree, into_functions=True):
            everywhere |= self._imported(node, base, constants)
        for node in _running_code(tree, into_functions=False):
            at_module_level |= self._imported(node, base, set())
        return Imports(
            modules=frozenset(everywhere),
            at_module_level=frozenset(at_module_level),
            constants=frozenset(constants),
            dynamic=any(_called_name(node) in _DYNAMIC_CALLS for node in ast.walk(tree)),
        )

    def _imported(self, node: ast.AST, base: str, constants: set[str]) -> set[str]:
        if isinstance(node, ast.Import):
            return {alias.name for alias in node.names}
        if not isinstance(node, ast.ImportFrom):
            return set()
        origin = node.module or ""
        if node.level:
            parts = base.split(".")
            origin = ".".join(parts[: len(parts) - node.level + 1] + ([origin] if origin else []))
        # `from package import name`: the name may be a module of the package or something inside it.
        modules = {f"{origin}.{alias.name}" for alias in node.names} & self.modules.keys()
        inside = [alias.name for alias in node.names if f"{origin}.{alias.name}" not in modules]
        if inside and all(_CONSTANT.fullmatch(name) for name in inside):
            constants.add(origin)
            return modules
        return modules | {origin} if inside else modules

    def closure(self, roots: Iterable[str | Path], *, enumerates: frozenset[str] = frozenset()) -> Closure:
        """All files that the roots (module names, or files outside the package) can load, data files beside them too.

        enumerates: modules whose loading by name is not followed, because the caller names what they load.
        """
        todo = [(r, self.modules[r], True) if isinstance(r, str) else (r.stem, r, True) for r in roots]
        seen: dict[Path, bool] = {}
        foreign: set[str] = set()
        while todo:
            module, path, functions = todo.pop()
            if path in seen and (seen[path] or not functions):
                continue
            seen[path] = functions
            found = self.imports(path, module)
            # A package that is only on the way to one of its modules runs no function of its own.
            names = dict.fromkeys(found.modules if functions else found.at_module_level, True)
            names |= dict.fromkeys(found.constants - names.keys(), False)
            if module in self.modules:
                names.setdefault(module, functions)
                if found.dynamic and module not in enumerates:
                    names |= dict.fromkeys((n for n, p in self.modules.items() if p.is_relative_to(path.parent)), True)
            for name, runs in names.items():
                if name.partition(".")[0] != self.package:
                    foreign.add(name.partition(".")[0])
                    continue
                parts = name.split(".")
                for depth in range(1, len(parts) + 1):
                    prefix = ".".join(parts[:depth])
                    if prefix in self.modules:
                        todo.append((prefix, self.modules[prefix], runs and depth == len(parts)))
        packages = {path.parent for path in seen if path.is_relative_to(self.folder)}
        data = {file for folder in packages for file in _data_files(folder)}
        foreign -= sys.stdlib_module_names
        return Closure(files=tuple(sorted(seen.keys() | data)), foreign=tuple(sorted(foreign)))


def _running_code(tree: ast.AST, *, into_functions: bool) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`, which never runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and _name(node.test) == "TYPE_CHECKING":
            for other in node.orelse:
                yield other
                yield from _running_code(other, into_functions=into_functions)
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not into_functions:
            continue
        yield node
        yield from _running_code(node, into_functions=into_functions)


def _called_name(node: ast.AST) -> str:
    return _name(node.func) if isinstance(node, ast.Call) else ""


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _data_files(package: Path) -> Iterator[Path]:
    """Files of a package that are no Python, in its own folder and in sub-folders that are no packages."""
    for path in package.iterdir():
        if path.name == "__pycache__" or path.name.startswith("."):
            continue
        if path.is_dir():
            if not (path / "__init__.py").exists():
                yield from _data_files(path)
        elif path.suffix not in (".py", ".pyc"):
            yield path
