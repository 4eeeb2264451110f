"""What `scons` says on a machine without a cross compiler, and to a model that is not there."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def scons_refuses(*words: str, python_path: Path | None = None) -> str:
    """The one message of a build that ends before it begins."""
    env = {**os.environ, **({"PYTHONPATH": str(python_path)} if python_path else {})}
    done = subprocess.run(
        [sys.executable, "-m", "SCons", "-Q", "-C", str(ROOT), *words],
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert "Traceback" not in said and said.count("scons: *** ") == 1, said
    return done.stderr.partition("scons: *** ")[2]


def test_no_cross_compiler_package_is_explained(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['ziglang'] = None\n")
    said = scons_refuses("native", "target=rk3399", python_path=tmp_path)
    assert said.startswith("ziglang: no cross compiler, got no such Python package; expected it installed\nhint: ./dev")


def test_cross_compiler_that_is_no_program_is_explained(tmp_path: Path) -> None:
    (tmp_path / "ziglang").mkdir()
    (tmp_path / "ziglang" / "__init__.py").touch()
    said = scons_refuses("native", "target=rk3399", python_path=tmp_path)
    assert said.startswith(f"{tmp_path}/ziglang/zig: no cross compiler, got no executable; expected zig\nhint: ")


def test_missing_model_file_is_named() -> None:
    said = scons_refuses("sdk", "model=gone/net.onnx")
    assert said.startswith(
        "model: no such file, got gone/net.onnx; expected an .onnx or -symbol.json file\nhint: relative to "
    )
