"""What the dry run on Mesa's driver finds fault with, by what the driver says of a kernel."""

import dataclasses
from collections.abc import Sequence

import pytest
from malisdk_pipeline.oracle import KernelCost, NoData, Outcome, check, find_gpu
from malisdk_pipeline.oracle.compiler import Driver
from malisdk_pipeline.plan import Kernel, Launch, Plan

DRIVER = Driver(name="Mali-T860 (Panfrost)", version="OpenCL 3.0", driver="25.0.7", work_group=128)
COST = KernelCost(
    name="k",
    registers=9,
    threads=64,
    spills=0,
    fills=0,
    bundles=None,
    loops=(),
    statistics={},
    arguments=2,
    work_group=64,
    required=(8, 4, 1),
    warnings=(),
)
LAUNCH = Launch(kernel=0, buffers=(0, 1), global_size=(16, 8, 1), layer="", rule="", flops=0, bytes=0)


def plan(local_size: tuple[int, int, int], *launches: Launch) -> Plan:
    return Plan(
        model_name="m",
        target="rk3399",
        dtype="float32",
        inputs=(),
        outputs=(),
        buffers=(),
        kernels=(Kernel(name="k", source="", local_size=local_size),),
        launches=launches,
        weights=b"",
        arena_bytes=0,
        metadata={},
    )


def problems(monkeypatch: pytest.MonkeyPatch, found: Sequence[Outcome], what: Plan) -> tuple[str, ...]:
    monkeypatch.setattr(check, "prepare", lambda gpu: DRIVER)
    monkeypatch.setattr(check, "measure", lambda sources, gpu, title: [list(found)])
    result = check.check_plan(what, find_gpu("T860"))
    assert result.passed == (not result.kernels[0].problems)
    assert all(problem in str(result) for problem in result.kernels[0].problems)
    return result.kernels[0].problems


def test_fitting_kernel_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert problems(monkeypatch, [COST], plan((8, 4, 1), LAUNCH)) == ()


@pytest.mark.parametrize(("kernel_limit", "expected"), [(16, 16), (256, 128)])
def test_work_group_above_kernel_or_device_limit_fails(
    monkeypatch: pytest.MonkeyPatch, kernel_limit: int, expected: int
) -> None:
    cost = dataclasses.replace(COST, work_group=kernel_limit, required=(16, 16, 1))
    (problem,) = problems(monkeypatch, [cost], plan((16, 16, 1)))
    assert problem == f"work-group too large, got 16x16x1 = 256; expected at most {expected}"


def test_other_work_group_than_the_source_demands_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    (problem,) = problems(monkeypatch, [COST], plan((4, 8, 1), LAUNCH))
    assert "got 4x8x1; expected 8x4x1" in problem


def test_wrong_arguments_and_ragged_launch_fail_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    ragged = dataclasses.replace(LAUNCH, buffers=(0,), global_size=(12, 8, 1))
    found = problems(monkeypatch, [COST], plan((8, 4, 1), ragged, ragged))
    assert found == (
        "wrong number of arguments, got 1; expected 2",
        "work-items are no whole work-groups, got 12x8x1; expected multiples of 8x4x1",
    )


def test_kernel_that_does_not_build_or_is_missing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = NoData(name="k", reason="does not build, OpenCL error -11")
    assert problems(monkeypatch, [refused], plan((8, 4, 1))) == ("does not build, OpenCL error -11",)
    (problem,) = problems(monkeypatch, [dataclasses.replace(COST, name="other")], plan((8, 4, 1)))
    assert "got kernels other; expected k" in problem


def test_kernel_that_only_lacks_buffers_here_is_named_and_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "the compiler crashed (SIGSEGV): SHADER-DB: 159 inst\nMESA: error: export failed"
    monkeypatch.setattr(check, "prepare", lambda gpu: DRIVER)
    monkeypatch.setattr(check, "measure", lambda sources, gpu, title: [[NoData(name="k", reason=reason)]])
    result = check.check_plan(plan((8, 4, 1)), find_gpu("T860"))
    assert result.passed
    assert "0 kernels build" in str(result)
    assert "not to be tried without the board's kernel driver: k" in str(result)


def test_kernel_that_crashes_the_compiler_otherwise_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    crashed = NoData(name="k", reason="the compiler crashed (SIGSEGV): nir_validate")
    assert problems(monkeypatch, [crashed], plan((8, 4, 1))) == (crashed.reason,)
