"""Replayed records run on a device, each as a model of one layer, and compared with onnxruntime."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

from .. import container
from ..devices.base import Device
from ..devices.runtime import Answer, run_models
from ..errors import DeviceError
from ..plan import Buffer, Kernel, Launch, Place, Plan, TensorSpec, WeightPool, place_in_arena
from .autotvm import Record
from .replay import Replayed, packed_weight

Array = np.ndarray[Any, Any]

# Data and weights of the direct kernels are small integers, so that every sum is exact, in half as well (up to 2048).
_LARGEST = {"float32": 4, "float16": 1}
# Of the largest magnitude of an output. Winograd's transforms are not exact: with 4x4 outputs a tile they multiply and
# cancel numbers up to a hundred times as large; in half that costs what is allowed here.
TOLERANCE = {"float32": 1e-6, "float16": 1e-6}
WINOGRAD_TOLERANCE = {"float32": 1e-4, "float16": 8e-2}
# Records a process: few enough that a crash costs little, many enough that starting one does not count.
_GROUP = 8
_TIMEOUT_S = 1800.0


@dataclass(frozen=True, kw_only=True)
class Checked:
    """`error`: the largest difference, relative to the largest output; `problem`: why there is none, or it is wrong."""

    record: Record
    error: float | None
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class _Case:
    record: Record
    plan: Plan
    data: Array
    expected: Array


def check(replays: Sequence[tuple[Record, Replayed]], device: Device, *, library: Path) -> Iterator[Checked]:
    """One result for each replay, in their order, as they come. `device` is open, `library` one for it."""
    for start in range(0, len(replays), _GROUP):
        cases = [_case(record, replayed) for record, replayed in replays[start : start + _GROUP]]
        for case, answer in zip(cases, _answers(cases, device, library), strict=True):
            yield _judge(case, answer)


def layer_plan(replayed: Replayed, constants: Sequence[Array], *, dtype: str, name: str) -> Plan:
    """The launches as a model with one input, `data`, and one output, `result`; constants are the tensors between."""
    pool = WeightPool()
    scratch = sorted(
        {b: s for k in replayed.kernels for b, s in zip(k.buffers, k.arguments, strict=True) if b < 0}.items()
    )
    offsets, arena_bytes = place_in_arena([size for _, size in scratch], [(0, len(replayed.kernels))] * len(scratch))
    data, output = (
        TensorSpec(name=n, dtype=dtype, shape=s, buffer=b)
        for n, s, b in (("data", replayed.shapes[0], 0), ("result", replayed.shapes[-1], len(constants) + 1))
    )
    buffers = [Buffer(place=Place.INPUT, size_bytes=data.size_bytes)]
    buffers += [pool.add(constant) for constant in constants]
    buffers += [Buffer(place=Place.OUTPUT, size_bytes=output.size_bytes)]
    number = {b: b for b in range(len(buffers))}
    for (buffer, size), offset in zip(scratch, offsets, strict=True):
        number[buffer] = len(buffers)
        buffers.append(Buffer(place=Place.ARENA, offset=offset, size_bytes=size))
    return Plan(
        model_name=name,
        target="host",
        dtype=dtype,
        inputs=(data,),
        outputs=(output,),
        buffers=tuple(buffers),
        kernels=tuple(Kernel(name=k.name, source=k.source, local_size=k.local_size) for k in replayed.kernels),
        launches=tuple(
            Launch(
                kernel=i,
                buffers=tuple(number[b] for b in k.buffers),
                global_size=k.global_size,
                layer=name,
                rule=k.name,
                flops=2 * replayed.multiply_adds if i == 0 else 0,
                bytes=sum(k.arguments),
            )
            for i, k in enumerate(replayed.kernels)
        ),
        weights=pool.data,
        arena_bytes=arena_bytes,
        metadata={},
    )


def _case(record: Record, replayed: Replayed) -> _Case:
    w, random = record.workload, np.random.default_rng(record.line)

    def values(shape: tuple[int, ...], scale: float) -> Array:
        if record.operator == "conv2d_nchw_winograd":
            return (random.standard_normal(shape, np.float32) * scale).astype(w.dtype)
        most = _LARGEST[w.dtype]
        return random.integers(-most, most, shape, endpoint=True).astype(w.dtype)

    data = values(w.data, 1.0)
    weight = values(w.weight, float(np.prod(w.weight[1:])) ** -0.5)
    constants = [packed_weight(record, weight)]
    if record.operator == "dense":
        constants.append(values(w.weight[:1], 1.0))
        expected = data.astype(np.float32) @ weight.astype(np.float32).T + constants[1].astype(np.float32)
    else:
        expected = _conv2d(record, data, weight)
    plan = layer_plan(replayed, constants, dtype=w.dtype, name=f"{record.operator} line {record.line}")
    return _Case(record=record, plan=plan, data=data, expected=expected)


def _conv2d(record: Record, data: Array, weight: Array) -> Array:
    """onnxruntime's answer in float32."""
    w = record.workload
    node = helper.make_node(
        "Conv",
        ["data", "weight"],
        ["result"],
        kernel_shape=w.weight[2:],
        strides=w.stride,
        pads=w.pad,
        dilations=w.dilation,
        group=w.data[1] if record.operator == "depthwise_conv2d_nchw" else 1,
    )
    values = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in ("data", "weight", "result")]
    graph = helper.make_graph([node], "layer", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    result: Array = session.run(None, {"data": data.astype(np.float32), "weight": weight.astype(np.float32)})[0]
    return result


def _answers(cases: Sequence[_Case], device: Device, library: Path) -> Iterator[Answer]:
    """In one process if it survives them all, else each in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="malisdk-replay-") as folder:
        requests = []
        for i, case in enumerate(cases):
            path = Path(folder, f"{i}.mali")
            container.write(path, case.plan)
            requests.append((path, {"data": case.data}))
        try:
            yield from run_models(device, requests, library=library, timeout_s=_TIMEOUT_S)
            return
        except DeviceError as e:
            if len(requests) == 1:
                yield Answer(outputs={}, device="", status="", error=str(e))
                return
        for request in requests:
            try:
                yield from run_models(device, [request], library=library, timeout_s=_TIMEOUT_S)
            except DeviceError as e:
                yield Answer(outputs={}, device="", status="", error=str(e))


def _judge(case: _Case, answer: Answer) -> Checked:
    if answer.error:
        return Checked(record=case.record, error=None, problem=answer.error)
    got = answer.outputs["result"].astype(np.float64)
    largest = float(np.abs(case.expected).max())
    error = float(np.abs(got - case.expected).max()) / largest
    is_winograd = case.record.operator == "conv2d_nchw_winograd"
    allowed = (WINOGRAD_TOLERANCE if is_winograd else TOLERANCE)[case.record.dtype]
    # a comparison that NaN fails
    if error <= allowed:
        return Checked(record=case.record, error=error)
    return Checked(record=case.record, error=error, problem=f"wrong by {error:.1e} of the largest; allowed {allowed:g}")
