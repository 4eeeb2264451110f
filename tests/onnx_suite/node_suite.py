"""The node test cases that ship in the onnx package: compile each, run it, compare with its answers.

Cases are compiled for this machine and run by the native runtime on its OpenCL; those that compute in half run on
Mesa's rusticl, since most OpenCL drivers of such machines do not. With `--llvm` they run through plain TVM on the CPU
instead, which tests the importer alone.

`python tests/onnx_suite/node_suite.py` prints what differs from the table beside it, and the counts; `--write` writes
the table: name, state (pass or refused) and the reason, or `half` for what ran on rusticl.
"""

import argparse
import contextlib
import io
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx

TABLE = Path(__file__).with_name("node_suite.tsv")
HALF = "half"
_TIMEOUT_S = 600.0

# Inputs that say a shape, an axis or a count. Real models have them as weights, so they are bound before importing.
_SHAPE_LIKE: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "Compress": (1,),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "SequenceInsert": (2,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
    **{
        f"Reduce{kind}": (1,)
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """`bound` are inputs turned into weights; `feeds` and `expected` are what runs and what must come out."""

    name: str
    model: onnx.ModelProto
    feeds: dict[str, Any]
    expected: list[Any]
    rtol: float
    atol: float


def cases() -> Iterator[Case]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = load_model_tests(kind="node")
    bound = {t.name: _bound_names(t.model) for t in tests}
    for test in tests:
        base = re.sub(r"_expanded(_ver\d+)?$", "", test.name)
        inputs, expected = ([_array(v) for v in values] for values in test.data_sets[0])
        yield _case(test, bound.get(base, set()) or bound[test.name], inputs, expected)


def _array(value: Any) -> Any:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _bound_names(model: onnx.ModelProto) -> set[str]:
    names = set()
    for node in model.graph.node:
        positions = list(_SHAPE_LIKE.get(node.op_type, ()))
        names |= {node.input[i] for i in positions if i < len(node.input) and node.input[i]}
    return names & {v.name for v in model.graph.input}


def _case(test: Any, bound: set[str], inputs: list[Any], expected: list[Any]) -> Case:
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    feeds, kept = {}, []
    for value, given in zip(list(model.graph.input), inputs, strict=False):
        if value.name in bound and isinstance(given, np.ndarray | np.generic):
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(given), value.name))
        else:
            feeds[value.name] = given
            kept.append(value)
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.ir_version = max(model.ir_version, 4)
    return Case(name=test.name, model=model, feeds=feeds, expected=expected, rtol=test.rtol, atol=test.atol)


def run(cases: Iterable[Case], folder: Path) -> Iterator[tuple[Case, str, str]]:
    """Each case with its state (pass, refused, wrong, crash) and the reason; those that need half come last."""
    half = []
    for i, case in enumerate(cases):
        outcome = _attempt(case, folder / f"{i}.onnx", _run_on_host)
        if isinstance(outcome, Path):
            half.append((case, outcome))
        else:
            yield case, *outcome
    if half:
        yield from _run_in_half(half)


def run_on_llvm(cases: Iterable[Case], folder: Path) -> Iterator[tuple[Case, str, str]]:
    for i, case in enumerate(cases):
        outcome = _attempt(case, folder / f"{i}.onnx", _run_on_llvm)
        assert isinstance(outcome, tuple)
        yield case, *outcome


def _attempt(case: Case, path: Path, action: Callable[[Path, Case], list[Any] | None]) -> tuple[str, str] | Path:
    """State and reason; or the compiled file of a case that `action` gave no results for, since it needs half."""
    from malisdk_pipeline.errors import MaliSdkError

    path.write_bytes(case.model.SerializeToString())
    try:
        results = action(path, case)
    except MaliSdkError as e:
        return "refused", _reason(str(e), path)
    except Exception as e:  # a bug, to be told apart from a refusal
        return "crash", f"{type(e).__name__}: {_reason(str(e).strip()[-200:], path)}"
    return path.with_suffix(".mali") if results is None else _judge(results, case)


def _judge(results: list[Any], case: Case) -> tuple[str, str]:
    if len(results) != len(case.expected):
        return "wrong", f"{len(results)} outputs; expected {len(case.expected)}"
    for index, (result, wanted) in enumerate(zip(results, case.expected, strict=True)):
        difference = _difference(result, np.asarray(wanted), case.rtol, case.atol)
        if difference:
            return "wrong", f"output {index}: {difference}"
    return "pass", ""


