"""Well-known topologies with seeded random weights: nothing to download, and right answers that a wrong kernel changes.

Weights are normal with variance gain / fan-in (He et al., Delving Deep into Rectifiers, 2015), so that activations keep
their size through the whole network. Each layer's numbers depend on the seed and its name only.
"""

import zlib
from collections.abc import Sequence

import numpy as np

from .onnx_builder import Floats, NetBuilder, Pads, Value

SEED = 2012
CLASSES = 1000
BATCH_NORM_EPSILON = 1e-5
# Variance of outputs over mean square of inputs: 2 makes up for the half that relu removes.
RELU_GAIN = 2.0
LINEAR_GAIN = 1.0
# A residual sum doubles the mean square if both sides count fully; 16 blocks of that leave float16's comfortable range.
RESIDUAL_SCALE = 0.5


class SeededNet:
    """A NetBuilder whose layers bring their own weights. Input `image`, 1 3 H W."""

    def __init__(self, name: str, *, input_shape: tuple[int, int, int, int]) -> None:
        self.net = NetBuilder(name, input_name="image", input_shape=input_shape)

    @property
    def input(self) -> Value:
        return self.net.input

    def _normal(self, name: str, shape: Sequence[int], deviation: float) -> Floats:
        generator = np.random.default_rng([SEED, zlib.crc32(name.encode())])
        return generator.standard_normal(tuple(shape), np.float32) * np.float32(deviation)

    def _about_one(self, name: str, channels: int) -> Floats:
        generator = np.random.default_rng([SEED, zlib.crc32(name.encode())])
        return generator.uniform(0.8, 1.2, channels).astype(np.float32)

    def conv(
        self, name: str, x: Value, out: int, *, kernel: int, stride: int = 1, groups: int = 1, gain: float, bias: bool
    ) -> Value:
        """conv2d padded by half of its kernel."""
        fan_in = x.channels // groups * kernel * kernel
        weight = self._normal(f"{name}.weight", (out, x.channels // groups, kernel, kernel), (gain / fan_in) ** 0.5)
        pads: Pads = (kernel // 2, kernel // 2, kernel // 2, kernel // 2)
        shift = self._normal(f"{name}.bias", (out,), 0.1) if bias else None
        return self.net.conv(name, x, weight, shift, stride=stride, pads=pads, groups=groups)

    def conv_bn(
        self,
        name: str,
        x: Value,
        out: int,
        *,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        activation: str | None = "relu",
        scale: float = 1.0,
    ) -> Value:
        """conv2d, batch norm, activation (relu, relu6 or None)."""
        gain = LINEAR_GAIN if activation is None else RELU_GAIN
        y = self.conv(f"{name}.conv", x, out, kernel=kernel, stride=stride, groups=groups, gain=gain, bias=False)
        y = self.net.batch_norm(
            f"{name}.bn",
            y,
            scale=self._about_one(f"{name}.bn.scale", out) * np.float32(scale),
            shift=self._normal(f"{name}.bn.shift", (out,), 0.1),
            mean=self._normal(f"{name}.bn.mean", (out,), 0.1),
            variance=self._about_one(f"{name}.bn.variance", out),
            epsilon=BATCH_NORM_EPSILON,
        )
        if activation is None:
            return y
        return self.net.relu6(f"{name}.relu6", y) if activation == "relu6" else self.net.relu(f"{name}.relu", y)

    def depthwise_bn(self, name: str, x: Value, *, kernel: int, stride: int, activation: str) -> Value:
        return self.conv_bn(name, x, x.channels, kernel=kernel, stride=stride, groups=x.channels, activation=activation)

    def dense(self, name: str, x: Value, out: int, *, gain: float) -> Value:
        weight = self._normal(f"{name}.weight", (out, x.channels), (gain / x.channels) ** 0.5)
        return self.net.dense(name, x, weight, self._normal(f"{name}.bias", (out,), 0.1))

    def pooled(self, x: Value) -> Value:
        """Global average pooling, flattened to N C."""
        return self.net.flatten("flatten", self.net.global_average_pool("pool", x))

    def classify(self, x: Value, *, gain: float) -> Value:
        """Dense layer and softmax over the classes.

        The gain is chosen for each network so that the logits' standard deviation for normal input is about 2: then
        softmax has a favourite and no certainty, which would hide errors or blow them up.
        """
        return self.net.softmax("probabilities", self.dense("classifier", x, CLASSES, gain=gain))
