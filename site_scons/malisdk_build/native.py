"""The runtime for one machine: library, command and Python wheels, from native/ and bindings/python/."""

import importlib.util
import platform
import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from SCons.Action import Action
from SCons.Errors import UserError

from .options import Options

SONAME = "libmalisdk.so.0"
_BOARD_TRIPLE = "aarch64-linux-gnu.2.27"
# The Python of Debian trixie, which the device consists of.
_RUSTICL_PYTHON = "3.13"
# (triple, cpu): both clusters of an RK3399 have what a Cortex-A72 has.
_MACHINES = {"rk3399": (_BOARD_TRIPLE, "cortex_a72")}


@dataclass(frozen=True, kw_only=True)
class PythonTarget:
    """A CPython that a wheel is for. `stamp` is a node that changes with the headers, or None for unchanging ones."""

    tag: str
    include: str
    stamp: Any


@dataclass(frozen=True, kw_only=True)
class Native:
    library: Any
    command: Any
    wheels: tuple[Any, ...]


def machine_of(target: str) -> str:
    """aarch64 or x86_64."""
    return "aarch64" if target == "rk3399" else platform.machine()


def environment(base: Any, target: str) -> Any:
    """A construction environment that compiles for the target."""
    triple, cpu = _MACHINES.get(target, (f"{platform.machine()}-linux-gnu.2.27", "baseline"))
    return base.Clone(tools=["zig"], toolpath=["#site_scons/site_tools"], ZIG_TRIPLE=triple, ZIG_CPU=cpu)


def build_runtime(env: Any, target: str) -> tuple[Any, Any]:
    """libmalisdk.so.0 (with libmalisdk.so beside it) and the malisdk command."""
    out = f"build/{target}"
    library_env = env.Clone(CPPPATH=["#native/include", "#native"])
    library_env.Append(CPPDEFINES=["MALISDK_BUILD"], CCFLAGS=["-isystem", "native/third_party"])
    objects = _objects(library_env, "native/src", f"{out}/obj/lib")
    library_env.Append(
        SHLINKFLAGS=[f"-Wl,-soname,{SONAME}", "-Wl,--version-script=native/malisdk.map", "-Wl,--no-undefined"],
        LIBS=["dl", "pthread"],
    )
    library = library_env.SharedLibrary(f"{out}/lib/{SONAME}", objects, SHLIBPREFIX="", SHLIBSUFFIX="")[0]
    third_party = [f for f in sorted(Path("native/third_party").rglob("*")) if f.suffix in (".h", ".hpp")]
    env.Depends(objects, [env.File(str(f)) for f in third_party])
    env.Depends(library, env.File("native/malisdk.map"))
    link = env.Command(f"{out}/lib/libmalisdk.so", library, Action(_symlink, "ln -s ${SOURCE.file} $TARGET"))

    command_env = env.Clone(CPPPATH=["#native/include"])
    command_objects = _objects(command_env, "native/tools", f"{out}/obj/tools")
    command_env.Append(LINKFLAGS=["-Wl,-rpath,'$$ORIGIN/../lib'"], LIBPATH=[f"#{out}/lib"], LIBS=["malisdk", "pthread"])
    command = command_env.Program(f"{out}/bin/malisdk", command_objects)[0]
    env.Depends(command, link)
    _follow_zig(env, [*objects, library, *command_objects, command])
    return library, command


def _objects(env: Any, folder: str, out: str) -> list[Any]:
    sources = sorted(Path(folder).glob("*.cpp"))
    if not sources:
        raise UserError(f"{folder}: no C++ sources, got an empty folder; expected *.cpp")
    return [env.SharedObject(f"{out}/{s.stem}.o", str(s))[0] for s in sources]


def _symlink(target: list[Any], source: list[Any], env: Any) -> None:
    path = Path(str(target[0]))
    path.unlink(missing_ok=True)
    path.symlink_to(Path(str(source[0])).name)


def _follow_zig(env: Any, nodes: list[Any]) -> None:
    """The compiler's libc++ and headers change only with its version."""
    env.Depends(nodes, env.Value(f"ziglang {env['VERSIONS'].installed('ziglang')}"))


