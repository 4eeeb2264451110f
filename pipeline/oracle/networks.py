"""Which networks a convolution of a TopHub log comes from, so that a fit can be judged on networks it has not seen.

The logs name no networks; TVM's scripts of 2018 tuned these at 224 x 224 (Inception v3: 299, the detectors: 512), and
the convolutions below are theirs by the papers' tables, in the form of MXNet's Gluon zoo.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, kw_only=True, order=True)
class Layer:
    """`kind`: conv2d, depthwise or dense. Rows and columns of the input, channels in and out, kernel, stride, pad."""

    kind: str
    size: tuple[int, int]
    channels: tuple[int, int]
    kernel: tuple[int, int]
    stride: int
    pad: tuple[int, int]


def networks_of(layer: Layer) -> tuple[str, ...]:
    """Names of the networks that have the layer, in the order of the alphabet; none if no known one has it."""
    return tuple(sorted(name for name, layers in _networks().items() if layer in layers))


def network_names() -> tuple[str, ...]:
    return tuple(sorted(_networks()))


def _conv(
    size: int,
    channels: tuple[int, int],
    kernel: int | tuple[int, int] = 1,
    stride: int = 1,
    pad: int | tuple[int, int] | None = None,
) -> Layer:
    """With no `pad`, half the kernel, which keeps the size at stride 1."""
    k = (kernel, kernel) if isinstance(kernel, int) else kernel
    p = (k[0] // 2, k[1] // 2) if pad is None else (pad, pad) if isinstance(pad, int) else pad
    return Layer(kind="conv2d", size=(size, size), channels=channels, kernel=k, stride=stride, pad=p)


def _depthwise(size: int, channels: int, stride: int) -> Layer:
    return Layer(
        kind="depthwise",
        size=(size, size),
        channels=(channels, channels),
        kernel=(3, 3),
        stride=stride,
        pad=(1, 1),
    )


def _dense(inputs: int, outputs: int) -> Layer:
    return Layer(kind="dense", size=(1, 1), channels=(inputs, outputs), kernel=(1, 1), stride=1, pad=(0, 0))


def _densenet_121() -> Iterable[Layer]:
    yield _conv(224, (3, 64), 7, 2)
    channels = 64
    for size, layers in ((56, 6), (28, 12), (14, 24), (7, 16)):
        for _ in range(layers):
            yield _conv(size, (channels, 128))
            yield _conv(size, (128, 32), 3)
            channels += 32
        yield _conv(size, (channels, channels // 2))
        channels //= 2
    yield _dense(1024, 1000)


def _resnet_18(size: int = 224) -> Iterable[Layer]:
    yield _conv(size, (3, 64), 7, 2)
    size //= 4
    yield _conv(size, (64, 64), 3)
    yield _conv(size, (64, 64))
    for channels in (64, 128, 256):
        yield _conv(size, (channels, 2 * channels), 3, 2)
        yield _conv(size, (channels, 2 * channels), 1, 2)
        size //= 2
        yield _conv(size, (2 * channels, 2 * channels), 3)
    yield _dense(512, 1000)


def _resnet_50(size: int = 224) -> Iterable[Layer]:
    yield _conv(size, (3, 64), 7, 2)
    size //= 4
    before = 64
    for width in (64, 128, 256, 512):
        stride = 1 if width == 64 else 2
        yield _conv(size, (before, width), 1, stride)
        yield _conv(size, (before, 4 * width), 1, stride)
        size //= stride
        yield _conv(size, (width, width), 3)
        yield _conv(size, (width, 4 * width))
        yield _conv(size, (4 * width, width))
        before = 4 * width
    yield _dense(2048, 1000)


def _vgg() -> Iterable[Layer]:
    size, before = 224, 3
    for width in (64, 128, 256, 512, 512):
        yield _conv(size, (before, width), 3)
        yield _conv(size, (width, width), 3)
        size, before = size // 2, width
    yield from (_dense(25088, 4096), _dense(4096, 4096), _dense(4096, 1000))


def _squeezenet(first: tuple[int, int], blocks: Iterable[tuple[int, int, int]]) -> Iterable[Layer]:
    channels, kernel = first
    yield _conv(224, (3, channels), kernel, 2)
    for size, before, squeeze in blocks:
        yield _conv(size, (before, squeeze))
        yield _conv(size, (squeeze, 4 * squeeze))
        yield _conv(size, (squeeze, 4 * squeeze), 3)
    yield _conv(13, (512, 1000))


def _squeezenet_1_0() -> Iterable[Layer]:
    sizes = ((55, 96, 16), (55, 128, 16), (55, 128, 32), (27, 256, 32), (27, 256, 48), (27, 384, 48), (27, 384, 64))
    yield _conv(224, (3, 96), 7, 2, 3)
    yield from _squeezenet((96, 7), (*sizes, (13, 512, 64)))


def _squeezenet_1_1() -> Iterable[Layer]:
    sizes = ((55, 64, 16), (55, 128, 16), (27, 128, 32), (27, 256, 32), (13, 256, 48), (13, 384, 48), (13, 384, 64))
    yield from _squeezenet((64, 3), (*sizes, (13, 512, 64)))


def _mobilenet_v1(size: int = 224) -> Iterable[Layer]:
    yield _conv(size, (3, 32), 3, 2)
    size //= 2
    steps = ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1))
    for before, after, stride in (*steps, (512, 1024, 2), (1024, 1024, 1)):
        yield _depthwise(size, before, stride)
        size //= stride
        yield _conv(size, (before, after))
    yield _dense(1024, 1000)


def _mobilenet_v2() -> Iterable[Layer]:
    yield _conv(224, (3, 32), 3, 2)
    yield _conv(112, (32, 32))
    yield _depthwise(112, 32, 1)
    yield _conv(112, (32, 16))
    size, before = 112, 16
    for width, layers, stride in ((24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)):
        for i in range(layers):
            step = stride if i == 0 else 1
            yield _conv(size, (before, 6 * before))
            yield _depthwise(size, 6 * before, step)
            size //= step
            yield _conv(size, (6 * before, width))
            before = width
    yield _conv(7, (320, 1280))
    yield _conv(1, (1280, 1000))


def _inception_v3() -> Iterable[Layer]:
    yield _conv(299, (3, 32), 3, 2, 0)
    yield _conv(149, (32, 32), 3, 1, 0)
    yield _conv(147, (32, 64), 3)
    yield _conv(73, (64, 80))
    yield _conv(73, (80, 192), 3, 1, 0)
    for channels, pool in ((192, 32), (256, 64), (288, 64)):
        yield from (_conv(35, (channels, width)) for width in (64, 48, pool))
    yield _conv(35, (48, 64), 5)
    yield _conv(35, (64, 96), 3)
    yield _conv(35, (96, 96), 3)
    yield _conv(35, (288, 384), 3, 2, 0)
    yield _conv(35, (96, 96), 3, 2, 0)
    for width in (128, 160, 192):
        yield _conv(17, (768, width))
        for after in {width, 192}:
            yield _conv(17, (width, after), (1, 7))
            yield _conv(17, (width, after), (7, 1))
    yield _conv(17, (192, 320), 3, 2, 0)
    yield _conv(17, (192, 192), 3, 2, 0)
    for channels in (1280, 2048):
        yield from (_conv(8, (channels, width)) for width in (320, 384, 448, 192))
    yield _conv(8, (384, 384), (1, 3))
    yield _conv(8, (384, 384), (3, 1))
    yield _conv(8, (448, 384), 3)
    yield _dense(2048, 1000)


def _heads(scales: Iterable[tuple[int, int, int]]) -> Iterable[Layer]:
    """A detector's boxes and classes (20 and background) at each scale: size, channels, boxes a place."""
    for size, channels, boxes in scales:
        yield _conv(size, (channels, 4 * boxes), 3)
        yield _conv(size, (channels, 21 * boxes), 3)


