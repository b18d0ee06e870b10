"""Medians and quartiles over seeds when some of them failed: a failure is worse than any value."""

from __future__ import annotations

import numpy as np


def quantile(fitness: np.ndarray, share: float | np.ndarray) -> np.ndarray:
    """Over the first axis, the seeds; negative infinity stands for a failure. Failed if half of them did."""
    if len(fitness) == 1:
        return np.broadcast_to(fitness[0], np.shape(share) + fitness.shape[1:])
    if np.isfinite(fitness).all():
        return np.quantile(fitness, share, axis=0)
    return np.quantile(fitness, share, axis=0, method="inverted_cdf")  # nothing lies between a value and a failure


def middle(fitness: np.ndarray) -> np.ndarray:
    """The median over the first axis."""
    return quantile(fitness, 0.5)
