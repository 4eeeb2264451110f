"""The way of a model through the pipeline: recipe, golden cases, compiled model, bundle, smoke test."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .native import Native
from .options import Options
from .tuning import LOG

EXAMPLES = {
    "c": "native/examples/c/*.c",
    "cpp": "native/examples/cpp/*.cpp",
    "python": "bindings/python/examples/*.py",
}
HEADERS = "native/include/malisdk/*.h*"


@dataclass(frozen=True, kw_only=True)
class Model:
    """An ONNX file and, for a recipe, the folder of what belongs to it (followed by its listing)."""

    onnx: Any
    folder: str | None
    listing: Any


def build_model(env: Any, options: Options) -> Model:
    if options.model_file is not None:
        return Model(onnx=_converted(env, options, options.model_file), folder=None, listing=None)
    folder = f"build/models/{options.model}"
    recipe = Path("models", f"{options.model}.py")
    listing, onnx = env.PipelineFolder(
        [f"{folder}.sha256", f"{folder}/model.onnx"],
        str(recipe),
        ARGUMENTS=["models", "build", options.model],
        EXTRA_MODULES=[recipe],
    )
    return Model(onnx=onnx, folder=folder, listing=listing)


def _converted(env: Any, options: Options, file: Path) -> Any:
    """The user's ONNX file; or what `convert` makes of an MXNet model, or of one that is cut."""
    if file.suffix == ".onnx" and not options.outputs:
        return env.File(str(file))
    params = [env.File(str(options.params))] if options.params else []
    cuts = [word for name in options.outputs for word in ("--cut", name)]
    return env.Pipeline(
        f"build/models/{options.model}.onnx",
        [env.File(str(file)), *params],
        ARGUMENTS=["convert", "$SOURCE", *cuts, *_shape_flags(options)],
    )[0]


def build_cases(env: Any, options: Options, model: Model) -> Any:
    """The listing of the golden cases' folder."""
    recipe = ["--recipe", model.folder] if model.folder else []
    listing = env.PipelineFolder(
        f"build/{options.target}/golden/{options.model}.sha256",
        model.onnx,
        ARGUMENTS=["golden", "$SOURCE", *recipe, "--dtype", options.dtype, *_shape_flags(options)],
    )
    if model.listing is not None:
        env.Depends(listing, model.listing)
    return listing[0]


def compile_model(env: Any, options: Options, model: Model) -> Any:
    flags = ["--target", options.target, "--dtype", options.dtype, "--name", options.model, *_shape_flags(options)]
    out = f"build/{options.target}/{options.model}.mali"
    tuned = [env.File(str(LOG))] if LOG.is_file() else []
    flags += [word for log in tuned for word in ("--tuning-log", str(log))]
    if options.autotvm_log is not None:
        tuned.append(env.File(str(options.autotvm_log)))
        flags += ["--autotvm-log", str(options.autotvm_log)]
    mali = env.Pipeline(out, model.onnx, ARGUMENTS=["compile", "$SOURCE", *flags])
    env.Depends(mali, tuned)
    return mali[0]


def _shape_flags(options: Options) -> list[str]:
    return [word for shape in options.shapes for word in ("--shape", shape)]


def build_bundle(env: Any, options: Options, *, model: Model, cases: Any, mali: Any, native: Native) -> Any:
    folder = str(cases).removesuffix(".sha256")
    flags = ["--target", options.target, "--model", options.model]
    inputs: list[tuple[str, Any]] = [("mali", mali), ("library", native.library), ("tool", native.command)]
    inputs += [("wheel", wheel) for wheel in native.wheels]
    inputs += [("header", env.File(str(f))) for f in sorted(Path().glob(HEADERS))]
    inputs += [("smoke", env.File(str(f))) for f in sorted(Path("bindings/python/smoke").glob("*.*"))]
    sources = [node for _, node in inputs]
    flags += [word for i, (name, _) in enumerate(inputs) for word in (f"--{name}", f"${{SOURCES[{i}]}}")]
    for language, pattern in EXAMPLES.items():
        for file in sorted(Path().glob(pattern)):
            sources.append(env.File(str(file)))
            flags += ["--example", f"{language}={file}"]
    for name, file in {"LICENSE": Path("LICENSE"), **env["LICENCES"]}.items():
        sources.append(env.File(str(file)))
        flags += ["--licence", f"{name}={file}"]
    flags += ["--cases", folder]
    if model.folder is not None:
        flags += ["--recipe", model.folder]
        sources.append(model.listing)
    out = f"build/{options.target}/malisdk-{options.model}-{options.target}.tar.gz"
    bundle = env.Pipeline(out, [*sources, cases], ARGUMENTS=["bundle", *flags])
    env.NoCache(bundle)
    return bundle[0]


def smoke_test(env: Any, options: Options, bundle: Any, *, again: bool) -> Any:
    """What the smoke test printed, kept beside the bundle; the test runs when the bundle or the device changes."""
    report = env.PipelineReport(
        f"build/{options.target}/malisdk-{options.model}-{options.target}.smoke.txt",
        bundle,
        ARGUMENTS=["smoke", "$SOURCE", "--device", options.device],
    )
    if again:
        env.AlwaysBuild(report)
    return report[0]
