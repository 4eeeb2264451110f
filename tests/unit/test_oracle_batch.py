"""The way of many kernels through compilers that crash, hang or refuse: a fake one that does so on demand."""

import threading
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import pytest
from malisdk_pipeline.errors import ToolchainError
from malisdk_pipeline.oracle import NoData, find_gpu, measure
from malisdk_pipeline.oracle.compiler import CompilerDiedError, CompilerStuckError, Reply, Request
from malisdk_pipeline.oracle.programs import PLAIN_NAME, split

GPU = find_gpu("G52")  # whose summary is all there is to read


class FakeCompiler:
    """Compiles anything; words in the source make it crash, hang, refuse or keep silent."""

    lock = threading.Lock()
    starts = 0
    compiled: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        self.asked = 0

    def __enter__(self) -> Self:
        with FakeCompiler.lock:
            FakeCompiler.starts += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def cancel(self) -> None: ...

    def compile(self, request: Request, *, timeout_s: float) -> Reply:
        with FakeCompiler.lock:
            FakeCompiler.compiled[request.source] += 1
        self.asked += 1
        if "CRASH" in request.source or ("TIRED" in request.source and self.asked > 1):
            raise CompilerDiedError("the compiler crashed (SIGSEGV)")
        if "HANG" in request.source:
            raise CompilerStuckError(f"still compiling after {timeout_s:.0f} s")
        refused = "REFUSE" in request.source
        kernel = {"name": PLAIN_NAME, "arguments": 1, "work_group": 256, "required": [0, 0, 0]}
        summary = f"shader: {len(request.source)} inst, 2 threads, 0:0 spills:fills\n"
        return Reply(
            code=-11 if refused else 0,
            build_log="no such function" if refused else "",
            kernels=() if refused else (kernel,),
            stdout="",
            stderr="" if "SILENT" in request.source else summary,
        )


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALISDK_CACHE_DIR", str(tmp_path))
    FakeCompiler.starts = 0
    FakeCompiler.compiled = Counter()


def kernel(name: str, word: str = "") -> str:
    return f"__kernel void {name}(__global int* a) {{ a[0] = {sum(map(ord, name))}; /* {word} */ }}\n"


def run(*sources: str, processes: int = 2) -> list[object]:
    """Instructions, or the reason for having none, of every kernel."""
    found = measure(sources, GPU, processes=processes, timeout_s=7, start=FakeCompiler)
    return [o.reason if isinstance(o, NoData) else o.statistics["inst"] for outcomes in found for o in outcomes]


@pytest.mark.parametrize("processes", [1, 2])
def test_crash_costs_its_own_kernel_only(processes: int) -> None:
    names = [f"k{i}" for i in range(12)]
    found = run(*(kernel(n, "CRASH" if n in ("k3", "k7") else "") for n in names), processes=processes)
    assert [i for i, f in enumerate(found) if isinstance(f, str)] == [3, 7]
    assert found[3] == "the compiler crashed (SIGSEGV)"


def test_kernel_that_crashes_a_used_compiler_only_is_not_to_blame() -> None:
    found = run(kernel("first"), kernel("second", "TIRED"), kernel("third", "TIRED"), processes=1)
    assert all(isinstance(f, float) for f in found)
    assert FakeCompiler.starts <= 4


def test_hanging_kernel_is_no_data_and_asked_again_next_time() -> None:
    assert run(kernel("good"), kernel("slow", "HANG"))[1] == "still compiling after 7 s"
    FakeCompiler.compiled = Counter()
    run(kernel("good"), kernel("slow", "HANG"))
    assert sum(FakeCompiler.compiled.values()) == 1


def test_refused_kernel_says_why_and_the_compiler_goes_on() -> None:
    found = run(kernel("bad", "REFUSE"), kernel("good"), processes=1)
    assert found[0] == "does not build, OpenCL error -11\nno such function"
    assert isinstance(found[1], float)
    assert FakeCompiler.starts == 1


def test_silent_compiler_is_tried_afresh_once() -> None:
    (found,) = run(kernel("mute", "SILENT"))
    assert found == "Mesa printed no statistics of it"
    assert run(kernel("loud"), kernel("mute", "SILENT"), processes=1)[1] == found


def test_known_kernels_are_not_compiled_again_crashes_too() -> None:
    sources = [kernel("a"), kernel("b", "CRASH"), kernel("c", "REFUSE")]
    first = run(*sources)
    FakeCompiler.compiled = Counter()
    assert run(*sources) == first
    assert not FakeCompiler.compiled


def test_kernels_that_differ_in_name_only_are_compiled_once() -> None:
    one, other = kernel("conv_1"), kernel("conv_1").replace("conv_1", "conv_2")
    found = measure([one, other], GPU, start=FakeCompiler)
    assert [outcomes[0].name for outcomes in found] == ["conv_1", "conv_2"]
    assert list(FakeCompiler.compiled.values()) == [1]


def test_options_and_gpu_are_part_of_what_is_remembered() -> None:
    for options, gpu in (("", "G52"), ("-DX", "G52"), ("", "G31")):
        measure([kernel("a")], find_gpu(gpu), options=options, start=FakeCompiler)
    assert list(FakeCompiler.compiled.values()) == [3]


def test_damaged_memory_is_compiled_again(tmp_path: Path) -> None:
    first = run(kernel("a"))
    (file,) = (tmp_path / "oracle" / "results").rglob("*.json")
    for text in ("", "{", '[{"name": "a"}]', "[1]"):
        file.write_text(text)
        assert run(kernel("a")) == first
    assert list(FakeCompiler.compiled.values()) == [5]


def test_compiler_that_does_not_start_is_an_error() -> None:
    def start() -> FakeCompiler:
        raise ToolchainError("no qemu")

    with pytest.raises(ToolchainError, match="no qemu"):
        measure([kernel("a"), kernel("b")], GPU, start=start)


TWO = """#define N 4
// __kernel void not_this(
float helper(float x) { return x * N; }
__attribute__((reqd_work_group_size(8, 4, 1)))
__kernel void one(__global float* a) { if (a[0] > 0) { a[0] = helper(a[1]); } }
/* __kernel void nor_this() {} */
kernel __attribute__((vec_type_hint(float4))) void two(__global float* a,
    __global float* b) { a[0] = b[0]; }
"""


def test_each_kernel_of_a_text_gets_a_program_with_the_helpers() -> None:
    one, two = split(TWO)
    assert (one.names, two.names) == (("one",), ("two",))
    assert "helper(float x)" in one.source and "helper(float x)" in two.source
    assert "void two" not in one.source and "reqd_work_group_size" in one.source
    assert "void one" not in two.source and "reqd_work_group_size" not in two.source


@pytest.mark.parametrize(
    "text",
    [
        "#define K(n) __kernel void n(__global int* a) { a[0] = 1; }\nK(x)\nK(y)\n",
        "__kernel void a(__global int* p) { p[0] = 1; }\n__kernel void b(__global int* p) { a(p); }\n",
        "int not_a_kernel(int x) { return x; }\n",
    ],
    ids=["macro", "call", "none"],
)
def test_text_that_cannot_be_taken_apart_stays_whole(text: str) -> None:
    (program,) = split(text)
    assert program.source == text
