"""Rewrites of the graph, before and after."""

# ruff: noqa: N805  (relax functions in a module take no self)

import numpy as np
import pytest
import tvm
from malisdk_pipeline.passes.fold_constants import FoldConstants
from malisdk_pipeline.passes.nchw4c import ToNCHW4c
from malisdk_pipeline.passes.precision import SetPrecision
from tvm import relax
from tvm.script import ir as I  # noqa: N812
from tvm.script import relax as R  # noqa: N812


def _built(parameters: dict[str, tuple[tuple[int, ...], str]], body) -> tvm.IRModule:
    """A module whose main computes `body(bb.emit, *parameters)`."""
    bb = relax.BlockBuilder()
    variables = [relax.Var(name, relax.TensorType(shape, dtype)) for name, (shape, dtype) in parameters.items()]
    with bb.function("main", variables):
        with bb.dataflow():
            result = bb.emit_output(body(bb.emit, *variables))
        bb.emit_func_output(result)
    return bb.get()


def _calls(mod: tvm.IRModule) -> list[str]:
    """The operators and tensor programs that main calls, in order."""
    names = []
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, tvm.ir.Call):
                name = binding.value.op.name.removeprefix("relax.")
                names.append(binding.value.args[0].name_hint if name == "call_tir" else name)
    return names


def _result(mod: tvm.IRModule) -> tuple[tuple[int, ...], str]:
    ty = mod["main"].ret_ty
    return tuple(int(d) for d in ty.shape), str(ty.dtype)


def _same(a: tvm.IRModule, b: tvm.IRModule) -> None:
    tidy = relax.transform.CanonicalizeBindings()  # bindings of one variable to another
    tvm.ir.assert_structural_equal(tidy(a), tidy(b), map_free_vars=True)


# --- FoldConstants


@pytest.mark.parametrize(
    ("operator", "constants"),
    [
        (relax.op.add, 2),
        (relax.op.subtract, 2),
        (relax.op.multiply, 2),
        (relax.op.divide, 2),
        (relax.op.maximum, 2),
        (relax.op.minimum, 2),
        (relax.op.sqrt, 1),
        (relax.op.negative, 1),
        (relax.op.abs, 1),
        (lambda x: relax.op.reshape(x, (3, 2)), 1),
        (lambda x: relax.op.reshape(x, (-1,)), 1),
        (lambda x: relax.op.permute_dims(x, [1, 0]), 1),
        (lambda x: relax.op.permute_dims(x), 1),
        (lambda x: relax.op.expand_dims(x, [0, 2]), 1),
        (lambda x: relax.op.astype(x, "float16"), 1),
        (lambda x: relax.op.astype(x, "int32"), 1),
    ],
)
def test_fold_constants_computes_what_tvm_would(operator, constants):
    arrays = [np.array([[1.5, -2, 3], [0.25, 5, -6]], np.float32) * (i + 1) for i in range(constants)]
    if operator is relax.op.sqrt:
        arrays = [np.abs(a) for a in arrays]

    def body(emit, x):
        folded = emit(operator(*map(relax.const, arrays)))
        return emit(relax.op.concat([relax.op.flatten(relax.op.astype(folded, "float32")), x], axis=0))

    before = _built({"x": ((2,), "float32")}, body)
    after = FoldConstants()(before)
    assert [c for c in _calls(after) if c not in ("concat", "flatten", "astype")] == []
    (folded,) = _constants(after)
    expected = _evaluate(operator, arrays)
    assert folded.dtype == expected.dtype or folded.dtype == np.float32
    np.testing.assert_array_equal(folded.ravel(), expected.astype(folded.dtype).ravel())


def _constants(mod: tvm.IRModule) -> list[np.ndarray]:
    found: dict[int, np.ndarray] = {}

    def visit(e) -> None:
        if isinstance(e, tvm.ir.expr.GenericConst):
            found[len(found)] = e.value.numpy()

    relax.analysis.post_order_visit(mod["main"], visit)
    return list(found.values())


def _evaluate(operator, arrays: list[np.ndarray]) -> np.ndarray:
    """What TVM computes when nothing is folded."""
    inputs = {f"a{i}": (a.shape, str(a.dtype)) for i, a in enumerate(arrays)}
    mod = _built(inputs, lambda emit, *xs: emit(operator(*xs)))
    machine = relax.VirtualMachine(tvm.compile(mod, tvm.target.Target("llvm")), tvm.cpu())
    return machine["main"](*map(tvm.runtime.tensor, arrays)).numpy()


