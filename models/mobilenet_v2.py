"""MobileNet v2 (width 1.0) with seeded random weights.

Source: Sandler et al., MobileNetV2 (2018), table 2.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from malisdk_pipeline.recipes import Recipe

if TYPE_CHECKING:
    import onnx

INPUT_SHAPE = (1, 3, 224, 224)
CLASSIFIER_GAIN = 4.0

# expansion, output channels, repeats, stride of the first
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def build(_: Mapping[str, Path]) -> "onnx.ModelProto":
    """image [1,3,224,224] -> probabilities [1,1000]."""
    from malisdk_pipeline.seeded_net import RESIDUAL_SCALE, SeededNet

    net = SeededNet("mobilenet_v2", input_shape=INPUT_SHAPE)
    x = net.conv_bn("stem", net.input, 32, kernel=3, stride=2, activation="relu6")
    index = 0
    for expansion, out, repeats, first_stride in STAGES:
        for i in range(repeats):
            name, stride = f"blocks.{index}", first_stride if i == 0 else 1
            y = x
            if expansion != 1:
                y = net.conv_bn(f"{name}.expand", y, x.channels * expansion, activation="relu6")
            y = net.depthwise_bn(f"{name}.depthwise", y, kernel=3, stride=stride, activation="relu6")
            residual = stride == 1 and out == x.channels
            scale = RESIDUAL_SCALE if residual else 1.0
            y = net.conv_bn(f"{name}.project", y, out, activation=None, scale=scale)
            x = net.net.add(f"{name}.add", y, x) if residual else y
            index += 1
    x = net.conv_bn("head", x, 1280, activation="relu6")
    return net.net.model(net.classify(net.pooled(x), gain=CLASSIFIER_GAIN))


RECIPE = Recipe(
    name="mobilenet_v2",
    summary="MobileNet v2, seeded random weights, 224x224, 3.50 M weights, 0.30 G multiply-adds",
    input_name="image",
    input_shape=INPUT_SHAPE,
    build=build,
)
