"""TIR data types and literals in OpenCL C."""

import math
from typing import Any

import numpy as np
import tvm

_SCALARS = {
    "float64": "double",
    "float32": "float",
    "float16": "half",
    "int8": "char",
    "uint8": "uchar",
    "int16": "short",
    "uint16": "ushort",
    "int32": "int",
    "uint32": "uint",
    "int64": "long",
    "uint64": "ulong",
    "bool": "bool",
}
NARROW_INTEGERS = ("int8", "uint8", "int16", "uint16")


def data_type(e: Any) -> tvm.DataType:
    return tvm.DataType(str(e.ty))


def scalar_name(dtype: tvm.DataType | str) -> str:
    """The dtype without its lanes: "float32" for float32x4."""
    return str(dtype).partition("x")[0]


def type_name(dtype: tvm.DataType | str, *, memory: bool = False) -> str:
    """OpenCL's name, such as float4. A bool in memory is a uchar: OpenCL has no pointers to bool."""
    scalar, _, lanes = str(dtype).partition("x")
    name = "uchar" if memory and scalar == "bool" else _SCALARS[scalar]
    return name + lanes


def integer_literal(value: int, dtype: str) -> str:
    if dtype == "bool":
        return "true" if value else "false"
    if dtype == "int32":
        return "(-2147483647 - 1)" if value == -(2**31) else str(value)
    if dtype == "int64":
        return "(-9223372036854775807L - 1L)" if value == -(2**63) else f"{value}L"
    if dtype == "uint32":
        return f"{value}u"
    if dtype == "uint64":
        return f"{value}UL"
    return f"({_SCALARS[dtype]}){value}"


def float_literal(value: float, dtype: str) -> str:
    if math.isnan(value):
        text = "NAN"
    elif math.isinf(value):
        text = "INFINITY" if value > 0 else "-INFINITY"
    elif dtype == "float64":
        return repr(float(value))
    else:
        single = np.float32(value)
        text = f"{str(single) if np.isfinite(single) else repr(float(value))}f"
    return text if dtype == "float32" else f"({_SCALARS[dtype]})({text})"
