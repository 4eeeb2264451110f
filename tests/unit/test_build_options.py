"""The command line of the build: what it makes of its options, and what it says to wrong ones."""

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from malisdk_pipeline.recipes import DEFAULT, names
from malisdk_pipeline.sysroot import PYTHONS
from SCons.Errors import UserError

from malisdk_build import options

ROOT = Path(__file__).resolve().parents[2]
DEFAULTS = {
    "target": "rk3399",
    "model": "efficientnet_lite0",
    "dtype": "float32",
    "outputs": "",
    "autotvm_log": "",
    "device": "",
    "pythons": "",
}


def resolve(user_folder=ROOT, shape=(), python_headers=(), goals=("sdk",), **given):
    return options.resolve(
        DEFAULTS | given,
        unknown_options=[key for key in given if key not in DEFAULTS],
        repeated={"shape": list(shape), "python_headers": list(map(str, python_headers))},
        recipes=["efficientnet_lite0", "squeezenet1_1"],
        goals=goals,
        user_folder=user_folder,
    )


def test_defaults_are_the_emulated_board():
    chosen = resolve()
    assert (chosen.target, chosen.device, chosen.pythons) == ("rk3399", "emulator", ("3.9", "3.11", "3.13"))


def test_defaults_of_the_host_run_on_the_host():
    chosen = resolve(target="host")
    assert (chosen.device, chosen.pythons) == ("host", ())


def test_host_may_be_tried_on_rusticl():
    assert resolve(target="host", device="rusticl").device == "rusticl"


def test_default_model_and_pythons_are_the_pipelines():
    assert options.DEFAULT_MODEL == DEFAULT
    assert DEFAULT in names()
    assert tuple(p.version for p in PYTHONS) == options.PYTHONS


def test_model_file_is_found_from_the_users_folder(tmp_path):
    (tmp_path / "my net-2.onnx").write_bytes(b"x")
    chosen = resolve(user_folder=tmp_path, model="my net-2.onnx")
    assert (chosen.model, chosen.model_file) == ("my_net-2", tmp_path / "my net-2.onnx")


def test_mxnet_symbol_brings_the_parameters_of_the_highest_epoch(tmp_path):
    for name in ("net-symbol.json", "net-0003.params", "net-0010.params", "net-small-0099.params", "net.params"):
        (tmp_path / name).touch()
    chosen = resolve(user_folder=tmp_path, model="net-symbol.json")
    assert (chosen.model, chosen.model_file) == ("net", tmp_path / "net-symbol.json")
    assert chosen.params == tmp_path / "net-0010.params"


def test_outputs_cut_the_users_own_model(tmp_path):
    (tmp_path / "net.onnx").touch()
    assert resolve(user_folder=tmp_path, model="net.onnx", outputs="a, b/c:0").outputs == ("a", "b/c:0")


def test_autotvm_log_is_found_from_the_users_folder(tmp_path):
    (tmp_path / "mali.log").touch()
    assert resolve(user_folder=tmp_path, autotvm_log="mali.log").autotvm_log == tmp_path / "mali.log"


def test_python_headers_may_be_repeated(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "Python.h").touch()
        (tmp_path / name / "patchlevel.h").touch()
    assert resolve(user_folder=tmp_path, python_headers=["a", "b"]).python_headers == (tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize("device", ["ssh://10.0.0.7", "ssh://me@board.local:2222", "none", "emulator"])
def test_devices_of_a_board(device):
    assert resolve(device=device).device == device


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tarjet": "host"}, "unknown option, got tarjet; .*did you mean target"),
        (
            {"model": "efficientnet_lite1"},
            "model: unknown name, got efficientnet_lite1; .*did you mean efficientnet_lite0",
        ),
        ({"model": "zzz"}, "model: unknown name, got zzz; .*scons models lists them"),
        ({"model": "gone.onnx"}, "model: no such file, got gone.onnx; expected an .onnx or -symbol.json file"),
        (
            {"model": "./SConstruct"},
            "model: unknown kind of file, got ./SConstruct; expected an .onnx or -symbol.json file",
        ),
        ({"device": "emulater"}, "device: does not fit target=rk3399, got emulater; .*did you mean emulator"),
        ({"device": "ssh://"}, "device: does not fit target=rk3399, got ssh://; "),
        ({"device": "ssh://a b"}, "device: does not fit target=rk3399, got ssh://a b; "),
        ({"target": "host", "device": "emulator"}, "device: does not fit target=host, got emulator; "),
        ({"device": "rusticl"}, "device: does not fit target=rk3399, got rusticl; "),
        ({"device": "none", "goals": ("smoke",)}, "device: nowhere to run the smoke test, got none; "),
        ({"pythons": "3.12"}, "pythons: no headers known, got 3.12; "),
        ({"shape": ["1,3,224,224"]}, "shape: cannot be read, got 1,3,224,224; expected NAME:1,3,224,224"),
        ({"autotvm_log": "no.log"}, "autotvm_log: no such file, got no.log; expected an AutoTVM log"),
        ({"outputs": "a"}, "outputs: only for a model file of your own, got a; "),
        ({"shape": ["x:1,,2"]}, "shape: cannot be read, got x:1,,2; "),
        ({"python_headers": ["/nowhere"]}, "python_headers: no Python headers, got /nowhere; "),
    ],
)
def test_wrong_options_name_the_value_and_what_is_expected(given, message):
    with pytest.raises(UserError) as caught:
        resolve(**given)
    assert re.match(message, str(caught.value).replace("\n", " ")), str(caught.value)


@pytest.mark.skipif(platform.machine() == "aarch64", reason="on arm64 the host is a board")
def test_board_binaries_cannot_run_on_this_machine():
    with pytest.raises(UserError, match="device: does not fit target=rk3399, got host"):
        resolve(device="host")


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            ["sdk", "target=rk3398"],
            "target: unknown value, got rk3398; expected host or rk3399",
            "did you mean rk3399?",
        ),
        (
            ["sdk", "dtype=float61"],
            "dtype: unknown value, got float61; expected float16 or float32",
            "did you mean float16?",
        ),
        (
            ["skd"],
            "unknown target, got skd; "
            "expected bench, bench-gpu, host-wheel, ladder, models, native, sdk, smoke or tune",
            "did you mean sdk?",
        ),
        (["sdk", "modle=x"], "unknown option, got modle; ", "did you mean model?"),
        (["sdk", "model=squeezenet11"], "model: unknown name, got squeezenet11; ", "did you mean squeezenet1_1?"),
    ],
)
def test_scons_explains_a_wrong_command_line_in_one_message(words, message, hint):
    done = subprocess.run(
        [sys.executable, "-m", "SCons", "-Q", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert f"scons: *** {message}" in done.stderr
    assert f"hint: {hint}" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
