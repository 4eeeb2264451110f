"""The trained models, from their packages to the right answers."""

import filecmp
import json

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from malisdk_pipeline.__main__ import main

CATS = range(281, 286)
ESPRESSO = 967


@pytest.mark.network
@pytest.mark.parametrize(
    ("name", "espresso", "published_parameters"),
    [("efficientnet_lite0", 0.94, 4_652_008), ("squeezenet1_1", 0.97, 1_235_496)],
)
def test_model_builds_and_answers_right(tmp_path, name, espresso, published_parameters):
    folder, cases = tmp_path / name, tmp_path / "cases"
    assert main(["models", "build", name, "--out", str(folder)]) == 0
    assert main(["golden", str(folder / "model.onnx"), "--recipe", str(folder), "--out", str(cases)]) == 0
    labels = (folder / "labels.txt").read_text().splitlines()
    assert len(labels) == 1000
    assert labels[ESPRESSO] == "espresso"

    session = ort.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    for case, answers, least in (("coffee", [ESPRESSO], espresso), ("chelsea", CATS, 0.3)):
        facts = json.loads((cases / case / "case.json").read_text())
        scores = session.run(None, {facts["inputs"][0]: np.load(cases / case / "input_0.npy")})[0]
        np.testing.assert_allclose(scores, np.load(cases / case / "expected_0.npy"), rtol=1e-4, atol=1e-7)
        assert scores.argmax() in answers
        assert scores.max() > least
        assert facts["top1"] == {"index": int(scores.argmax()), "label": labels[scores.argmax()]}
        assert filecmp.cmp(cases / case / "image.ppm", folder / "images" / f"{case}.ppm", shallow=False)

    model = onnx.load(folder / "model.onnx")
    assert _parameters(model) == published_parameters
    again = tmp_path / "again"
    assert main(["models", "build", name, "--out", str(again)]) == 0
    assert filecmp.cmp(again / "model.onnx", folder / "model.onnx", shallow=False)


def _parameters(model: onnx.ModelProto) -> int:
    """Trained numbers: all weights but the running statistics of batch norm, and the bounds of relu6."""
    trained = [t for t in model.graph.initializer if not t.name.endswith((".mean", ".variance", ".min", ".max"))]
    return sum(int(np.prod(t.dims)) for t in trained)
