"""What tensors between operators are stored in: float32, or half (dtype=float16).

With float32 everything is computed in float, also a model that was saved in half. With float16 the operators of the
list below take and give half.

A convolution then multiplies in half and sums at most 32 products in half: 16 to 32 channels of a 1x1 kernel, four
channels of a row of a larger kernel, all of a depthwise window. These parts are summed in float, in registers. Larger
windows and dense layers sum in float altogether. Largest error of a layer, relative to its largest output (numpy, He
weights, ReLU inputs, the layers of MobileNet v1 and v2, SqueezeNet 1.1, EfficientNet-Lite0, ResNet-18 and VGG-16, 9 to
4608 products): 4e-4 to 1.2e-3, where rounding the result alone makes 2e-4 to 4e-4; all summed in half it would be up
to 1.8e-2. A part may not exceed half's largest number, 65504, which the outputs may not either.

Everything else (softmax, means and sums, exponentials, resizing, ...) is computed in float between casts, which the
fuser merges into the neighbouring kernels. Inputs and outputs keep the dtype the model gave them.
"""

from typing import Any

import numpy as np
import tvm
from tvm import relax

from .rewrite import Rewriter, constant, operator_name

_HALF_OPERATORS = """
nn.conv2d matmul nn.relu nn.relu6 clip nn.leakyrelu nn.prelu add subtract multiply maximum minimum negative abs
nn.max_pool2d concat reshape flatten permute_dims expand_dims squeeze split strided_slice broadcast_to nn.pad where
sigmoid tanh nn.silu
"""
_IN_HALF = frozenset(_HALF_OPERATORS.split())


@tvm.transform.module_pass(opt_level=0, name="SetPrecision")
class SetPrecision:
    """Rewrites main so that tensors between operators are of `dtype`."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        return _Caster(mod, self.dtype).run()


class _Caster(Rewriter):
    def __init__(self, mod: tvm.IRModule, dtype: str) -> None:
        super().__init__(mod)
        self._in_half = _IN_HALF if dtype == "float16" else frozenset()
        self._cast: dict[tuple[Any, str], Any] = {}
        self._result: Any = mod["main"].body.body

    def binding(self, var: Any, value: Any) -> None:
        if not isinstance(value, tvm.ir.Call):
            super().binding(var, value)
            return
        name = operator_name(value)
        if name == "call_tir":  # a finished tensor program wants the dtypes it was made for
            fields = [self._as(a, str(a.ty.dtype)) for a in value.args[1].fields]
            args = [value.args[0], relax.Tuple(fields), *value.args[2:]]
        else:
            wanted = "float16" if name in self._in_half else "float32"
            args = [self._as(a, wanted) for a in value.args]
        self.env[var] = self.bb.emit(relax.Call(value.op, args, _without_out_dtype(value.attrs), value.ty_args))

    def map(self, e: Any) -> Any:
        new = super().map(e)
        if e is self._result or (hasattr(e, "same_as") and e.same_as(self._result)):
            return self._in_dtypes_of(new, e.ty)
        return new

    def _in_dtypes_of(self, e: Any, ty: Any) -> Any:
        """The function's results in the dtypes they had."""
        if hasattr(ty, "fields"):
            whole = isinstance(e, relax.Tuple)
            fields = e.fields if whole else [self.bb.emit(relax.TupleGetItem(e, i)) for i in range(len(ty.fields))]
            return relax.Tuple([self._in_dtypes_of(f, t) for f, t in zip(fields, ty.fields, strict=True)])
        if isinstance(e.ty, relax.TensorType) and str(e.ty.dtype) != str(ty.dtype):
            return self.bb.emit(relax.op.astype(e, str(ty.dtype)))
        return e

    def _as(self, e: Any, dtype: str) -> Any:
        """An argument with its floating-point tensors in `dtype`."""
        if isinstance(e, relax.Tuple):
            return relax.Tuple([self._as(f, dtype) for f in e.fields])
        array = constant(e)
        if array is not None:
            return relax.const(array.astype(dtype)) if array.dtype in (np.float32, np.float16) else e
        new = super().map(e)
        ty = getattr(new, "ty", None)
        if (
            not isinstance(ty, relax.TensorType)
            or str(ty.dtype) not in ("float32", "float16")
            or str(ty.dtype) == dtype
        ):
            return new
        if (new, dtype) not in self._cast:
            self._cast[(new, dtype)] = self.bb.emit(relax.op.astype(new, dtype))
        return self._cast[(new, dtype)]


def _without_out_dtype(attrs: Any) -> Any:
    """The attributes of an operator whose result takes the dtype of its operands."""
    if attrs is None or not getattr(attrs, "out_dtype", None):
        return attrs
    names = [n for n in dir(attrs) if not n.startswith("_") and n != "id_" and not callable(getattr(attrs, n))]
    fields = {n: getattr(attrs, n) for n in names}
    return tvm.ir.make_node(attrs.__tvm_ffi_type_info__.type_key, **{**fields, "out_dtype": None})
