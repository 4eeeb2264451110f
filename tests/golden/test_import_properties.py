"""Windows, resizes, slices and pads with random attributes agree with onnxruntime, or are refused where it refuses.

Each runs through plain TVM on the CPU, which is the importer alone, and compiled through the runtime on OpenCL.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from malisdk_pipeline.importers import import_onnx

from llvm_truth import run
from onnx_models import model_of_node, onnxruntime_answers, random_array, relative_error, save

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("how", ["llvm", "opencl"])]
# A kernel takes much longer to build than to try.
_EXAMPLES = {"llvm": 40, "opencl": 6}


def property_test(**strategies: Any) -> Callable[[Callable[..., None]], Callable[[str], None]]:
    """A test of `body(how, **drawn)` for drawn values, as many as `how` affords; the same ones in every run."""

    def decorate(body: Callable[..., None]) -> Callable[[str], None]:
        def test(how: str) -> None:
            few = settings(
                max_examples=_EXAMPLES[how],
                deadline=None,
                derandomize=True,
                suppress_health_check=[HealthCheck.too_slow],
            )

            @few
            @given(**strategies)
            def check(**drawn: Any) -> None:
                body(how, **drawn)

            check()

        test.__name__, test.__doc__ = body.__name__, body.__doc__
        return test

    return decorate


def on_opencl(path: Path, feeds: dict[str, Any]) -> list[Any]:
    pytest.importorskip("malisdk", reason="the malisdk wheel for this machine is not installed")
    from malisdk_pipeline.commands.run import run_file
    from malisdk_pipeline.compile import build_model

    return list(run_file(build_model(path, "host", out=path.with_suffix(".mali")), feeds, device="auto").values())


def agrees(how: str, model: onnx.ModelProto, feeds: dict[str, Any]) -> None:
    try:
        wanted = onnxruntime_answers(model, feeds)
    except Exception:  # onnxruntime refuses the attributes, so there is no truth; an importer that does too is fine
        assume(False)
    with TemporaryDirectory() as folder:
        path = save(model, Path(folder))
        imported = import_onnx(path)
        found = run(imported, feeds) if how == "llvm" else on_opencl(path, feeds)
    for info, ours, theirs in zip(imported.outputs, found, wanted, strict=True):
        assert (info.shape, info.dtype) == (theirs.shape, str(theirs.dtype))
        assert relative_error(ours, theirs) <= 1e-5


@st.composite
def windows(draw: st.DrawFn, *, pool: bool) -> tuple[list[int], dict[str, Any]]:
    """Spatial sizes and window attributes for one to three dimensions; pads stay smaller than the kernel."""
    rank = draw(st.integers(1, 3))
    sizes = [draw(st.integers(3, 9)) for _ in range(rank)]
    kernel = [draw(st.integers(1, 4)) for _ in range(rank)]
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": [draw(st.integers(1, 3)) for _ in range(rank)],
        "dilations": [draw(st.integers(1, 2)) for _ in range(rank)],
    }
    if draw(st.booleans()):
        attributes["pads"] = [draw(st.integers(0, k - 1)) for k in kernel * 2]
    else:
        # About SAME with dilations and with strides beyond the kernel ONNX and onnxruntime disagree; it is refused.
        attributes["dilations"] = [1] * rank if pool else attributes["dilations"]
        attributes["strides"] = [min(s, k) for s, k in zip(attributes["strides"], kernel, strict=True)]
        attributes["auto_pad"] = draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    if pool and "pads" in attributes:
        attributes["ceil_mode"] = draw(st.integers(0, 1))
    # A window larger than its image is refused; onnxruntime gives nothing, or one element of it.
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, attributes["dilations"], strict=True)]
    return [max(size, extent) for size, extent in zip(sizes, extents, strict=True)], attributes


@property_test(case=windows(pool=False), groups=st.integers(1, 3), inner=st.integers(1, 3), outer=st.integers(1, 3))
def test_convolutions(how: str, case: Any, groups: int, inner: int, outer: int) -> None:
    sizes, attributes = case
    x = random_array((2, groups * inner, *sizes))
    weights = {"w": random_array((groups * outer, inner, *attributes["kernel_shape"]), seed=1)}
    weights["b"] = random_array((groups * outer,), seed=2)
    agrees(how, model_of_node("Conv", {"x": x}, opset=13, weights=weights, group=groups, **attributes), {"x": x})


@property_test(
    case=windows(pool=False),
    groups=st.integers(1, 2),
    inner=st.integers(1, 2),
    outer=st.integers(1, 3),
    extra=st.lists(st.integers(0, 2), min_size=3, max_size=3),
)
def test_deconvolutions(how: str, case: Any, groups: int, inner: int, outer: int, extra: list[int]) -> None:
    sizes, attributes = case
    x = random_array((1, groups * inner, *sizes))
    weights = {"w": random_array((groups * inner, outer, *attributes["kernel_shape"]), seed=1)}
    if "pads" in attributes:
        room = [max(s, d) - 1 for s, d in zip(attributes["strides"], attributes["dilations"], strict=True)]
        attributes["output_padding"] = [min(e, r) for e, r in zip(extra, room, strict=False)]
    agrees(
        how, model_of_node("ConvTranspose", {"x": x}, opset=13, weights=weights, group=groups, **attributes), {"x": x}
    )


@property_test(
    case=windows(pool=True), op=st.sampled_from(["MaxPool", "AveragePool", "LpPool"]), include=st.integers(0, 1)
)
def test_pools(how: str, case: Any, op: str, include: int) -> None:
    sizes, attributes = case
    x = random_array((1, 2, *sizes))
    if op == "AveragePool":
        attributes["count_include_pad"] = include
    agrees(how, model_of_node(op, {"x": x}, opset=19, **attributes), {"x": x})


@property_test(
    sizes=st.lists(st.integers(1, 13), min_size=2, max_size=2),
    mode=st.sampled_from(["nearest", "linear", "cubic"]),
    where=st.sampled_from(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]),
    rounding=st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
    antialias=st.integers(0, 1),
    exclude=st.integers(0, 1),
)
def test_resizes(
    how: str, sizes: list[int], mode: str, where: str, rounding: str, antialias: int, exclude: int
) -> None:
    assume(mode == "cubic" or not exclude)
    assume(mode != "nearest" or not antialias)
    x = random_array((1, 2, 5, 7))
    attributes = {"mode": mode, "coordinate_transformation_mode": where, "nearest_mode": rounding}
    attributes |= {"antialias": antialias, "exclude_outside": exclude}
    weights = {"sizes": np.asarray([1, 2, *sizes], np.int64)}
    agrees(how, model_of_node("Resize", {"x": x}, opset=19, weights=weights, left_out=[1, 2], **attributes), {"x": x})


@property_test(
    bounds=st.lists(
        st.tuples(st.integers(-9, 9), st.integers(-9, 9), st.integers(-3, 3).filter(bool)), min_size=1, max_size=3
    ),
    negative=st.booleans(),
)
def test_slices(how: str, bounds: list[tuple[int, int, int]], negative: bool) -> None:
    x = random_array((5, 6, 7))
    starts, ends, steps = (np.asarray(v, np.int64) for v in zip(*bounds, strict=True))
    axes = np.arange(len(bounds), dtype=np.int64) - (3 if negative else 0)
    weights = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    agrees(how, model_of_node("Slice", {"x": x}, opset=13, weights=weights), {"x": x})


@property_test(
    pads=st.lists(st.integers(-2, 3), min_size=4, max_size=4),
    mode=st.sampled_from(["constant", "reflect", "edge", "wrap"]),
)
def test_pads(how: str, pads: list[int], mode: str) -> None:
    """Modes that repeat elements are compared where nothing is cropped: which comes first is not said by ONNX."""
    assume(mode == "constant" or min(pads) >= 0)
    x = random_array((4, 5))
    weights = {"pads": np.asarray(pads, np.int64), "value": np.float32(1.5)}
    agrees(how, model_of_node("Pad", {"x": x}, opset=19, weights=weights, mode=mode), {"x": x})


@property_test(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    axis=st.integers(-4, 3),
    opset=st.sampled_from([8, 11, 13]),
    op=st.sampled_from(["Softmax", "LogSoftmax", "Hardmax", "Flatten"]),
)
def test_axes_before_and_after_opset_13(how: str, shape: list[int], axis: int, opset: int, op: str) -> None:
    assume(opset >= 11 or axis >= 0)
    x = random_array(shape)
    agrees(how, model_of_node(op, {"x": x}, opset=opset, axis=axis), {"x": x})
