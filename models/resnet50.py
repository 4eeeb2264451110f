"""ResNet-50 with seeded random weights.

Source: He et al., Deep Residual Learning (2015), table 1; the stride sits in the 3x3 convolution (version 1.5).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from malisdk_pipeline.recipes import Recipe

if TYPE_CHECKING:
    import onnx

INPUT_SHAPE = (1, 3, 224, 224)
CLASSIFIER_GAIN = 0.6
EXPANSION = 4

# channels of the 3x3 convolution, blocks
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))


def build(_: Mapping[str, Path]) -> "onnx.ModelProto":
    """image [1,3,224,224] -> probabilities [1,1000]."""
    from malisdk_pipeline.seeded_net import RESIDUAL_SCALE, SeededNet

    net = SeededNet("resnet50", input_shape=INPUT_SHAPE)
    x = net.conv_bn("stem", net.input, 64, kernel=7, stride=2)
    x = net.net.max_pool("stem.pool", x, kernel=3, stride=2, pads=(1, 1, 1, 1))
    for stage, (narrow, blocks) in enumerate(STAGES, start=1):
        for i in range(blocks):
            name, out = f"stage{stage}.{i}", narrow * EXPANSION
            stride = 2 if i == 0 and stage > 1 else 1
            y = net.conv_bn(f"{name}.reduce", x, narrow)
            y = net.conv_bn(f"{name}.conv3x3", y, narrow, kernel=3, stride=stride)
            y = net.conv_bn(f"{name}.expand", y, out, activation=None, scale=RESIDUAL_SCALE)
            if x.shape != y.shape:
                x = net.conv_bn(f"{name}.shortcut", x, out, stride=stride, activation=None)
            x = net.net.relu(f"{name}.relu", net.net.add(f"{name}.add", y, x))
    return net.net.model(net.classify(net.pooled(x), gain=CLASSIFIER_GAIN))


RECIPE = Recipe(
    name="resnet50",
    summary="ResNet-50, seeded random weights, 224x224, 25.6 M weights, 4.09 G multiply-adds",
    input_name="image",
    input_shape=INPUT_SHAPE,
    build=build,
)
