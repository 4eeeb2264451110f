"""Rules for Mali Midgard GPUs, in the order in which they are asked."""

from ..base import Rule
from .batch_matmul import BatchMatmul
from .conv2d_1x1 import Conv2d1x1
from .conv2d_direct import Conv2dDirect
from .conv2d_spatial_pack import Conv2dSpatialPack
from .conv2d_transpose import Conv2dTranspose
from .conv2d_winograd import Conv2dWinograd
from .conv2d_winograd_nchw import Conv2dWinogradNchw
from .dense import Dense
from .depthwise_conv2d import DepthwiseConv2d
from .depthwise_conv2d_nchw import DepthwiseConv2dNchw
from .generic import Generic
from .grouped_conv2d import GroupedConv2d
from .softmax import Softmax

RULES: tuple[Rule, ...] = (
    Conv2d1x1(),
    Conv2dDirect(),
    Conv2dTranspose(),
    Conv2dWinograd(),
    DepthwiseConv2d(),
    GroupedConv2d(),
    Dense(),
    BatchMatmul(),
    Softmax(),
    Conv2dSpatialPack(),
    Conv2dWinogradNchw(),
    DepthwiseConv2dNchw(),
    Generic(),
)
