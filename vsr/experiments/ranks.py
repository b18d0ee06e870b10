"""Medians, quartiles and tests over seeds when some of them failed: a failure is worse than any value."""

from __future__ import annotations

import math
from collections.abc import Sequence

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


def quantiles_of_each(samples: Sequence[np.ndarray], shares: Sequence[float]) -> np.ndarray:
    """Of many samples over their seeds, (samples, shares): those alike are looked at together, which is quicker."""
    found = np.empty((len(samples), len(shares)))
    kinds = [(len(sample), bool(np.isfinite(sample).all())) for sample in samples]
    for kind in set(kinds):
        places = [place for place, own in enumerate(kinds) if own == kind]
        together = np.stack([samples[place] for place in places], -1)
        found[places] = quantile(together, np.array(shares)).T
    return found


def p_value(a: np.ndarray, b: np.ndarray) -> float:
    """Two-sided Mann-Whitney test, exact for few seeds without ties; 1 if all values are the same, not a number with
    fewer than two seeds."""
    if min(a.size, b.size) < 2:
        return math.nan
    if np.unique(np.concatenate([a, b])).size == 1:
        return 1.0
    from scipy.stats import mannwhitneyu  # it takes a second to load

    return float(mannwhitneyu(a, b, alternative="two-sided").pvalue)
