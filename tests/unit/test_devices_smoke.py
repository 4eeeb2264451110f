"""The smoke test's own judgement, with a device that answers from a script."""

import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from malisdk_pipeline.__main__ import main
from malisdk_pipeline.devices.base import Result, Session
from malisdk_pipeline.devices.sdk_archive import SdkArchive, read_sdk_archive
from malisdk_pipeline.devices.smoke import smoke
from malisdk_pipeline.errors import BundleError, DeviceError

_AARCH64, _X86_64 = 183, 62
_CASE = {"inputs": ["data"], "outputs": ["prob"], "rtol": 1e-3, "top1": {"index": 504, "label": "espresso"}}

_NATIVE = (
    "coffee           output 'prob'  relative error 2.4e-07 (limit 0.001)  ok\n"
    "coffee           top-1 is 504, expected 504 (espresso)  ok\n1 of 1 cases passed\n"
)
_PYTHON = _NATIVE.replace("2.4e-07", "2.6e-07").replace("is 504", "is 504 (0.9512)")


def _elf(machine: int) -> bytes:
    return b"\x7fELF\x02\x01\x01" + bytes(9) + (3).to_bytes(2, "little") + machine.to_bytes(2, "little") + bytes(44)


def _archive_files(machine: int = _AARCH64) -> dict[str, bytes]:
    return {
        "sdk/bin/malisdk": _elf(machine),
        "sdk/models/net.mali": b"mali",
        "sdk/python/malisdk-0.1.0-cp311-cp311-linux_aarch64.whl": b"zip",
        "sdk/smoke/cases/coffee/case.json": json.dumps(_CASE).encode(),
    }


def _write(path: Path, content: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


class ScriptedDevice(Session):
    """Answers by the first word or two of a command; everything else ends with 0 and says nothing."""

    folder = "/tmp/scripted"

    def __init__(self, answers: Mapping[str, tuple[int, str]]) -> None:
        self.name = "scripted"
        self.answers = {
            "uname": (0, "aarch64\n"),
            "bin/malisdk devices": (0, "pthread\n  platform  pocl\n"),
            "bin/malisdk smoke": (0, _NATIVE),
            "python3 -c": (0, "python-tag cp311\n"),
            "python3 -m": (1, "No module named pip\n"),
            "python3 -m zipfile": (0, ""),
            "python3 smoke/smoke.py": (0, _PYTHON),
            **answers,
        }
        self.commands: list[str] = []

    def open(self) -> None: ...

    def close(self) -> None: ...

    def push(self, local: Path, remote: str) -> None: ...

    def pull(self, remote: str, local: Path) -> None: ...

    def run(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, cwd: str = "."
    ) -> Result:
        assert timeout_s > 0
        text = " ".join(argv)
        self.commands.append(text)
        matching = sorted((key for key in self.answers if text.startswith(key)), key=len)
        code, output = self.answers[matching[-1]] if matching else (0, "")
        return Result(code=code, output=output, seconds=0.5)


@pytest.fixture
def archive(tmp_path: Path) -> SdkArchive:
    return read_sdk_archive(_write(tmp_path / "sdk.tar.gz", _archive_files()))


def test_both_reports_within_limits_pass(archive: SdkArchive) -> None:
    device = ScriptedDevice({})
    report = smoke(device, archive, timeout_s=60)
    assert report.passed
    assert report.driver == "pthread\n  platform  pocl"
    assert [[(c.case, c.error, c.top1) for c in run.cases] for run in report.runs] == [
        [("coffee", 2.4e-07, "espresso")],
        [("coffee", 2.6e-07, "espresso")],
    ]
    assert "python3 -m zipfile -e sdk/python/malisdk-0.1.0-cp311-cp311-linux_aarch64.whl python-site" in device.commands


def test_pip_installs_the_wheel_where_there_is_pip(archive: SdkArchive) -> None:
    device = ScriptedDevice({"python3 -m pip": (0, "pip 23")})
    assert smoke(device, archive, timeout_s=60).passed
    assert any("pip install" in c and "--no-index" in c for c in device.commands)
    assert not any("zipfile" in c for c in device.commands)


@pytest.mark.parametrize(
    "output",
    [
        _NATIVE.replace("2.4e-07", "0.0011"),
        _NATIVE.replace("2.4e-07", "nan"),
        _NATIVE.replace("2.4e-07", "inf"),
        _NATIVE.replace("top-1 is 504", "top-1 is 505"),
        _NATIVE.replace("coffee", "other"),
        _NATIVE.replace("'prob'", "'logits'"),
        "\n".join(line for line in _NATIVE.splitlines() if "top-1" not in line),
    ],
    ids=["above limit", "nan", "inf", "other class", "case missing", "output missing", "class missing"],
)
def test_wrong_or_incomplete_report_fails_despite_exit_code_0(archive: SdkArchive, output: str) -> None:
    assert not smoke(ScriptedDevice({"bin/malisdk smoke": (0, output)}), archive, timeout_s=60).passed


def test_wrong_python_report_fails(archive: SdkArchive) -> None:
    output = _PYTHON.replace("2.6e-07", "0.0011")
    assert not smoke(ScriptedDevice({"python3 smoke/smoke.py": (0, output)}), archive, timeout_s=60).passed


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"uname": (0, "x86_64\n")}, "wrong machine for sdk.tar.gz, got x86_64; expected aarch64"),
        ({"tar": (2, "tar: No space left on device\n")}, "cannot unpack(.|\n)*free some space"),
        ({"bin/malisdk devices": (1, "no OpenCL library\n")}, "no usable OpenCL(.|\n)*no OpenCL library"),
        ({"bin/malisdk smoke": (1, "malisdk: damaged\n")}, "reported no case, got exit code 1(.|\n)*damaged"),
        ({"bin/malisdk smoke": (139, _NATIVE)}, "failed after its cases, got exit code 139"),
        ({"python3 -c": (127, "python3: not found\n")}, "python3 does not run, got exit code 127"),
        ({"python3 -c": (0, "python-tag cp312\n")}, "no wheel for its Python .*got cp312; expected one of cp311"),
        ({"python3 -m zipfile": (1, "bad zip\n")}, "cannot install python/malisdk"),
        ({"python3 smoke/smoke.py": (1, "error: cannot import malisdk\n")}, "reported no case(.|\n)*cannot import"),
    ],
)
def test_broken_device_or_program_is_an_error(
    archive: SdkArchive, answers: dict[str, tuple[int, str]], expected: str
) -> None:
    with pytest.raises(DeviceError) as caught:
        smoke(ScriptedDevice(answers), archive, timeout_s=60)
    assert caught.match(expected)


