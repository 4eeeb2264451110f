"""What run() takes and gives: exactly the model's tensors, or a refusal that says both sides."""

import numpy as np
import pytest
from malisdk_pipeline.plan import DTYPES

SHAPE = (1, 3, 8, 8)
X = np.arange(192, dtype=np.float32).reshape(SHAPE)


def refused(malisdk, model, x, *fragments: str) -> None:
    with pytest.raises(malisdk.WrongTensor) as caught:
        model.run(x)
    error = caught.value
    assert error.code == malisdk.Status.WRONG_TENSOR
    assert error.status == "MALISDK_WRONG_TENSOR"
    assert isinstance(error, malisdk.Error) and isinstance(error, ValueError)
    for fragment in ("input 'x'", "expected float32 (1, 3, 8, 8)", *fragments):
        assert fragment in str(error)
    np.testing.assert_array_equal(model.run(X), 2 * X)


WRONG = {
    "list": (X.tolist(), "got list"),
    "scalar": (np.float32(1), "got float32"),
    "equal_bytes_other_rank": (X.reshape(3, 64), "wrong shape", "got float32 (3, 64)"),
    "equal_bytes_float64": (np.zeros((1, 3, 8, 4), np.float64), "wrong dtype", "got float64 (1, 3, 8, 4)"),
    "equal_bytes_float16": (np.zeros((1, 3, 8, 16), np.float16), "wrong dtype", "got float16 (1, 3, 8, 16)"),
    "equal_bytes_int32": (X.view(np.int32), "wrong dtype", "got int32"),
    "float64": (X.astype(np.float64), "wrong dtype", "x.astype('float32')"),
    "big_endian": (X.astype(">f4"), "wrong dtype", "got >f4"),
    "structured": (X.view([("v", np.float32)]), "wrong dtype"),
    "object": (X.astype(object), "wrong dtype", "got object"),
    "transposed": (X.transpose(0, 1, 3, 2), "not C-contiguous", "strides", "numpy.ascontiguousarray"),
    "fortran": (np.asfortranarray(X), "not C-contiguous"),
    "every_other": (np.zeros((1, 3, 8, 16), np.float32)[..., ::2], "not C-contiguous"),
    "reversed": (X[..., ::-1], "not C-contiguous"),
    "broadcast": (np.broadcast_to(np.float32(1), SHAPE), "not C-contiguous"),
    "short": (X[:, :, :4], "wrong shape", "got float32 (1, 3, 4, 8)"),
    "no_batch": (X[0], "wrong shape", "got float32 (3, 8, 8)"),
    "batch_of_two": (np.concatenate([X, X]), "wrong shape"),
    "empty": (np.zeros((0, 3, 8, 8), np.float32), "wrong shape"),
    "nhwc": (np.ascontiguousarray(X.transpose(0, 2, 3, 1)), "wrong shape", "got float32 (1, 8, 8, 3)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_run_wrong_input_is_refused_and_model_still_works(malisdk, double_model, case: str) -> None:
    x, *fragments = WRONG[case]
    with malisdk.load(double_model) as model:
        refused(malisdk, model, x, *fragments)
        refused(malisdk, model, {"x": x}, *fragments)


def test_run_right_input_variants_are_taken(malisdk, double_model) -> None:
    read_only = X.copy()
    read_only.flags.writeable = False
    wide = np.empty((2, *SHAPE[1:]), np.float32)
    wide[1:] = X
    unaligned = np.frombuffer(b"\0" + X.tobytes(), np.float32, offset=1).reshape(SHAPE)
    with malisdk.load(double_model) as model:
        for x in (X, read_only, wide[1:], unaligned, {"x": X}, X.view(np.ndarray)):
            np.testing.assert_array_equal(model.run(x), 2 * X)


def test_specs_tell_names_shapes_dtypes(malisdk, pair_model) -> None:
    with malisdk.load(pair_model) as model:
        assert model.inputs == (
            malisdk.TensorSpec("a", (4,), np.dtype(np.float32)),
            malisdk.TensorSpec("b", (4,), np.dtype(np.float32)),
        )
        assert [spec.name for spec in model.outputs] == ["sum", "difference"]
        assert str(model.inputs[0]) == "a: float32 (4,)"


def test_run_several_tensors_by_name_in_any_order(malisdk, pair_model) -> None:
    a, b = np.float32([1, 2, 3, 4]), np.float32([10, 20, 30, 40])
    with malisdk.load(pair_model) as model:
        y = model.run({"b": b, "a": a})
        assert list(y) == ["sum", "difference"]
        np.testing.assert_array_equal(y["sum"], a + b)
        np.testing.assert_array_equal(y["difference"], a - b)
        only = model.run({"a": b}, outputs=["difference"])
        assert list(only) == ["difference"]
        np.testing.assert_array_equal(only["difference"], b - b)


def test_run_one_array_for_two_inputs_is_refused(malisdk, pair_model) -> None:
    with malisdk.load(pair_model) as model, pytest.raises(malisdk.WrongTensor, match="expected a dict with 'a', 'b'"):
        model.run(np.zeros(4, np.float32))


def test_run_missing_input_is_named(malisdk, pair_model) -> None:
    with malisdk.load(pair_model) as model, pytest.raises(malisdk.Error, match="input 'b': missing") as caught:
        model.run({"a": np.zeros(4, np.float32)})
    assert caught.value.code == malisdk.Status.INVALID_ARGUMENT


@pytest.mark.parametrize("name", ["c", "A", "", "a\0", "é", "\udc80"])
def test_run_unknown_input_lists_known_ones(malisdk, pair_model, name: str) -> None:
    with malisdk.load(pair_model) as model, pytest.raises(malisdk.Error, match="no such input") as caught:
        model.run({name: np.zeros(4, np.float32)})
    assert "expected 'a', 'b'" in str(caught.value)


def test_run_unknown_output_lists_known_ones(malisdk, pair_model) -> None:
    x = {"a": np.zeros(4, np.float32), "b": np.zeros(4, np.float32)}
    with malisdk.load(pair_model) as model:
        for outputs in (["product"], "product", {"product": np.zeros(4, np.float32)}):
            with pytest.raises(malisdk.Error, match="no such output") as caught:
                model.run(x, outputs=outputs)
            assert "'sum', 'difference'" in str(caught.value)


def test_run_into_own_array(malisdk, double_model) -> None:
    y = np.zeros(SHAPE, np.float32)
    with malisdk.load(double_model) as model:
        assert model.run(X, outputs={"y": y}) is y
        np.testing.assert_array_equal(y, 2 * X)
        y.flags.writeable = False
        with pytest.raises(malisdk.WrongTensor, match="read-only"):
            model.run(X, outputs={"y": y})
        with pytest.raises(malisdk.WrongTensor, match="output 'y': wrong dtype"):
            model.run(X, outputs={"y": np.zeros(SHAPE)})


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_passes_unchanged(malisdk, copy_model, dtype: str) -> None:
    rng = np.random.default_rng(0)
    shape = (2, 3, 5)
    x = rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    with malisdk.load(copy_model(dtype, shape, x.nbytes)) as model:
        assert model.inputs[0].dtype == np.dtype(dtype)
        y = model.run(x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1, 1, 1, 1, 2)])
def test_every_rank_passes(malisdk, copy_model, shape: tuple[int, ...]) -> None:
    x = np.full(shape, 7, np.int16)
    with malisdk.load(copy_model("int16", shape, x.nbytes)) as model:
        y = model.run(x)
        assert y.shape == shape and (y == 7).all()
        with model.map_input() as view:
            assert view.shape == shape
            view[...] = 8
        assert (model.run() == 8).all()
        if shape == ():
            with pytest.raises(malisdk.WrongTensor, match=r"got int16 \(1,\); expected int16 \(\)"):
                model.run(np.zeros(1, np.int16))
