"""How good predicted times are: error, rank of the achieved rates, pairs in the right order."""

from collections.abc import Sequence

import numpy as np

# Two measurements of one configuration on the board, months apart, differ by 1 to 4 %: below this, order is noise.
CLOSE = 0.05


def median_error(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """The median of |predicted / measured - 1|."""
    return float(np.median(np.abs(np.asarray(predicted) / np.asarray(measured) - 1.0)))


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation, equal values sharing their mean rank; nan for fewer than two different values."""
    ranks_a, ranks_b = _ranks(np.asarray(a, dtype=float)), _ranks(np.asarray(b, dtype=float))
    if len(ranks_a) < 2 or np.ptp(ranks_a) == 0 or np.ptp(ranks_b) == 0:
        return float("nan")
    return float(np.corrcoef(ranks_a, ranks_b)[0, 1])


def ranked_pairs(predicted: Sequence[float], measured: Sequence[float]) -> tuple[int, int]:
    """Of pairs whose measured values differ by more than CLOSE: those predicted in the right order, and all."""
    p, m = np.asarray(predicted, dtype=float), np.asarray(measured, dtype=float)
    first, second = np.triu_indices(len(m), k=1)
    larger, smaller = np.maximum(m[first], m[second]), np.minimum(m[first], m[second])
    apart = larger > smaller * (1.0 + CLOSE)
    right = np.sign(p[first] - p[second]) == np.sign(m[first] - m[second])
    return int(np.sum(right & apart)), int(np.sum(apart))


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2.0)[place]
