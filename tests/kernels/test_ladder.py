"""Each step of the ladder computes the same convolution, and its text differs from the one before as it says."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from kernel_cases import Cases, reference
from malisdk_pipeline import container
from malisdk_pipeline.bench.ladder import Rung, rungs
from malisdk_pipeline.schedules.facts import Conv2dFacts
from malisdk_pipeline.tuning.check import layer_plan

FACTS = Conv2dFacts(
    batch=1,
    in_channels=8,
    in_height=28,
    in_width=28,
    out_channels=16,
    kernel=(3, 3),
    stride=(1, 1),
    pad=(1, 1, 1, 1),
    dilation=(1, 1),
    groups=1,
    dtype="float32",
)
TOLERANCE = 1e-4  # of the largest output; winograd's transforms cancel


@pytest.fixture(scope="module")
def steps() -> dict[str, Rung]:
    return {rung.name: rung for rung in rungs(FACTS)}


def test_steps_agree_with_onnxruntime(steps: dict[str, Rung], tmp_path: Path, malisdk: Any) -> None:
    cases = Cases()
    weight = cases.random(16, 8, 3, 3)
    data = cases.input((1, 8, 28, 28))
    cases.output("result", cases.node("Conv", data, cases.weight(weight), pads=[1] * 4))
    model: onnx.ModelProto = cases.model()
    (expected,) = reference(model, cases.feeds).values()
    for name, rung in steps.items():
        plan = layer_plan(rung.replayed, [rung.pack(weight)], dtype="float32", name=name)
        container.write(tmp_path / f"{name}.mali", plan)
        with malisdk.load(tmp_path / f"{name}.mali", cache_dir="") as loaded:
            got = loaded.run(cases.feeds[data]).copy()
        assert np.abs(got - expected).max() <= TOLERANCE * np.abs(expected).max(), name


def test_each_step_says_what_it_adds(steps: dict[str, Rung]) -> None:
    bind, unroll, vectorize = (steps[n].replayed.kernels[1].source for n in ("bind", "unroll", "vectorize"))
    assert "tile_sums_local" not in bind
    assert bind.count("mad(") == 1
    assert unroll.count("mad(") == 9 * 16
    assert "float4" not in bind
    assert vectorize.count("mad(") == 9 * 4
    assert "float4" in vectorize


def test_the_ir_is_kept_before_and_after(steps: dict[str, Rung]) -> None:
    for rung in steps.values():
        assert "threadIdx.x" in rung.after
        assert "threadIdx" not in rung.before
