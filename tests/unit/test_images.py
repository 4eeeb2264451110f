"""Pictures become the pixels and numbers that a recipe describes."""

import io

import numpy as np
import pytest
from malisdk_pipeline.errors import ImportFailed
from malisdk_pipeline.images import normalise, ppm_bytes, read_ppm, square_pixels
from PIL import Image


def test_square_pixels_takes_the_centre_without_resampling():
    pixels = np.random.default_rng(0).integers(0, 256, (4, 10, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "png")
    got = square_pixels(stream.getvalue(), source="x.png", height=4, width=4)
    np.testing.assert_array_equal(got, pixels[:, 3:7])


def test_square_pixels_of_no_picture_is_refused():
    with pytest.raises(ImportFailed, match=r"x\.png: no readable picture"):
        square_pixels(b"no picture", source="x.png", height=4, width=4)


def test_normalise_bgr_puts_blue_first():
    pixels = np.array([[[10, 20, 30], [40, 50, 60]]], np.uint8)
    got = normalise(pixels, channels="BGR", mean=(1, 2, 3), std=(2, 4, 8))
    expected = np.array([[[[29 / 2, 59 / 2]], [[18 / 4, 48 / 4]], [[7 / 8, 37 / 8]]]], np.float32)
    np.testing.assert_array_equal(got, expected)
    assert got.flags.c_contiguous


def test_ppm_round_trip_even_if_the_first_pixels_look_like_white_space(tmp_path):
    pixels = np.full((2, 3, 3), 10, np.uint8)
    (tmp_path / "a.ppm").write_bytes(ppm_bytes(pixels))
    np.testing.assert_array_equal(read_ppm(tmp_path / "a.ppm"), pixels)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "a.ppm")), pixels)


@pytest.mark.parametrize(
    "data", [b"", b"P5\n1 1\n255\nabc", b"P6\n2 2\n255\nabc", b"P6\n1 1\n65535\nabcdef", b"P6 x y"]
)
def test_read_ppm_of_anything_else_is_refused(tmp_path, data):
    (tmp_path / "a.ppm").write_bytes(data)
    with pytest.raises(ImportFailed, match=r"a\.ppm"):
        read_ppm(tmp_path / "a.ppm")
