"""Compiled models run on a device by the runtime alone, without an SDK around them."""

import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..errors import ToolchainError
from . import runtime_guest
from .base import Device, failure

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

_PROGRAM = "runtime_guest.py"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Outputs by name and the OpenCL device's name; of a model that failed the runtime's status and text instead."""

    outputs: "Mapping[str, np.ndarray[Any, Any]]"
    device: str
    status: str
    error: str


def host_library() -> Path:
    """libmalisdk of the `malisdk` package in this Python. Raises ToolchainError without one."""
    try:
        import malisdk
    except ImportError as e:
        raise ToolchainError(
            f"malisdk: the runtime is not installed in this Python ({e})", hint="./dev scons host-wheel"
        ) from e
    return Path(malisdk.__file__).parent / "_lib" / "libmalisdk.so.0"


def run_models(
    device: Device, requests: "Sequence[tuple[Path, Arrays]]", *, library: Path, timeout_s: float
) -> list[Answer]:
    """Run each (.mali file, inputs by name) once, all in one process on an open device, and return their answers.

    `library` is a libmalisdk for the device. A model that fails is an answer, too. Raises DeviceError: the process died
    (the model is named), the device has no Python with numpy; DeviceTimeoutError after `timeout_s`.
    """
    with TemporaryDirectory(prefix="malisdk-models-") as temporary:
        sent, received = Path(temporary, "requests.zip"), Path(temporary, "answers.zip")
        _pack(requests, sent)
        for file, name in ((library, library.name), (Path(runtime_guest.__file__), _PROGRAM), (sent, sent.name)):
            device.push(file, name)
        words = [device.python, _PROGRAM, f"./{library.name}", sent.name, received.name]
        result = device.run(words, timeout_s=timeout_s)
        if result.code != 0:
            begun = re.findall(r"^model (.*)$", result.output, re.MULTILINE)
            what = f"{begun[-1]}: the runtime died of it" if begun else "the runtime does not start"
            raise failure(device, result, f"{what}, got exit code {result.code}; expected 0")
        device.pull(received.name, received)
        return _unpack(received)


def _pack(requests: "Sequence[tuple[Path, Arrays]]", path: Path) -> None:
    import numpy as np

    with zipfile.ZipFile(path, "w") as out:
        for i, (model, inputs) in enumerate(requests):
            out.write(model, f"{i}.mali")
            for j, array in enumerate(inputs.values()):
                with out.open(f"{i}/{j}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.require(array, requirements="C"), allow_pickle=False)
        listing = [{"name": model.name, "inputs": list(inputs)} for model, inputs in requests]
        out.writestr("requests.json", json.dumps(listing))


def _unpack(path: Path) -> list[Answer]:
    import numpy as np

    answers = []
    with zipfile.ZipFile(path) as source:
        for i, answer in enumerate(json.loads(source.read("answers.json"))):
            outputs = {}
            for j, name in enumerate(answer.get("outputs", ())):
                outputs[name] = np.load(io.BytesIO(source.read(f"{i}/{j}.npy")), allow_pickle=False)
            answers.append(
                Answer(
                    outputs=outputs,
                    device=answer.get("device", ""),
                    status=answer.get("status", ""),
                    error=answer.get("error", ""),
                )
            )
    return answers
