"""Evaluate small operators on constants with numpy.

TVM's FoldConstant compiles a function for each folded operator (19 s for EfficientNet-Lite0); what importers leave to
fold is reshapes, transposes and bounds, which numpy does at once.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from .rewrite import Rewriter, constant, operator_name

_BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "where": np.where,
}
_UNARY: dict[str, Callable[..., Any]] = {
    "isnan": np.isnan,
    "sqrt": np.sqrt,
    "negative": np.negative,
    "abs": np.abs,
}


@tvm.transform.module_pass(opt_level=0, name="FoldConstants")
class FoldConstants:
    """Replaces calls whose arguments are all constants."""

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        return _Folder(mod).run()


class _Folder(Rewriter):
    def binding(self, var: Any, value: Any) -> None:
        folded = self._fold(value) if isinstance(value, tvm.ir.Call) else None
        if folded is not None and isinstance(var, relax.DataflowVar):
            self.env[var] = relax.const(np.ascontiguousarray(folded))
        else:
            super().binding(var, value)

    def _fold(self, call: Any) -> Any | None:
        name = operator_name(call)
        known = [constant(self.map(a)) for a in call.args]
        if name in ("reshape", "expand_dims", "squeeze", "flatten") and known and known[0] is not None:
            return known[0].reshape([int(d) for d in call.ty.shape])
        if name == "permute_dims" and known[0] is not None:
            axes = [int(a) for a in call.attrs.axes] if call.attrs.axes is not None else None
            return known[0].transpose(axes)
        arrays = [k for k in known if k is not None]
        if not arrays or len(arrays) < len(known):
            return None
        if name == "astype":
            return arrays[0].astype(str(call.attrs.dtype))
        function = _BINARY.get(name) or _UNARY.get(name)
        if function is None:
            return None
        with np.errstate(all="ignore"):
            result = np.asarray(function(*arrays))
        return result.astype(str(call.ty.dtype))
