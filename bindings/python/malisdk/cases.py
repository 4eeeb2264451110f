"""Smoke cases: inputs with known answers, one folder each, and what a model makes of them.

<case>/case.json  {"inputs": [names], "outputs": [names], "rtol": 1e-3, "top1": {"index", "label"} or null,
                   "image": "image.ppm" or null, "preprocess": {"channels", "mean", "std", "layout"} or null}
<case>/input_<i>.npy  <case>/expected_<i>.npy  <case>/image.ppm
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

import numpy as np

from ._errors import Error, Status
from ._model import Model

_TINY = 1e-12  # an all-zero reference then compares absolutely
_PPM_MAX_VALUE = 255


@dataclass(frozen=True)
class Case:
    """One case; arrays by the names of the model's inputs and outputs. top1: index and label of the best class."""

    name: str
    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    rtol: float
    top1: tuple[int, str] | None


@dataclass(frozen=True)
class Result:
    """What became of a case. errors: relative, by output, NaN or infinite where a value is. top1: index and score."""

    case: Case
    errors: dict[str, float]
    top1: tuple[int, float] | None

    @property
    def passed(self) -> bool:
        right_class = self.case.top1 is None or (self.top1 is not None and self.top1[0] == self.case.top1[0])
        return right_class and all(error <= self.case.rtol for error in self.errors.values())


def read_ppm(path: Path) -> np.ndarray:
    """Height x width x 3 uint8 RGB pixels of a binary PPM (P6) file."""
    data = Path(path).read_bytes()
    words: list[bytes] = []
    at = 0
    while len(words) < 4 and at < len(data):
        if data[at : at + 1] == b"#":
            at = (data.find(b"\n", at) + 1) or len(data)
        elif data[at : at + 1].isspace():
            at += 1
        else:
            end = at
            while end < len(data) and not data[end : end + 1].isspace():
                end += 1
            words.append(data[at:end])
            at = end
    at += 1  # the one white space between the header and the pixels
    if len(words) != 4 or words[0] != b"P6" or not all(word.isdigit() for word in words[1:]):
        raise _refusal(path, "no binary PPM", repr(data[:16]), "P6, width, height, 255")
    width, height, most = (int(word) for word in words[1:])
    if most != _PPM_MAX_VALUE or len(data) - at != width * height * 3:
        got = f"{len(data) - at} bytes of pixels up to {most}"
        raise _refusal(path, "wrong size", got, f"{width * height * 3} bytes of pixels up to {_PPM_MAX_VALUE}")
    return np.frombuffer(data, np.uint8, offset=at).reshape(height, width, 3)


def preprocess(pixels: np.ndarray, how: Mapping[str, Any]) -> np.ndarray:
    """(pixel - mean) / std as 1 x 3 x height x width float32, the channels in the order `how` says (RGB or BGR)."""
    if how["layout"] != "NCHW" or how["channels"] not in ("RGB", "BGR"):
        raise _refusal("preprocess", "unknown form", f"{how['channels']} {how['layout']}", "RGB or BGR, and NCHW")
    ordered = pixels[:, :, ::-1] if how["channels"] == "BGR" else pixels
    scaled = (ordered.astype(np.float32) - np.float32(how["mean"])) / np.float32(how["std"])
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[np.newaxis])


def load_image(image: Path, case_json: Path) -> np.ndarray:
    """A PPM file of the model's size as its input, preprocessed as a case.json of that model says."""
    how = json.loads(Path(case_json).read_text(encoding="utf-8")).get("preprocess")
    if how is None:
        raise _refusal(case_json, "no preprocessing", "a case without an image", 'an entry "preprocess"')
    return preprocess(read_ppm(image), how)


