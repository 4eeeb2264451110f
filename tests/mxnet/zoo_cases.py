"""The networks of gluon's model zoo with all their layers and connections, but fewer channels.

Each value is called with the mxnet module and returns an uninitialised network and the shape of its input.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Network = tuple[Any, tuple[int, ...]]
_CLASSES = 10


@contextmanager
def _narrow(mx: Any, divisor: int) -> Iterator[None]:
    """Networks made inside have fewer channels in convolutions without groups, and in dense layers."""
    nn = mx.gluon.nn
    conv, dense = nn.Conv2D, nn.Dense

    class Conv2D(conv):  # type: ignore[misc, valid-type]
        def __init__(self, channels: int, *words: Any, **more: Any) -> None:
            kept = channels if channels <= _CLASSES else max(channels // divisor, 4)
            super().__init__(kept, *words, **more)

    class Dense(dense):  # type: ignore[misc, valid-type]
        def __init__(self, units: int, **more: Any) -> None:
            super().__init__(units if units <= _CLASSES else units // (4 * divisor), **more)

    nn.Conv2D, nn.Dense = Conv2D, Dense
    try:
        yield
    finally:
        nn.Conv2D, nn.Dense = conv, dense


def _named(name: str, divisor: int, size: int) -> Callable[[Any], Network]:
    def make(mx: Any) -> Network:
        with _narrow(mx, divisor):
            return getattr(mx.gluon.model_zoo.vision, name)(classes=_CLASSES), (1, 3, size, size)

    return make


def _mobilenet(version: int) -> Callable[[Any], Network]:
    def make(mx: Any) -> Network:
        vision = mx.gluon.model_zoo.vision
        kind = vision.MobileNet if version == 1 else vision.MobileNetV2
        return kind(0.25, classes=_CLASSES), (1, 3, 64, 64)

    return make


def _resnet(version: int, depth: int) -> Callable[[Any], Network]:
    def make(mx: Any) -> Network:
        vision = mx.gluon.model_zoo.vision
        kinds = {
            (1, 18): (vision.ResNetV1, vision.BasicBlockV1, [2, 2, 2, 2]),
            (1, 50): (vision.ResNetV1, vision.BottleneckV1, [3, 4, 6, 3]),
            (2, 18): (vision.ResNetV2, vision.BasicBlockV2, [2, 2, 2, 2]),
            (2, 50): (vision.ResNetV2, vision.BottleneckV2, [3, 4, 6, 3]),
        }
        kind, block, layers = kinds[version, depth]
        channels = [8, 8, 16, 32, 64] if depth == 18 else [8, 32, 48, 64, 96]
        return kind(block, layers, channels, classes=_CLASSES), (1, 3, 64, 64)

    return make


def _densenet(mx: Any) -> Network:
    # Its last pooling is 7 x 7, so the picture must be of full size.
    return mx.gluon.model_zoo.vision.DenseNet(16, 8, [6, 12, 24, 16], classes=_CLASSES), (1, 3, 224, 224)


ZOO: dict[str, Callable[[Any], Network]] = {
    "alexnet": _named("alexnet", 4, 96),
    "densenet121": _densenet,
    "inception_v3": _named("inception_v3", 8, 299),
    "mobilenet_v1": _mobilenet(1),
    "mobilenet_v2": _mobilenet(2),
    "resnet18_v1": _resnet(1, 18),
    "resnet50_v1": _resnet(1, 50),
    "resnet18_v2": _resnet(2, 18),
    "resnet50_v2": _resnet(2, 50),
    "squeezenet1_0": _named("squeezenet1_0", 4, 224),
    "squeezenet1_1": _named("squeezenet1_1", 4, 224),
    "vgg11": _named("vgg11", 8, 64),
    "vgg16_bn": _named("vgg16_bn", 8, 64),
}
