"""MobileNet v1 (width 1.0) with seeded random weights.

Source: Howard et al., MobileNets (2017), table 1.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from malisdk_pipeline.recipes import Recipe

if TYPE_CHECKING:
    import onnx

INPUT_SHAPE = (1, 3, 224, 224)
CLASSIFIER_GAIN = 4.0

# output channels and stride of each depthwise separable block
BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)


def build(_: Mapping[str, Path]) -> "onnx.ModelProto":
    """image [1,3,224,224] -> probabilities [1,1000]."""
    from malisdk_pipeline.seeded_net import SeededNet

    net = SeededNet("mobilenet_v1", input_shape=INPUT_SHAPE)
    x = net.conv_bn("stem", net.input, 32, kernel=3, stride=2)
    for index, (out, stride) in enumerate(BLOCKS):
        x = net.depthwise_bn(f"blocks.{index}.depthwise", x, kernel=3, stride=stride, activation="relu")
        x = net.conv_bn(f"blocks.{index}.pointwise", x, out)
    return net.net.model(net.classify(net.pooled(x), gain=CLASSIFIER_GAIN))


RECIPE = Recipe(
    name="mobilenet_v1",
    summary="MobileNet v1, seeded random weights, 224x224, 4.23 M weights, 0.57 G multiply-adds",
    input_name="image",
    input_shape=INPUT_SHAPE,
    build=build,
)
