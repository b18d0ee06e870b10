"""Medians, quartiles and tests over seeds when some of them failed: a failure is worse than any value."""

from __future__ import annotations

import math

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


def p_value(a: np.ndarray, b: np.ndarray) -> float:
    """Two-sided Mann-Whitney test; 1 if all are the same, not a number with fewer than two seeds."""
    if min(a.size, b.size) < 2:
        return math.nan
    if len(np.unique(np.concatenate([a, b]))) == 1:
        return 1.0  # versions of scipy differ here
    from scipy.stats import mannwhitneyu  # takes a second to load, and most commands do without

    return float(mannwhitneyu(a, b, alternative="two-sided").pvalue)
