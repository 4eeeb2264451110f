"""Compile a model for this machine and run it once through the native runtime."""

import argparse
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BundleError, ConfigError, DeviceError, MaliSdkError, ToolchainError
from ..shapes import parse_shapes
from .compile import add_model_arguments

if TYPE_CHECKING:
    import numpy as np

SUMMARY = "compile and run a model on this machine"
_TIMEOUT_S = 1800.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser, default_target="host")
    parser.add_argument(
        "--inputs", type=Path, required=True, metavar="IN.npz", help="one array for each input, by name"
    )
    parser.add_argument("--outputs", type=Path, required=True, metavar="OUT.npz", help="gets one array for each output")
    parser.add_argument(
        "--device",
        default="auto",
        help="auto, gpu, cpu, a part of an OpenCL device's name, or rusticl: Mesa's OpenCL from Debian's packages, "
        "which has float16",
    )


def main(args: argparse.Namespace) -> int:
    import tempfile

    from ..compile import build_model

    if args.target != "host":
        raise ConfigError(
            f"target: only this machine can be run on, got {args.target}; expected host",
            hint="python -m malisdk_pipeline smoke runs a bundle on a device",
        )
    inputs = _read(args.inputs)
    with tempfile.TemporaryDirectory() as folder:
        if args.model.suffix == ".mali":
            path = args.model
        else:
            path = build_model(
                args.model,
                "host",
                args.dtype,
                parse_shapes(args.shape),
                Path(folder) / "model.mali",
                outputs=args.cut,
                dump_ir=args.dump_ir,
                tuning=args.tuning_log,
            )
        results = (
            _run_on_rusticl(path, inputs) if args.device == "rusticl" else run_file(path, inputs, device=args.device)
        )
    _write(args.outputs, results)
    for name, array in results.items():
        print(f"{name} {array.dtype} {list(array.shape)}")
    return 0


def run_file(
    path: Path, inputs: "dict[str, np.ndarray[Any, Any]]", *, device: str
) -> "dict[str, np.ndarray[Any, Any]]":
    """Run a .mali file through the host build of the malisdk package."""
    import numpy as np

    try:
        import malisdk
    except ImportError as e:
        raise ToolchainError(
            f"malisdk: the runtime is not installed in this Python ({e})", hint="./dev scons host-wheel"
        ) from e
    try:
        with malisdk.load(path, device=device) as model:
            known = [t.name for t in model.inputs]
            missing = [n for n in known if n not in inputs]
            unknown = [n for n in inputs if n not in known]
            if missing or unknown:
                raise ConfigError(
                    f"inputs: got arrays {', '.join(inputs) or 'none'}; expected {', '.join(known) or 'none'}",
                    hint="name the arrays in the .npz as the model names its inputs",
                )
            result = model.run({n: np.ascontiguousarray(a).reshape(a.shape) for n, a in inputs.items()})
            if not isinstance(result, dict):
                result = {model.outputs[0].name: result}
            return {n: np.array(a) for n, a in result.items()}
    except malisdk.Error as e:
        raise _as_ours(malisdk.Status(e.code).name)(str(e)) from e


def _run_on_rusticl(path: Path, inputs: "dict[str, np.ndarray[Any, Any]]") -> "dict[str, np.ndarray[Any, Any]]":
    from ..devices.runtime import host_library, run_models
    from ..devices.rusticl import RusticlDevice

    library = host_library()
    with RusticlDevice() as device:
        (answer,) = run_models(device, [(path, inputs)], library=library, timeout_s=_TIMEOUT_S)
    if answer.error:
        raise _as_ours(answer.status.removeprefix("MALISDK_"))(answer.error)
    return dict(answer.outputs)


def _as_ours(status: str) -> type[MaliSdkError]:
    """The error class that says whose fault a failure of the runtime is: the arguments', the file's or the device's."""
    if status in ("INVALID_ARGUMENT", "WRONG_TENSOR"):
        return ConfigError
    if status in ("FILE_NOT_FOUND", "FOREIGN_FILE", "DAMAGED_FILE", "VERSION_MISMATCH"):
        return BundleError
    return DeviceError


def _read(path: Path) -> "dict[str, np.ndarray[Any, Any]]":
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            if not hasattr(archive, "files"):
                raise ConfigError(f"{path}: holds one array; expected a .npz archive of named arrays")
            return {n: archive[n] for n in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as e:
        raise ConfigError(f"{path}: cannot be read as .npz ({e})", hint="numpy.savez(path, name=array)") from e


def _write(path: Path, arrays: "dict[str, np.ndarray[Any, Any]]") -> None:
    import numpy as np

    from ..files import atomic_path

    try:
        # numpy.savez would take an output called `file` for an argument of its own.
        with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
    except OSError as e:
        raise ConfigError(f"{path}: cannot be written ({e.strerror})") from e
