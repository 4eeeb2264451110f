"""OpenCL libraries and drivers that are missing, foreign, limited or failing."""

from pathlib import Path

import native_plans as plans
import native_stub
import pytest
from native_abi import Abi, failure
from native_build import Built
from native_stub import Stub

pytestmark = pytest.mark.usefixtures("cache")

SMALL_ERROR = -30  # CL_INVALID_VALUE: an error that nothing treats specially


def test_missing_library_names_what_was_tried(abi: Abi, monkeypatch: pytest.MonkeyPatch):
    error = failure(lambda: abi.load(plans.pack(), opencl_library="/nowhere/libOpenCL.so"))
    assert error.status == "NO_OPENCL" and "/nowhere/libOpenCL.so" in str(error) and "hint:" in str(error)
    monkeypatch.setenv("MALISDK_OPENCL_LIBRARY", "/elsewhere/libOpenCL.so")
    error = failure(lambda: abi.load(plans.pack()))
    assert error.status == "NO_OPENCL" and "/elsewhere/libOpenCL.so" in str(error)


def test_library_without_entry_points_is_refused_by_name(abi: Abi, built: Built):
    error = failure(lambda: abi.load(plans.pack(), opencl_library=str(built.empty)))
    assert error.status == "NO_OPENCL" and "lacks: clBuildProgram" in str(error) and "clSetKernelArg" in str(error)


def test_failed_search_may_be_repeated(abi: Abi, stub: Stub, tmp_path: Path):
    path = tmp_path / "libOpenCL.so"
    assert failure(lambda: abi.load(plans.pack(), opencl_library=str(path))).status == "NO_OPENCL"
    path.symlink_to(stub.path)
    abi.load(plans.pack(), opencl_library=str(path)).close()


def test_library_without_platform_has_no_device(abi: Abi, stub: Stub):
    stub.no_platforms()
    error = failure(lambda: abi.load(plans.pack(), opencl_library=str(stub.path)))
    assert error.status == "NO_DEVICE" and "no platform at all" in str(error)


@pytest.mark.parametrize("device", ["gpu", "Mali-T860"])
def test_device_that_is_not_there_lists_the_others(abi: Abi, stub: Stub, device: str):
    error = failure(lambda: abi.load(plans.pack(), opencl_library=str(stub.path), device=device))
    assert error.status == "NO_DEVICE" and f"device '{device}'" in str(error) and " on " in str(error)


def test_unavailable_device_is_left_out(abi: Abi, stub: Stub):
    stub.limit(native_stub.DEVICE_AVAILABLE, 0)
    assert failure(lambda: abi.load(plans.pack(), opencl_library=str(stub.path))).status == "NO_DEVICE"


def load_and_run(abi: Abi, stub: Stub) -> None:
    inputs = plans.make_inputs()
    with abi.load(plans.pack(), opencl_library=str(stub.path), cache_dir="") as model, model.session() as session:
        plans.check(session.run(inputs, plans.empty_outputs()), inputs)


def assert_clean(abi: Abi, stub: Stub, live: int) -> None:
    """Nothing leaked, and the process still works."""
    assert stub.live() == live
    stub.reset()
    load_and_run(abi, stub)
    assert stub.live() == live


def test_every_call_of_load_run_and_unload_is_balanced(abi: Abi, stub: Stub):
    live = stub.live()
    load_and_run(abi, stub)
    assert stub.live() == live


