"""Upsampling and bilinear resizing of N C H W."""

from collections.abc import Callable

from ...findings import Unsupported
from ..emitter import Emitter, Node, Tensor
from ..registry import converts


def _nearest(g: Emitter, x: Tensor, scale: int) -> Tensor:
    if scale == 1:
        return x
    return g.emit(
        "Resize",
        x,
        None,
        g.constant([1, 1, scale, scale], "float32"),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


@converts("UpSampling", weights=())
def upsampling(g: Emitter, node: Node) -> Tensor:
    """Nearest: further inputs are brought to the first's new size, then joined or added. Bilinear: a weighted
    transposed convolution, a channel at a time.
    """
    a, x = node.attributes, node.data
    scale, kind = a.integer("scale"), a.text("sample_type", None, "nearest", "bilinear")
    together = a.text("multi_input_mode", "concat", "concat", "sum")
    filters = a.integer("num_filter", 0)
    if scale < 1 or x.rank != 4:
        raise Unsupported(f"attribute scale, got {scale} for data of shape {x.shape}")
    if kind == "bilinear":
        kernel, pad = 2 * scale - scale % 2, (scale - 1 + 1) // 2
        channels = x.shape[1]
        if filters != channels or node.input(1).shape != (channels, 1, kernel, kernel):
            raise Unsupported(f"num_filter {filters} and weight {node.input(1).shape} for {channels} channels")
        return g.emit(
            "ConvTranspose",
            x,
            node.input(1),
            kernel_shape=[kernel, kernel],
            strides=[scale, scale],
            pads=[pad] * 4,
            group=channels,
        )
    height = x.shape[2] * scale
    parts = []
    for part in node.inputs:
        if height % part.shape[2]:
            raise Unsupported(f"input of shape {part.shape}; expected rows that divide {height}")
        parts.append(_nearest(g, part, height // part.shape[2]))
    if len(parts) == 1:
        return parts[0]
    if together == "concat":
        return g.emit("Concat", *parts, axis=1)
    total = parts[0]
    for part in parts[1:]:
        total = g.emit("Add", total, part)
    return total


_TO_PARITY: dict[str, Callable[[int], int]] = {
    "to_even_down": lambda n: n - n % 2,
    "to_even_up": lambda n: n + n % 2,
    "to_odd_down": lambda n: n - 1 + n % 2,
    "to_odd_up": lambda n: n + 1 - n % 2,
}


def _size(node: Node) -> tuple[int, int]:
    """Rows and columns of the result."""
    a, (old_height, old_width) = node.attributes, node.data.shape[2:]
    mode = a.text("mode", "size", "size", "like", "odd_scale", *_TO_PARITY)
    height, width = a.integer("height", 1), a.integer("width", 1)
    scale_height, scale_width = (a.number(f"scale_{side}", 0.0) for side in ("height", "width"))
    if mode == "like":
        return node.input(1).shape[2], node.input(1).shape[3]
    if mode == "odd_scale":
        sizes = [
            int(n * s) if n % 2 == 0 else int((n - 1) * s) + 1
            for n, s in ((old_height, scale_height), (old_width, scale_width))
        ]
        return sizes[0], sizes[1]
    if mode in _TO_PARITY:
        return _TO_PARITY[mode](old_height), _TO_PARITY[mode](old_width)
    if a.given("scale_height"):
        return int(old_height * scale_height), int(old_width * scale_width)
    return height, width


@converts("_contrib_BilinearResize2D", "BilinearResize2D")
def bilinear_resize(g: Emitter, node: Node) -> Tensor:
    x = node.data
    if x.rank != 4:
        raise Unsupported(f"data of shape {x.shape}; expected N C H W")
    height, width = _size(node)
    corners = node.attributes.flag("align_corners", True)
    if min(height, width) < 1:
        raise Unsupported(f"resizes to {height}x{width}; expected positive extents")
    return g.emit(
        "Resize",
        x,
        None,
        None,
        g.constant([*x.shape[:2], height, width]),
        mode="linear",
        coordinate_transformation_mode="align_corners" if corners else "half_pixel",
    )
