"""Topologies with random weights: as large as published, the same bytes each time, and outputs that show errors."""

import numpy as np
import onnx
import pytest
from malisdk_pipeline import recipes
from malisdk_pipeline.golden import Reference, make_cases

# Trained parameters as published: torchvision's model pages; Keras' trainable count for MobileNet v1.
PUBLISHED = {
    "mobilenet_v1": 4_231_976,
    "mobilenet_v2": 3_504_872,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "vgg16": 138_357_544,
}
SLOW = ("vgg16",)
CASES = [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in PUBLISHED]


def parameters(model: onnx.ModelProto) -> int:
    trained = [t for t in model.graph.initializer if not t.name.endswith((".mean", ".variance", ".min", ".max"))]
    return sum(int(np.prod(t.dims)) for t in trained)


@pytest.mark.parametrize("name", CASES)
def test_seeded_recipe_has_the_published_size_and_useful_outputs(tmp_path, name):
    model = recipes.load(name).build({})
    assert parameters(model) == PUBLISHED[name]
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString(deterministic=True))
    (case,) = make_cases(Reference(path, given_shapes={}), folder=None, seed=0)
    (scores,) = case.expected.values()
    assert scores.shape == (1, 1000)
    np.testing.assert_allclose(scores.sum(), 1, rtol=1e-5)
    assert 0.01 < scores.max() < 0.9
    assert 1 < np.log(scores).std() < 3


def test_seeded_recipe_gives_the_same_bytes_again():
    build = recipes.load("mobilenet_v2").build
    assert build({}).SerializeToString(deterministic=True) == build({}).SerializeToString(deterministic=True)


def test_seeded_recipe_layers_differ_from_each_other():
    weights = recipes.load("mobilenet_v1").build({}).graph.initializer
    equal_shapes = [t.raw_data for t in weights if list(t.dims) == [512, 512, 1, 1]]
    assert len(equal_shapes) == 5
    assert len(set(equal_shapes)) == 5
