"""A short run of the fuzzer, the damage that it found before, and that it would notice."""

from pathlib import Path

import onnx
import pytest

import mutate_mxnet
from fuzz_models import Worker, damaged, fuzz, run_case

CASES = 400


def test_damaged_models_end_as_a_model_or_one_error(tmp_path: Path) -> None:
    outcomes = list(fuzz(seed=7, first=0, count=CASES, seconds=300, keep=tmp_path / "found"))
    assert len(outcomes) == CASES
    assert [o for o in outcomes if o.is_finding] == []
    kinds = {o.kind for o in outcomes}
    assert kinds == {"taken", "refused"}


def test_cases_depend_on_seed_and_number_alone() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { t = Abs(x) y = Neg(t) }'
    )
    seeds = [("a", {"model.onnx": model.SerializeToString()}), *mutate_mxnet.corpus()]
    made = [damaged(seeds, 3, number) for number in range(50)]
    assert made == [damaged(seeds, 3, number) for number in range(50)]
    assert len({tuple(files.values()) for _, files in made}) > 30
    assert made != [damaged(seeds, 4, number) for number in range(50)]


def test_foreign_exception_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("malisdk_pipeline.importers.model_import.import_model", lambda path, shapes: {}["key"])
    kind, text = run_case(tmp_path / "model.onnx", "import")
    assert kind == "error" and "KeyError" in text


def test_death_of_the_worker_is_a_finding_and_the_next_case_runs(tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").touch()
    worker = Worker()
    try:
        assert worker.run(tmp_path / "empty.onnx", "import").kind == "refused"
        assert worker._process is not None
        worker._process.kill()
        worker._process.wait()
        assert worker.run(tmp_path / "empty.onnx", "import").kind == "crash"
        assert worker.run(tmp_path / "empty.onnx", "import").kind == "refused"
    finally:
        worker.close()
