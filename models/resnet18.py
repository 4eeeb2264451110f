"""ResNet-18 with seeded random weights.

Source: He et al., Deep Residual Learning (2015), table 1, shortcuts B.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from malisdk_pipeline.recipes import Recipe

if TYPE_CHECKING:
    import onnx

INPUT_SHAPE = (1, 3, 224, 224)
CLASSIFIER_GAIN = 1.3
CHANNELS = (64, 128, 256, 512)
BLOCKS_A_STAGE = 2


def build(_: Mapping[str, Path]) -> "onnx.ModelProto":
    """image [1,3,224,224] -> probabilities [1,1000]."""
    from malisdk_pipeline.seeded_net import RESIDUAL_SCALE, SeededNet

    net = SeededNet("resnet18", input_shape=INPUT_SHAPE)
    x = net.conv_bn("stem", net.input, 64, kernel=7, stride=2)
    x = net.net.max_pool("stem.pool", x, kernel=3, stride=2, pads=(1, 1, 1, 1))
    for stage, out in enumerate(CHANNELS, start=1):
        for i in range(BLOCKS_A_STAGE):
            name = f"stage{stage}.{i}"
            stride = 2 if i == 0 and stage > 1 else 1
            y = net.conv_bn(f"{name}.conv1", x, out, kernel=3, stride=stride)
            y = net.conv_bn(f"{name}.conv2", y, out, kernel=3, activation=None, scale=RESIDUAL_SCALE)
            if x.shape != y.shape:
                x = net.conv_bn(f"{name}.shortcut", x, out, stride=stride, activation=None)
            x = net.net.relu(f"{name}.relu", net.net.add(f"{name}.add", y, x))
    return net.net.model(net.classify(net.pooled(x), gain=CLASSIFIER_GAIN))


RECIPE = Recipe(
    name="resnet18",
    summary="ResNet-18, seeded random weights, 224x224, 11.7 M weights, 1.81 G multiply-adds",
    input_name="image",
    input_shape=INPUT_SHAPE,
    build=build,
)
