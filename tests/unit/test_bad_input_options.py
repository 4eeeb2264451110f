"""Misspelt commands and options of `python -m malisdk_pipeline`: exit code 2 and the nearest right word."""

import pytest


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            "compil net.onnx",
            "COMMAND: unknown value, got compil; expected bench, bench-gpu, bundle, compile, ",
            "did you mean compile?",
        ),
        ("models buidl x --out d", "ACTION: unknown value, got buidl; expected list, build", "did you mean build?"),
        (
            "compile net.onnx --target rk3398 --out net.mali",
            "compile: --target: unknown value, got rk3398; expected rk3399, host",
            "did you mean rk3399?",
        ),
        (
            "compile net.onnx --target rk3399 --dtype float61 --out net.mali",
            "compile: --dtype: unknown value, got float61; expected float32, float16",
            "did you mean float16?",
        ),
        (
            "compile net.onnx --targt rk3399 --out net.mali",
            "compile: unknown argument, got --targt; expected ",
            "did you mean --target?",
        ),
        (
            "compile net.onnx --target rk3399 --out net.mali --shap x:1",
            "compile: unknown argument, got --shap; expected ",
            "did you mean --shape?",
        ),
        ("compile net.onnx", "required: --target, --out", "python -m malisdk_pipeline compile --help"),
        (
            "models build efficientnet_lite --out d",
            "model: unknown name, got efficientnet_lite; expected one of efficientnet_lite0, ",
            "did you mean efficientnet_lite0?",
        ),
        ("smoke sdk.tar.gz --device emulater", "device: unknown device, got 'emulater'; ", "did you mean emulator?"),
        ("emulator setup --suite bookwurm", "emulator: unknown Debian suite, got bookwurm; ", "emulator:bookworm?"),
        ("sysroot python-headers --python 3.12 --out d", "--python: unknown value, got 3.12; expected 3.9, ", "hint"),
    ],
)
def test_misspelt_word_is_refused_with_the_nearest(refused, words: str, message: str, hint: str) -> None:
    said = refused(*words.split(), code=2)
    assert message in said
    assert hint in said.partition("\n")[2]
