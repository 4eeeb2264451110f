"""AutoTVM records, made into kernels again, against numpy: every kind of annotation and split of the 2018 templates."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from malisdk_pipeline import container
from malisdk_pipeline.devices.host import HostDevice
from malisdk_pipeline.devices.runtime import host_library
from malisdk_pipeline.errors import ScheduleError
from malisdk_pipeline.plan import Buffer, Kernel, Launch, Place, Plan, TensorSpec, align, place_in_arena
from malisdk_pipeline.schedules.mali.conv2d_spatial_pack import Conv2dSpatialPack
from malisdk_pipeline.schedules.mali.conv2d_winograd_nchw import Conv2dWinogradNchw, WinogradKnobs
from malisdk_pipeline.tuning.autotvm import Record, Workload
from malisdk_pipeline.tuning.check import check
from malisdk_pipeline.tuning.replay import Replayed, replay

TOLERANCE = 1e-4  # float32 sums in another order


def record(operator: str, data: tuple[int, ...], weight: tuple[int, ...], knobs: dict[str, Any], **more: Any) -> Record:
    workload = Workload(data=data, weight=weight, dtype="float32", **more)
    return Record(line=7, operator=operator, workload=workload, knobs=knobs, time_s=1.0)


def plan_of(replayed: Replayed, inputs: int) -> Plan:
    """The launches as a file of their own; weights are inputs."""
    names = ("data", "weight", "bias")[:inputs]
    scratch = sorted({b for k in replayed.kernels for b in k.buffers if b < 0}, reverse=True)
    sizes = {b: size for k in replayed.kernels for b, size in zip(k.buffers, k.arguments, strict=True)}
    offsets, arena = place_in_arena([align(sizes[b], 4096) for b in scratch], [(0, 9)] * len(scratch))
    buffers = [Buffer(place=Place.INPUT, size_bytes=sizes[i], index=i) for i in range(inputs)]
    buffers.append(Buffer(place=Place.OUTPUT, size_bytes=sizes[inputs], index=0))
    buffers += [
        Buffer(place=Place.ARENA, size_bytes=sizes[b], offset=offset)
        for b, offset in zip(scratch, offsets, strict=True)
    ]
    number = {**{i: i for i in range(inputs + 1)}, **{b: inputs + 1 + i for i, b in enumerate(scratch)}}
    tensors = [
        TensorSpec(name=name, dtype="float32", shape=replayed.shapes[i], buffer=i)
        for i, name in enumerate((*names, "result"))
    ]
    return Plan(
        model_name="replay",
        target="host",
        dtype="float32",
        inputs=tuple(tensors[:-1]),
        outputs=(tensors[-1],),
        buffers=tuple(buffers),
        kernels=tuple(Kernel(name=k.name, source=k.source, local_size=k.local_size) for k in replayed.kernels),
        launches=tuple(
            Launch(
                kernel=i,
                buffers=tuple(number[b] for b in k.buffers),
                global_size=k.global_size,
                layer="replay",
                rule="replay",
                flops=0,
                bytes=sum(k.arguments),
            )
            for i, k in enumerate(replayed.kernels)
        ),
        weights=b"",
        arena_bytes=arena,
        metadata={},
    )


def run(malisdk: Any, path: Path, replayed: Replayed, *arrays: np.ndarray) -> np.ndarray:
    container.write(path, plan_of(replayed, len(arrays)))
    with malisdk.load(path, cache_dir="") as model:
        feeds = dict(zip(("data", "weight", "bias"), arrays, strict=False))
        result: np.ndarray = model.run(feeds).copy()
    return result


def conv2d(data: np.ndarray, weight: np.ndarray, stride: int, pad: tuple[int, int], groups: int = 1) -> np.ndarray:
    padded = np.pad(data.astype(np.float64), ((0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1])))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    if groups > 1:
        return np.einsum("nchwij,cij->nchw", windows, weight[:, 0].astype(np.float64))
    return np.einsum("nchwij,ocij->nohw", windows, weight.astype(np.float64))


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def spatial(
    channels: int = 16, size: int = 14, kernel: tuple[int, int] = (3, 3), stride: int = 1, **knobs: Any
) -> Record:
    out = size if stride == 1 else size // 2
    pad = (kernel[0] // 2, kernel[1] // 2)
    return record(
        "conv2d_nchw_spatial_pack",
        (1, 6, size, size),
        (channels, 6, *kernel),
        {
            "tile_co": (2, channels // 8, 4),
            "tile_oh": (out, 1, 1),
            "tile_ow": (1, out, 1),
            "reorder_0": (0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
            "ann_reduce": ("unroll", "unroll"),
            "ann_spatial": ("unroll", "unroll", "vec"),
            **knobs,
        },
        stride=(stride, stride),
        pad=(*pad, *pad),
    )


@pytest.mark.parametrize(
    "made",
    [
        spatial(),
        spatial(tile_co=(1, 1, 16), tile_oh=(7, 1, 2), tile_ow=(7, 1, 2)),
        spatial(tile_oh=(7, 1, 2), tile_ow=(2, 1, 7), reorder_0=(0, 1, 2, 3, 4, 5, 6, 9, 7, 8)),
        spatial(ann_reduce=("none", "none"), ann_spatial=("none", "none", "none"), tile_oh=(7, 1, 2)),
        spatial(tile_co=(4, 4, 1), tile_ow=(7, 1, 2), ann_spatial=("unroll", "vec", "unroll")),
        spatial(kernel=(1, 1), tile_co=(2, 4, 2), ann_reduce=("unroll", "none")),
        spatial(kernel=(5, 5), tile_ow=(2, 7, 1), ann_reduce=("none", "unroll")),
        spatial(kernel=(1, 7), tile_oh=(2, 7, 1), ann_reduce=("none", "none")),
        spatial(stride=2, tile_oh=(7, 1, 1), tile_ow=(1, 1, 7)),
    ],
    ids=lambda made: "-".join(
        str(n) for n in (*made.workload.weight[2:], *made.knobs["tile_co"], *made.knobs["tile_ow"])
    ),
)
def test_spatial_pack_agrees_with_numpy(made: Record, tmp_path: Path, malisdk: Any) -> None:
    data, weight = random(*made.workload.data), random(*made.workload.weight)
    lanes = made.knobs["tile_co"][2]  # type: ignore[index]
    o, i, height, width = weight.shape
    packed = weight.reshape(o // lanes, lanes, i, height, width).transpose(0, 2, 3, 4, 1)
    result = run(malisdk, tmp_path / "m.mali", replay(made), data, np.ascontiguousarray(packed))
    pad = made.workload.pad[:2]
    assert np.abs(result - conv2d(data, weight, made.workload.stride[0], pad)).max() < TOLERANCE


@pytest.mark.parametrize("size", [8, 7])
def test_winograd_agrees_with_numpy(size: int, tmp_path: Path, malisdk: Any) -> None:
    """Sizes that 4 divides get tiles of 4 outputs, others of 2; 7 leaves half a tile over."""
    knobs = {"tile_bna": 4, "tile_bnb": 4, "tile_t1": (2, 4), "tile_t2": (2, 8), "c_unroll": (2, 4), "yt": 2}
    made = record("conv2d_nchw_winograd", (1, 8, size, size), (8, 8, 3, 3), knobs, pad=(1, 1, 1, 1))
    data, weight = random(1, 8, size, size), random(8, 8, 3, 3)
    tile = 4 if size % 4 == 0 else 2
    packed = Conv2dWinogradNchw.pack_weight(
        weight, WinogradKnobs(tile=tile, bna=4, bnb=4, t1=4, t2=8, c_unroll=4, yt=2)
    )
    result = run(malisdk, tmp_path / "m.mali", replay(made), data, packed)
    assert np.abs(result - conv2d(data, weight, 1, (1, 1))).max() < TOLERANCE


@pytest.mark.parametrize("annotation", ["none", "unroll", "vec"])
def test_depthwise_agrees_with_numpy(annotation: str, tmp_path: Path, malisdk: Any) -> None:
    knobs = {
        "tile_c": (3, 2, 2),
        "tile_y": (2, 4, 1),
        "tile_x": (1, 2, 4),
        "ann_spatial": ("none", "unroll", annotation),
    }
    made = record("depthwise_conv2d_nchw", (1, 12, 8, 8), (12, 1, 3, 3), knobs, pad=(1, 1, 1, 1))
    data, weight = random(1, 12, 8, 8), random(12, 1, 3, 3)
    result = run(malisdk, tmp_path / "m.mali", replay(made), data, weight)
    assert np.abs(result - conv2d(data, weight, 1, (1, 1), groups=12)).max() < TOLERANCE


def test_dense_agrees_with_numpy(tmp_path: Path, malisdk: Any) -> None:
    knobs = {"tile_y": (1, 1, 1), "tile_x": (5, 4, 2), "c_unroll": (4, 8)}
    made = record("dense", (1, 32), (40, 32), knobs)
    data, weight, bias = random(1, 32), random(40, 32), random(40)
    result = run(malisdk, tmp_path / "m.mali", replay(made), data, weight, bias)
    assert np.abs(result - (data.astype(np.float64) @ weight.T + bias)).max() < TOLERANCE


def test_check_tells_right_kernels_from_wrong_ones(malisdk: Any) -> None:
    """One with a wrong sign and one that does not build, beside the right one."""
    made = spatial()
    right = replay(made)
    text = right.kernels[1].source

    def with_source(source: str) -> Replayed:
        kernels = (right.kernels[0], dataclasses.replace(right.kernels[1], source=source), right.kernels[2])
        return dataclasses.replace(right, kernels=kernels)

    wrong, broken = with_source(text.replace("mad(", "-mad(", 1)), with_source(f"nothing {text}")
    with HostDevice() as device:
        results = list(check([(made, right), (made, wrong), (made, broken)], device, library=host_library()))
    assert results[0].error == 0.0
    assert results[0].problem == ""
    assert "of the largest; allowed" in results[1].problem
    assert results[2].error is None
    assert results[2].problem


def test_records_of_other_devices_are_refused() -> None:
    with pytest.raises(ScheduleError, match="another device's template, got arm_cpu; expected mali"):
        replay(dataclasses.replace(spatial(), device="arm_cpu"))


def test_half_replays_use_vectors_of_128_bits() -> None:
    made = spatial(tile_co=(1, 1, 16))
    half = dataclasses.replace(made, workload=dataclasses.replace(made.workload, dtype="float16"))
    sums = replay(half).kernels[1].source
    assert "half8 tile_sums_local_0, tile_sums_local_1;" in sums
    assert "half16" not in sums


def test_knobs_of_another_layer_are_refused() -> None:
    with pytest.raises(ScheduleError, match="knobs do not fit the layer"):
        replay(spatial(tile_oh=(3, 1, 1)))
    with pytest.raises(ScheduleError, match="conv2d_nchw_spatial_pack:7: knob missing"):
        replay(dataclasses.replace(spatial(), knobs={"tile_co": (2, 2, 4)}))
    with pytest.raises(ScheduleError, match="knobs not understood"):
        replay(spatial(ann_reduce=(1, 2)))


def test_packed_weight_of_the_rule_is_what_the_kernel_reads() -> None:
    weight = np.arange(2 * 3 * 4, dtype=np.float32).reshape(8, 3, 1, 1)
    knobs = dataclasses.replace(_knobs(), tile_co=(1, 2, 4))
    packed = Conv2dSpatialPack.pack_weight(weight, knobs)
    assert packed.shape == (2, 3, 1, 1, 4)
    assert list(packed[1, 2, 0, 0]) == [weight[4 + lane, 2, 0, 0] for lane in range(4)]


def _knobs() -> Any:
    from malisdk_pipeline.schedules.mali.conv2d_spatial_pack import SpatialPackKnobs

    return SpatialPackKnobs(
        tile_co=(1, 1, 1),
        tile_oh=(1, 1, 1),
        tile_ow=(1, 1, 1),
        channels_first=False,
        reduce=("none", "none"),
        spatial=("none", "none", "none"),
    )
