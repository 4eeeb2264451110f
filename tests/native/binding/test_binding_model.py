"""Loading, errors, closing, profiling, devices."""

import copy
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
SHAPE = (1, 3, 8, 8)
X = np.arange(192, dtype=np.float32).reshape(SHAPE)


def test_status_numbers_are_those_of_the_header(malisdk) -> None:
    header = (ROOT / "native/include/malisdk/malisdk.h").read_text()
    in_c = {name: int(number) for name, number in re.findall(r"^\s+MALISDK_(\w+) = (\d+),? *(?:/\*.*)?$", header, re.M)}
    in_c = {name: number for name, number in in_c.items() if name in malisdk.Status.__members__ or name == "BUSY"}
    assert in_c == {name: int(status) for name, status in malisdk.Status.__members__.items()}
    from malisdk import _core

    for status in malisdk.Status:
        assert _core.status_name(int(status)) == f"MALISDK_{status.name}" == malisdk.Error("", status).status
    assert malisdk.Error("", 99).status == _core.status_name(99)


def test_version_is_the_pipelines(malisdk) -> None:
    import malisdk_pipeline

    assert malisdk.__version__ == malisdk_pipeline.__version__


@pytest.mark.parametrize("code", [6, 13])
def test_errors_survive_pickling_and_copying(malisdk, code: int) -> None:
    from malisdk._errors import from_status

    error = from_status("text", code)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error) and str(again) == "text" and again.code == code


def load_fails(malisdk, status: str, path, **options: object) -> str:
    with pytest.raises(malisdk.Error) as caught:
        malisdk.load(path, **options)
    assert caught.value.status == status
    assert caught.value.code == malisdk.Status[status.removeprefix("MALISDK_")]
    return str(caught.value)


def test_load_bad_files_is_refused_by_kind(malisdk, double_model, tmp_path) -> None:
    data = double_model.read_bytes()
    assert "missing.mali" in load_fails(malisdk, "MALISDK_FILE_NOT_FOUND", tmp_path / "missing.mali")
    load_fails(malisdk, "MALISDK_FILE_NOT_FOUND", tmp_path)
    broken = tmp_path / "broken.mali"
    broken.write_bytes(b"\x08\x07\x12\x04onnx" * 100)
    assert str(broken) in load_fails(malisdk, "MALISDK_FOREIGN_FILE", broken)
    broken.write_bytes(data[:-1])
    load_fails(malisdk, "MALISDK_DAMAGED_FILE", broken)
    flipped = bytearray(data)
    flipped[200] ^= 1
    broken.write_bytes(flipped)
    load_fails(malisdk, "MALISDK_DAMAGED_FILE", broken)
    for path, options in [("a\0b", {}), (double_model, {"device": "c\0pu"}), (double_model, {"cache_dir": "a\0b"})]:
        assert "zero byte" in load_fails(malisdk, "MALISDK_INVALID_ARGUMENT", path, **options)


@pytest.mark.parametrize("make", [str, os.fsencode, Path], ids=["str", "bytes", "path"])
def test_load_takes_any_kind_of_path(malisdk, double_model, tmp_path, make) -> None:
    folder = tmp_path / "modèles 测试 (v1) \udcff"
    folder.mkdir()
    path = folder / "réseau final $1.mali"
    path.write_bytes(double_model.read_bytes())
    with malisdk.load(make(path), cache_dir=make(folder)) as model:
        np.testing.assert_array_equal(model.run(X), 2 * X)
    path.unlink()
    assert "xff" in load_fails(malisdk, "MALISDK_FILE_NOT_FOUND", path)


@pytest.mark.parametrize("arguments", [(), (5,), (None,), ("x", 5), ("x", None)])
def test_load_wrong_python_types_are_type_errors(malisdk, arguments) -> None:
    with pytest.raises(TypeError):
        malisdk.load(*arguments)


def test_load_unknown_device_is_refused(malisdk, double_model) -> None:
    assert "warp drive" in load_fails(malisdk, "MALISDK_NO_DEVICE", double_model, device="warp drive")


def test_load_broken_kernel_carries_build_log(malisdk, write_model) -> None:
    path = write_model(
        "broken",
        "__attribute__((reqd_work_group_size(1, 1, 1)))\n"
        "__kernel void broken(__global const float* x, __global float* y) { y[0] = no_such_name; }",
        inputs=[("x", "float32", (1,))],
        outputs=[("y", "float32", (1,))],
        work_items=1,
    )
    assert "no_such_name" in load_fails(malisdk, "MALISDK_BUILD_FAILED", path)


