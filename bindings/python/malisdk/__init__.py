"""Runs compiled networks (.mali files) on an OpenCL device such as the Mali-T860 of an RK3399.

import malisdk

with malisdk.load("mobilenet_v2.mali") as model:
    y = model.run(x)
"""

from __future__ import annotations

from ._core import version as _version
from ._errors import Error, Status, WrongTensor
from ._model import Mapping, Model, devices, load
from ._types import Device, KernelTime, ModelInfo, Profile, TensorSpec

__all__ = [
    "Device",
    "Error",
    "KernelTime",
    "Mapping",
    "Model",
    "ModelInfo",
    "Profile",
    "Status",
    "TensorSpec",
    "WrongTensor",
    "devices",
    "load",
]

__version__ = f"{_version() // 10000}.{_version() // 100 % 100}.{_version() % 100}"
