"""What a convolution is, apart from how it is computed."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Conv2dFacts:
    """A static conv2d in NCHW with OIHW weights; sizes in elements, pad is (top, left, bottom, right)."""

    batch: int
    in_channels: int
    in_height: int
    in_width: int
    out_channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int
    dtype: str

    @property
    def out_height(self) -> int:
        span = (self.kernel[0] - 1) * self.dilation[0] + 1
        return (self.in_height + self.pad[0] + self.pad[2] - span) // self.stride[0] + 1

    @property
    def out_width(self) -> int:
        span = (self.kernel[1] - 1) * self.dilation[1] + 1
        return (self.in_width + self.pad[1] + self.pad[3] - span) // self.stride[1] + 1

    @property
    def multiply_adds(self) -> int:
        taps = self.kernel[0] * self.kernel[1] * (self.in_channels // self.groups)
        return self.batch * self.out_channels * self.out_height * self.out_width * taps

    @property
    def is_depthwise(self) -> bool:
        return self.groups == self.in_channels == self.out_channels and self.groups > 1

    @property
    def is_pointwise(self) -> bool:
        """1x1, stride 1, no pad: a matrix product over all pixels."""
        return self.kernel == self.stride == (1, 1) and not any(self.pad)


def blocks_of(channels: int, lanes: int = 4) -> int:
    """How many vectors of channels there are; the last may be partly padding."""
    return -(-channels // lanes)
