"""The malisdk command and the C and C++ examples, as a user calls them."""

import json
import re
import subprocess
from pathlib import Path

import native_plans as plans
import numpy as np
import pytest
from malisdk_pipeline import container
from malisdk_pipeline.plan import Buffer, Kernel, Launch, Place, Plan, TensorSpec
from native_build import Built

pytestmark = pytest.mark.usefixtures("opencl", "cache")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.mali"
    path.write_bytes(plans.pack())
    return path


def call(built: Built, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([built.command, *map(str, arguments)], capture_output=True, text=True, check=False)


def save_case(folder: Path, seed: int, *, error: float = 0.0, top1: int | None = None) -> None:
    folder.mkdir(parents=True)
    inputs = plans.make_inputs(seed)
    truth = plans.expected(inputs)
    truth["y"] = truth["y"] + np.float32(error * np.abs(truth["y"]).max())
    for i, name in enumerate(("x", "z")):
        np.save(folder / f"input_{i}.npy", inputs[name])
    np.save(folder / "expected_0.npy", truth["y"])
    facts = {
        "inputs": ["x", "z"],
        "outputs": ["y"],
        "rtol": 1e-3,
        "top1": None if top1 is None else {"index": top1, "label": "caf\u00e9"},
        "image": None,
        "preprocess": None,
    }
    (folder / "case.json").write_text(json.dumps(facts))


def test_run_writes_every_output_as_npy(built: Built, model: Path, tmp_path: Path):
    inputs = plans.make_inputs(4)
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
    out = tmp_path / "out"
    done = call(
        built, "run", model, "--input", f"x={tmp_path}/x.npy", f"--input=z={tmp_path}/z.npy", "--output-dir", out
    )
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in out.iterdir()) == ["group_r_0.npy", "y.npy"]
    plans.check({"y": np.load(out / "y.npy"), "group/r:0": np.load(out / "group_r_0.npy")}, inputs)
    assert f"{out}/y.npy  float32[2,3,16]" in done.stdout


def test_run_refuses_arrays_that_do_not_fit(built: Built, model: Path, tmp_path: Path):
    out = tmp_path / "out"
    x = plans.make_inputs()["x"]
    np.save(tmp_path / "f64.npy", x.astype(np.float64))
    np.save(tmp_path / "fortran.npy", np.asfortranarray(x))
    np.save(tmp_path / "big.npy", x.astype(">f4"))
    np.save(tmp_path / "good.npy", x)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "good.npy").read_bytes()[:-3])
    (tmp_path / "text.npy").write_text("no array at all")

    def stderr(name: str) -> str:
        done = call(built, "run", model, "--input", f"x={tmp_path}/{name}.npy", "--output-dir", out)
        assert done.returncode == 3 and not out.exists()
        return done.stderr

    assert "got float64[2,3,16]; expected float32[2,3,16]" in stderr("f64")
    assert "Fortran order" in stderr("fortran")
    assert "dtype '>f4' is not supported" in stderr("big")
    assert "truncated" in stderr("cut")
    assert "is no .npy file" in stderr("text")
    assert "cannot be opened" in stderr("none")
    assert "input 'z': missing" in stderr("good")


@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (1, 2, 3, 4)])
def test_npy_of_every_dtype_and_rank_is_read(
    built: Built, model: Path, tmp_path: Path, dtype: str, shape: tuple[int, ...]
):
    array = np.ones(shape, dtype)
    np.save(tmp_path / "a.npy", array)
    done = call(built, "run", model, "--input", f"x={tmp_path}/a.npy", "--output-dir", tmp_path / "out")
    extents = ",".join(map(str, shape))
    assert f"got {array.dtype}[{extents}]; expected float32[2,3,16]" in done.stderr


def test_smoke_passes_right_cases_and_fails_wrong_ones(built: Built, model: Path, tmp_path: Path):
    cases = tmp_path / "cases"
    best = int(np.argmax(plans.expected(plans.make_inputs(1))["y"]))
    save_case(cases / "random_0", 1, top1=best)
    done = call(built, "smoke", model, cases)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"output 'y'  relative error \d\.?\d*e-\d+ \(limit 0\.001\)  ok", done.stdout)
    assert f"top-1 is {best}, expected {best} (caf\u00e9)  ok" in done.stdout and "1 of 1 cases passed" in done.stdout
    save_case(cases / "off", 2, error=0.002)
    done = call(built, "smoke", model, cases)
    assert done.returncode == 1 and "relative error 0.002 (limit 0.001)  WRONG" in done.stdout
    assert "1 of 2 cases passed" in done.stdout
    save_case(cases / "top", 1, top1=best + 1)
    assert f"top-1 is {best}, expected {best + 1} (caf\u00e9)  WRONG" in call(built, "smoke", model, cases).stdout


def test_smoke_refuses_damaged_cases(built: Built, model: Path, tmp_path: Path):
    cases = tmp_path / "cases"
    cases.mkdir()
    assert "holds no smoke case" in call(built, "smoke", model, cases).stderr
    save_case(cases / "a", 1)
    path = cases / "a" / "case.json"
    text = path.read_text()
    for bad, what in (
        (text[:-5], "damaged JSON"),
        (text.replace('"rtol"', '"rtool"'), "key 'rtol' is missing"),
        (text.replace("0.001", '"x"'), "key 'rtol' has the wrong type"),
        (text.replace('["y"]', '["q"]'), "no output 'q'"),
        ("[" * 100000, "nested too deeply"),
    ):
        path.write_text(bad)
        done = call(built, "smoke", model, cases)
        assert done.returncode == 3 and what in done.stderr, done.stderr


