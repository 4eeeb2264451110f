"""Many kernels through a few compilers that run side by side.

A compiler takes one program after another. When one kills it, a new compiler starts, and that program is tried once
more in it, alone: only what kills a fresh compiler is to blame itself. So a crash costs its own kernel and no other.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from . import results
from .compiler import Compiler, CompilerDiedError, CompilerStuckError, MesaCompiler, Reply, Request, prepare
from .cost import KernelCost, NoData, Outcome
from .gpus import Gpu
from .parse import Described, parse
from .programs import Program, plain, split
from .progress import Progress

# More compilers than this would fight for memory and cores with what the user does meanwhile; each takes about 250 MB.
PROCESSES = 2
# The worst kernel of four networks (a 7x7 convolution, all unrolled, 300 fills) takes 25 s of a free core.
TIMEOUT_S = 300.0
_UNNAMED = "(all kernels of the program)"


@dataclass(kw_only=True)
class _Task:
    program: Program
    key: str
    outcomes: list[Outcome] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class _Verdict:
    """`outcomes` is None if a fresh compiler should try; `alive` whether this one can go on."""

    outcomes: list[Outcome] | None
    alive: bool


def measure(
    sources: Sequence[str],
    gpu: Gpu,
    *,
    options: str = "",
    processes: int = PROCESSES,
    timeout_s: float = TIMEOUT_S,
    start: Callable[[], Compiler] | None = None,
    title: str = "compile",
) -> list[list[Outcome]]:
    """What the kernels of each OpenCL C text cost on a GPU; one list a text, in the order of its kernels.

    Only what the cache does not have is compiled, by `processes` compilers at once; a kernel may take `timeout_s`
    seconds. `start` makes a compiler (Mesa's for that GPU).
    Raises ToolchainError if the compiler cannot be had here or does not start.
    """
    programs = [split(source) for source in sources]
    tasks: dict[str, _Task] = {}
    for program in (plain(p) for found in programs for p in found):
        key = results.key_of(gpu, options, program.source)
        tasks.setdefault(key, _Task(program=program, key=key))
    open_tasks = []
    for task in tasks.values():
        known = results.load(task.key)
        if known is None:
            open_tasks.append(task)
        else:
            task.outcomes = known
    if open_tasks:
        if start is None:
            start = _mesa(gpu)
        with Progress(title, len(open_tasks)) as progress:
            batch = _Batch(gpu, options, timeout_s, start, progress)
            batch.run(open_tasks, min(processes, len(open_tasks)))
    return [[o for p in found for o in _outcomes(tasks, gpu, options, p)] for found in programs]


def _mesa(gpu: Gpu) -> Callable[[], Compiler]:
    prepare(gpu)
    return lambda: MesaCompiler(gpu)


def _outcomes(tasks: dict[str, _Task], gpu: Gpu, options: str, program: Program) -> list[Outcome]:
    """The outcomes of a program, under its own kernels' names."""
    found = tasks[results.key_of(gpu, options, plain(program).source)].outcomes
    if len(program.names) != 1:
        return found
    return [_renamed(outcome, program.names[0]) for outcome in found]


def _renamed(outcome: Outcome, name: str) -> Outcome:
    if isinstance(outcome, NoData):
        return NoData(name=name, reason=outcome.reason, final=outcome.final)
    return KernelCost.from_json({**outcome.to_json(), "name": name})


class _Batch:
    """The work of several threads, each with one compiler at a time."""

    def __init__(
        self, gpu: Gpu, options: str, timeout_s: float, start: Callable[[], Compiler], progress: Progress
    ) -> None:
        self._gpu = gpu
        self._options = options
        self._timeout_s = timeout_s
        self._start = start
        self._progress = progress
        self._tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self._running: list[Compiler] = []
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._failure: BaseException | None = None

    def run(self, tasks: Sequence[_Task], processes: int) -> None:
        """Fill in the tasks' outcomes. Raises what a compiler raised that is about no program."""
        # The longest first, so that no compiler is left with one at the end.
        for task in sorted(tasks, key=lambda t: -len(t.program.source)):
            self._tasks.put(task)
        workers = [threading.Thread(target=self._work, daemon=True) for _ in range(processes)]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        except BaseException:
            self._stop()
            raise
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        again: _Task | None = None
        try:
            while (again is not None or not self._tasks.empty()) and not self._stopping.is_set():
                with self._start() as compiler:
                    with self._lock:
                        self._running.append(compiler)
                    try:
                        again = self._use(compiler, again)
                    finally:
                        with self._lock:
                            self._running.remove(compiler)
        except BaseException as e:
            with self._lock:
                self._failure = self._failure or e
            self._stop()

    def _use(self, compiler: Compiler, first: _Task | None) -> _Task | None:
        """Compile until nothing is left, or the compiler is; returns the task that the next one should begin with."""
        task, fresh = first, True
        while not self._stopping.is_set():
            if task is None:
                try:
                    task = self._tasks.get_nowait()
                except queue.Empty:
                    return None
            verdict = self._compile(compiler, task.program, fresh=fresh)
            if verdict.outcomes is None:
                return task
            task.outcomes = verdict.outcomes
            results.save(task.key, verdict.outcomes)
            self._progress.advance()
            if not verdict.alive:
                return None
            task, fresh = None, False
        return None

    def _compile(self, compiler: Compiler, program: Program, *, fresh: bool) -> _Verdict:
        names = program.names or (_UNNAMED,)

        def no_data(reason: str, *, final: bool, alive: bool) -> _Verdict:
            return _Verdict(outcomes=[NoData(name=n, reason=reason, final=final) for n in names], alive=alive)

        try:
            reply = compiler.compile(Request(source=program.source, options=self._options), timeout_s=self._timeout_s)
        except CompilerStuckError as e:
            return no_data(str(e), final=False, alive=False)
        except CompilerDiedError as e:
            return no_data(str(e), final=True, alive=False) if fresh else _Verdict(outcomes=None, alive=False)
        if reply.code != 0:
            reason = f"does not build, OpenCL error {reply.code}\n{reply.build_log.strip()}".strip()
            return no_data(reason, final=True, alive=True)
        costs = parse(reply.stdout, reply.stderr, _described(reply), midgard=self._gpu.is_midgard)
        if costs is not None:
            return _Verdict(outcomes=list(costs), alive=True)
        if fresh:
            return no_data("Mesa printed no statistics of it", final=False, alive=True)
        return _Verdict(outcomes=None, alive=True)

    def _stop(self) -> None:
        with self._lock:
            self._stopping.set()
            for compiler in self._running:
                compiler.cancel()


def _described(reply: Reply) -> list[Described]:
    return [
        Described(
            name=k["name"],
            arguments=k["arguments"],
            work_group=k["work_group"],
            required=(k["required"][0], k["required"][1], k["required"][2]),
        )
        for k in reply.kernels
    ]
