"""Running a model through the C ABI: answers against NumPy, tensors that do not fit, maps, threads, profiles."""

import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native_plans as plans
import numpy as np
import pytest
from malisdk_pipeline import container
from malisdk_pipeline.plan import Buffer, Kernel, Launch, Place, Plan, TensorSpec
from native_abi import Abi, AbiError, Session, failure, tensor

pytestmark = pytest.mark.usefixtures("opencl", "cache")


@pytest.fixture
def session(abi: Abi):
    with abi.load(plans.pack()) as model, model.session() as session:
        yield session


def test_run_from_file_gives_numpys_answer(abi: Abi, tmp_path: Path):
    path = tmp_path / "tiny.mali"
    path.write_bytes(plans.pack())
    with abi.load(path) as model, model.session() as session:
        for seed in range(3):
            inputs = plans.make_inputs(seed)
            plans.check(session.run(inputs, plans.empty_outputs()), inputs)


def test_model_info_says_what_the_file_holds(abi: Abi):
    with abi.load(plans.pack()) as model:
        info = model.info()
        assert (info.name, info.target, info.input_count, info.output_count) == (b"tiny", b"host", 2, 2)
        assert (info.kernel_count, info.launch_count, info.weights_bytes, info.arena_bytes) == (3, 3, 448, 8192)
        spec = model.spec("output", 1)
        assert (spec.name, spec.dtype, spec.rank, spec.shape[0], spec.size_bytes) == (b"group/r:0", 7, 1, 96, 384)
        assert failure(lambda: model.spec("input", 2)).status == "INVALID_ARGUMENT"


def test_session_outlives_its_model(abi: Abi):
    model = abi.load(plans.pack())
    session = model.session()
    model.close()
    inputs = plans.make_inputs()
    plans.check(session.run(inputs, plans.empty_outputs()), inputs)
    session.close()


def test_inputs_left_out_keep_what_they_had(session: Session):
    inputs = plans.make_inputs()
    missing = failure(lambda: session.run({"x": inputs["x"]}, {}))
    assert (
        missing.status == "INVALID_ARGUMENT"
        and "input 'z': missing" in str(missing)
        and "int32[2,3,16]" in str(missing)
    )
    session.run(inputs, {})
    inputs["x"] = plans.make_inputs(7)["x"]
    outputs = plans.empty_outputs()
    session.run({"x": inputs["x"]}, {"y": outputs["y"]})
    np.testing.assert_allclose(outputs["y"], plans.expected(inputs)["y"], rtol=1e-5, atol=1e-5)
    assert (outputs["group/r:0"] == -(2**31)).all()


@pytest.mark.parametrize(
    ("name", "array", "status", "got"),
    [
        ("x", np.zeros(plans.SHAPE, np.float64), "WRONG_TENSOR", "got float64[2,3,16]; expected float32[2,3,16]"),
        ("x", np.zeros((3, 2, 16), np.float32), "WRONG_TENSOR", "got float32[3,2,16]; expected float32[2,3,16]"),
        ("x", np.zeros((96,), np.float32), "WRONG_TENSOR", "got float32[96]; expected float32[2,3,16]"),
        ("q", np.zeros(plans.SHAPE, np.float32), "INVALID_ARGUMENT", "got 'q'; expected one of 'x', 'z'"),
        (None, np.zeros(plans.SHAPE, np.float32), "INVALID_ARGUMENT", "got NULL"),
    ],
)
def test_run_refuses_an_input_that_does_not_fit(session: Session, name: Any, array: Any, status: str, got: str):
    error = failure(lambda: session.run_tensors([tensor(name, array)], []))
    assert error.status == status and got in str(error)


def test_run_refuses_wrong_sizes_null_data_and_doubles(session: Session):
    inputs = plans.make_inputs()
    x = tensor("x", inputs["x"])
    x.size_bytes -= 4
    error = failure(lambda: session.run_tensors([x], []))
    assert error.status == "WRONG_TENSOR" and "got 380 bytes; expected 384" in str(error)
    x = tensor("x", inputs["x"])
    assert "given twice" in str(failure(lambda: session.run_tensors([x, x], [])))
    x.data = None
    assert "no data, got NULL" in str(failure(lambda: session.run_tensors([x], [])))
    big = tensor("x", inputs["x"])
    big.rank = 200
    assert failure(lambda: session.run_tensors([big], [])).status == "WRONG_TENSOR"
    y = np.zeros(plans.SHAPE, np.int32)
    assert "output 'y': wrong tensor" in str(failure(lambda: session.run(inputs, {"y": y})))
    plans.check(session.run(inputs, plans.empty_outputs()), inputs)


