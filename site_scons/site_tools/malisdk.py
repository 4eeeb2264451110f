"""SCons tool: steps that are commands of `python -m malisdk_pipeline`.

env.Pipeline(target, source, ARGUMENTS=[...]) runs a command that writes --out $TARGET;
env.PipelineFolder("x.sha256", source, ARGUMENTS=[...]) one that writes the folder x, listed in x.sha256;
env.PipelineReport("x.txt", source, ARGUMENTS=[...]) one whose printed result is what is kept.

Beside its sources, a step depends on exactly the files of the pipeline that its command can load, and on the versions
of the packages that they import. EXTRA_MODULES names files outside the pipeline that the command loads too.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from SCons.Action import Action
from SCons.Builder import Builder
from SCons.Defaults import Delete
from SCons.Errors import UserError

from malisdk_build import folders
from malisdk_build.imports import ImportGraph, SourceSyntaxError
from malisdk_build.versions import Versions

PACKAGE = "malisdk_pipeline"
# Its commands are found by looking into their folder; only the one that is called matters.
_MAIN = f"{PACKAGE}.__main__"
_COMMAND = "$PYTHON -m malisdk_pipeline $ARGUMENTS"


def _depend(target: list[Any], source: list[Any], env: Any) -> tuple[list[Any], list[Any]]:
    command = str(env["ARGUMENTS"][0]).replace("-", "_")
    module = f"{PACKAGE}.commands.{command}"
    roots: list[str | Path] = [_MAIN, module, *(Path(p) for p in env.get("EXTRA_MODULES", []))]
    graph: ImportGraph = env["IMPORT_GRAPH"]
    if module not in graph.modules:
        raise UserError(f"pipeline/commands/{command}.py: got no such file; expected the command {command}")
    try:
        closure = graph.closure(roots, enumerates=frozenset({_MAIN}))
    except SourceSyntaxError as e:
        raise UserError(str(e)) from e
    env.Depends(target, [env.File(str(f)) for f in closure.files])
    env.Depends(target, env.Value(env["VERSIONS"].signature(closure.foreign)))
    return target, source


def _depend_folder(target: list[Any], source: list[Any], env: Any) -> tuple[list[Any], list[Any]]:
    listing = Path(str(target[0]))
    env.Clean(target, env.Dir(str(folders.folder_of(listing))))
    if listing.exists() and not folders.is_complete(listing):
        env.AlwaysBuild(target)
    return _depend(target, source, env)


def _keep_output(target: list[Any], source: list[Any], env: Any) -> int:
    """SCons action: the target appears only when the command ends well; what a failed one printed is shown."""
    command = env.subst_list(_COMMAND, target=target, source=source)[0]
    start = time.perf_counter()
    done = subprocess.run(
        list(map(str, command)), env=env["ENV"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
    )
    if done.returncode != 0:
        sys.stdout.write(done.stdout.decode(errors="replace"))
        return done.returncode
    Path(str(target[0])).write_bytes(done.stdout)
    env["SECONDS"].record(str(target[0]), time.perf_counter() - start)
    return 0


def generate(env: Any) -> None:
    root = Path(env.Dir("#").abspath)
    env.SetDefault(PYTHON=sys.executable, VERSIONS=Versions(root / "pyproject.toml"))
    env["IMPORT_GRAPH"] = ImportGraph(PACKAGE, Path("pipeline"))
    env["ENV"] = dict(os.environ) | {"PYTHONPATH": _import_path(root)}
    env["SPAWN"] = env["SECONDS"].timed(env["SPAWN"])
    env["BUILDERS"]["Pipeline"] = Builder(action=f"{_COMMAND} --out $TARGET", emitter=_depend)
    env["BUILDERS"]["PipelineFolder"] = Builder(
        action=[
            Delete("${TARGETS[0].base}"),
            f"{_COMMAND} --out ${{TARGETS[0].base}}",
            Action(folders.write_listing, None),
        ],
        emitter=_depend_folder,
    )
    env["BUILDERS"]["PipelineReport"] = Builder(
        action=Action(_keep_output, f"{_COMMAND} > $TARGET", varlist=["ARGUMENTS"]), emitter=_depend
    )


def _import_path(root: Path) -> str:
    """A folder in which this tree's pipeline has its import name, before whatever else PYTHONPATH holds."""
    folder = root / "build" / "import"
    link = folder / PACKAGE
    if not link.is_symlink():
        folder.mkdir(parents=True, exist_ok=True)
        link.symlink_to(Path("..", "..", "pipeline"))
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


def exists(env: Any) -> bool:
    return True
