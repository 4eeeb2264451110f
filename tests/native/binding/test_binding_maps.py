"""Mapped memory: nothing copied, and no view that outlives its block may hurt."""

import gc
import sys
import weakref

import numpy as np
import pytest

SHAPE = (1, 3, 8, 8)
X = np.arange(192, dtype=np.float32).reshape(SHAPE)


def test_map_input_then_run_sees_what_was_written(malisdk, double_model) -> None:
    with malisdk.load(double_model) as model:
        for which in ("x", 0, np.int64(0)):
            with model.map_input(which) as frame:
                assert type(frame) is np.ndarray and frame.flags.c_contiguous and frame.flags.writeable
                assert not frame.flags.owndata
                frame[...] = X + 1
            np.testing.assert_array_equal(model.run(), 2 * X + 2)


def test_map_output_is_the_last_run_and_read_only(malisdk, double_model) -> None:
    with malisdk.load(double_model) as model:
        model.run(X, outputs=[])
        with model.map_output("y") as view:
            np.testing.assert_array_equal(view, 2 * X)
            assert not view.flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                view[...] = 0
            with pytest.raises(ValueError, match="WRITEABLE"):
                view.flags.writeable = True


def test_view_after_block_is_empty_and_read_only(malisdk, double_model) -> None:
    with malisdk.load(double_model) as model:
        with model.map_input("x") as frame:
            frame[...] = X
        assert frame.shape == (0, 0, 0, 0) and frame.size == 0
        with pytest.raises(ValueError):
            frame[...] = X
        with pytest.raises(IndexError):
            frame[0]
        assert frame.sum() == 0 and frame.tolist() == []
        assert memoryview(frame).nbytes == 0
        np.testing.assert_array_equal(model.run(), 2 * X)


def test_derived_views_survive_block_close_and_model(malisdk, double_model) -> None:
    model = malisdk.load(double_model)
    with model.map_input("x") as frame:
        frame[...] = X
        row, flat, raw, plain = frame[0, 1, 2], frame.reshape(-1), memoryview(frame), np.asarray(frame)
        del frame
    model.run()
    model.close()
    del model
    gc.collect()
    for view in (row, flat, plain):
        float(np.sum(np.nan_to_num(view)))
    bytes(raw)
    row[:] = 3
    del row, flat, raw, plain, view
    gc.collect()


def test_view_keeps_memory_until_it_dies(malisdk, double_model) -> None:
    model = malisdk.load(double_model)
    mapping = model.map_input("x")
    frame = mapping.__enter__()
    del mapping
    model.close()
    gc.collect()
    frame[...] = X
    np.testing.assert_array_equal(frame, X)
    gone = weakref.ref(frame)
    del frame
    assert gone() is None


def test_map_never_left_is_unmapped_when_its_view_dies(malisdk, double_model) -> None:
    with malisdk.load(double_model) as model:
        frame = model.map_input("x").__enter__()
        frame[...] = X
        with pytest.raises(malisdk.Error, match="mapped"):
            model.run(X)
        del frame
        gc.collect()
        np.testing.assert_array_equal(model.run(), 2 * X)


def test_run_while_mapped_is_busy(malisdk, double_model) -> None:
    with malisdk.load(double_model) as model:
        with model.map_input("x"), pytest.raises(malisdk.Error) as caught:
            model.run(X)
        assert caught.value.code == malisdk.Status.BUSY
        np.testing.assert_array_equal(model.run(X), 2 * X)
        with model.map_output("y"), pytest.raises(malisdk.Error) as caught:
            model.run(X)
        assert caught.value.code == malisdk.Status.BUSY


def test_second_map_of_a_tensor_is_busy_and_the_first_stays(malisdk, double_model) -> None:
    with malisdk.load(double_model) as model:
        mapping = model.map_input("x")
        with mapping as frame:
            for second in (mapping, model.map_input("x")):
                with pytest.raises(malisdk.Error) as caught, second:
                    pass
                assert caught.value.code == malisdk.Status.BUSY
            frame[...] = X
        np.testing.assert_array_equal(model.run(), 2 * X)
        with mapping as frame:
            np.testing.assert_array_equal(frame, X)


def test_exception_in_block_passes_and_unmaps(malisdk, double_model) -> None:
    with malisdk.load(double_model) as model:
        with pytest.raises(KeyError), model.map_input("x") as frame:
            frame[...] = X
            raise KeyError("theirs")
        np.testing.assert_array_equal(model.run(), 2 * X)


def test_map_output_before_any_run_is_refused(malisdk, double_model) -> None:
    with malisdk.load(double_model) as model, pytest.raises(malisdk.Error, match="output 'y'"), model.map_output():
        pass


@pytest.mark.parametrize("which", ["z", "", 1, -1, 2**70, None, 0.0, True, b"x"])
def test_map_of_unknown_tensor_is_refused(malisdk, double_model, which) -> None:
    with malisdk.load(double_model) as model:
        with pytest.raises(
            malisdk.Error, match=r"model: no such input, got .*; expected 'x' or an index below 1"
        ) as caught:
            model.map_input(which)
        assert caught.value.code == malisdk.Status.INVALID_ARGUMENT


def test_maps_leave_no_references_behind(malisdk, double_model) -> None:
    with malisdk.load(double_model) as model:
        dtype_references = sys.getrefcount(model.inputs[0].dtype)
        views = []
        for _ in range(100):
            with model.map_input("x") as frame:
                frame[0, 0, 0, 0] = 1
                views.append(weakref.ref(frame))
        del frame
        gc.collect()
        assert not any(view() is not None for view in views)
        assert sys.getrefcount(model.inputs[0].dtype) - dtype_references < 10
