"""Mesa's compiler for Mali itself: counts of known kernels, a crash among good ones, how fast it is."""

import json
import platform
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from malisdk_pipeline import container
from malisdk_pipeline.__main__ import main
from malisdk_pipeline.errors import ToolchainError
from malisdk_pipeline.oracle import KernelCost, NoData, find_gpu, measure
from malisdk_pipeline.oracle import root as oracle_root
from malisdk_pipeline.oracle.compiler import prepare
from malisdk_pipeline.plan import Buffer, Kernel, Launch, Place, Plan, TensorSpec

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(
        shutil.which("qemu-aarch64-static") is None and shutil.which("qemu-aarch64") is None,
        reason=f"qemu-user-static is not installed (this is {platform.machine()})",
    ),
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt is not installed"),
]
T860 = find_gpu("T860")

COPY = """__attribute__((reqd_work_group_size(64, 1, 1)))
__kernel void copy(__global float4* restrict o, const __global float4* restrict a) {
  o[get_global_id(0)] = a[get_global_id(0)];
}
"""
# 16 registers' worth of values that are all needed at the end: cannot be kept in the 16 that a thread has.
MANY_VALUES = 24
SPILLING = (
    "__attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "__kernel void spilling(__global float4* restrict o, const __global float4* restrict a) {\n"
    + "".join(f"  float4 v{i} = a[get_global_id(0) * {MANY_VALUES} + {i}];\n" for i in range(MANY_VALUES))
    + "  for (int i = 0; i < 1000; ++i) {\n"
    + "".join(f"    v{i} = mad(v{i}, v{i + 1}, v{(i + 7) % MANY_VALUES});\n" for i in range(MANY_VALUES - 1))
    + "  }\n"
    + "".join(f"  o[get_global_id(0) * {MANY_VALUES} + {i}] = v{i};\n" for i in range(MANY_VALUES))
    + "}\n"
)
CRASHING = "__kernel void crashing(__global float4* o) { o[get_global_id(0)] = log(o[get_global_id(0)]); }\n"
REFUSED = "__kernel void refused(__global float4* o) { o[0] = no_such_function(1); }\n"


def gemm(steps: int) -> str:
    """A loop of four vec4 mads on five loads."""
    return f"""__attribute__((reqd_work_group_size(8, 4, 1)))
__kernel void gemm_{steps}(__global float4* restrict o, const __global float4* restrict a,
                           const __global float4* restrict w) {{
  const int x = get_global_id(0);
  float4 c = 0.0f;
  for (int k = 0; k < {steps}; ++k) {{
    const float4 d = a[k * 3136 + x];
    c = mad((float4)(d.s0), w[k * 4], c);
    c = mad((float4)(d.s1), w[k * 4 + 1], c);
    c = mad((float4)(d.s2), w[k * 4 + 2], c);
    c = mad((float4)(d.s3), w[k * 4 + 3], c);
  }}
  o[x] = c;
}}
"""


@pytest.fixture(scope="module", autouse=True)
def ready() -> None:
    try:
        prepare(T860)
    except ToolchainError as e:
        if "package lists" in str(e) or "mirror" in str(e):
            pytest.skip(f"Debian's arm64 packages cannot be loaded: {e}")
        raise


@pytest.fixture
def empty_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing remembered of earlier runs; the unpacked system stays."""
    here = tmp_path / "cache" / "oracle"
    here.mkdir(parents=True)
    for entry in oracle_root.place_of(oracle_root.RECIPE).parent.iterdir():
        if entry.name != "results":
            (here / entry.name).symlink_to(entry)
    monkeypatch.setenv("MALISDK_CACHE_DIR", str(tmp_path / "cache"))
    yield


def cost(source: str) -> KernelCost:
    (outcome,) = measure([source], T860)[0]
    assert isinstance(outcome, KernelCost)
    return outcome


@pytest.mark.usefixtures("empty_results")
def test_counts_of_small_kernels_are_those_of_their_source() -> None:
    copy, loop = cost(COPY), cost(gemm(640))
    assert copy.bundles is not None
    assert (copy.bundles.texture, copy.bundles.vec4_mads, copy.loops) == (0, 0, ())
    assert (copy.threads, copy.spills, copy.required, copy.arguments) == (256, 0, (64, 1, 1), 2)
    (inner,) = loop.loops
    assert (inner.bundles.vec4_mads, inner.bundles.load_store) == (4, 5)


def test_spilling_kernel_shows_spills_and_few_threads() -> None:
    found = cost(SPILLING)
    assert found.registers == 16 and found.threads == 64
    assert found.spills >= MANY_VALUES - 16 and found.fills >= found.spills


@pytest.mark.usefixtures("empty_results")
def test_crash_and_refusal_among_good_kernels_cost_no_neighbour() -> None:
    sources = [gemm(100), CRASHING, gemm(200), REFUSED, COPY, gemm(300)]
    outcomes = [group[0] for group in measure(sources, T860)]
    assert [o.name for o in outcomes] == ["gemm_100", "crashing", "gemm_200", "refused", "copy", "gemm_300"]
    assert [isinstance(o, NoData) for o in outcomes] == [False, True, False, True, False, False]
    crash, refusal = outcomes[1], outcomes[3]
    assert isinstance(crash, NoData) and "the compiler crashed (SIG" in crash.reason
    assert isinstance(refusal, NoData) and "no_such_function" in refusal.reason


@pytest.mark.usefixtures("empty_results")
def test_batch_of_kernels_loses_none_and_says_how_fast(capsys: pytest.CaptureFixture[str]) -> None:
    count = 24
    start = time.perf_counter()
    outcomes = measure([gemm(1000 + i) for i in range(count)], T860)
    seconds = time.perf_counter() - start
    assert all(isinstance(group[0], KernelCost) for group in outcomes)
    with capsys.disabled():
        print(f"\noracle: {count} kernels in {seconds:.1f} s, {count / seconds:.2f} a second, with two starts")
    start = time.perf_counter()
    assert measure([gemm(1000 + i) for i in range(count)], T860) == outcomes
    assert time.perf_counter() - start < 5


def model(path: Path, source: str, local_size: tuple[int, int, int]) -> Path:
    size = 4 * 64 * 4
    tensor = {"dtype": "float32", "shape": (64, 4)}
    plan = Plan(
        model_name="copy",
        target="rk3399",
        dtype="float32",
        inputs=(TensorSpec(name="x", buffer=0, **tensor),),  # type: ignore[arg-type]
        outputs=(TensorSpec(name="y", buffer=1, **tensor),),  # type: ignore[arg-type]
        buffers=(Buffer(place=Place.INPUT, size_bytes=size), Buffer(place=Place.OUTPUT, size_bytes=size)),
        kernels=(Kernel(name="copy", source=source, local_size=local_size),),
        launches=(Launch(kernel=0, buffers=(1, 0), global_size=(64, 1, 1), layer="", rule="r", flops=0, bytes=0),),
        weights=b"",
        arena_bytes=0,
        metadata={},
    )
    container.write(path, plan)
    return path


def test_check_passes_a_good_model_and_refuses_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = model(tmp_path / "good.mali", COPY, (64, 1, 1))
    assert main(["oracle", "check", str(good)]) == 0
    assert "Mali-T860" in capsys.readouterr().out
    for name, source, local_size, expected in (
        ("group", COPY, (32, 1, 1), "got 32x1x1; expected 64x1x1"),
        ("source", REFUSED.replace("refused", "copy"), (64, 1, 1), "no_such_function"),
    ):
        bad = model(tmp_path / f"{name}.mali", source, local_size)
        assert main(["oracle", "check", str(bad)]) == 8
        assert expected in capsys.readouterr().out


def test_command_prints_tables_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "kernels.cl"
    text.write_text(COPY + gemm(640))
    compiled = model(tmp_path / "copy.mali", COPY, (64, 1, 1))
    assert main(["oracle", str(text), str(compiled)]) == 0
    printed = capsys.readouterr().out
    assert "inner loop" in printed and "gemm_640" in printed
    assert main(["oracle", str(text), "--json"]) == 0
    kernels = json.loads(capsys.readouterr().out)["files"][str(text)]
    assert [k["name"] for k in kernels] == ["copy", "gemm_640"]
    assert kernels[1]["per_vec4_mad"]["load_store"] == 1.25


def test_machine_without_qemu_gets_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("MALISDK_CACHE_DIR", "/nonexistent/cache")
    assert main(["oracle", "setup"]) == 6
    assert "qemu-aarch64-static: program not found" in capsys.readouterr().err
