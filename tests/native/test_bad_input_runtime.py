"""Wrong files, tensors, devices and caches through both command lines: the C++ one and `python -m malisdk`."""

import importlib.util
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import native_plans as plans
import numpy as np
import pytest
from native_build import Built

pytestmark = pytest.mark.usefixtures("opencl", "cache")

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=["malisdk", "python -m malisdk"])
def call(request: pytest.FixtureRequest, built: Built) -> Call:
    if request.param == "malisdk":
        program = [str(built.command)]
    elif importlib.util.find_spec("malisdk") is None:
        pytest.skip("the host build of the malisdk wheel is not installed: ./dev scons host-wheel")
    else:
        program = [sys.executable, "-m", "malisdk"]

    def run(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*program, *map(str, words)],
            capture_output=True,
            text=True,
            env={**os.environ, **env},
            timeout=120,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.mali"
    path.write_bytes(plans.pack())
    return path


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout == ""
    return done.stderr


def test_files_that_no_model_is_in_are_refused_by_kind(call: Call, model: Path, tmp_path: Path) -> None:
    whole = model.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0x40
    newer = bytearray(whole)
    struct.pack_into("<I", newer, 8, 2)
    bad = tmp_path / "bad.mali"
    for data, message in (
        (b"", "not a .mali file, got 0 bytes"),
        (b"\x08\x07\x12\x04onnx" * 100, "not a .mali file, got 800 bytes"),
        (whole[:-100], f"damaged, got {len(whole) - 100} bytes; expected {len(whole)}"),
        (bytes(flipped), "damaged, "),
        (plans.rehash(newer), "got container version 2; expected 1"),
        (plans.edit(lambda plan: setattr(plan, "schemaVersion", 2)), "got plan schema 2; expected 1"),
    ):
        bad.write_bytes(data)
        said = refusal(call("info", bad))
        assert f"{bad}: " in said and message in said
    assert f"{tmp_path}/none.mali: cannot be opened: No such file" in refusal(call("info", tmp_path / "none.mali"))


def test_input_tensors_that_do_not_fit_are_refused(call: Call, model: Path, tmp_path: Path) -> None:
    inputs = plans.make_inputs()
    out = tmp_path / "out"

    def run(x: np.ndarray | None) -> str:
        words = []
        for name, array in {**inputs, "x": x}.items():
            if array is not None:
                np.save(tmp_path / f"{name}.npy", array)
                words.append(f"--input={name}={tmp_path / name}.npy")
        said = refusal(call("run", model, *words, "--output-dir", out))
        assert not out.exists()
        return said

    x = inputs["x"]
    assert "got float64" in run(x.astype(np.float64)) and "expected float32" in run(x.astype(np.float64))
    assert "got float32" in run(x[0]) and "expected float32" in run(x[0])
    fortran = run(np.asfortranarray(x))
    assert "Fortran order" in fortran or "not C-contiguous" in fortran
    assert "input 'x': missing" in run(None)


def test_missing_opencl_and_unknown_device_are_explained(call: Call, model: Path, tmp_path: Path) -> None:
    said = refusal(call("info", model, MALISDK_OPENCL_LIBRARY="/nowhere/libOpenCL.so"))
    assert "OpenCL: no usable library, tried:\n  /nowhere/libOpenCL.so: " in said and "hint: install" in said
    said = refusal(call("devices", OCL_ICD_VENDORS=str(tmp_path)))
    assert "OpenCL: the library offers no device\nhint: " in said and "RUSTICL_ENABLE=panfrost" in said
    said = refusal(call("info", model, OCL_ICD_VENDORS=str(tmp_path)))
    assert "which offers: no platform at all" in said and "hint: install the board's OpenCL driver" in said
    said = refusal(call("info", model, "--device", "Mali-T860"))
    assert "device 'Mali-T860': not found" in said and "which offers:\n" in said


@pytest.mark.parametrize("fault", ["corrupted", "is a file", "no such file system"])
def test_kernel_cache_that_cannot_be_used_costs_only_time(
    call: Call, model: Path, cache: Path, tmp_path: Path, fault: str
) -> None:
    inputs = plans.make_inputs()
    words = ["run", model, "--output-dir", tmp_path / "out"]
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
        words.append(f"--input={name}={tmp_path / name}.npy")
    folder = str(cache)
    if fault == "corrupted":
        assert call("warmup", model).returncode == 0
        for entry in cache.iterdir():
            entry.write_bytes(entry.read_bytes()[:-7] + b"garbage")
    elif fault == "is a file":
        cache.touch()
    else:
        folder = "/proc/nowhere"
    done = call(*words, MALISDK_CACHE_DIR=folder)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    outputs = {"y": np.load(tmp_path / "out" / "y.npy"), "group/r:0": np.load(tmp_path / "out" / "group_r_0.npy")}
    plans.check(outputs, inputs)
    built = "0 kernels built, 3 came" if fault == "corrupted" else "3 kernels built, 0 came"
    assert built in call("warmup", model, MALISDK_CACHE_DIR=folder).stdout
