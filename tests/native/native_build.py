"""Builds the runtime, the command and the test stub with the host's g++, once per state of the sources."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "native"
HERE = Path(__file__).resolve().parent
BUILD = ROOT / "build" / "tests-native"

_COMMON = (
    "-std=c++17",
    "-g",
    "-fPIC",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wall",
    "-Wextra",
    "-Werror",
)
VARIANTS = {
    "plain": ("-O1",),
    "asan": ("-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
    "tsan": ("-O1", "-fno-omit-frame-pointer", "-fsanitize=thread"),
}


@dataclass(frozen=True, kw_only=True)
class Built:
    library: Path
    command: Path
    stub: Path
    empty: Path
    example_c: Path
    example_cpp: Path


def build(variant: str) -> Built:
    """Raises CalledProcessError with the compiler's output for a source that does not compile without a warning."""
    flags = (*_COMMON, *VARIANTS[variant])
    digest = hashlib.sha256(repr(flags).encode())
    for source in _sources():
        digest.update(str(source.relative_to(ROOT)).encode() + source.read_bytes())
    folder = BUILD / f"{variant}-{digest.hexdigest()[:16]}"
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / f"{variant}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            for old in BUILD.glob(f"{variant}-*"):
                shutil.rmtree(old)
            fresh = BUILD / f"{variant}.new"
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            _build(fresh, flags)
            fresh.rename(folder)
    return Built(
        library=folder / "libmalisdk.so.0",
        command=folder / "malisdk",
        stub=folder / "libstub_opencl.so",
        empty=folder / "libempty.so",
        example_c=folder / "example_c",
        example_cpp=folder / "example_cpp",
    )


def _sources() -> list[Path]:
    folders = [NATIVE / name for name in ("src", "tools", "include", "schema", "examples", "third_party")]
    found = [p for folder in folders for p in folder.rglob("*") if p.is_file()]
    return sorted([*found, NATIVE / "malisdk.map", HERE / "stub_opencl.cpp", HERE / "native_build.py"])


def _build(out: Path, flags: tuple[str, ...]) -> None:
    include = f"-I{NATIVE / 'include'}"
    library_flags = (*flags, "-DMALISDK_BUILD", include, f"-I{NATIVE}", "-isystem", str(NATIVE / "third_party"))
    jobs = []
    for name, command_flags in (("src", library_flags), ("tools", (*flags, include))):
        (out / name).mkdir()
        jobs += [
            ["g++", *command_flags, "-c", str(source), "-o", str(out / name / f"{source.stem}.o")]
            for source in sorted((NATIVE / name).glob("*.cpp"))
        ]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        list(pool.map(_run, jobs))
    sanitize = [flag for flag in flags if flag.startswith("-fsanitize")]
    shared = ["g++", "-shared", *sanitize]
    # Sanitized objects leave the sanitizer's own symbols to the program.
    strict = [] if sanitize else ["-Wl,--no-undefined"]
    _run(
        [
            *shared,
            *sorted(str(p) for p in (out / "src").glob("*.o")),
            "-Wl,-soname,libmalisdk.so.0",
            f"-Wl,--version-script={NATIVE / 'malisdk.map'}",
            "-Wl,--gc-sections",
            *strict,
            "-o",
            str(out / "libmalisdk.so.0"),
            "-ldl",
            "-lpthread",
        ]
    )
    (out / "libmalisdk.so").symlink_to("libmalisdk.so.0")
    link = [f"-L{out}", "-lmalisdk", "-Wl,-rpath,$ORIGIN", "-lpthread"]
    _run(["g++", *sanitize, *sorted(str(p) for p in (out / "tools").glob("*.o")), "-o", str(out / "malisdk"), *link])
    examples = NATIVE / "examples"
    strict_c = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", include]
    _run(["gcc", *strict_c, *sanitize, str(examples / "c" / "classify.c"), "-o", str(out / "example_c"), *link])
    strict_cpp = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", include]
    _run(["g++", *strict_cpp, *sanitize, str(examples / "cpp" / "classify.cpp"), "-o", str(out / "example_cpp"), *link])
    stub = ["-std=c++17", "-O1", "-fPIC", "-isystem", str(NATIVE / "third_party"), str(HERE / "stub_opencl.cpp")]
    _run([*shared, *stub, "-o", str(out / "libstub_opencl.so"), "-ldl"])
    _run([*shared, "-x", "c++", "/dev/null", "-o", str(out / "libempty.so")])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
