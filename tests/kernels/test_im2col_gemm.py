"""The matrix product over unfolded windows against numpy: pixels that tiles divide or not, pads, strides, dilation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from malisdk_pipeline import container
from malisdk_pipeline.schedules.facts import Conv2dFacts
from malisdk_pipeline.schedules.mali.im2col_gemm import Im2colGemm
from malisdk_pipeline.tuning.check import layer_plan
from malisdk_pipeline.tuning.replay import conv2d, make

LAYERS = {
    "whole tiles": ((1, 3, 8, 8), 8, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "odd pixels and channels": ((1, 5, 7, 9), 6, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "batch, stride, dilation": ((2, 3, 8, 10), 7, (5, 3), (2, 1), (2, 0, 1, 1), (1, 2)),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_im2col_gemm_agrees_with_numpy(layer: str, tmp_path: Path, malisdk: Any) -> None:
    (n, c, h, w), out, kernel, stride, pad, dilation = LAYERS[layer]
    facts = Conv2dFacts(
        batch=n, in_channels=c, in_height=h, in_width=w, out_channels=out, kernel=kernel, stride=stride, pad=pad,
        dilation=dilation, groups=1, dtype="float32",
    )  # fmt: skip
    tile = Im2colGemm.config(facts)
    rng = np.random.default_rng(1)
    data = rng.standard_normal((n, c, h, w), dtype=np.float32)
    weight = rng.standard_normal((out, c, *kernel), dtype=np.float32)
    packed = Im2colGemm.pack_weight(weight, tile)
    replayed = make(conv2d(Im2colGemm, facts, tile, packed.shape), "gemm")
    path = tmp_path / "gemm.mali"
    container.write(path, layer_plan(replayed, [packed], dtype="float32", name="gemm"))
    with malisdk.load(path, cache_dir="") as model:
        result = model.run({"data": data}).copy()
    padded = np.pad(data.astype(np.float64), ((0, 0), (0, 0), (pad[0], pad[2]), (pad[1], pad[3])))
    expected = np.zeros(result.shape)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            y, x = i * dilation[0], j * dilation[1]
            rows = slice(y, y + (result.shape[2] - 1) * stride[0] + 1, stride[0])
            columns = slice(x, x + (result.shape[3] - 1) * stride[1] + 1, stride[1])
            expected += np.einsum("oc,nchw->nohw", weight[:, :, i, j].astype(np.float64), padded[:, :, rows, columns])
    np.testing.assert_allclose(result, expected, atol=1e-5 * np.abs(expected).max())
