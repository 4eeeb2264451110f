"""The importer against collections of models: ONNX's classification networks, and field reports."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from malisdk_pipeline.errors import MaliSdkError
from malisdk_pipeline.importers import import_onnx

from llvm_truth import run
from onnx_models import onnxruntime_answers, random_array, relative_error

# Models of public bug reports with inputs and answers, kept beside the project; MALISDK_CASES names another folder.
REPORTS = Path(os.environ.get("MALISDK_CASES", Path(__file__).parents[3] / "shared" / "cases"))
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def _reports() -> list[Path]:
    folders = sorted(REPORTS.iterdir()) if REPORTS.is_dir() else []
    return [folder for folder in folders if any(folder.rglob("*.onnx"))]


@pytest.mark.skipif(not _reports(), reason=f"no model folders in {REPORTS}")
@pytest.mark.parametrize("folder", _reports(), ids=lambda folder: folder.name)
@pytest.mark.parametrize("how", ["llvm", "opencl"])
def test_reported_model_is_right_or_refused(how: str, folder: Path, tmp_path: Path) -> None:
    path = next(folder.rglob("*.onnx"))
    if path.stem.startswith("must_refuse"):
        with pytest.raises(MaliSdkError):
            import_onnx(path)
        return
    feeds = dict(np.load(folder / "inputs.npz"))
    wanted = list(np.load(folder / "expected.npz").values())
    shapes = {name: array.shape for name, array in feeds.items()}
    if how == "llvm":
        found = run(import_onnx(path, shapes=shapes), feeds)
    else:
        pytest.importorskip("malisdk", reason="the malisdk wheel for this machine is not installed")
        from malisdk_pipeline.commands.run import run_file
        from malisdk_pipeline.compile import build_model

        built = build_model(path, "host", shapes=shapes, out=tmp_path / "model.mali")
        found = list(run_file(built, feeds, device="auto").values())
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert relative_error(ours, theirs) <= (4e-3 if theirs.dtype == np.float16 else 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda path: path.stem)
def test_classification_network_agrees_with_onnxruntime(path: Path) -> None:
    """Topologies of well-known networks; their weights are constants, which hides little of a wrong shape or axis."""
    imported = import_onnx(path)
    feeds = {t.name: random_array(t.shape, t.dtype) for t in imported.inputs}
    found, wanted = run(imported, feeds), onnxruntime_answers(imported.model, feeds)
    for ours, theirs in zip(found, wanted, strict=True):
        assert relative_error(ours, theirs) <= 1e-4
