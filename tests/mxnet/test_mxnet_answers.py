"""Imported MXNet models agree with MXNet 1.9.1: every operator over its attributes, the model zoo, old files."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from malisdk_pipeline.importers.mxnet import load_mxnet

from mxnet_truth import Truth
from old_formats import OLD_CASES
from onnx_models import onnxruntime_answers, relative_error
from operator_cases import CASES
from zoo_cases import ZOO

pytestmark = pytest.mark.network
Read = Callable[[str], Truth]
# Compiled for this machine, too: one of each kind of layer.
_COMPILED = ("mtcnn", "ssd", "old_0_5", "zoo_mobilenet_v2", "zoo_squeezenet1_1")


def check(truth: Truth, tolerance: float) -> None:
    model = load_mxnet(truth.symbol, shapes=truth.shapes).model
    found = onnxruntime_answers(model, truth.inputs)
    assert len(found) == len(truth.answers)
    for ours, theirs in zip(found, truth.answers, strict=True):
        assert ours.shape == theirs.shape
        assert relative_error(ours, theirs) <= tolerance


@pytest.mark.parametrize("case", CASES)
def test_operator_agrees_with_mxnet(case: str, truth: Read) -> None:
    check(truth(case), 2e-5)


@pytest.mark.parametrize("case", ZOO)
def test_network_of_the_zoo_agrees_with_mxnet(case: str, truth: Read) -> None:
    check(truth(f"zoo_{case}"), 1e-4)


@pytest.mark.parametrize("case", OLD_CASES)
def test_old_file_agrees_with_mxnet(case: str, truth: Read) -> None:
    check(truth(f"old_{case}"), 1e-5)


@pytest.mark.slow
@pytest.mark.host_opencl
@pytest.mark.parametrize("case", _COMPILED)
def test_compiled_network_agrees_with_mxnet(case: str, truth: Read, tmp_path: Path) -> None:
    malisdk = pytest.importorskip("malisdk", reason="the host build of the malisdk wheel is not installed")
    if not malisdk.devices():
        pytest.skip("no OpenCL device on this machine (apt: pocl-opencl-icd)")
    from malisdk_pipeline import build_model

    known = truth(case)
    path = build_model(known.symbol, target="host", shapes=known.shapes, out=tmp_path / "net.mali")
    with malisdk.load(path, cache_dir="") as loaded:
        found = loaded.run(known.inputs)
        arrays = [found[o.name] for o in loaded.outputs] if isinstance(found, dict) else [found]
        for ours, theirs in zip(map(np.array, arrays), known.answers, strict=True):
            assert relative_error(ours, theirs) <= 1e-4
