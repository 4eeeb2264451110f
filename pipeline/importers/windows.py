"""Sliding windows of convolutions and pools: pads and output sizes from ONNX attributes."""

from dataclasses import dataclass

from .findings import Unsupported
from .node import Node
from .values import Shape


@dataclass(frozen=True, kw_only=True)
class Window:
    """One entry per spatial axis. `extra` is how far windows reach past the padded end (`ceil_mode`)."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    before: Shape
    after: Shape
    output: Shape
    extra: Shape

    @property
    def padding(self) -> list[int]:
        """Begins, then ends, with what ceil_mode needs on top."""
        return [*self.before, *(a + e for a, e in zip(self.after, self.extra, strict=True))]


def read_window(node: Node, spatial: Shape, kernel: Shape) -> Window:
    """Raises Unsupported for attributes that make no sense, among them negative pads."""
    rank = len(spatial)
    strides = _per_axis(node, "strides", rank)
    dilations = _per_axis(node, "dilations", rank)
    if any(k < 1 for k in kernel):
        raise Unsupported(f"kernel is empty, got {list(kernel)}")
    extents = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    auto = node.text("auto_pad", "NOTSET") or "NOTSET"
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        output = tuple(-(-i // s) for i, s in zip(spatial, strides, strict=True))
        needed = [(o - 1) * s + e - i for o, s, e, i in zip(output, strides, extents, spatial, strict=True)]
        if "Pool" in node.op and (any(d > 1 for d in dilations) or min(needed) < 0):
            # onnxruntime leaves dilations out and lets windows begin behind the first element.
            raise Unsupported(
                f"auto_pad {auto} with kernel {list(kernel)}, strides {list(strides)} and dilations {list(dilations)}, "
                "for which ONNX and onnxruntime disagree",
                hint="export the pool with pads",
            )
        total = [max(n, 0) for n in needed]
        small, large = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
        before, after = (small, large) if auto == "SAME_UPPER" else (large, small)
    elif auto in ("NOTSET", "VALID"):
        pads = node.ints("pads", [0] * 2 * rank) or [0] * 2 * rank
        if auto == "VALID":
            pads = [0] * 2 * rank
        if len(pads) != 2 * rank:
            raise Unsupported(f"pads have the wrong length, got {pads}; expected {2 * rank} numbers")
        if min(pads, default=0) < 0:
            raise Unsupported(f"pads are negative, got {pads}; expected 0 or more", hint="put a Slice before the node")
        before, after = tuple(pads[:rank]), tuple(pads[rank:])
        output = ()
    else:
        raise Unsupported(f"auto_pad is unknown, got {auto!r}; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    extra = (0,) * rank
    if not output:
        ceil = bool(node.attribute("ceil_mode", 0))
        sizes = []
        for i, e, s, b, a in zip(spatial, extents, strides, before, after, strict=True):
            span = i + b + a - e
            size = (-(-span // s) if ceil else span // s) + 1
            if ceil and (size - 1) * s >= i + b:
                size -= 1
            sizes.append(size)
        output = tuple(sizes)
        needed = [(o - 1) * s + e for o, s, e in zip(output, strides, extents, strict=True)]
        padded = [i + b + a for i, b, a in zip(spatial, before, after, strict=True)]
        extra = tuple(max(n - p, 0) for n, p in zip(needed, padded, strict=True))
    if any(o < 1 for o in output):
        raise Unsupported(f"the kernel {list(kernel)} does not fit into the padded input {list(spatial)}")
    return Window(
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        before=before,
        after=after,
        output=output,
        extra=extra,
    )


def _per_axis(node: Node, name: str, rank: int) -> Shape:
    values = node.ints(name, [1] * rank) or [1] * rank
    if len(values) != rank or min(values) < 1:
        raise Unsupported(f"{name} make no sense, got {values}; expected {rank} positive numbers")
    return tuple(values)


def read_kernel(node: Node, rank: int, weight: Shape | None = None) -> Shape:
    """`kernel_shape`, or the weight's own spatial shape; the two must agree."""
    given = node.ints("kernel_shape")
    if given is None:
        if weight is None:
            raise Unsupported("kernel_shape is missing")
        return weight
    if len(given) != rank:
        raise Unsupported(f"kernel_shape has the wrong length, got {given}; expected {rank} numbers")
    if weight is not None and tuple(given) != weight:
        raise Unsupported(f"kernel_shape is {given}, but the weight is {list(weight)}")
    return tuple(given)
