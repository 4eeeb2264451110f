"""Files that are not what they should be: refused with a reason, or right; never a crash."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native_plans as plans
import numpy as np
import pytest
from native_abi import Abi, AbiError, failure

pytestmark = pytest.mark.usefixtures("opencl", "cache")

REFUSALS = ("DAMAGED_FILE", "VERSION_MISMATCH", "UNSUPPORTED", "BUILD_FAILED", "DEVICE_ERROR")


def test_missing_empty_foreign_and_folder(abi: Abi, tmp_path: Path):
    missing = failure(lambda: abi.load(tmp_path / "none.mali"))
    assert missing.status == "FILE_NOT_FOUND" and "none.mali: cannot be opened" in str(missing)
    empty = tmp_path / "empty.mali"
    empty.touch()
    assert failure(lambda: abi.load(empty)).status == "FOREIGN_FILE"
    assert failure(lambda: abi.load(tmp_path)).status == "FILE_NOT_FOUND"
    assert failure(lambda: abi.load(b"\x7fELF" + bytes(100))).status == "FOREIGN_FILE"


def test_every_truncation_is_refused(abi: Abi):
    data = plans.pack()
    for length in [*range(200), *range(200, len(data), 13), len(data) - 1]:
        error = failure(lambda length=length: abi.load(data[:length]))
        assert error.status == ("FOREIGN_FILE" if length < 8 else "DAMAGED_FILE"), length


def test_every_flipped_byte_is_refused_or_harmless(abi: Abi):
    data = plans.pack()
    inputs = plans.make_inputs()
    harmless = []
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << (position % 8)
        try:
            model = abi.load(bytes(damaged))
        except AbiError as e:
            assert e.status in ("FOREIGN_FILE", "DAMAGED_FILE", "VERSION_MISMATCH"), position
            continue
        harmless.append(position)
        with model, model.session() as session:
            plans.check(session.run(inputs, plans.empty_outputs()), inputs)
    # Only the padding between plan and data is covered by no hash.
    end = plans.plan_range(data)[1]
    assert all(end <= position < -(-end // 64) * 64 for position in harmless)


def test_flipped_plan_bytes_with_right_hashes_never_crash(abi: Abi):
    """Past the hashes, only the verifier and the semantic checks stand between a hostile plan and the device."""
    data = plans.pack()
    rng = random.Random(5)
    begin, end = plans.plan_range(data)
    outcomes: dict[str, int] = {}
    for position in range(begin, end):
        damaged = bytearray(data)
        damaged[position] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, damaged[position] ^ (1 << rng.randrange(8))))
        try:
            with abi.load(plans.rehash(damaged)) as model:
                model.session().close()
            outcome = "OK"
        except AbiError as e:
            outcome = e.status
            assert outcome in REFUSALS, str(e)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert outcomes["DAMAGED_FILE"] > 100


@pytest.mark.parametrize("offset", [8, 64])
def test_newer_versions_say_so(abi: Abi, offset: int):
    if offset == 8:
        data = bytearray(plans.pack())
        data[8] = 2
        newer = plans.rehash(data)
    else:
        newer = plans.edit(lambda p: setattr(p, "schemaVersion", 2))
    error = failure(lambda: abi.load(newer))
    assert error.status == "VERSION_MISMATCH" and "got" in str(error) and "2; expected 1" in str(error)


def _set(path: str, value: Any) -> Callable[[Any], None]:
    """`_set("buffers.3.offset", 7)` as a function on a plan."""

    def change(plan: Any) -> None:
        *parents, last = path.split(".")
        for part in parents:
            plan = plan[int(part)] if part.isdigit() else getattr(plan, part)
        if last.isdigit():
            plan[int(last)] = value
        else:
            setattr(plan, last, value)

    return change


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        ("dtype", 12, "dtype"),
        ("arenaAlignment", 0, "arena alignment"),
        ("arenaAlignment", 48, "arena alignment"),
        ("arenaBytes", 4096, "buffer 5 has an impossible end"),
        ("arenaBytes", 2**63, "arena bytes"),
        ("inputs", [], "buffer 0 has an impossible tensor"),
        ("outputs", [], "outputs"),
        ("buffers", [], "buffers"),
        ("kernels", [], "launch 0 has an impossible kernel"),
        ("launches", [], "output 0 has an impossible buffer (no launch writes it)"),
        ("buffers.0.place", 4, "buffer 0 has an impossible place"),
        ("buffers.0.place", 0, "input 0 has an impossible buffer"),
        ("buffers.0.index", 1, "buffer 0 has an impossible tensor"),
        ("buffers.0.index", 2**32 - 1, "buffer 0 has an impossible tensor"),
        ("buffers.0.sizeBytes", 0, "buffer 0 has an impossible size"),
        ("buffers.0.sizeBytes", 380, "input 0 has an impossible buffer size"),
        ("buffers.2.offset", 2**64 - 1, "buffer 2 has an impossible end"),
        ("buffers.3.sizeBytes", 388, "buffer 3 has an impossible end"),
        ("buffers.3.offset", 60, "weights slice"),
        ("buffers.4.offset", 64, "buffer 4 has an impossible offset"),
        ("buffers.4.offset", 2**64 - 4096, "buffer 4 has an impossible end"),
        ("inputs.0.dtype", 200, "input 0 has an impossible dtype"),
        ("inputs.0.name", "", "input 0 has an impossible name length"),
        ("inputs.0.name", "a\nb", "input 0 has an impossible name"),
        ("inputs.0.name", "x" * 2000, "input 0 has an impossible name"),
        ("inputs.1.name", "x", "occurs twice"),
        ("inputs.0.shape", [1] * 9, "input 0 has an impossible rank"),
        ("inputs.0.shape", [2, -3, 16], "input 0 has an impossible extent"),
        ("inputs.0.shape", [2**62, 2**62], "input 0 has an impossible extent"),
        ("inputs.0.buffer", 99, "buffer 0 has an impossible tensor"),
        ("inputs.0.buffer", 4, "buffer 0 has an impossible tensor"),
        ("kernels.0.name", "a-b", "kernel 0 has an impossible name"),
        ("kernels.0.name", "finish", "occurs twice"),
        ("kernels.0.sourceOffset", 2**64 - 1, "kernel 0 has an impossible source"),
        ("kernels.0.sourceBytes", 2**63, "kernel 0 has an impossible source"),
        ("kernels.0.sourceBytes", 0, "kernel 0 has an impossible source"),
        ("kernels.0.localSize", [16, 1], "kernel 0 has an impossible local size rank"),
        ("kernels.0.localSize", [0, 1, 1], "kernel 0 has an impossible local size"),
        ("kernels.0.localSize", [2**16, 2**16, 2**16], "kernel 0 has an impossible work-group"),
        ("kernels.0.localSize", [8, 1, 1], "the source's own 16x1x1"),
        ("launches.0.kernel", 3, "launch 0 has an impossible kernel"),
        ("launches.0.globalSize", [97, 1, 1], "launch 0 has an impossible global size"),
        ("launches.0.globalSize", [96, 0, 1], "launch 0 has an impossible global size"),
        ("launches.0.globalSize", [96], "launch 0 has an impossible global size rank"),
        ("launches.0.globalSize", [2**32 - 16, 2**31, 2**31], "number of work-items"),
        ("launches.0.buffers", [], "launch 0 has an impossible number of arguments"),
        ("launches.0.buffers", [0] * 200, "launch 0 has an impossible number of arguments"),
        ("launches.0.buffers", [0, 2], "gives it 2 arguments; expected 3"),
        ("launches.0.buffers", [0, 8, 4], "launch 0 has an impossible argument"),
        ("weights.offset", 2**63, "weights of 448 bytes"),
        ("weights.offset", 32, "weights of 448 bytes"),
        ("weights.sizeBytes", 2**63, "weights of"),
        ("weights.sizeBytes", 512, "overlap"),
        ("weights.hash", 1, "weights do not match their hash"),
        ("weights", None, "impossible end"),
        ("sources.hash", 1, "kernel sources do not match their hash"),
        ("sources", None, "sources segment"),
    ],
)
def test_impossible_numbers_are_named(abi: Abi, path: str, value: Any, what: str):
    error = failure(lambda: abi.load(plans.edit(_set(path, value))))
    assert error.status == "DAMAGED_FILE" and what in str(error), str(error)


def test_plan_edited_without_a_change_still_runs(abi: Abi):
    inputs = plans.make_inputs()
    with abi.load(plans.edit(lambda plan: None)) as model, model.session() as session:
        plans.check(session.run(inputs, plans.empty_outputs()), inputs)


def test_network_of_empty_tensors_runs_without_a_launch(abi: Abi):
    def change(plan: Any) -> None:
        plan.kernels, plan.launches = [], []
        plan.inputs[0].shape = plan.inputs[1].shape = plan.outputs[0].shape = plan.outputs[1].shape = [0, 3]

    with abi.load(plans.edit(change)) as model, model.session(profile=1) as session:
        inputs = {"x": np.zeros((0, 3), np.float32), "z": np.zeros((0, 3), np.int32)}
        assert "missing" in str(failure(lambda: session.run({}, {})))
        y = session.run(inputs, {"y": np.zeros((0, 3), np.float32)})["y"]
        assert y.shape == (0, 3) and model.spec("output", 0).size_bytes == 0
        session.map("output", 0)
        session.unmap("output", 0)
        assert session.profile()[0] == []


def test_kernel_that_does_not_compile_brings_its_log(abi: Abi):
    plan = plans.make_plan()
    kernel = plan.kernels[0]
    broken = type(kernel)(
        name="scale", source=kernel.source.replace("x[i]", "undeclared[i]"), local_size=kernel.local_size
    )
    error = failure(lambda: abi.load(plans.pack(kernels=(broken, *plan.kernels[1:]))))
    assert error.status == "BUILD_FAILED" and "undeclared" in str(error) and "build log" in str(error)


def test_models_that_need_what_the_device_lacks(abi: Abi):
    half = failure(lambda: abi.load(plans.edit(_set("needsFp16", True))))
    if half.status == "UNSUPPORTED":  # pocl has no fp16
        assert "cl_khr_fp16" in str(half) and "hint:" in str(half)
    memory = failure(lambda: abi.load(plans.edit(_set("arenaBytes", 2**40))))
    assert memory.status == "UNSUPPORTED" and "too little memory" in str(memory)
