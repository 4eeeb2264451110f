"""Photographs as model inputs: decode, crop, resize, normalise; and PPM files, which need no decoder on a board."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ImportFailed

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
_PPM_MAX_VALUE = 255


def square_pixels(encoded: bytes, *, source: str, height: int, width: int) -> Pixels:
    """The centred square of an encoded picture, resized (bilinear, antialiased): H W 3 uint8, RGB.

    Raises ImportFailed if the bytes are no picture.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(encoded)) as opened:
            picture = opened.convert("RGB")
    except (UnidentifiedImageError, OSError) as e:
        raise ImportFailed(f"{source}: no readable picture: {e}") from e
    edge = min(picture.size)
    left, top = (picture.width - edge) // 2, (picture.height - edge) // 2
    square = picture.crop((left, top, left + edge, top + edge))
    return np.asarray(square.resize((width, height), Image.Resampling.BILINEAR), np.uint8)


def normalise(
    pixels: Pixels, *, channels: str, mean: Sequence[float], std: Sequence[float]
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """(pixel - mean) / std, H W 3 RGB to 1 3 H W float32 in the order `channels` (RGB or BGR), as mean and std are."""
    ordered = pixels[:, :, ::-1] if channels == "BGR" else pixels
    scaled = (ordered.astype(np.float32) - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[np.newaxis])


def ppm_bytes(pixels: Pixels) -> bytes:
    """A binary PPM (P6) of H W 3 uint8 RGB pixels."""
    height, width, _ = pixels.shape
    return f"P6\n{width} {height}\n{_PPM_MAX_VALUE}\n".encode() + np.ascontiguousarray(pixels).tobytes()


def read_ppm(path: Path) -> Pixels:
    """H W 3 uint8 RGB pixels of a binary PPM without comments. Raises ImportFailed if the file is anything else."""
    data = path.read_bytes()
    words = data.split(maxsplit=3)
    if len(words) != 4 or words[0] != b"P6" or not all(w.isdigit() for w in words[1:3]):
        raise ImportFailed(f"{path}: no binary PPM, got {data[:8]!r}; expected P6, width, height, {_PPM_MAX_VALUE}")
    width, height = int(words[1]), int(words[2])
    header_bytes = len(f"P6\n{width} {height}\n{_PPM_MAX_VALUE}\n")
    if not data[:header_bytes].endswith(b"\n255\n") or len(data) - header_bytes != width * height * 3:
        raise ImportFailed(f"{path}: size, got {len(data) - header_bytes} bytes; expected {width}x{height} RGB pixels")
    return np.frombuffer(data, np.uint8, offset=header_bytes).reshape(height, width, 3)
