"""The transforms of F(2x2, 3x3) and F(4x4, 3x3), and how a work-item picks its part of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Matrices:
    """b is B^T (a, a), g is G (a, 3), a is A^T (size, a); all float64.

    `tap_rows` (a, taps) names the rows of a tile that a row of B^T reads: every row of it has at most `taps` entries,
    and one that has fewer names a row more, whose coefficient is zero.
    """

    b: Array
    g: Array
    a: Array
    tap_rows: Array

    @property
    def row_taps(self) -> int:
        return int(self.tap_rows.shape[1])

    def taps(self) -> Array:
        """The coefficients of B^T at `tap_rows`, (a, taps)."""
        return np.take_along_axis(self.b, self.tap_rows, axis=1)


def input_points(size: int, d: Callable[[int], Any]) -> list[Any]:
    """B^T d for a column d(0), d(1), ...: what two points share is the same expression in both, computed once."""
    if size == 2:
        return [d(0) - d(2), d(1) + d(2), d(2) - d(1), d(1) - d(3)]
    fours, ones = (d(4) - d(2) * 4.0, d(3) - d(1) * 4.0), (d(4) - d(2), (d(3) - d(1)) * 2.0)
    return [
        d(0) * 4.0 - d(2) * 5.0 + d(4),
        fours[0] + fours[1],
        fours[0] - fours[1],
        ones[0] + ones[1],
        ones[0] - ones[1],
        d(1) * 4.0 - d(3) * 5.0 + d(5),
    ]


def outputs(size: int, m: Callable[[int], Any]) -> list[Any]:
    """A^T m for a column of products m(0), m(1), ...; shared parts as in input_points."""
    near, across = m(1) + m(2), m(1) - m(2)
    if size == 2:
        return [m(0) + near, across - m(3)]
    far, far_across = m(3) + m(4), m(3) - m(4)
    return [m(0) + (near + far), across + far_across * 2.0, near + far * 4.0, (across + far_across * 8.0) + m(5)]


def lookup(table: Array, row: Any, column: Any) -> Any:
    """table[row, column] of a small integer table as arithmetic, for indices that are expressions."""
    return _pick([_pick([int(x) for x in line], row) for line in table.T], column)


def _pick(values: list[Any], index: Any) -> Any:
    """values[index]: one comparison for each value that is not the commonest."""
    numbers = [v for v in values if isinstance(v, int)]
    chosen = max(numbers, key=numbers.count) if numbers else values[-1]
    usual = chosen
    for i, value in enumerate(values):
        if value is not usual and not (isinstance(value, int) and value == usual):
            chosen = tirx.Select(index == i, value, chosen)
    return chosen


MATRICES = {
    2: Matrices(
        b=np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.float64),
        g=np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], np.float64),
        a=np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.float64),
        tap_rows=np.array([[0, 2], [1, 2], [1, 2], [1, 3]]),
    ),
    4: Matrices(
        b=np.array(
            [
                [4, 0, -5, 0, 1, 0],
                [0, -4, -4, 1, 1, 0],
                [0, 4, -4, -1, 1, 0],
                [0, -2, -1, 2, 1, 0],
                [0, 2, -1, -2, 1, 0],
                [0, 4, 0, -5, 0, 1],
            ],
            np.float64,
        ),
        g=np.array(
            [
                [1 / 4, 0, 0],
                [-1 / 6, -1 / 6, -1 / 6],
                [-1 / 6, 1 / 6, -1 / 6],
                [1 / 24, 1 / 12, 1 / 6],
                [1 / 24, -1 / 12, 1 / 6],
                [0, 0, 1],
            ],
            np.float64,
        ),
        a=np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]], np.float64),
        tap_rows=np.array([[0, 2, 4, 5], [1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4], [1, 3, 5, 4]]),
    ),
}