def build_wheel(base: Any, env: Any, target: str, python: PythonTarget, library: Any) -> Any:
    """The wheel of `malisdk` for one Python, compiled in `env` and packed in `base`."""
    folder = f"build/{target}/python/{python.tag}"
    ext_env = env.Clone(CPPPATH=["#native/include"])
    pybind11 = importlib.util.find_spec("pybind11")
    if pybind11 is None or pybind11.origin is None:
        raise UserError("pybind11: got no such Python package; expected it installed\nhint: ./dev")
    # As system headers, so that SCons does not look for them before the folder of a target's Python is filled.
    ext_env.Append(CCFLAGS=["-isystem", str(Path(pybind11.origin).parent / "include"), "-isystem", python.include])
    ext_env.Append(CCFLAGS=["-idirafter", "bindings/python/compat"])
    objects = _objects(ext_env, "bindings/python/src", f"{folder}/obj")
    env.Depends(objects, env.Value(f"pybind11 {env['VERSIONS'].installed('pybind11')}"))
    if python.stamp is not None:
        env.Depends(objects, python.stamp)
    ext_env.Append(SHLINKFLAGS=["-Wl,-rpath,'$$ORIGIN/_lib'"], LIBPATH=[f"#build/{target}/lib"], LIBS=["malisdk"])
    extension = ext_env.SharedLibrary(f"{folder}/_core.so", objects, SHLIBPREFIX="")[0]
    _follow_zig(env, [*objects, extension])
    name = f"malisdk-{env['VERSION']}-{python.tag}-{python.tag}-linux_{machine_of(target)}.whl"
    wheel = base.Pipeline(
        f"{folder}/{name}",
        [extension, library],
        ARGUMENTS=["wheel", "--python-tag", python.tag, "--platform", f"linux_{machine_of(target)}"]
        + ["--extension", "${SOURCES[0]}", "--library", "${SOURCES[1]}", "$LICENCE_FLAGS"],
        LICENCE_FLAGS=[word for name, file in env["LICENCES"].items() for word in ("--licence", f"{name}={file}")],
    )
    sources = [f for f in sorted(Path("bindings/python/malisdk").rglob("*")) if f.suffix in (".py", ".pyi", ".typed")]
    sources += [Path("bindings/python/README.md"), Path("LICENSE"), *env["LICENCES"].values()]
    env.Depends(wheel, [env.File(str(f)) for f in sources])
    return wheel[0]


def host_pythons(env: Any, options: Options) -> list[PythonTarget]:
    """The Python that runs the build, and that of the rusticl device's system if the smoke test runs there."""
    found = [_own_python()]
    if options.device == "rusticl" and found[0].tag != f"cp{_RUSTICL_PYTHON.replace('.', '')}":
        found.append(_debian_python(env, "host", _RUSTICL_PYTHON, ["--machine", platform.machine()]))
    return found


def _own_python() -> PythonTarget:
    include = sysconfig.get_path("include")
    if not (Path(include) / "Python.h").is_file():
        raise UserError(
            f"{include}: no Python.h, got a Python without its headers; expected them\nhint: apt install python3-dev"
        )
    return PythonTarget(tag=f"cp{sysconfig.get_config_var('py_version_nodot')}", include=include, stamp=None)


def board_pythons(env: Any, options: Options) -> list[PythonTarget]:
    """The Pythons of boards: Debian's, whose headers are fetched, and those whose headers the user has."""
    found = [_debian_python(env, options.target, version, []) for version in options.pythons]
    for include in options.python_headers:
        headers = [env.File(str(f)) for f in sorted(include.rglob("*.h"))]
        python = PythonTarget(tag=_tag(include / "patchlevel.h"), include=str(include), stamp=headers)
        found = [p for p in found if p.tag != python.tag] + [python]
    return found


def _debian_python(env: Any, target: str, version: str, machine: list[str]) -> PythonTarget:
    folder = f"build/{target}/python/headers-{version}"
    words = ["sysroot", "python-headers", "--python", version, *machine]
    listing = env.PipelineFolder(f"{folder}.sha256", [], ARGUMENTS=words)
    return PythonTarget(tag=f"cp{version.replace('.', '')}", include=folder, stamp=listing)


def _tag(patchlevel: Path) -> str:
    numbers = dict(re.findall(r"#define\s+PY_(MAJOR|MINOR)_VERSION\s+(\d+)", patchlevel.read_text(errors="replace")))
    if numbers.get("MAJOR") != "3" or "MINOR" not in numbers:
        raise UserError(f"{patchlevel}: no version of Python 3, got {numbers or 'none'}; expected PY_MAJOR_VERSION 3")
    return f"cp3{numbers['MINOR']}"
