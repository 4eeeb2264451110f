"""Detectors: anchor boxes are constants; what chooses among boxes is refused, since its sizes depend on the data."""

import math

import numpy as np

from ...findings import Unsupported
from ..emitter import Emitter, Node, Tensor
from ..registry import converts, refuse

_CPU_HINT = "end the model before it, with --cut NODE or scons outputs=NODE,NODE, and choose the boxes on the CPU"


@converts("_contrib_MultiBoxPrior", "MultiBoxPrior")
def multi_box_prior(g: Emitter, node: Node) -> Tensor:
    """Boxes (left, top, right, bottom) relative to the picture, a cell at a time: every size with the first ratio,
    then the first size with every other ratio. A size is of the picture's height. Shape (1, boxes, 4).
    """
    a, (height, width) = node.attributes, node.data.shape[2:]
    sizes, ratios = a.numbers("sizes", (1.0,)), a.numbers("ratios", (1.0,))
    steps, offsets = a.numbers("steps", (-1.0, -1.0)), a.numbers("offsets", (0.5, 0.5))
    clip = a.flag("clip", False)
    if len(steps) != 2 or len(offsets) != 2 or not sizes or not ratios or min(ratios) <= 0:
        raise Unsupported(f"sizes {sizes}, ratios {ratios}, steps {steps}, offsets {offsets}; expected positive ones")
    if height * width * (len(sizes) + len(ratios)) > 1 << 20:
        raise Unsupported(f"makes boxes for {height}x{width} cells; expected at most a million boxes")
    step_y, step_x = (s if s > 0 else 1 / n for s, n in zip(steps, (height, width), strict=True))
    shapes = [(size, math.sqrt(ratios[0])) for size in sizes] + [(sizes[0], math.sqrt(r)) for r in ratios[1:]]
    half = np.array([(s * height / width * r / 2, s / r / 2) for s, r in shapes])
    center_y, center_x = np.meshgrid(
        (np.arange(height) + offsets[0]) * step_y, (np.arange(width) + offsets[1]) * step_x, indexing="ij"
    )
    center = np.stack([center_x, center_y], axis=-1)[:, :, None, :]
    boxes = np.concatenate([center - half, center + half], axis=-1).reshape(1, -1, 4)
    return g.constant((np.clip(boxes, 0, 1) if clip else boxes).astype(np.float32))


refuse(
    "_contrib_MultiBoxDetection",
    "MultiBoxDetection",
    "_contrib_MultiBoxTarget",
    "MultiBoxTarget",
    "_contrib_box_nms",
    "_contrib_box_non_maximum_suppression",
    "_contrib_Proposal",
    "_contrib_MultiProposal",
    "Proposal",
    why="chooses among boxes, which runs on the CPU side",
    hint=_CPU_HINT,
)
