"""TVM's own schedules in our container: the kernels that ours are compared with must be right, too."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from kernel_cases import Cases, differences, reference
from malisdk_pipeline import container
from malisdk_pipeline.bench.pairs import round_weights
from malisdk_pipeline.compile import build_model


def network() -> Cases:
    """A little of everything that the benchmark networks hold."""
    cases = Cases()
    x = cases.input((1, 3, 16, 16))
    first = cases.node("Relu", cases.conv(x, (8, 3, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2]))
    wide = cases.node("Relu", cases.conv(first, (8, 8, 3, 3), pads=[1, 1, 1, 1]))
    deep = cases.conv(wide, (8, 1, 3, 3), pads=[1, 1, 1, 1], group=8)
    pooled = cases.node("GlobalAveragePool", cases.node("Add", deep, first))
    cases.output("scores", cases.node("Softmax", cases.node("Flatten", pooled), axis=1))
    return cases


@pytest.mark.parametrize("schedules", ["plain", "mali"])
def test_both_kinds_of_schedules_agree_with_onnxruntime(schedules: str, tmp_path: Path, malisdk: Any) -> None:
    cases = network()
    model = cases.model()
    onnx.save(model, tmp_path / "model.onnx")
    path = build_model(tmp_path / "model.onnx", target="host", out=tmp_path / "model.mali", schedules=schedules)
    with malisdk.load(path, cache_dir="") as loaded:
        result = {loaded.outputs[0].name: loaded.run(cases.feeds).copy()}
    assert differences(result, reference(model, cases.feeds)) == []
    rules = {launch.rule for launch in container.read(path).launches}
    assert (rules == {"plain"}) == (schedules == "plain")


def test_rounded_weights_have_few_bits_and_biases_keep_theirs() -> None:
    cases = Cases()
    cases.output("y", cases.conv(cases.input((1, 64, 2, 2)), (64, 64, 1, 1)))
    model = cases.model()
    before = onnx.numpy_helper.to_array(model.graph.initializer[0]).copy()
    round_weights(model, 4)
    after = onnx.numpy_helper.to_array(model.graph.initializer[0])
    mantissa, _ = np.frexp(after)
    assert np.array_equal(mantissa * 16, np.round(mantissa * 16))
    assert np.all(np.abs(after - before) <= np.abs(before) / 16)
