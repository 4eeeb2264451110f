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
    def key(self) -> str:
        """The convolution in one line that no other has: conv2d 1x64x56x56 -> 64, 3x3 s1 p1 float32."""
        kernel, stride, dilation = (_pair(p) for p in (self.kernel, self.stride, self.dilation))
        pad = str(self.pad[0]) if len(set(self.pad)) == 1 else ",".join(map(str, self.pad))
        data = f"{self.batch}x{self.in_channels}x{self.in_height}x{self.in_width}"
        more = f" d{dilation}" if self.dilation != (1, 1) else ""
        more += f" g{self.groups}" if self.groups > 1 else ""
        square = kernel if "x" in kernel else f"{kernel}x{kernel}"
        return f"conv2d {data} -> {self.out_channels}, {square} s{stride} p{pad}{more} {self.dtype}"

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


def _pair(sizes: tuple[int, int]) -> str:
    return str(sizes[0]) if sizes[0] == sizes[1] else f"{sizes[0]}x{sizes[1]}"


def blocks_of(channels: int, lanes: int = 4) -> int:
    """How many vectors of channels there are; the last may be partly padding."""
    return -(-channels // lanes)
