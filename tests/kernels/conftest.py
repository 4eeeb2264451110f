"""Compile small ONNX models for this machine and run them through the native runtime."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from kernel_cases import Array, Cases, differences, reference

RunOnnx = Callable[..., dict[str, Array]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.host_opencl)


@pytest.fixture(scope="session")
def malisdk() -> Any:
    """The runtime's Python package; skips where it or an OpenCL device is missing."""
    module = pytest.importorskip(
        "malisdk", reason="the host build of the malisdk wheel is not installed: ./dev scons host-wheel"
    )
    try:
        devices = module.devices()
    except module.Error as e:
        pytest.skip(f"no OpenCL library on this machine (apt: pocl-opencl-icd): {e}")
    if not devices:
        pytest.skip("no OpenCL device on this machine (apt: pocl-opencl-icd)")
    return module


@pytest.fixture
def run_onnx(tmp_path: Path, malisdk: Any) -> RunOnnx:
    """`run_onnx(model, inputs)` compiles the model for the host and returns its outputs by name."""
    from malisdk_pipeline import build_model

    def run(model: onnx.ModelProto, inputs: Mapping[str, Array], dtype: str = "float32") -> dict[str, Array]:
        path = tmp_path / "model.onnx"
        onnx.save(model, path)
        compiled = build_model(path, target="host", dtype=dtype, out=tmp_path / "model.mali")
        with malisdk.load(compiled, cache_dir="") as loaded:
            result = loaded.run(dict(inputs))
            if not isinstance(result, dict):
                result = {loaded.outputs[0].name: result}
            return {name: array.copy() for name, array in result.items()}

    return run


@pytest.fixture
def check(run_onnx: RunOnnx) -> Callable[[Cases], None]:
    """`check(cases)` fails with one line for each case whose output differs from onnxruntime's."""

    def run(cases: Cases, tolerance: float = 1e-5) -> None:
        model = cases.model()
        expected = reference(model, cases.feeds)
        wrong = differences(run_onnx(model, cases.feeds), expected, tolerance)
        assert not wrong, "\n".join(wrong)

    return run
