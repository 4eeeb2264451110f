"""Reads AutoTVM's logs for Mali and Arm CPUs as TopHub publishes them: one JSON record a line, of two spellings."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError

DEVICES = ("mali", "arm_cpu")
OPERATORS = ("conv2d_nchw_spatial_pack", "conv2d_nchw_winograd", "depthwise_conv2d_nchw", "dense")
_DTYPES = ("float32", "float16")
# (task, template) of TVM 0.5's records; later ones name the operator itself
_OLD_NAMES = {
    ("topi_nn_conv2d", "direct"): "conv2d_nchw_spatial_pack",
    ("topi_nn_conv2d", "winograd"): "conv2d_nchw_winograd",
    ("topi_nn_depthwise_conv2d_nchw", "direct"): "depthwise_conv2d_nchw",
    ("topi_nn_dense", "direct"): "dense",
}

Knob = int | tuple[int, ...] | tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """`data` is (N, C, H, W), or (rows, reduced) of a dense layer; `weight` (O, I, KH, KW), or (columns, reduced).

    pad is (top, left, bottom, right).
    """

    data: tuple[int, ...]
    weight: tuple[int, ...]
    dtype: str
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)


@dataclass(frozen=True, kw_only=True)
class Record:
    """One configuration and the time it took on the board, in seconds.

    `line` counts from 1; operator is one of OPERATORS; device, one of DEVICES, is whose template the knobs are of.
    """

    line: int
    operator: str
    workload: Workload
    knobs: Mapping[str, Knob]
    time_s: float
    device: str = "mali"

    @property
    def dtype(self) -> str:
        return self.workload.dtype


def read_log(path: Path) -> list[Record]:
    """The records of a log that ended well, in its order; empty lines are passed over.

    Raises ConfigError, with the line, for a file that is no such log.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path}: cannot be read: {e}; expected an AutoTVM log") from e
    records = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            record = _record(path, number, line)
            if record is not None:
                records.append(record)
    return records


def _record(path: Path, number: int, line: str) -> Record | None:
    """None for a configuration that failed on the board."""
    try:
        data = json.loads(line)
        device, operator, arguments, entities, result = _old(data) if "i" in data else _new(data)
        times, error = result[0], result[1]
        if error != 0:
            return None
        if operator not in OPERATORS or device not in DEVICES:
            raise ConfigError(
                f"{path}:{number}: unknown operator, got {operator}.{device}; expected one of "
                f"{', '.join(OPERATORS)} for {' or '.join(DEVICES)}"
            )
        time_s = sum(times) / len(times)
        if not (math.isfinite(time_s) and time_s > 0):
            raise ValueError(f"a time of {time_s} s")
        knobs = {str(name): _knob(value) for name, _, value in entities}
        workload = _workload(operator, arguments)
    except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError) as e:
        raise ConfigError(f"{path}:{number}: no AutoTVM record, got {line[:60]} ({e!r}); expected JSON of TVM") from e
    if workload.dtype not in _DTYPES:
        raise ConfigError(f"{path}:{number}: unknown dtype, got {workload.dtype}; expected one of {', '.join(_DTYPES)}")
    return Record(line=number, operator=operator, workload=workload, knobs=knobs, time_s=time_s, device=device)


_Parts = tuple[str, str, Sequence[Any], Sequence[Any], Sequence[Any]]


def _new(data: Mapping[str, Any]) -> _Parts:
    target, task, arguments, *_ = data["input"]
    operator, _, device = str(task).partition(".")
    return device or _device(target), operator, arguments, data["config"]["entity"], data["result"]


def _old(data: Mapping[str, Any]) -> _Parts:
    target, task, arguments, _, _, config = data["i"]
    operator = _OLD_NAMES.get((task, config["t"]), str(task))
    return _device(target), operator, arguments, config["e"], data["r"]


def _device(target: str) -> str:
    found = re.search(r"-device=(\S+)", target)
    return found[1] if found else "mali"


def _knob(value: Any) -> Knob:
    if isinstance(value, list):
        if all(isinstance(v, str) for v in value):
            return tuple(value)
        return tuple(int(v) for v in value)
    return int(value)


def _workload(operator: str, arguments: Sequence[Any]) -> Workload:
    (_, data, dtype), (_, weight, _) = arguments[0], arguments[1]
    shape, weight_shape = tuple(map(int, data)), tuple(map(int, weight))
    if operator == "dense":
        return Workload(data=shape, weight=weight_shape, dtype=str(dtype))
    layouts = [a for a in arguments[4:] if isinstance(a, str) and a.startswith("N")]
    if any(layout != "NCHW" for layout in layouts):
        raise ValueError(f"layout {layouts[0]}")
    stride_y, stride_x = _pair(arguments[2])
    pad = arguments[3] if isinstance(arguments[3], list) and len(arguments[3]) == 4 else _pair(arguments[3]) * 2
    top, left, bottom, right = pad
    # The oldest records have no dilation; the layout follows the padding.
    dilation_y, dilation_x = (1, 1) if isinstance(arguments[4], str) else _pair(arguments[4])
    return Workload(
        data=shape,
        weight=weight_shape,
        dtype=str(dtype),
        stride=(int(stride_y), int(stride_x)),
        pad=(int(top), int(left), int(bottom), int(right)),
        dilation=(int(dilation_y), int(dilation_x)),
    )


def _pair(value: Any) -> tuple[Any, Any]:
    first, second = (value, value) if isinstance(value, int) else value
    return first, second
