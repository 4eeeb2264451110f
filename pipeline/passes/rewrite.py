"""Rebuild the main function binding by binding: the frame of the rewrites in this folder."""

from typing import Any

import tvm
from tvm import relax


class Rewriter:
    """Copies `main` into a new module; subclasses answer for the calls they know in `call`.

    The function must be one straight line, as importers make it. Other functions of the module are kept.
    """

    def __init__(self, mod: tvm.IRModule) -> None:
        self._main = mod["main"]
        others = {gv: f for gv, f in mod.functions.items() if gv.name_hint != "main"}
        self.bb = relax.BlockBuilder(tvm.IRModule(others))
        self.env: dict[Any, Any] = {}

    def run(self) -> tvm.IRModule:
        main = self._main
        self.env = {p: p for p in main.params}
        with self.bb.function("main", list(main.params)):
            with self.bb.dataflow():
                for block in main.body.blocks:
                    for binding in block.bindings:
                        self.binding(binding.var, binding.value)
                result = self.bb.emit_output(self.map(main.body.body))
            self.bb.emit_func_output(result)
        return self.bb.get()

    def binding(self, var: Any, value: Any) -> None:
        new = self.call(value) if isinstance(value, tvm.ir.Call) else None
        self.env[var] = self.bb.emit(self.map(value) if new is None else new)

    def call(self, call: Any) -> Any | None:
        """The new expression for a call whose arguments are still the old ones, or None to copy it."""
        return None

    def map(self, e: Any) -> Any:
        """The expression with old variables replaced."""
        if isinstance(e, relax.Tuple):
            return relax.Tuple([self.map(f) for f in e.fields])
        if isinstance(e, relax.TupleGetItem):
            return relax.TupleGetItem(self.map(e.tuple_value), e.index)
        if isinstance(e, tvm.ir.Call):
            return relax.Call(e.op, [self.map(a) for a in e.args], e.attrs, e.ty_args)
        if isinstance(e, tvm.ir.Var) and e in self.env:
            return self.env[e]
        return e


def operator_name(call: Any) -> str:
    """ "nn.conv2d" for a call of relax.nn.conv2d; the empty string for anything that is no operator."""
    return str(getattr(call.op, "name", "")).removeprefix("relax.")


def constant(e: Any) -> Any | None:
    """The numpy array of a constant tensor, else None."""
    if isinstance(e, tvm.ir.expr.GenericConst) and isinstance(e.ty, relax.TensorType):
        return e.value.numpy()
    return None


def static_shape(e: Any) -> tuple[int, ...]:
    return tuple(int(d) for d in e.ty.shape)
