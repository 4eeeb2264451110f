"""The tuning log, decisions from it, a search that is interrupted, and what explain says of a small model."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from malisdk_pipeline.errors import ConfigError
from malisdk_pipeline.oracle import NoData
from malisdk_pipeline.schedules.facts import Conv2dFacts
from malisdk_pipeline.targets import find_target
from malisdk_pipeline.tuning import log, measure, search
from malisdk_pipeline.tuning.decisions import Decisions, distance, shipped_log
from malisdk_pipeline.tuning.space import is_legal, space

from onnx_models import model_of_text, random_array, save

FACTS = Conv2dFacts(
    batch=1,
    in_channels=16,
    in_height=12,
    in_width=12,
    out_channels=8,
    kernel=(3, 3),
    stride=(1, 1),
    pad=(1, 1, 1, 1),
    dilation=(1, 1),
    groups=1,
    dtype="float32",
)
POINTWISE = replace(FACTS, kernel=(1, 1), pad=(0, 0, 0, 0))


def record(facts: Conv2dFacts, *, choice: int = 0, time_us: float | None = 10.0, **given: Any) -> log.Record:
    candidate = space(facts)[choice]
    values = {"how": log.PREDICTED, "by": "model 1", **given}
    return log.Record(workload=facts, rule=candidate.rule, knobs=candidate.knobs or {}, time_us=time_us, **values)


def test_record_written_and_read_is_the_same(tmp_path: Path) -> None:
    records = [record(FACTS), record(POINTWISE, time_us=None, failure="does not build")]
    log.append(tmp_path / "log.jsonl", records[:1])
    log.append(tmp_path / "log.jsonl", records[1:])
    assert log.read(tmp_path / "log.jsonl") == records


def test_unfinished_last_line_is_ignored_and_cut_off_by_the_next_writer(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log.append(path, [record(FACTS)])
    with path.open("a") as f:
        f.write(record(POINTWISE).line()[:50])
    assert [r.workload for r in log.read(path)] == [FACTS]
    log.append(path, [record(POINTWISE, time_us=3.0)])
    assert [r.workload for r in log.read(path)] == [FACTS, POINTWISE]


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"workload": {}}', record(FACTS).line().replace("predicted", "guessed").rstrip()]
)
def test_line_that_is_no_record_is_refused_with_its_number(line: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(record(FACTS).line() + line + "\n")
    with pytest.raises(ConfigError, match=r"log\.jsonl:2: not a record of a tuning log"):
        log.read(path)


def test_best_takes_the_fastest_and_measurements_before_predictions() -> None:
    slow, fast = record(FACTS, time_us=9.0), record(FACTS, choice=1, time_us=5.0)
    assert log.best([slow, fast, record(FACTS, time_us=None)]) == [fast]
    measured = record(FACTS, time_us=30.0, how=log.MEASURED, by="a board")
    assert log.best([slow, measured, fast]) == [measured]


def test_best_does_not_compare_predictions_of_two_models() -> None:
    old, new = record(FACTS, time_us=1.0), record(FACTS, choice=1, time_us=5.0, by="model 2")
    assert log.best([old, new]) == [new]


def test_decision_is_the_logged_one_for_the_same_workload() -> None:
    choice = Decisions([record(FACTS, choice=1)])(FACTS)
    assert choice is not None and choice.why == "logged: 10 us predicted (model 1)"
    assert (choice.rule, choice.knobs) == (space(FACTS)[1].rule, space(FACTS)[1].knobs)


def test_unseen_workload_takes_the_nearest_that_is_legal() -> None:
    near, far = replace(FACTS, out_channels=16), replace(FACTS, out_channels=32)
    choice = Decisions([record(far), record(near, choice=1)])(FACTS)
    assert choice is not None and choice.why.startswith(f"nearest logged, 1.0 away: {near.key}")
    assert choice.rule == space(near)[1].rule
    illegal = replace(record(near), knobs={"width": 1000})
    choice = Decisions([record(far), illegal])(FACTS)
    assert choice is not None and far.key in choice.why


@pytest.mark.parametrize(
    "other",
    [
        replace(FACTS, out_channels=8 * 16),
        replace(FACTS, stride=(2, 2)),
        replace(FACTS, dtype="float16"),
        POINTWISE,
        replace(FACTS, in_channels=8, groups=8),
    ],
)
def test_unlike_workloads_decide_nothing(other: Conv2dFacts) -> None:
    assert Decisions([record(other)])(FACTS) is None


def test_distance_is_symmetric_and_zero_for_itself() -> None:
    other = replace(FACTS, in_height=24, out_channels=12)
    assert distance(FACTS, FACTS) == 0
    assert distance(FACTS, other) == pytest.approx(distance(other, FACTS)) and distance(FACTS, other) > 1


def test_shipped_log_is_sorted_and_legal_for_its_own_workloads() -> None:
    records = log.read(shipped_log())
    assert records and [r.workload.key for r in log.best(records)] == [r.workload.key for r in records]
    assert [r for r in records if not is_legal(r.workload, r.rule, r.knobs)] == []


def test_every_candidate_of_a_space_is_legal_once() -> None:
    for facts in (FACTS, POINTWISE, replace(FACTS, in_channels=8, groups=8)):
        candidates = space(facts)
        assert candidates and all(is_legal(facts, c.rule, c.knobs or {}) for c in candidates)
        assert len({(c.rule, tuple(sorted((c.knobs or {}).items()))) for c in candidates}) == len(candidates)
    assert not is_legal(FACTS, "conv2d_1x1", space(POINTWISE)[0].knobs or {})


def test_search_interrupted_and_started_again_does_only_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.jsonl"
    calls: list[int] = []

    def compile_some(sources: list[str], *_args: object, **_options: object) -> list[list[NoData]]:
        calls.append(len(sources))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return [[NoData(name="k", reason="no compiler in this test")] for _ in sources]

    monkeypatch.setattr(search, "measure", compile_some)
    monkeypatch.setattr(search, "_ROUND", 1)
    workloads = [POINTWISE, replace(POINTWISE, out_channels=4)]
    reported: list[str] = []

    def run() -> None:
        search.Search(
            log=path,
            target=find_target("rk3399"),
            processes=1,
            report=lambda facts, _: reported.append(facts.key),
        ).run(search.open_workloads(workloads, path))

    with pytest.raises(KeyboardInterrupt):
        run()
    assert reported == [workloads[0].key]
    assert {r.workload for r in log.read(path)} == {workloads[0]}
    run()
    assert reported == [w.key for w in workloads]
    assert search.open_workloads(workloads, path) == []
    assert all(r.time_us is None and r.failure == "no compiler in this test" for r in log.read(path))


def test_search_ranks_by_borrowed_counts_and_carries_the_ranking_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Conv2dFacts] = []
    plan = search.layer_plan(POINTWISE, space(POINTWISE)[0], find_target("rk3399"))

    def build(facts: Conv2dFacts, candidate: Any, _target: object) -> None:
        built.append(facts)
        candidate.plan = plan

    def predict(candidate: Any, _outcomes: object) -> None:
        # the last of the space is the best
        candidate.time_us = 1000.0 - [c.knobs for c in space(POINTWISE)].index(candidate.choice.knobs)

    monkeypatch.setattr(search, "measure", lambda sources, *_args, **_options: [[] for _ in sources])
    monkeypatch.setattr(search, "_build", build)
    monkeypatch.setattr(search, "_predict", predict)
    path, other = tmp_path / "log.jsonl", replace(POINTWISE, in_height=24)
    assert space(other) == space(POINTWISE)
    search.Search(log=path, target=find_target("rk3399"), processes=1, report=lambda *_: None).run([POINTWISE, other])
    assert built.count(POINTWISE) == len(space(POINTWISE))
    assert built.count(other) <= 1 + search._CARRIED
    assert all(r.knobs == space(POINTWISE)[-1].knobs for r in log.best(log.read(path)))


def test_log_of_a_writer_that_was_killed_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    program = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from malisdk_pipeline.tuning import log\n"
        f"path = Path({str(path)!r})\n"
        f"path.write_text({record(FACTS).line()!r})\n"
        "(first,) = log.read(path)\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    log.append(path, [first])\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        while path.stat().st_size < 20_000:
            pass
        os.kill(writer.pid, signal.SIGKILL)
    assert {r.workload for r in log.read(path)} == {FACTS}
    log.append(path, [record(POINTWISE)])
    assert log.read(path)[-1].workload == POINTWISE


def test_candidates_to_measure_are_the_best_predicted_that_were_not_yet() -> None:
    first, second = record(FACTS, time_us=9.0), record(FACTS, choice=1, time_us=5.0)
    assert measure.best_predicted([first, second], [FACTS], top=1) == [second]
    measured = replace(second, how=log.MEASURED, by="a board")
    assert measure.best_predicted([first, second, measured], [FACTS], top=2) == [first]


def small_model(folder: Path) -> Path:
    body = """g (float[1,16,12,12] x) => (float[1,8,12,12] y) {
        a = Conv<pads = [1, 1, 1, 1]>(x, w)
        b = Relu(a)
        y = Conv(b, v)
    }"""
    weights = {"w": random_array((8, 16, 3, 3)), "v": random_array((8, 8, 1, 1))}
    return save(model_of_text(body, opset=17, weights=weights), folder)


def explain(model: Path, *words: object) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "malisdk_pipeline", "explain", str(model), "--json", *map(str, words)],
        capture_output=True,
        text=True,
        check=True,
    )
    launches: list[dict[str, Any]] = json.loads(done.stdout)["launches"]
    return launches


def test_explain_says_rule_knobs_and_why_with_a_log(tmp_path: Path) -> None:
    model, path = small_model(tmp_path), tmp_path / "log.jsonl"
    last = len(space(FACTS)) - 1
    log.append(path, [record(FACTS, choice=last, time_us=1.0, how=log.MEASURED, by="a board")])
    rows = [row for row in explain(model, "--tuning-log", path) if row["workload"] == FACTS.key]
    chosen = space(FACTS)[last]
    assert rows and {row["rule"] for row in rows} == {chosen.rule}
    assert all(row["knobs"] == chosen.knobs and row["why"] == "logged: 1 us measured (a board)" for row in rows)
    assert sum(row["multiply_adds"] for row in rows) == FACTS.multiply_adds


def test_explain_says_where_there_was_no_choice(tmp_path: Path) -> None:
    rows = explain(small_model(tmp_path))
    assert rows[0]["rule"] == "generic" and rows[0]["why"] == "the only rule that takes it"
    assert all(row["bytes"] > 0 and row["kernel"] for row in rows)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("tune", "no.onnx"), "no.onnx: no such file"),
        (("tune", "vgg61"), "did you mean vgg16?"),
        (("tune", "vgg16", "--top", "0"), "--top: not a number of candidates"),
        (("tune", "vgg16", "--device", "host"), "--device and --sdk: one without the other"),
        (("explain", "vgg61"), "did you mean vgg16?"),
        (("bench", "vgg16", "--processes", "0"), "--processes: not a number of compilers"),
        (("bench-gpu", "vgg16", "--out", "x", "--run", "no-program"), "--run: no such program"),
        (("bench-gpu", "vgg16", "--out", "x", "--weight-bits", "1"), "--weight-bits: got 1; expected 2 to 24"),
    ],
)
def test_bad_words_are_refused_in_one_message(words: tuple[str, ...], message: str, refused: Any) -> None:
    assert message in refused(*words, code=2)
