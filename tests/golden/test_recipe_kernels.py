"""The kernels of whole networks: no shared memory, no barriers, vectors of four, a rule for every convolution."""

import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
import pytest
from malisdk_pipeline import recipes
from malisdk_pipeline.compile import compile_model
from malisdk_pipeline.model_folder import build_folder
from malisdk_pipeline.plan import Launch, Place, Plan

CONVOLUTIONS = ("conv2d_direct", "conv2d_1x1", "conv2d_winograd", "depthwise_conv2d")


@cache
def _compiled(name: str, dtype: str) -> tuple[onnx.ModelProto, Plan]:
    with TemporaryDirectory() as folder:
        build_folder(recipes.load(name), Path(folder) / name)
        path = Path(folder) / name / "model.onnx"
        return onnx.load(path), compile_model(path, target="rk3399", dtype=dtype)


NETWORKS = [
    pytest.param("efficientnet_lite0", "float32", marks=pytest.mark.network),
    pytest.param("efficientnet_lite0", "float16", marks=pytest.mark.network),
    pytest.param("squeezenet1_1", "float32", marks=pytest.mark.network),
    ("mobilenet_v2", "float32"),
    ("mobilenet_v2", "float16"),
    ("resnet18", "float32"),
]


@pytest.mark.parametrize(("name", "dtype"), NETWORKS)
def test_kernels_share_no_memory_and_wait_for_nobody(name, dtype):
    _, plan = _compiled(name, dtype)
    for kernel in plan.kernels:
        assert not re.search(r"\b(__local|local|barrier|work_group_barrier)\b", kernel.source), kernel.name
        sizes = re.search(r"reqd_work_group_size\((\d+), (\d+), (\d+)\)", kernel.source)
        assert sizes is not None
        assert tuple(map(int, sizes.groups())) == kernel.local_size
        x, y, z = kernel.local_size
        assert x * y * z <= 64


@pytest.mark.parametrize(("name", "dtype"), NETWORKS)
def test_every_convolution_has_a_kernel_of_vectors(name, dtype):
    model, plan = _compiled(name, dtype)
    # of winograd's three kernels the product counts
    launches = [launch for launch in plan.launches if launch.rule in CONVOLUTIONS and launch.flops > 0]
    assert len(launches) == sum(node.op_type == "Conv" for node in model.graph.node)
    for launch in launches:
        source = plan.kernels[launch.kernel].source
        sums = re.findall(r"^ *(conv2d|product|half_sums)_local\w* = mad\(.*\);$", source, re.MULTILINE)
        assert sums, launch.layer
        in_half = "half_sums" in sums
        # half holds the sum of a window, or of a few products that go on into a sum in float
        products = "half4" if dtype == "float16" and (in_half or launch.rule == "depthwise_conv2d") else "float4"
        assert re.search(rf"^  {products} {sums[0]}_local", source, re.MULTILINE), launch.layer
        assert not in_half or re.search(r"^  float4 (conv2d|product)_local", source, re.MULTILINE), launch.layer
        assert not re.search(r"\w+_local\w*\[", source), "registers must not be an array"
        assert not re.search(r"\bv(load|store)4\b", source), "vectors must be reached through pointers"
        assert launch.flops > 0


@pytest.mark.parametrize(("name", "dtype"), NETWORKS)
def test_networks_are_packed_at_their_edge_only(name, dtype):
    _, plan = _compiled(name, dtype)
    layers = [launch.layer for launch in plan.launches]
    assert sum("unpack" in layer for layer in layers) <= 1
    assert sum("pack" in layer and "unpack" not in layer for layer in layers) == 1
    assert "pack" in layers[0]


@pytest.mark.parametrize(("name", "dtype"), NETWORKS)
def test_plan_is_sound(name, dtype):
    """Every launch reads only what was written before it, and writes over nothing that is still to be read."""
    _, plan = _compiled(name, dtype)
    owner: dict[int, int] = {}  # arena page -> buffer that was written there last
    begun = {}  # buffer -> how many launches still write a part of it
    for launch in plan.launches:
        for index in _written(plan, launch):
            begun[index] = begun.get(index, 0) + 1
    for launch in plan.launches:
        kernel = plan.kernels[launch.kernel]
        constant = [line.lstrip().startswith("const") for line in re.findall(r"^ +.*restrict \w+", kernel.source, re.M)]
        assert len(constant) == len(launch.buffers)
        assert all(g % n == 0 for g, n in zip(launch.global_size, kernel.local_size, strict=True))
        for index, is_read in zip(launch.buffers, constant, strict=True):
            buffer = plan.buffers[index]
            assert is_read or buffer.place in (Place.ARENA, Place.OUTPUT)
            if buffer.place is not Place.ARENA:
                continue
            assert buffer.offset + buffer.size_bytes <= plan.arena_bytes
            pages = range(buffer.offset // 64, -(-(buffer.offset + buffer.size_bytes) // 64))
            if is_read and begun[index] > 0:  # a part of a concatenation, whose other parts are not yet written
                assert index in {owner.get(page) for page in pages}, f"{launch.layer} reads what was overwritten"
            elif is_read:
                assert {owner.get(page) for page in pages} == {index}, f"{launch.layer} reads what was overwritten"
            else:
                owner.update(dict.fromkeys(pages, index))
                begun[index] -= 1


@pytest.mark.parametrize(("name", "dtype"), NETWORKS)
def test_weights_are_stored_once_in_the_stated_dtype(name, dtype):
    model, plan = _compiled(name, dtype)
    parameters = sum(_count(t) for t in model.graph.initializer)
    # winograd makes 36 of 9
    most = sum(_count(t) * (4 if tuple(t.dims[2:]) == (3, 3) else 1) for t in model.graph.initializer)
    element_bytes = 2 if dtype == "float16" else 4
    # padding to four channels, alignment, folded batch norms and constants
    assert 0.9 * parameters * element_bytes < len(plan.weights) < 1.1 * most * element_bytes + 65536
    places = {(b.offset, b.size_bytes) for b in plan.buffers if b.place is Place.WEIGHT}
    contents = {plan.weights[o : o + n] for o, n in places}
    assert len(contents) == len(places)


def _written(plan: Plan, launch: Launch) -> list[int]:
    parameters = re.findall(r"^ +.*restrict \w+", plan.kernels[launch.kernel].source, re.M)
    return [i for i, p in zip(launch.buffers, parameters, strict=True) if not p.lstrip().startswith("const")]


def _count(tensor: onnx.TensorProto) -> int:
    count = 1
    for d in tensor.dims:
        count *= d
    return count
