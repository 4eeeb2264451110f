"""The search space of a convolution: every rule that takes it, with every set of knobs that is legal for it."""

from collections.abc import Mapping

from ..passes.choose_conv2d import CONV2D_RULES, Choice
from ..schedules.facts import Conv2dFacts
from ..schedules.mali.conv2d_winograd import Conv2dWinograd


def rules_for(facts: Conv2dFacts) -> list[str]:
    """Names of the rules that take the convolution, the most special last."""
    if facts.is_depthwise:
        return ["depthwise_conv2d"]
    if facts.groups != 1:
        return [name for name in ("grouped_conv2d",) if name in CONV2D_RULES]
    if facts.is_pointwise:
        return ["conv2d_1x1"]
    return ["conv2d_direct", *([Conv2dWinograd.name] if Conv2dWinograd.accepts(facts) else [])]


def space(facts: Conv2dFacts) -> list[Choice]:
    """All candidates; the first of each rule is its default."""
    return [choice for rule in rules_for(facts) for choice in _of_rule(rule, facts)]


def is_legal(facts: Conv2dFacts, rule: str, knobs: Mapping[str, int]) -> bool:
    """Whether the rule takes the convolution with these knobs; those that are left out have the rule's defaults."""
    if rule not in rules_for(facts):
        return False
    candidates = _of_rule(rule, facts)
    try:
        complete = Choice(rule=rule, knobs=knobs).tile(facts)
    except (TypeError, KeyError):
        return False
    return any(vars(complete) == c.knobs for c in candidates)


def _of_rule(name: str, facts: Conv2dFacts) -> list[Choice]:
    rule = CONV2D_RULES[name]
    if hasattr(rule, "space"):
        tiles = list(rule.space(facts))
    elif name == Conv2dWinograd.name:
        tiles = [rule.config(facts, size) for size in (2, 4)]
    else:
        tiles = [rule.config(facts)]
    return [Choice(rule=name, knobs=dict(vars(tile))) for tile in tiles]