def test_maps_reach_the_tensors_own_memory(session: Session):
    inputs = plans.make_inputs(3)
    assert "holds nothing yet" in str(failure(lambda: session.map("output", 0)))
    for index, name in enumerate(("x", "z")):
        address = session.map("input", index)
        assert failure(lambda index=index: session.map("input", index)).status == "BUSY"
        assert failure(lambda: session.run({}, {})).status in ("BUSY", "INVALID_ARGUMENT")
        ctypes.memmove(address, inputs[name].ctypes.data, inputs[name].nbytes)
        session.unmap("input", index)
        assert failure(lambda index=index: session.unmap("input", index)).status == "INVALID_ARGUMENT"
    session.run({}, {})
    raw = (ctypes.c_float * plans.COUNT).from_address(session.map("output", 0))
    y = np.frombuffer(raw, np.float32).copy().reshape(plans.SHAPE)
    error = failure(lambda: session.run({}, {}))
    assert error.status == "BUSY" and "output 'y': still mapped" in str(error)
    session.unmap("output", 0)
    np.testing.assert_allclose(y, plans.expected(inputs)["y"], rtol=1e-5, atol=1e-5)
    assert failure(lambda: session.map("input", 2)).status == "INVALID_ARGUMENT"


def test_session_destroyed_with_a_mapped_tensor_is_fine(abi: Abi):
    with abi.load(plans.pack()) as model, model.session() as session:
        session.map("input", 0)


def test_profile_times_every_launch(abi: Abi):
    with abi.load(plans.pack()) as model, model.session(profile=1) as session:
        assert "expected a run before" in str(failure(session.profile))
        session.run(plans.make_inputs(), {})
        launches, total_ns = session.profile()
        assert [(p.kernel, p.layer, p.rule) for p in launches] == [
            (b"scale", b"layer0", b"hand"),
            (b"square_add", b"layer1", b"hand"),
            (b"finish", b"layer2", b"hand"),
        ]
        assert all(p.device_ns > 0 and p.flops == 192 for p in launches)
        assert sum(p.device_ns for p in launches) <= total_ns
    with abi.load(plans.pack()) as model, model.session() as session:
        assert failure(session.profile).status == "INVALID_ARGUMENT"


def slow_plan() -> bytes:
    source = """__kernel void slow(__global const float* x, __global float* y) {
  float v = x[get_global_id(0)];
  for (int i = 0; i < 30000000; ++i) v = v * 0.999f + 1.0f;
  y[get_global_id(0)] = v;
}
"""
    one = {"size_bytes": 4, "index": 0}
    return container.pack(
        Plan(
            model_name="slow",
            target="host",
            dtype="float32",
            inputs=(TensorSpec(name="x", dtype="float32", shape=(), buffer=0),),
            outputs=(TensorSpec(name="y", dtype="float32", shape=(), buffer=1),),
            buffers=(Buffer(place=Place.INPUT, **one), Buffer(place=Place.OUTPUT, **one)),
            kernels=(Kernel(name="slow", source=source, local_size=(1, 1, 1)),),
            launches=(Launch(kernel=0, buffers=(0, 1), global_size=(1, 1, 1), layer="", rule="", flops=0, bytes=0),),
            weights=b"",
            arena_bytes=0,
            metadata={},
        )
    )


def test_second_thread_in_a_session_is_told_busy(abi: Abi):
    with abi.load(slow_plan()) as model, model.session() as session:
        x, y = np.ones((), np.float32), np.zeros((), np.float32)
        session.run({"x": x}, {"y": y})
        assert y == pytest.approx(1000, rel=1e-2)
        errors: list[AbiError] = []

        def enter(action: Callable[[], object]) -> None:
            try:
                action()
            except AbiError as e:
                errors.append(e)

        runner = threading.Thread(target=enter, args=(lambda: session.run({}, {}),))
        runner.start()
        while runner.is_alive() and not errors:
            enter(lambda: (session.map("input", 0), session.unmap("input", 0)))
            time.sleep(0.001)
        runner.join()
        assert errors and errors[0].status == "BUSY" and "in use by another thread" in str(errors[0])
        session.run({}, {})