def load_case(folder: Path) -> Case:
    """Reads one case. An image is preprocessed here, as an application does it, and must give the stored input."""
    try:
        facts = json.loads((folder / "case.json").read_text(encoding="utf-8"))
        inputs = {name: np.load(folder / f"input_{i}.npy") for i, name in enumerate(facts["inputs"])}
        expected = {name: np.load(folder / f"expected_{i}.npy") for i, name in enumerate(facts["outputs"])}
        top1 = facts.get("top1")
        case = Case(
            name=folder.name,
            inputs=inputs,
            expected=expected,
            rtol=float(facts["rtol"]),
            top1=None if top1 is None else (int(top1["index"]), str(top1["label"])),
        )
        image = facts.get("image")
    except FileNotFoundError as e:
        raise Error(f"{e.filename}: no such file; expected a whole smoke case", Status.FILE_NOT_FOUND) from e
    except (KeyError, TypeError, ValueError) as e:
        raise Error(f"{folder}: not a readable smoke case ({e})", Status.DAMAGED_FILE) from e
    if image is not None:
        ((name, stored),) = inputs.items()
        made = load_image(folder / image, folder / "case.json")
        if made.shape != stored.shape or not np.allclose(made, stored, rtol=1e-5, atol=1e-5):
            what = "preprocessed image differs from input_0.npy"
            raise _refusal(folder / image, what, str(made.shape), f"{stored.shape} with its values")
        inputs[name] = made.astype(stored.dtype, copy=False)
    return case


def find_cases(folder: Path) -> list[Path]:
    """The cases in a folder by name. Raises Error if there are none."""
    found = sorted(path.parent for path in Path(folder).glob("*/case.json"))
    if not found:
        raise Error(f"{folder}: no smoke cases; expected <case>/case.json in it", Status.FILE_NOT_FOUND)
    return found


def relative_error(y: np.ndarray, reference: np.ndarray) -> float:
    """max|y - reference| / max|reference|; infinite for another shape."""
    if y.shape != reference.shape:
        return float("inf")
    if reference.size == 0:
        return 0.0
    exact = reference.astype(np.float64)
    return float(np.max(np.abs(y.astype(np.float64) - exact)) / max(float(np.max(np.abs(exact))), _TINY))


def run_case(model: Model, case: Case) -> Result:
    """Runs the model on a case's inputs and compares all its outputs."""
    results = model.run(case.inputs)
    outputs = results if isinstance(results, dict) else {model.outputs[0].name: results}
    missing = [name for name in case.expected if name not in outputs]
    if missing:
        raise _refusal(f"case {case.name}", "unknown outputs", ", ".join(missing), ", ".join(outputs))
    errors = {name: relative_error(outputs[name], reference) for name, reference in case.expected.items()}
    top1 = None
    if case.top1 is not None:
        scores = outputs[next(iter(case.expected))].reshape(-1)
        best = int(np.argmax(scores))
        top1 = (best, float(scores[best]))
    return Result(case, errors, top1)


def report(result: Result) -> str:
    """One line an output, and one for the class."""
    case = result.case
    lines = []
    for name, error in result.errors.items():
        verdict = _verdict(error <= case.rtol)
        lines.append(f"{case.name:<16} output '{name}'  relative error {error:.3g} (limit {case.rtol:.3g})  {verdict}")
    if case.top1 is not None and result.top1 is not None:
        (index, label), (best, score) = case.top1, result.top1
        verdict = _verdict(best == index)
        lines.append(f"{case.name:<16} top-1 is {best} ({score:.4f}), expected {index} ({label})  {verdict}")
    return "\n".join(lines)


def smoke(model: Model, folder: Path) -> bool:
    """Runs all cases of a folder and prints what came of them. Returns whether every one passed."""
    print(f"{model.name} on {model.device} ({model.platform})")
    folders = find_cases(folder)
    passed = 0
    for path in folders:
        result = run_case(model, load_case(path))
        print(report(result), flush=True)
        passed += result.passed
    print(f"{passed} of {len(folders)} cases passed")
    return passed == len(folders)


def _verdict(passed: bool) -> str:
    return "ok" if passed else "WRONG"


def _refusal(what: object, problem: str, got: str, expected: str) -> Error:
    return Error(f"{what}: {problem}, got {got}; expected {expected}", Status.INVALID_ARGUMENT)
