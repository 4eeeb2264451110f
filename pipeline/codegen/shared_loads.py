"""Find what several stores in a row load from the same place, such as a bias: it is loaded once, before them.

More than a load is saved. A Midgard thread has two registers for addresses. When the bias's and the output's are needed
at once, Mesa keeps some address of the whole kernel elsewhere and moves it back for each access: 91 instead of 62
bundles a round of a 3x3 convolution of 2 pixels x 8 channels (Mesa 25.0.7 for the T860).
"""

from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx


def shared_loads(statements: Sequence[Any], is_load: Callable[[Any], bool]) -> list[Any]:
    """The loads that stores of a run have in common and that at least one of them does in any case.

    `statements` are stores, or choices with stores in them; `is_load` says what counts. Nothing is loaded early that a
    store of the run may write.
    """
    written: list[Any] = []
    counts: dict[Any, int] = {}
    certain: dict[Any, Any] = {}
    for s in statements:
        tvm_ffi.structural_walk(s, (tirx.BufferStore, lambda store: written.append(store.buffer)))
        found = _loads(s, is_load, behind_choices=True)
        for key in {tvm_ffi.StructuralKey(e) for e in found}:
            counts[key] = counts.get(key, 0) + 1
        if isinstance(s, tirx.BufferStore):
            certain |= {tvm_ffi.StructuralKey(e): e for e in _loads(s.value, is_load, behind_choices=False)}
    return [e for key, e in certain.items() if counts[key] > 1 and not any(memory_of(e).same_as(b) for b in written)]


def _loads(root: Any, is_load: Callable[[Any], bool], *, behind_choices: bool) -> list[Any]:
    found: list[Any] = []

    def visit(e: Any) -> Any:
        if is_load(e):
            found.append(e)
            return tvm_ffi.WalkResult.SKIP
        if not behind_choices and isinstance(e, tvm.ir.Call) and str(e.op.name).endswith("if_then_else"):
            return tvm_ffi.WalkResult.SKIP
        return None

    tvm_ffi.structural_walk(root, (tvm.ir.Expr, visit), order="pre")
    return found


def memory_of(load: Any) -> Any:
    """The buffer that a load, or a conversion of one, reads."""
    return load.source if isinstance(load, tvm.ir.TensorLoad) else load.value.source