@pytest.mark.parametrize("code", [SMALL_ERROR, native_stub.OUT_OF_HOST_MEMORY])
@pytest.mark.parametrize("name", native_stub.LOAD_CALLS)
def test_call_that_fails_while_loading_is_a_clean_status(abi: Abi, stub: Stub, name: str, code: int):
    live = stub.live()
    load_and_run(abi, stub)
    stub.reset()
    abi.load(plans.pack(), opencl_library=str(stub.path), cache_dir="").close()
    total = stub.calls(name)
    assert total > 0
    for nth in sorted({1, 2, total // 2, total} - {0}):
        stub.reset()
        stub.fail(name, code, nth)
        if nth > total:
            continue
        error = failure(lambda: abi.load(plans.pack(), opencl_library=str(stub.path), cache_dir="").close())
        assert error.status in ("DEVICE_ERROR", "OUT_OF_MEMORY", "NO_DEVICE", "BUILD_FAILED"), str(error)
        assert "failed" in str(error) or error.status in ("NO_DEVICE",) or "got CL_" in str(error)
        assert_clean(abi, stub, live)


@pytest.mark.parametrize("name", native_stub.SESSION_CALLS)
def test_call_that_fails_while_making_a_session_is_a_clean_status(abi: Abi, stub: Stub, name: str):
    live = stub.live()
    with abi.load(plans.pack(), opencl_library=str(stub.path), cache_dir="") as model:
        loaded = stub.live()
        stub.reset()
        model.session().close()
        total = stub.calls(name)
        for nth in range(1, total + 1):
            stub.reset()
            stub.fail(name, SMALL_ERROR, nth)
            error = failure(model.session)
            assert error.status == "DEVICE_ERROR" and name in str(error) and "CL_INVALID_VALUE (-30)" in str(error)
            assert stub.live() == loaded
    assert_clean(abi, stub, live)


@pytest.mark.parametrize("name", native_stub.RUN_CALLS)
def test_call_that_fails_in_a_run_leaves_the_session_usable(abi: Abi, stub: Stub, name: str):
    live = stub.live()
    inputs = plans.make_inputs()
    with abi.load(plans.pack(), opencl_library=str(stub.path), cache_dir="") as model, model.session() as session:
        stub.reset()
        session.run(inputs, plans.empty_outputs())
        total = stub.calls(name)
        for nth in range(1, total + 1):
            stub.reset()
            stub.fail(name, SMALL_ERROR, nth)
            error = failure(lambda: session.run(inputs, plans.empty_outputs()))
            assert error.status == "DEVICE_ERROR" and "CL_INVALID_VALUE (-30)" in str(error)
            stub.reset()
            plans.check(session.run(inputs, plans.empty_outputs()), inputs)
    assert_clean(abi, stub, live)


@pytest.mark.parametrize("name", ["clEnqueueNDRangeKernel", "clFinish", "clGetEventInfo"])
@pytest.mark.parametrize("code", [native_stub.OUT_OF_RESOURCES, native_stub.OUT_OF_HOST_MEMORY])
def test_transient_failure_is_tried_once_more(abi: Abi, stub: Stub, name: str, code: int):
    inputs = plans.make_inputs()
    with abi.load(plans.pack(), opencl_library=str(stub.path)) as model, model.session() as session:
        stub.reset()
        stub.fail(name, code, nth=1)
        plans.check(session.run(inputs, plans.empty_outputs()), inputs)
        stub.reset()
        stub.fail(name, code)
        error = failure(lambda: session.run(inputs, plans.empty_outputs()))
        assert error.status == ("OUT_OF_RESOURCES" if code == native_stub.OUT_OF_RESOURCES else "OUT_OF_MEMORY")
        stub.reset()
        plans.check(session.run(inputs, plans.empty_outputs()), inputs)


def test_failed_launch_names_its_kernel(abi: Abi, stub: Stub):
    with abi.load(plans.pack(), opencl_library=str(stub.path)) as model, model.session() as session:
        stub.reset()
        stub.fail("clEnqueueNDRangeKernel", SMALL_ERROR, nth=2)
        error = failure(lambda: session.run(plans.make_inputs(), {}))
        assert "launch 1, kernel 'square_add'" in str(error)
        assert failure(lambda: session.map("output", 0)).status == "INVALID_ARGUMENT"


def test_driver_without_profiling_queue_only_loses_the_times(abi: Abi, stub: Stub):
    with abi.load(plans.pack(), opencl_library=str(stub.path)) as model:
        stub.reset()
        stub.fail("clCreateCommandQueue", native_stub.INVALID_QUEUE_PROPERTIES, nth=1)
        with model.session(profile=1) as session:
            inputs = plans.make_inputs()
            plans.check(session.run(inputs, plans.empty_outputs()), inputs)
            launches, total_ns = session.profile()
            assert [p.device_ns for p in launches] == [0, 0, 0] and total_ns > 0


def test_work_group_above_the_kernels_limit_is_unsupported(abi: Abi, stub: Stub):
    stub.kernel_group(8)
    error = failure(lambda: abi.load(plans.pack(), opencl_library=str(stub.path)))
    assert error.status == "UNSUPPORTED" and "got 16x1x1; expected at most 8 work-items" in str(error)


@pytest.mark.parametrize("bits", [8, 1024, 4096 * 8, 8192 * 8])
def test_alignment_of_the_device_does_not_change_the_answer(abi: Abi, stub: Stub, bits: int):
    stub.limit(native_stub.DEVICE_MEM_BASE_ADDR_ALIGN, bits)
    inputs = plans.make_inputs()
    with abi.load(plans.pack(), opencl_library=str(stub.path)) as model, model.session() as session:
        plans.check(session.run(inputs, plans.empty_outputs()), inputs)


def test_small_allocations_split_weights_and_arena(abi: Abi, stub: Stub):
    stub.limit(native_stub.DEVICE_MAX_MEM_ALLOC_SIZE, 384)
    inputs = plans.make_inputs()
    with abi.load(plans.pack(), opencl_library=str(stub.path)) as model, model.session() as session:
        plans.check(session.run(inputs, plans.empty_outputs()), inputs)
    stub.limit(native_stub.DEVICE_MAX_MEM_ALLOC_SIZE, 100)
    error = failure(lambda: abi.load(plans.pack(), opencl_library=str(stub.path)))
    assert error.status == "UNSUPPORTED" and "at most 100 in one piece" in str(error)


def test_device_with_little_memory_is_unsupported(abi: Abi, stub: Stub):
    stub.limit(native_stub.DEVICE_GLOBAL_MEM_SIZE, 1000)
    error = failure(lambda: abi.load(plans.pack(), opencl_library=str(stub.path)))
    assert error.status == "UNSUPPORTED" and "too little memory, got 1000 bytes" in str(error)
