"""`python -m malisdk`, the SDK's smoke test and its example, as a user starts them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SOURCES = Path(__file__).resolve().parents[3] / "bindings/python"
SHAPE = (1, 3, 8, 8)
MEAN, STD = [10.0, 20.0, 30.0], [1.0, 2.0, 4.0]


def command(*words: object, code: int = 0) -> str:
    done = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def sdk(double_model, tmp_path) -> Path:
    """An unpacked SDK with one image case and one random case for y = 2 x."""
    root = tmp_path / "the sdk é"
    (root / "models").mkdir(parents=True)
    shutil.copy(double_model, root / "models/double.mali")
    (root / "models/labels.txt").write_text("".join(f"label {i}\n" for i in range(192)))
    shutil.copytree(SOURCES / "smoke", root / "smoke")
    shutil.copytree(SOURCES / "examples", root / "examples/python")
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    x = np.ascontiguousarray(((pixels[:, :, ::-1] - np.float32(MEAN)) / np.float32(STD)).transpose(2, 0, 1)[None])
    image = root / "smoke/cases/image"
    image.mkdir(parents=True)
    (image / "image.ppm").write_bytes(b"P6\n# a comment\n8 8\n255\n" + pixels.tobytes())
    write_case(image, x, index=int(x.argmax()), preprocess=True)
    write_case(root / "smoke/cases/random_0", np.ones(SHAPE, np.float32))
    return root


def write_case(folder: Path, x: np.ndarray, *, index: int | None = None, preprocess: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "input_0.npy", x)
    np.save(folder / "expected_0.npy", 2 * x)
    facts = {
        "inputs": ["x"],
        "outputs": ["y"],
        "rtol": 1e-3,
        "top1": None if index is None else {"index": index, "label": f"label {index}"},
        "image": "image.ppm" if preprocess else None,
        "preprocess": {"channels": "BGR", "mean": MEAN, "std": STD, "layout": "NCHW"} if preprocess else None,
    }
    (folder / "case.json").write_text(json.dumps(facts))


def test_smoke_right_answers_pass(malisdk, sdk) -> None:
    index = int(np.load(sdk / "smoke/cases/image/input_0.npy").argmax())
    for words in (
        [sdk / "smoke/smoke.py"],
        [sdk / "smoke/smoke.py", sdk / "models/double.mali", "--cases", sdk / "smoke/cases", "--device", "auto"],
        ["-m", "malisdk", "smoke", sdk / "models/double.mali", sdk / "smoke/cases"],
    ):
        text = command(*words)
        assert "relative error 0 (limit 0.001)  ok" in text
        assert f"expected {index} (label {index})  ok" in text
        assert "2 of 2 cases passed" in text


def test_smoke_wrong_numbers_fail(malisdk, sdk) -> None:
    expected = sdk / "smoke/cases/random_0/expected_0.npy"
    for value in (2.01, np.nan):
        y = np.load(expected)
        y[0, 0, 0, 0] = value
        np.save(expected, y)
        text = command(sdk / "smoke/smoke.py", code=1)
        assert "WRONG" in text and "1 of 2 cases passed" in text


def test_smoke_wrong_class_fails(malisdk, sdk) -> None:
    x = np.load(sdk / "smoke/cases/image/input_0.npy")
    write_case(sdk / "smoke/cases/image", x, index=int(x.argmin()), preprocess=True)
    assert "WRONG" in command(sdk / "smoke/smoke.py", code=1)


def test_smoke_image_that_is_not_the_stored_input_fails(malisdk, sdk) -> None:
    image = sdk / "smoke/cases/image/image.ppm"
    data = bytearray(image.read_bytes())
    data[-1] ^= 0x80
    image.write_bytes(data)
    assert "differs from input_0.npy" in command(sdk / "smoke/smoke.py", code=1)


@pytest.mark.parametrize(
    ("file", "data", "fragment"),
    [
        ("case.json", None, "no smoke cases"),
        ("case.json", b"{", "not a readable smoke case"),
        ("case.json", b"[]", "not a readable smoke case"),
        ("input_0.npy", None, "input_0.npy: no such file"),
        ("input_0.npy", b"no array", "not a readable smoke case"),
        ("image.ppm", b"P5\n8 8\n255\n" + bytes(64), "no binary PPM"),
        ("image.ppm", b"P6\n8 8\n255\n" + bytes(191), "wrong size"),
        ("image.ppm", b"", "no binary PPM"),
    ],
)
def test_smoke_damaged_case_is_explained(malisdk, sdk, file: str, data: bytes | None, fragment: str) -> None:
    shutil.rmtree(sdk / "smoke/cases/random_0")
    path = sdk / "smoke/cases/image" / file
    path.unlink() if data is None else path.write_bytes(data)
    assert fragment in command(sdk / "smoke/smoke.py", code=1)


def test_smoke_without_the_package_names_the_wheel(malisdk, sdk) -> None:
    (sdk / "python").mkdir()
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    wheel = sdk / f"python/malisdk-0.1.0-{tag}-{tag}-linux_x86_64.whl"
    wheel.touch()
    assert f"pip install {wheel}" in command("-I", "-S", sdk / "smoke/smoke.py", code=1)


def test_example_prints_the_best_classes(malisdk, sdk) -> None:
    x = np.load(sdk / "smoke/cases/image/input_0.npy").reshape(-1)
    image = sdk / "smoke/cases/image/image.ppm"
    text = command(sdk / "examples/python/classify.py", sdk / "models/double.mali", sdk / "models/labels.txt", image)
    lines = text.splitlines()
    assert lines[0].startswith("double on ") and len(lines) == 6
    assert [line.split("  ")[-1] for line in lines[1:]] == [f"label {i}" for i in np.argsort(x)[::-1][:5]]


def test_run_writes_every_output(malisdk, pair_model, tmp_path) -> None:
    for name, values in {"a": [1, 2, 3, 4], "b": [4, 3, 2, 1]}.items():
        np.save(tmp_path / f"{name}.npy", np.float32(values))
    words = ["-m", "malisdk", "run", pair_model, "--output-dir", tmp_path / "out/deep"]
    named = [f"--input=b={tmp_path / 'b.npy'}", f"--input=a={tmp_path / 'a.npy'}"]
    assert "float32 (4,)" in command(*words, *named)
    np.testing.assert_array_equal(np.load(tmp_path / "out/deep/sum.npy"), np.float32([5, 5, 5, 5]))
    np.testing.assert_array_equal(np.load(tmp_path / "out/deep/difference.npy"), np.float32([-3, -1, 1, 3]))
    assert "expected NAME=FILE.npy" in command(*words, "--input", tmp_path / "a.npy", code=3)
    assert "input 'b': missing" in command(*words, *named[1:], code=3)


def test_run_bad_files_are_explained(malisdk, double_model, tmp_path) -> None:
    words = ["-m", "malisdk", "run", double_model, "--output-dir", tmp_path / "out"]
    assert "nothing.npy" in command(*words, "--input", tmp_path / "nothing.npy", code=3)
    (tmp_path / "bad.npy").write_bytes(b"no array")
    assert "not a readable .npy file" in command(*words, "--input", tmp_path / "bad.npy", code=3)
    np.save(tmp_path / "wide.npy", np.zeros(SHAPE))
    assert "got float64 (1, 3, 8, 8)" in command(*words, "--input", tmp_path / "wide.npy", code=3)
    assert not (tmp_path / "out").exists()


def test_info_bench_warmup_devices_print_facts(malisdk, double_model) -> None:
    text = command("-m", "malisdk", "info", double_model)
    assert "input     'x'  float32 (1, 3, 8, 8)" in text and "launches  1" in text
    text = command("-m", "malisdk", "warmup", double_model)
    assert "0 kernels built, 1 came from the cache" in text
    text = command("-m", "malisdk", "bench", double_model, "--runs", 3, "--profile")
    assert "(3 runs)" in text and "double_it" in text and "throughput" in text
    assert malisdk.devices()[0].name in command("-m", "malisdk", "devices")
    assert "0.1.0" in command("-m", "malisdk", "--version")


def test_misuse_ends_with_code_two(malisdk, double_model) -> None:
    for words in ([], ["fly"], ["bench"], ["bench", double_model, "--runs", "0"], ["info", double_model, "--no-such"]):
        assert "usage" in command("-m", "malisdk", *words, code=2)
    assert "MALISDK_FILE_NOT_FOUND" in command("-m", "malisdk", "info", "missing.mali", code=3)