def _shapes(case: Case) -> dict[str, tuple[int, ...]]:
    return {n: tuple(v.shape) for n, v in case.feeds.items() if isinstance(v, np.ndarray | np.generic)}


def _arrays(case: Case) -> dict[str, Any]:
    return {n: np.asarray(v) for n, v in case.feeds.items()}


def _run_on_llvm(path: Path, case: Case) -> list[Any]:
    from malisdk_pipeline.importers import import_onnx

    from llvm_truth import run

    return run(import_onnx(path, shapes=_shapes(case)), _arrays(case))


def _run_on_host(path: Path, case: Case) -> list[Any] | None:
    """The results, or None for what the host's OpenCL cannot run."""
    from malisdk_pipeline import container
    from malisdk_pipeline.commands.run import run_file
    from malisdk_pipeline.compile import build_model

    with contextlib.redirect_stderr(io.StringIO()):
        built = build_model(path, "host", shapes=_shapes(case), out=path.with_suffix(".mali"))
        if container.read(built).needs_fp16:
            return None
        return list(run_file(built, _arrays(case), device="auto").values())


def _run_in_half(half: list[tuple[Case, Path]]) -> Iterator[tuple[Case, str, str]]:
    from malisdk_pipeline.devices.runtime import host_library, run_models
    from malisdk_pipeline.devices.rusticl import RusticlDevice

    with RusticlDevice() as device:
        requests = [(path, _arrays(case)) for case, path in half]
        answers = run_models(device, requests, library=host_library(), timeout_s=_TIMEOUT_S)
    for (case, _), answer in zip(half, answers, strict=True):
        if answer.error:
            yield case, "crash", answer.error
            continue
        state, reason = _judge(list(answer.outputs.values()), case)
        yield case, state, reason or HALF


def _difference(result: Any, wanted: Any, rtol: float, atol: float) -> str:
    if result.shape != wanted.shape:
        return f"shape {result.shape}; expected {wanted.shape}"
    if result.dtype != wanted.dtype:
        return f"type {result.dtype}; expected {wanted.dtype}"
    if result.dtype.kind == "f" and wanted.size and np.isfinite(wanted).any():
        # What should be 0 is rounding noise of the larger values around it.
        atol = max(atol, 1e-7 * float(np.abs(wanted[np.isfinite(wanted)]).max()))
    if result.dtype == np.float16:
        # One step of float16 is up to 9.8e-4 of the value, and sums are taken in another order.
        rtol = max(rtol, 2e-3)
    try:
        np.testing.assert_allclose(result, wanted, rtol=rtol, atol=atol)
    except AssertionError as e:
        return " ".join(str(e).split())[:160]
    return ""


def _reason(text: str, path: Path) -> str:
    return " ".join(text.partition("\nhint:")[0].replace(f"{path}: ", "").split())[:200]


def read_table() -> dict[str, tuple[str, str]]:
    rows = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {name: (state, reason) for name, state, reason in rows}


def write_table(results: dict[str, tuple[str, str]]) -> None:
    lines = [f"# onnx {onnx.__version__}; written by tests/onnx_suite/node_suite.py --write, do not edit"]
    lines += [f"{name}\t{state}\t{reason}" for name, (state, reason) in sorted(results.items())]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression of case names")
    parser.add_argument("--llvm", action="store_true", help="run through plain TVM on the CPU")
    parser.add_argument("--write", action="store_true", help="write the table of results")
    args = parser.parse_args()
    sys.path.append(str(Path(__file__).resolve().parents[1] / "cases"))
    if args.write and (args.only or args.llvm):
        parser.error("--write needs all cases, without --llvm")
    known = read_table() if TABLE.exists() else {}
    results = {}
    chosen = (case for case in cases() if re.search(args.only, case.name))
    with TemporaryDirectory() as folder:
        for case, state, reason in (run_on_llvm if args.llvm else run)(chosen, Path(folder)):
            results[case.name] = (state, reason)
            was = known.get(case.name, ("unknown", ""))[0]
            if was != state or state not in ("pass", "refused"):
                print(f"{case.name}: {state} (was {was}) {reason}", flush=True)
    counts = Counter(state for state, _ in results.values())
    print(", ".join(f"{n} {state}" for state, n in sorted(counts.items())), f"of {len(results)}")
    if args.write:
        write_table(results)
    return 0 if not counts["wrong"] and not counts["crash"] else 1


if __name__ == "__main__":
    sys.exit(main())
