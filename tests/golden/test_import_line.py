"""Imported models through the whole line on this machine: compiled to OpenCL, run by the native runtime."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_models import model_of_text, onnxruntime_answers, random_array, relative_error, save

pytestmark = pytest.mark.host_opencl

_I64 = np.int64
_WEIGHTS = {
    "w": random_array((4, 3, 3, 3)),
    "k": random_array((3, 4, 3, 3)),
    "appended": np.asarray([0, 0, 0, 0, 0, 0, 1, 1], _I64),
    "around": np.asarray([0, 0, 1, 2, 0, 0, 3, 1], _I64),
    "axis": np.asarray(1, _I64),
    "rows": np.asarray([[0], [2], [0]], _I64),
    "updates": random_array((3, 3, 9, 9)),
    "double": np.asarray([1, 1, 2, 2], "float32"),
    "none": np.zeros(0, "float32"),
    "k3": np.asarray([3], _I64),
}
_BODIES = {
    "deconvolution_with_zeros_appended": "c = ConvTranspose(x, k) y = Pad(c, appended)",
    "convolution_with_zeros_around": "c = Conv(x, w) y = Pad(c, around)",
    "sum_with_zeros_appended": "c = ReduceMean<axes = [1], keepdims = 1>(x) y = Pad(c, appended)",
    "running_sum": "y = CumSum(x, axis)",
    "scattered_rows": "t = Concat<axis = 0>(x, x, x) y = ScatterND(t, rows, updates)",
    "nearest_resize": 'y = Resize<mode = "nearest">(x, none, double)',
    "cubic_resize": 'y = Resize<mode = "cubic">(x, none, double)',
    "largest_three": "y, i = TopK<axis = 3>(x, k3)",
    "last_arg_max": "y = ArgMax<axis = 2, select_last_index = 1>(x)",
    "an_input_as_output": "y = Identity(x)",
    "several_shapes_of_one_tensor": "a = Relu(x) b = Transpose<perm = [0,2,3,1]>(a) y = Flatten(b)",
}


@pytest.mark.parametrize("name", sorted(_BODIES))
def test_model_agrees_with_onnxruntime_whatever_memory_holds(name: str, tmp_path: Path) -> None:
    """Run after freeing memory full of NaN: what a kernel forgets to write would show."""
    pytest.importorskip("malisdk", reason="the malisdk wheel for this machine is not installed")
    from malisdk_pipeline.commands.run import run_file
    from malisdk_pipeline.compile import build_model

    body = _BODIES[name]
    model = model_of_text(
        f"g (float[1,3,9,9] x) => (y) {{ {body} }}",
        opset=12,
        weights={n: a for n, a in _WEIGHTS.items() if re.search(rf"\b{n}\b", body)},
    )
    feeds: dict[str, Any] = {"x": np.round(random_array((1, 3, 9, 9)) * 4) / 4}
    built = build_model(save(model, tmp_path), "host", out=tmp_path / "model.mali")
    wanted = onnxruntime_answers(model, feeds)[0]
    for _ in range(3):
        spoilt = [np.full(1 << n, np.nan, "float32") for n in range(6, 18)]
        del spoilt
        (found,) = run_file(built, feeds, device="auto").values()
        assert relative_error(found, wanted) <= 1e-5
