"""Layers that do nothing at inference, type conversion, concatenation and splitting."""

from ...findings import Unsupported
from ..emitter import Emitter, Node, Tensor
from ..registry import converts

_TYPES = {
    "float16": "float32",
    "float32": "float32",
    "float64": "float32",
    "uint8": "uint8",
    "int8": "int8",
    "int32": "int32",
    "int64": "int64",
    "bool": "bool",
}


def tensor_type(node: Node, default: str = "float32") -> str:
    """The attribute `dtype`. Half and double become float32: what a model is stored in is chosen when compiling."""
    return _TYPES[node.attributes.text("dtype", default, *_TYPES)]


@converts(
    "_copy", "_copyto", "identity", "BlockGrad", "stop_gradient", "make_loss", "_identity_with_attr_like_rhs", uses=1
)
def identity(_g: Emitter, node: Node) -> Tensor:
    return node.data


@converts("Dropout", "MakeLoss", "IdentityAttachKLSparseReg", uses=1)
def training_only(_g: Emitter, node: Node) -> Tensor:
    node.attributes.ignore("p", "axes", "grad_scale", "valid_thresh", "normalization", "sparseness_target", "penalty")
    node.attributes.ignore("momentum")
    if node.operator == "Dropout" and node.attributes.text("mode", "training", "training", "always") == "always":
        raise Unsupported("attribute mode, got always; expected training")
    return node.data


@converts("LinearRegressionOutput", "MAERegressionOutput", "SVMOutput", uses=1)
def regression_output(_g: Emitter, node: Node) -> Tensor:
    node.attributes.ignore("grad_scale", "margin", "regularization_coefficient", "use_linear")
    return node.data


@converts("Cast", "cast", "amp_cast")
def cast(g: Emitter, node: Node) -> Tensor:
    return g.cast(node.data, tensor_type(node))


@converts("amp_multicast")
def multicast(g: Emitter, node: Node) -> list[Tensor]:
    node.attributes.ignore("num_outputs", "cast_narrow")
    return list(node.inputs)


@converts("Concat", "concat")
def concat(g: Emitter, node: Node) -> Tensor:
    return g.emit("Concat", *node.inputs, axis=node.axis("dim", 1))


@converts("stack")
def stack(g: Emitter, node: Node) -> Tensor:
    axis = node.axis("axis", 0, node.data.rank + 1)
    lifted = [g.reshape(t, (*t.shape[:axis], 1, *t.shape[axis:])) for t in node.inputs]
    return g.emit("Concat", *lifted, axis=axis)


def _without(g: Emitter, x: Tensor, axis: int) -> Tensor:
    return g.reshape(x, (*x.shape[:axis], *x.shape[axis + 1 :]))


@converts("SliceChannel", "split")
def slice_channel(g: Emitter, node: Node) -> list[Tensor]:
    a, x = node.attributes, node.data
    count, axis = a.integer("num_outputs"), node.axis("axis", 1)
    if not 1 <= count <= x.shape[axis] or x.shape[axis] % count:
        raise Unsupported(f"attribute num_outputs, got {count}; expected a divisor of {x.shape[axis]}")
    parts = _split(g, x, [x.shape[axis] // count] * count, axis)
    return [_without(g, p, axis) for p in parts] if a.flag("squeeze_axis", False) else parts


@converts("_split_v2")
def split_v2(g: Emitter, node: Node) -> list[Tensor]:
    """`indices` are where parts begin (the first stands there as 0); else there are `sections` equal parts."""
    a, x = node.attributes, node.data
    axis, sections = node.axis("axis", 0), a.integer("sections", 0)
    size = x.shape[axis]
    starts = list(a.integers("indices", ()))
    if sections > 0:
        if size % sections:
            raise Unsupported(f"attribute sections, got {sections}; expected a divisor of {size}")
        starts = list(range(0, size, size // sections))
    sizes = [end - start for start, end in zip(starts, [*starts[1:], size], strict=True)]
    if not sizes or min(sizes) < 1 or sum(sizes) != size:
        raise Unsupported(f"attribute indices, got {tuple(starts)}; expected growing positions from 0 below {size}")
    parts = _split(g, x, sizes, axis)
    return [_without(g, p, axis) for p in parts] if a.flag("squeeze_axis", False) else parts


def _split(g: Emitter, x: Tensor, sizes: list[int], axis: int) -> list[Tensor]:
    return [x] if len(sizes) == 1 else g.emit_many("Split", len(sizes), x, g.constant(sizes), axis=axis)
