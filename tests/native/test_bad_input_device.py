"""The smoke test on a machine without OpenCL: exit code 8 and what to install, on the command line."""

import io
import json
import tarfile
from pathlib import Path

import native_plans as plans
import pytest
from native_build import Built

CASE = {"inputs": ["x", "z"], "outputs": ["y"], "rtol": 1e-3, "top1": None, "image": None, "preprocess": None}


@pytest.fixture
def bundle(built: Built, tmp_path: Path) -> Path:
    """As much of an SDK for this machine as is asked of it before its first case runs."""
    path = tmp_path / "sdk.tar.gz"
    content = {
        "sdk/bin/malisdk": built.command.read_bytes(),
        "sdk/bin/libmalisdk.so.0": built.library.read_bytes(),
        "sdk/models/tiny.mali": plans.pack(),
        "sdk/smoke/cases/random_0/case.json": json.dumps(CASE).encode(),
    }
    with tarfile.open(path, "w:gz") as tar:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755
            tar.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("missing", ["library", "driver"])
def test_device_without_opencl_is_told_what_to_install(refused, bundle: Path, tmp_path: Path, missing: str) -> None:
    library = {"MALISDK_OPENCL_LIBRARY": "/nowhere/libOpenCL.so"}
    env = library if missing == "library" else {"OCL_ICD_VENDORS": str(tmp_path)}
    said = refused("smoke", bundle, "--device", "host", "--out", tmp_path / "report.json", code=8, env=env)
    assert said.startswith("host: no usable OpenCL, `malisdk devices` ended with 3; expected a device")
    assert "/nowhere/libOpenCL.so: cannot open" in said if missing == "library" else "offers no device" in said
    assert "hint: install the board's OpenCL driver" in said


def test_run_on_a_machine_without_opencl_is_explained(refused, tmp_path: Path) -> None:
    import numpy as np

    pytest.importorskip(
        "malisdk", reason="the host build of the malisdk wheel is not installed: ./dev scons host-wheel"
    )
    (tmp_path / "tiny.mali").write_bytes(plans.pack())
    np.savez(tmp_path / "in.npz", **plans.make_inputs())
    words = ["run", "tiny.mali", "--inputs", "in.npz", "--outputs", "out.npz"]
    said = refused(*words, code=8, env={"MALISDK_OPENCL_LIBRARY": "/nowhere/libOpenCL.so"})
    assert said.startswith("OpenCL: no usable library, tried:\n  /nowhere/libOpenCL.so: ") and "hint: install" in said
    assert "not found by" in refused(*words, "--device", "Mali-T860", code=8)