def test_smoke_counts_a_nan_as_wrong(built: Built, model: Path, tmp_path: Path):
    save_case(tmp_path / "cases" / "a", 1)
    truth = np.load(tmp_path / "cases" / "a" / "expected_0.npy")
    truth[0, 0, 0] = np.nan
    np.save(tmp_path / "cases" / "a" / "expected_0.npy", truth)
    done = call(built, "smoke", model, tmp_path / "cases")
    assert done.returncode == 1 and "relative error inf" in done.stdout


def test_info_warmup_bench_and_devices(built: Built, model: Path, cache: Path):
    info = call(built, "info", model)
    assert info.returncode == 0 and "'group/r:0'  int32[96]  384 bytes" in info.stdout
    assert "kernels   3 (3 from the cache)" in call(built, "info", model).stdout
    assert "0 kernels built, 3 came from the cache" in call(built, "warmup", model).stdout
    bench = call(built, "bench", model, "--runs", 3, "--profile")
    assert bench.returncode == 0, bench.stderr
    for word in ("latency     min", "median", "p95", "throughput", "resident", "GFLOPS", "square_add"):
        assert word in bench.stdout
    devices = call(built, "devices")
    assert devices.returncode == 0 and "platform" in devices.stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "no command given"),
        (("bnech",), "unknown command, got 'bnech' (did you mean 'bench'?)"),
        (("bench", "x.mali", "--rnus", "3"), "unknown option, got '--rnus' (did you mean '--runs'?)"),
        (("bench", "x.mali", "--runs", "many"), "--runs: got 'many'; expected a number from 1"),
        (("bench", "x.mali", "--runs"), "--runs: has no value; expected N"),
        (("bench", "x.mali", "--runs", "1", "--runs", "2"), "--runs: given twice"),
        (("bench", "x.mali", "--profile=yes"), "--profile: takes no value"),
        (("info",), "got 0 arguments; expected: malisdk info MODEL.mali"),
        (("run", "x.mali", "--output-dir", "d"), "--input is missing"),
    ],
)
def test_misuse_is_exit_code_2_with_a_hint(built: Built, arguments: tuple[str, ...], text: str):
    done = call(built, *arguments)
    assert done.returncode == 2 and text in done.stderr and done.stdout == ""


def test_help_and_version(built: Built):
    overview = call(built, "--help")
    assert overview.returncode == 0
    for name in ("run", "bench", "info", "smoke", "warmup", "devices"):
        assert f"\n  {name}" in overview.stdout
        text = call(built, name, "--help")
        assert text.returncode == 0 and text.stdout.startswith(f"usage: malisdk {name}")
    assert call(built, "--version").stdout == "malisdk 0.1.0 (ABI 1)\n"


def test_files_that_are_none_are_exit_code_3(built: Built, tmp_path: Path):
    missing = call(built, "info", tmp_path / "none.mali")
    assert missing.returncode == 3 and "none.mali: cannot be opened" in missing.stderr and missing.stdout == ""
    library = call(built, "devices", "--opencl-library", "/nowhere.so")
    assert library.returncode == 3 and "/nowhere.so" in library.stderr


def mean_color_model() -> Plan:
    """Scores are the picture's mean red, green and blue."""
    source = """__kernel void mean_of_plane(__global const float* x, __global float* y) {
  float sum = 0.0f;
  for (int i = 0; i < 16; ++i) sum += x[get_global_id(0) * 16 + i];
  y[get_global_id(0)] = sum / 16.0f;
}
"""
    return Plan(
        model_name="mean_color",
        target="host",
        dtype="float32",
        inputs=(TensorSpec(name="image", dtype="float32", shape=(1, 3, 4, 4), buffer=0),),
        outputs=(TensorSpec(name="scores", dtype="float32", shape=(1, 3), buffer=1),),
        buffers=(Buffer(place=Place.INPUT, size_bytes=192), Buffer(place=Place.OUTPUT, size_bytes=12)),
        kernels=(Kernel(name="mean_of_plane", source=source, local_size=(1, 1, 1)),),
        launches=(Launch(kernel=0, buffers=(0, 1), global_size=(3, 1, 1), layer="", rule="", flops=0, bytes=0),),
        weights=b"",
        arena_bytes=0,
        metadata={},
    )


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_example_classifies_a_picture(built: Built, tmp_path: Path, language: str):
    (tmp_path / "m.mali").write_bytes(container.pack(mean_color_model()))
    (tmp_path / "green.ppm").write_bytes(b"P6\n4 4\n255\n" + bytes((10, 200, 90)) * 16)
    (tmp_path / "labels.txt").write_text("red\ngreen\nblue\n")
    program = built.example_c if language == "c" else built.example_cpp
    done = subprocess.run(
        [program, tmp_path / "m.mali", tmp_path / "green.ppm", tmp_path / "labels.txt"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    values = [(200 - 127) / 128, (90 - 127) / 128, (10 - 127) / 128]
    words = [line.split() for line in done.stdout.splitlines()]
    assert [w[2] for w in words] == ["green", "blue", "red"]
    assert [float(w[0]) for w in words] == pytest.approx(values, abs=1e-4)
    wrong = subprocess.run(
        [program, tmp_path / "m.mali", tmp_path / "labels.txt"], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 1 and "expected a P6 picture of 4 x 4" in wrong.stderr