def test_threads_load_and_run_at_the_same_time(abi: Abi):
    data = plans.pack()
    wrong: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for _ in range(3):
                with abi.load(data) as model, model.session() as session:
                    inputs = plans.make_inputs(seed)
                    plans.check(session.run(inputs, plans.empty_outputs()), inputs)
        except BaseException as e:
            wrong.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_two_sessions_of_one_model_do_not_share_memory(abi: Abi):
    with abi.load(plans.pack()) as model, model.session() as first, model.session() as second:
        a, b = plans.make_inputs(1), plans.make_inputs(2)
        first.run(a, {})
        plans.check(second.run(b, plans.empty_outputs()), b)
        plans.check(first.run({}, plans.empty_outputs()), a)


def test_errors_are_told_per_thread(abi: Abi):
    assert failure(lambda: abi.load(b"nonsense")).status == "FOREIGN_FILE"
    texts = []
    other = threading.Thread(target=lambda: texts.append(abi.library.malisdk_last_error()))
    other.start()
    other.join()
    assert texts == [b""]
    assert b"not a .mali file" in abi.library.malisdk_last_error()


def test_fork_after_load_is_refused(abi: Abi):
    with abi.load(plans.pack()) as model, model.session() as session:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                errors = [
                    failure(lambda: session.run({}, {})),
                    failure(model.session),
                    failure(lambda: abi.load(plans.pack())),
                ]
                session.close()
                model.close()
                os.write(writer, "\n".join(f"{e.status} {e}" for e in errors).encode())
            finally:
                os._exit(0)
        os.close(writer)
        text = b""
        while chunk := os.read(reader, 4096):
            text += chunk
        os.close(reader)
        os.waitpid(child, 0)
        assert text.count(b"DEVICE_ERROR") == 3 and b"fork" in text
        session.run(plans.make_inputs(), {})


def test_null_and_unknown_arguments_are_statuses(abi: Abi):
    library = abi.library
    handle = ctypes.c_void_p()
    one = ctypes.c_uint32(1)
    assert library.malisdk_model_load(None, None, ctypes.byref(handle)) == 1
    assert library.malisdk_model_load(b"x", None, None) == 1
    assert library.malisdk_model_load_memory(None, ctypes.c_uint64(3), None, ctypes.byref(handle)) == 1
    assert library.malisdk_session_create(None, None, ctypes.byref(handle)) == 1
    assert library.malisdk_session_run(None, None, one, None, one) == 1
    assert library.malisdk_session_map_input(None, one, ctypes.byref(handle)) == 1
    assert library.malisdk_model_info_get(None, None) == 1
    library.malisdk_model_destroy(None)
    library.malisdk_session_destroy(None)
    assert library.malisdk_status_name(7) == b"MALISDK_NO_DEVICE"
    assert library.malisdk_status_name(-1) == b"unknown status"
    assert library.malisdk_dtype_name(11) == b"bool" and library.malisdk_dtype_name(12) is None
    assert library.malisdk_dtype_bytes(2) == 8 and library.malisdk_dtype_bytes(-5) == 0


def test_option_structs_of_another_size_are_refused_or_read(abi: Abi):
    data = plans.pack()
    size = ctypes.c_uint64(len(data))
    handle = ctypes.c_void_p()
    for length, last, status in ((0, 0, 1), (31, 0, 1), (32, 0, 0), (40, 0, 0), (40, 1, 1), (2**32 - 1, 0, 1)):
        raw = (ctypes.c_uint8 * 64)()
        ctypes.memmove(raw, ctypes.byref(ctypes.c_uint32(length)), 4)
        raw[39] = last
        got = abi.library.malisdk_model_load_memory(data, size, ctypes.byref(raw), ctypes.byref(handle))
        assert got == status, (length, last)
        abi.library.malisdk_model_destroy(handle)
    with abi.load(data) as model:
        assert failure(lambda: model.session(profile=2)).status == "INVALID_ARGUMENT"


@pytest.mark.skipif("MALISDK_TEST_VARIANT" in os.environ, reason="sanitizers keep freed memory")
def test_many_loads_do_not_grow_the_process(abi: Abi):
    data = plans.pack()

    def resident_kb() -> int:
        return int(
            next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line).split()[1]
        )

    def cycle(count: int) -> None:
        for _ in range(count):
            with abi.load(data) as model, model.session() as session:
                session.run(plans.make_inputs(), plans.empty_outputs())

    cycle(20)
    before = resident_kb()
    cycle(60)
    assert resident_kb() - before < 2048