def test_fold_constants_leaves_what_depends_on_inputs():
    one = relax.const(np.ones(2, np.float32))
    before = _built({"x": ((2,), "float32")}, lambda emit, x: emit(relax.op.add(emit(relax.op.exp(one)), x)))
    _same(FoldConstants()(before), before)


def test_fold_constants_folds_chains():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 2), "float32")) -> R.Tensor((2, 2), "float32"):
            with R.dataflow():
                a = R.add(R.const(np.full((4,), 2, "float32")), R.const(np.ones((4,), "float32")))
                b = R.reshape(a, R.shape([2, 2]))
                c = R.multiply(x, b)
                R.output(c)
            return c

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((2, 2), "float32")) -> R.Tensor((2, 2), "float32"):
            with R.dataflow():
                c = R.multiply(x, R.const(np.full((2, 2), 3, "float32")))
                R.output(c)
            return c

    _same(FoldConstants()(Before), After)


# --- SetPrecision


def test_precision_float32_changes_nothing_in_a_float32_network():
    before = _built({"x": ((2, 4), "float32")}, lambda emit, x: emit(relax.op.nn.softmax(emit(relax.op.nn.relu(x)))))
    _same(SetPrecision("float32")(before), before)


def test_precision_float16_casts_between_operators():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 4), "float32"), n: R.Tensor((2, 4), "int64")) -> R.Tensor((2, 4), "float32"):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.add(a, R.const(np.ones((4,), "float32")))
                c = R.nn.softmax(b, axis=-1)
                d = R.multiply(c, R.astype(n, "float32"))
                R.output(d)
            return d

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((2, 4), "float32"), n: R.Tensor((2, 4), "int64")) -> R.Tensor((2, 4), "float32"):
            with R.dataflow():
                x16 = R.astype(x, "float16")
                a = R.nn.relu(x16)
                b = R.add(a, R.const(np.ones((4,), "float16")))
                b32 = R.astype(b, "float32")
                c = R.nn.softmax(b32, axis=-1)
                n32 = R.astype(n, "float32")
                c16 = R.astype(c, "float16")
                n16 = R.astype(n32, "float16")
                d = R.multiply(c16, n16)
                d32 = R.astype(d, "float32")
                R.output(d32)
            return d32

    _same(SetPrecision("float16")(Before), After)


def test_precision_float16_casts_each_value_once():
    def body(emit, x):
        softmax = emit(relax.op.nn.softmax(x))
        return emit(relax.op.multiply(emit(relax.op.nn.relu(softmax)), emit(relax.op.negative(softmax))))

    after = SetPrecision("float16")(_built({"x": ((2, 4), "float32")}, body))
    assert _calls(after).count("astype") == 2  # the softmax for both readers, and the result
    assert _result(after) == ((2, 4), "float32")


def test_precision_float32_computes_a_half_network_in_float():
    def body(emit, x):
        return emit(relax.op.add(emit(relax.op.nn.relu(x)), relax.const(np.ones(4, np.float16))))

    after = SetPrecision("float32")(_built({"x": ((2, 4), "float16")}, body))
    assert _calls(after) == ["astype", "nn.relu", "add", "astype"]
    assert _result(after) == ((2, 4), "float16")


def test_precision_keeps_the_dtypes_of_several_results():
    def body(emit, x, n):
        relu = emit(relax.op.nn.relu(x))
        return emit(relax.Tuple([relu, n, emit(relax.op.nn.softmax(relu))]))

    before = _built({"x": ((2, 4), "float32"), "n": ((3,), "int64")}, body)
    after = SetPrecision("float16")(before)
    assert [str(t.dtype) for t in after["main"].ret_ty.fields] == ["float32", "int64", "float32"]
    assert _calls(relax.transform.DeadCodeElimination(["main"])(after)).count("astype") == 3


def test_precision_leaves_integers_alone():
    def body(emit, n, k):
        return emit(relax.op.add(n, k))

    before = _built({"n": ((3,), "int64"), "k": ((3,), "int64")}, body)
    for dtype in ("float16", "float32"):
        _same(SetPrecision(dtype)(before), before)


# --- ToNCHW4c