def test_no_opencl_is_an_error_and_the_process_lives(malisdk, double_model, tmp_path) -> None:
    foreign = next(Path("/lib").rglob("libz.so.1"), None) or next(Path("/usr/lib").rglob("libm.so.6"))
    text = tmp_path / "libOpenCL.so"
    text.write_text("no library")
    for library in (tmp_path / "missing.so", text, foreign):
        message = load_fails(malisdk, "MALISDK_NO_OPENCL", double_model, opencl_library=library)
        assert str(library) in message
        with pytest.raises(malisdk.Error) as caught:
            malisdk.devices(library)
        assert caught.value.code == malisdk.Status.NO_OPENCL
    with malisdk.load(double_model) as model:
        np.testing.assert_array_equal(model.run(X), 2 * X)


def test_no_platform_is_an_error(malisdk, double_model, tmp_path) -> None:
    script = (
        "import malisdk, sys\ntry:\n    malisdk.load(sys.argv[1])\nexcept malisdk.Error as e:\n    print(e.status)\n"
    )
    env = {**os.environ, "OCL_ICD_VENDORS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script, double_model], env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout.strip()) == (0, "MALISDK_NO_DEVICE"), done.stderr


def test_devices_lists_what_load_uses(malisdk, double_model) -> None:
    found = malisdk.devices()
    assert found and all(isinstance(device, malisdk.Device) for device in found)
    assert found[0].compute_units > 0 and found[0].global_memory_bytes > 0 and found[0].version.startswith("OpenCL")
    with malisdk.load(double_model, device=found[0].name) as model:
        assert model.device == found[0].name
        assert found[0].platform in model.platform


def test_info_tells_the_plan(malisdk, double_model) -> None:
    with malisdk.load(double_model) as model:
        info = model.info
        assert (info.name, info.target, info.kernel_count, info.launch_count) == ("double", "host", 1, 1)
        assert info.dtype == np.float32 and info.weights_bytes == 0 and info.kernels_from_cache == 0
        assert (model.name, model.device, model.platform) == (info.name, info.device, info.platform)
        assert repr(model) == f"<malisdk.Model 'double' on {model.device}: 'x' -> 'y'>"
    with malisdk.load(double_model) as model:
        assert model.info.kernels_from_cache == 1
    with malisdk.load(double_model, cache_dir="") as model:
        assert model.info.kernels_from_cache == 0


def test_use_after_close_is_an_error(malisdk, double_model) -> None:
    model = malisdk.load(double_model)
    mapping = model.map_input()
    with model as same:
        assert same is model and not model.closed
    assert model.closed and "closed" in repr(model)
    model.close()
    uses = [
        lambda: model.run(X),
        lambda: model.run(),
        lambda: model.map_input("x"),
        lambda: model.map_output("y"),
        lambda: model.profile(X),
        lambda: model.info,
    ]
    for use in uses:
        with pytest.raises(malisdk.Error, match=r"used after close\(\)") as caught:
            use()
        assert caught.value.code == malisdk.Status.INVALID_ARGUMENT
    assert model.inputs[0].shape == SHAPE
    with mapping as view:
        view[...] = 1


@pytest.mark.parametrize("profile", [False, True])
def test_profile_lists_launches(malisdk, double_model, profile: bool) -> None:
    with malisdk.load(double_model, profile=profile) as model:
        times = model.profile(X)
        assert isinstance(times, list) and len(times) == 1
        assert isinstance(times[0], malisdk.KernelTime)
        assert (times[0].kernel, times[0].layer, times[0].rule) == ("double_it", "the layer", "the rule")
        assert (times[0].flops, times[0].bytes) == (192, 2 * X.nbytes)
        assert times.has_device_times and times[0].device_us == times.device_us
        assert 0 < times[0].device_us < times.total_us
        assert "double_it (the layer)" in str(times) and "1 launches" in str(times)
        np.testing.assert_array_equal(model.run(X), 2 * X)


def test_profile_without_inputs_uses_those_there_or_says_why_not(malisdk, double_model) -> None:
    with malisdk.load(double_model, profile=True) as model:
        with pytest.raises(malisdk.Error, match="input 'x'"):
            model.profile()
        model.run(X)
        assert len(model.profile()) == 1
    with malisdk.load(double_model) as model, pytest.raises(malisdk.Error, match="profile=True"):
        model.profile()
    with malisdk.load(double_model) as model, pytest.raises(malisdk.WrongTensor):
        model.profile(X[0])