def _ssd_mobilenet() -> Iterable[Layer]:
    yield from _mobilenet_v1(512)
    scales = ((32, 512, 4), (16, 1024, 6), (8, 512, 6), (4, 256, 6), (2, 256, 6), (1, 256, 4))
    yield from _heads(scales)
    yield from (
        *(_conv(16, (1024, 256)), _conv(16, (256, 512), 3, 2), _conv(8, (512, 128)), _conv(8, (128, 256), 3, 2)),
        *(_conv(4, (256, 128)), _conv(4, (128, 256), 3, 2), _conv(2, (256, 128)), _conv(2, (128, 256), 3, 2)),
        *(_conv(1, (256, 128)), _conv(1, (128, 256), 3, 2)),
    )


def _ssd_resnet_50() -> Iterable[Layer]:
    yield from _resnet_50(512)
    # This one's trunk is the net's second form, which halves in the middle of a block, not at its begin.
    for size, channels in ((128, 128), (64, 256), (32, 512)):
        yield _conv(size, (2 * channels, channels))
        yield _conv(size, (channels, channels), 3, 2)
    yield _conv(16, (2048, 256))
    yield from _heads(((32, 1024, 4), (16, 2048, 6), (8, 512, 6), (4, 256, 6), (2, 256, 4), (1, 128, 4)))
    yield from (
        *(_conv(16, (2048, 512)), _conv(16, (512, 512), 3, 2), _conv(8, (512, 256)), _conv(8, (256, 256), 3, 2)),
        *(_conv(4, (256, 128)), _conv(4, (128, 256), 3, 2), _conv(2, (256, 128)), _conv(2, (128, 128), 3, 2)),
    )


@cache
def _networks() -> dict[str, frozenset[Layer]]:
    return {
        "densenet_121": frozenset(_densenet_121()),
        "inception_v3": frozenset(_inception_v3()),
        "mobilenet_v1": frozenset(_mobilenet_v1()),
        "mobilenet_v2": frozenset(_mobilenet_v2()),
        "resnet_18": frozenset(_resnet_18()),
        "resnet_50": frozenset(_resnet_50()),
        "squeezenet_1_0": frozenset(_squeezenet_1_0()),
        "squeezenet_1_1": frozenset(_squeezenet_1_1()),
        "ssd_512_mobilenet": frozenset(_ssd_mobilenet()),
        "ssd_512_resnet_50": frozenset(_ssd_resnet_50()),
        "vgg_16": frozenset(_vgg()),
    }