def _conv(emit, x, out: int, kernel: int = 3, groups: int = 1, **attributes):
    channels = int(x.ty.shape[1])
    weight = np.ones((out, channels // groups, kernel, kernel), np.float32)
    return emit(relax.op.nn.conv2d(x, relax.const(weight), padding=kernel // 2, groups=groups, **attributes))


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        pytest.param(
            lambda emit, x: _conv(emit, x, 8), ["pack_nchw4c", "conv2d_direct", "unpack_nchw4c"], id="one convolution"
        ),
        pytest.param(
            lambda emit, x: _conv(emit, emit(relax.op.nn.relu(_conv(emit, _conv(emit, x, 8), 8, 3, 8))), 5, 1),
            ["pack_nchw4c", "conv2d_direct", "depthwise_conv2d", "nn.relu", "conv2d_1x1", "unpack_nchw4c"],
            id="a chain is packed once",
        ),
        pytest.param(
            lambda emit, x: emit(relax.op.add(_conv(emit, x, 4), _conv(emit, x, 4, 1))),
            ["pack_nchw4c", "conv2d_direct", "conv2d_1x1", "add", "unpack_nchw4c"],
            id="two convolutions of one input",
        ),
        pytest.param(
            lambda emit, x: emit(relax.op.nn.max_pool2d(emit(relax.op.nn.relu(x)), pool_size=2)),
            ["nn.relu", "nn.max_pool2d"],
            id="no convolution, no packing",
        ),
        pytest.param(
            lambda emit, x: _conv(emit, x, 6, groups=3),
            ["pack_nchw4c", "grouped_conv2d", "unpack_nchw4c"],
            id="grouped convolution",
        ),
        pytest.param(
            lambda emit, x: emit(relax.op.permute_dims(_conv(emit, x, 8), [0, 2, 3, 1])),
            ["pack_nchw4c", "conv2d_direct", "unpack_nchw4c", "permute_dims"],
            id="transpose wants NCHW",
        ),
        pytest.param(
            lambda emit, x: emit(relax.op.concat([_conv(emit, x, 4), _conv(emit, x, 8)], axis=1)),
            ["pack_nchw4c", "conv2d_direct", "conv2d_direct1", "concat_nchw4c", "unpack_nchw4c"],
            id="concat of whole vectors stays blocked",
        ),
        pytest.param(
            lambda emit, x: emit(relax.op.concat([_conv(emit, x, 5), _conv(emit, x, 8)], axis=1)),
            ["pack_nchw4c", "conv2d_direct", "conv2d_direct1", "unpack_nchw4c", "unpack_nchw4c1", "concat"],
            id="concat of broken vectors does not",
        ),
        pytest.param(
            lambda emit, x: emit(relax.op.nn.avg_pool2d(_conv(emit, x, 5), pool_size=3, strides=2, ceil_mode=True)),
            ["pack_nchw4c", "conv2d_direct", "nn.avg_pool2d", "unpack_nchw4c"],
            id="pool stays blocked",
        ),
    ],
)
def test_nchw4c_packs_at_the_edges(body, calls):
    before = _built({"x": ((1, 3, 8, 9), "float32")}, body)
    after = relax.transform.CanonicalizeBindings()(ToNCHW4c()(before))
    assert _calls(after) == calls
    assert _result(after) == _result(before)
    relax.analysis.well_formed(after)  # raises where it is not


def test_nchw4c_keeps_results_that_both_layouts_read():
    def body(emit, x):
        conv = _conv(emit, x, 8)
        flat = emit(relax.op.reshape(conv, (1, -1)))
        return emit(relax.Tuple([flat, _conv(emit, conv, 4, 1), conv]))

    after = ToNCHW4c()(_built({"x": ((1, 4, 3, 3), "float32")}, body))
    calls = _calls(relax.transform.DeadCodeElimination(["main"])(after))
    assert calls.count("unpack_nchw4c") == 1
    assert sorted(set(calls)) == [
        "conv2d_1x1", "conv2d_direct", "pack_nchw4c", "reshape", "unpack_nchw4c", "unpack_nchw4c1",
    ]  # fmt: skip


def test_nchw4c_leaves_weights_that_are_inputs():
    parameters = {"x": ((1, 4, 5, 5), "float32"), "w": ((8, 4, 3, 3), "float32")}
    before = _built(parameters, lambda emit, x, w: emit(relax.op.nn.conv2d(x, w)))
    assert _calls(ToNCHW4c()(before)) == ["nn.conv2d"]
