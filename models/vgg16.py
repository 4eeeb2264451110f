"""VGG-16 with seeded random weights.

Source: Simonyan and Zisserman, Very Deep Convolutional Networks (2014), configuration D.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from malisdk_pipeline.recipes import Recipe

if TYPE_CHECKING:
    import onnx

INPUT_SHAPE = (1, 3, 224, 224)
CLASSIFIER_GAIN = 0.4
HIDDEN = 4096

# channels and convolutions of each stage; a 2x2 max pooling ends it
STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


def build(_: Mapping[str, Path]) -> "onnx.ModelProto":
    """image [1,3,224,224] -> probabilities [1,1000]."""
    from malisdk_pipeline.seeded_net import RELU_GAIN, SeededNet

    net = SeededNet("vgg16", input_shape=INPUT_SHAPE)
    x = net.input
    for stage, (out, convolutions) in enumerate(STAGES, start=1):
        for i in range(convolutions):
            name = f"stage{stage}.{i}"
            x = net.conv(f"{name}.conv", x, out, kernel=3, gain=RELU_GAIN, bias=True)
            x = net.net.relu(f"{name}.relu", x)
        x = net.net.max_pool(f"stage{stage}.pool", x, kernel=2, stride=2)
    x = net.net.flatten("flatten", x)
    for name in ("dense1", "dense2"):
        x = net.net.relu(f"{name}.relu", net.dense(name, x, HIDDEN, gain=RELU_GAIN))
    return net.net.model(net.classify(x, gain=CLASSIFIER_GAIN))


RECIPE = Recipe(
    name="vgg16",
    summary="VGG-16, seeded random weights, 224x224, 138 M weights, 15.5 G multiply-adds",
    input_name="image",
    input_shape=INPUT_SHAPE,
    build=build,
)
