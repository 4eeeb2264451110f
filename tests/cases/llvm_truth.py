"""Runs an imported model on the CPU through plain TVM, independent of the project's own passes, kernels and runtime."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from malisdk_pipeline.importers import ImportedModel
from tvm import relax


def run(model: ImportedModel, feeds: Mapping[str, "np.ndarray[Any, Any]"]) -> list["np.ndarray[Any, Any]"]:
    """Outputs in order for the inputs by name."""
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
    executable = tvm.compile(model.mod, target)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    arguments = [tvm.runtime.tensor(np.ascontiguousarray(feeds[t.name]).reshape(t.shape)) for t in model.inputs]
    result = machine["main"](*arguments)
    found = [result] if hasattr(result, "numpy") else list(result)
    return [r.numpy() for r in found]
