"""One running Mesa compiler: a guest program in the oracle's system that is asked to compile, again and again."""

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from .. import log
from ..errors import ToolchainError
from . import guest, root
from .emulator import find_emulator
from .gpus import Gpu

# The first start for a GPU converts Mesa's OpenCL library, about 30 s of a free core.
_COLD_START_S = 900.0
_WARM_START_S = 300.0
# Mesa writes its cache in the background and ends when it is written.
_END_S = 120.0
_TAIL_LINES = 20


@dataclass(frozen=True, kw_only=True)
class Request:
    """One program. `options` are the OpenCL compiler's."""

    source: str
    options: str


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the driver said of a program: `code` is 0 or OpenCL's error, `stdout` and `stderr` what it printed.

    `kernels` has one mapping a kernel: name, arguments (their number), work_group (most work-items), required (the
    work-group that the source demands, zeros if it does not).
    """

    code: int
    build_log: str
    kernels: tuple[dict[str, Any], ...]
    stdout: str
    stderr: str


@dataclass(frozen=True, kw_only=True)
class Driver:
    """The OpenCL device that the driver shows: names, and the largest work-group in work-items."""

    name: str
    version: str
    driver: str
    work_group: int


class CompilerDiedError(Exception):
    """The compiler crashed, or was killed, over a program; the text says how it ended."""


class CompilerStuckError(CompilerDiedError):
    """The compiler took too long and was killed."""


class Compiler(Protocol):
    """Something that compiles one program after another until one kills it. Use it in a `with` block."""

    def compile(self, request: Request, *, timeout_s: float) -> Reply:
        """Raises CompilerDiedError; nothing more can be asked of this compiler then."""

    def cancel(self) -> None:
        """End it from another thread; a compilation that runs raises CompilerDiedError."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class MesaCompiler:
    """Mesa's OpenCL driver for one GPU, printing what it makes of kernels. `with` starts and ends it.

    Each has a copy of Mesa's warm cache to itself, since Mesa prints nothing of what it finds in its cache.
    """

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._folder: Path | None = None
        self._process: subprocess.Popen[str] | None = None
        self.driver: Driver | None = None

    def __enter__(self) -> Self:
        prepare(self._gpu)
        self._open(warm=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def compile(self, request: Request, *, timeout_s: float) -> Reply:
        assert self._process is not None and self._folder is not None
        source, stdout, stderr = (self._folder / name for name in ("program.cl", "stdout.txt", "stderr.txt"))
        source.write_text(request.source)
        for path in (stdout, stderr):
            path.unlink(missing_ok=True)
        words = {"source": str(source), "options": request.options, "stdout": str(stdout), "stderr": str(stderr)}
        try:
            _write_line(self._process, json.dumps(words))
            answer = self._read_line(timeout_s)
        except (CompilerDiedError, OSError) as e:
            self._kill()
            last = _tail(_text(stderr)) or "it printed nothing"
            if isinstance(e, CompilerStuckError):
                raise CompilerStuckError(f"{e}: {last}") from None
            raise CompilerDiedError(f"{_how_ended(self._process)}: {last}") from None
        return Reply(
            code=answer["code"],
            build_log=answer["log"],
            kernels=tuple(answer["kernels"]),
            stdout=_text(stdout),
            stderr=_text(stderr),
        )

    def cancel(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def fill_cache(self) -> None:
        """Start the driver with an empty cache, and keep what it has written when it has ended."""
        root.ensure_system()
        with log.step(f"convert Mesa's OpenCL library for {self._gpu.name}, once"):
            cache = self._open(warm=False)
            try:
                assert self._process is not None and self._process.stdin is not None
                self._process.stdin.close()
                try:
                    code = self._process.wait(timeout=_END_S)
                except subprocess.TimeoutExpired:
                    code = None
                if code != 0:
                    ended = "did not end" if code is None else _how_ended(self._process)
                    raise ToolchainError(f"oracle: Mesa's driver for {self._gpu.name}: {ended} after its start")
                assert self.driver is not None
                root.keep_warm_cache(self._gpu, cache, asdict(self.driver))
            finally:
                self._stop()

    def _open(self, *, warm: bool) -> Path:
        """Start the driver with the warm cache or an empty one; returns the folder of its cache."""
        system = root.ensure_system()
        self._folder = Path(tempfile.mkdtemp(prefix="malisdk-oracle-"))
        cache = self._folder / "cache"
        try:
            if warm:
                shutil.copytree(root.warm_cache(self._gpu), cache)
            else:
                cache.mkdir()
            self._start(system, self._folder, cache, _WARM_START_S if warm else _COLD_START_S)
        except BaseException:
            self._stop()
            raise
        return cache

    def _start(self, system: Path, folder: Path, cache: Path, timeout_s: float) -> None:
        messages = folder / "start.txt"
        program = folder / "guest.py"
        shutil.copyfile(guest.__file__, program)
        with messages.open("w") as stderr:
            self._process = subprocess.Popen(
                [
                    *(str(find_emulator()), "-L", str(system), "-E", f"LD_PRELOAD={root.SHIM}"),
                    *(str(system / "usr/bin/python3"), "-I", "-S", str(program)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=_environment(system, cache, self._gpu),
                cwd=folder,
                text=True,
                bufsize=0,
                start_new_session=True,
            )
        try:
            answer = self._read_line(timeout_s)
        except CompilerDiedError as e:
            self._kill()
            raise ToolchainError(
                f"oracle: Mesa's driver for {self._gpu.name} does not start ({e})\n{_tail(_text(messages))}".rstrip()
            ) from e
        if "error" in answer:
            raise ToolchainError(f"oracle: Mesa's driver for {self._gpu.name}: {answer['error']}")
        self.driver = Driver(**answer)
        if self._gpu.name not in self.driver.name:
            raise ToolchainError(f"oracle: Mesa shows another GPU, got {self.driver.name}; expected {self._gpu.name}")

    def _read_line(self, timeout_s: float) -> dict[str, Any]:
        """The guest's next reply. What is half-written when the guest dies is no reply."""
        assert self._process is not None and self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        end = time.monotonic() + timeout_s
        line = b""
        while not line.endswith(b"\n"):
            left_s = end - time.monotonic()
            if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
                raise CompilerStuckError(f"still compiling after {timeout_s:.0f} s")
            part = os.read(descriptor, 1 << 16)
            if not part:
                raise CompilerDiedError("the compiler ended")
            line += part
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _kill(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                # A crashing guest may still be writing its core; give it the time to say how it ends.
                try:
                    self._process.wait(timeout=0.5)
                except subprocess.TimeoutExpired:
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _stop(self) -> None:
        if self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._kill()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def prepare(gpu: Gpu) -> Driver:
    """Load the system and fill Mesa's cache for a GPU, as far as that is not done yet; returns its driver.

    Raises ToolchainError if this machine cannot have it.
    """
    if not root.is_ready(gpu):
        root.ensure_system()
        if not root.has_warm_cache(gpu):
            MesaCompiler(gpu).fill_cache()
    return Driver(**root.kept_driver(gpu))


def _environment(system: Path, cache: Path, gpu: Gpu) -> dict[str, str]:
    """All that the guest sees of the environment."""
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(cache),
        "LC_ALL": "C.UTF-8",
        "OCL_ICD_VENDORS": str(system / "etc/OpenCL/vendors/rusticl.icd"),
        "RUSTICL_ENABLE": "panfrost",
        "RUSTICL_FEATURES": "fp16",
        # One compilation a kernel, when the program is built.
        "RUSTICL_DEBUG": "no_variants",
        "PAN_GPU_ID": gpu.product_id,
        "MESA_SHADER_CACHE_DIR": str(cache),
        "MIDGARD_MESA_DEBUG": "shaders,shaderdb",
        "BIFROST_MESA_DEBUG": "shaderdb",
    }


def _write_line(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin is not None
    os.write(process.stdin.fileno(), line.encode() + b"\n")


def _how_ended(process: "subprocess.Popen[str]") -> str:
    code = process.returncode
    if code is not None and code < 0:
        return f"the compiler crashed ({signal.Signals(-code).name})"
    return f"the compiler ended with exit code {code}"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _tail(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-_TAIL_LINES:])
