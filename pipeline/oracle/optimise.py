"""Least squares for a few constants: Levenberg and Marquardt's method, with a Huber loss and priors."""

from collections.abc import Callable

import numpy as np

_ROUNDS = 40
_STEP = 1e-4
_ENOUGH = 1e-6


def soften(residuals: np.ndarray, knee: float) -> np.ndarray:
    """Residuals whose squares are Huber's loss: outliers beyond `knee` pull with constant force."""
    size = np.abs(residuals)
    far = np.sqrt(np.maximum(2 * knee * size - knee**2, 0.0))
    return np.where(size <= knee, residuals, np.sign(residuals) * far)


def least_squares(residuals: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
    """The parameters near `start` with the least sum of squared residuals.

    Source: Marquardt, An Algorithm for Least-Squares Estimation of Nonlinear Parameters, 1963; derivatives by
    differences.
    """
    parameters, damping = start.copy(), 1e-2
    now = residuals(parameters)
    for _ in range(_ROUNDS):
        jacobian = np.stack(
            [(residuals(parameters + _STEP * unit) - now) / _STEP for unit in np.eye(len(parameters))], axis=1
        )
        hessian, gradient = jacobian.T @ jacobian, jacobian.T @ now
        before = float(now @ now)
        for _ in range(8):
            step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian) + 1e-9), -gradient)
            then = residuals(parameters + step)
            if np.isfinite(then @ then) and then @ then < before:
                parameters, now = parameters + step, then
                damping = max(damping / 4, 1e-6)
                break
            damping *= 4
        if before - float(now @ now) < _ENOUGH * before:
            break
    return parameters
