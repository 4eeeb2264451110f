"""Fit the model's constants to measured times, and judge a fit on networks that it has not seen."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from .networks import network_names
from .optimise import least_squares, soften
from .physics import NAMES, Constants, parts
from .samples import Sample, table_of

# Times off by more than this factor's logarithm pull no harder: Mesa spills in a few kernels where Arm's compiler does
# not.
_KNEE = 0.25
# A constant this far from its prior, as a factor's logarithm, costs as much as a sample that is off by _PRIOR.
_WIDTH = 0.7
_PRIOR = 0.15
# Only winograd's transforms have many other float operations; left alone, the constant would take on whatever else is
# amiss with those.
_NARROW = {"other_float": 0.35}
# Most records are of one operator; without weights the others would be what is left over.
_LEAST_SHARE = 0.3

Predictor = Callable[[Sequence[Sample]], np.ndarray]


def fit_constants(samples: Sequence[Sample]) -> Constants:
    """The constants with the least error of log time; `samples` not empty."""
    table = table_of(samples)
    weights = np.sqrt(_weights(samples))
    start = _logarithms(Constants())
    stiffness = _PRIOR * math.sqrt(len(samples) / 50) / np.array([_NARROW.get(name, _WIDTH) for name in NAMES])

    def residuals(logarithms: np.ndarray) -> np.ndarray:
        total = table.per_sample(parts(_constants(logarithms), table.columns).total)
        off = soften(np.log(total / table.measured_us), _KNEE)
        return np.concatenate([off * weights, (logarithms - start) * stiffness])

    return _constants(least_squares(residuals, start))


def predictor(samples: Sequence[Sample]) -> Predictor:
    """What a fit to `samples` predicts of others, in microseconds."""
    constants = fit_constants(samples)

    def predict(others: Sequence[Sample]) -> np.ndarray:
        table = table_of(others)
        return table.per_sample(parts(constants, table.columns).total)

    return predict


def held_out(samples: Sequence[Sample], fit: Callable[[Sequence[Sample]], Predictor] = predictor) -> list[float]:
    """The predicted time of each sample, by fits to networks that do not have its workload; nan without a network.

    A workload of several networks is left out of the fits for each of them, and gets the mean of their predictions.
    """
    logarithms: dict[int, list[float]] = defaultdict(list)
    for network in network_names():
        test = [i for i, s in enumerate(samples) if network in s.networks]
        train = [s for s in samples if s.networks and network not in s.networks]
        if test and train:
            predicted = fit(train)([samples[i] for i in test])
            for i, time_us in zip(test, predicted, strict=True):
                logarithms[i].append(math.log(time_us))
    return [math.exp(np.mean(logarithms[i])) if i in logarithms else math.nan for i in range(len(samples))]


def _weights(samples: Sequence[Sample]) -> np.ndarray:
    """Samples of rare operators count more, so that each operator has some share of the whole."""
    counts = Counter(s.operator for s in samples)
    factor = {name: max(1.0, _LEAST_SHARE * len(samples) / n) for name, n in counts.items()}
    return np.array([min(factor[s.operator], 4.0) for s in samples])


def _logarithms(constants: Constants) -> np.ndarray:
    return np.log([getattr(constants, name) for name in NAMES])


def _constants(logarithms: np.ndarray) -> Constants:
    return Constants(**{name: float(value) for name, value in zip(NAMES, np.exp(logarithms), strict=True)})
