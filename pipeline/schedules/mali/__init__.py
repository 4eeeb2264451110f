"""Rules for Mali Midgard GPUs, in the order in which they are asked."""

from ..base import Rule
from .generic import Generic

RULES: tuple[Rule, ...] = (Generic(),)