def test_archive_tells_machine_model_wheels_and_cases(archive: SdkArchive) -> None:
    assert (archive.folder, archive.machine, archive.model) == ("sdk", "aarch64", "models/net.mali")
    assert archive.wheels == {"cp311": "python/malisdk-0.1.0-cp311-cp311-linux_aarch64.whl"}
    (case,) = archive.cases
    assert (case.name, case.limits, case.top1) == ("coffee", {"prob": 1e-3}, (504, "espresso"))


def _without(name: str) -> Callable[[dict[str, bytes]], None]:
    return lambda content: content.pop(name) and None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_without("sdk/bin/malisdk"), "no bin/malisdk"),
        (_without("sdk/models/net.mali"), "0 compiled models"),
        (_without("sdk/smoke/cases/coffee/case.json"), "no smoke cases"),
        (lambda content: content.update({"other/file": b""}), "2 top folders, got other, sdk"),
        (lambda content: content.update({"sdk/bin/malisdk": b"#!/bin/sh"}), "bin/malisdk is no program"),
        (lambda content: content.update({"sdk/smoke/cases/coffee/case.json": b"{}"}), "case.json is not readable"),
    ],
)
def test_archive_without_its_parts_is_refused(
    tmp_path: Path, change: Callable[[dict[str, bytes]], None], expected: str
) -> None:
    content = _archive_files()
    change(content)
    with pytest.raises(BundleError, match=expected):
        read_sdk_archive(_write(tmp_path / "sdk.tar.gz", content))


def test_truncated_foreign_or_missing_archive_exits_7(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = _write(tmp_path / "whole.tar.gz", {**_archive_files(), "sdk/models/net.mali": bytes(range(256)) * 100})
    (tmp_path / "cut.tar.gz").write_bytes(whole.read_bytes()[:-200])
    (tmp_path / "text.tar.gz").write_text("hello")
    (tmp_path / "empty.tar.gz").touch()
    for name in ("cut", "text", "empty", "missing"):
        assert main(["smoke", str(tmp_path / f"{name}.tar.gz"), "--device", "host", "--out", str(tmp_path / "o")]) == 7
        assert f"{name}.tar.gz" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_archive_for_another_machine_exits_8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import platform

    machine = _AARCH64 if platform.machine() != "aarch64" else _X86_64
    path = _write(tmp_path / "sdk.tar.gz", _archive_files(machine))
    assert main(["smoke", str(path), "--device", "host"]) == 8
    assert "wrong machine" in capsys.readouterr().err
