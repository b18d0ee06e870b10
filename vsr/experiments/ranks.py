"""Medians, quartiles and tests over seeds when some of them failed: a failure is worse than any value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

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


FEW = 8
"""Seeds of either side up to which the distribution of ranks is counted, if no values are equal."""


def p_value(a: np.ndarray, b: np.ndarray) -> float:
    """Two-sided Mann-Whitney test; 1 if all are the same, not a number with fewer than two seeds.

    As scipy.stats has it, which takes a second to load.
    """
    n, m = a.size, b.size
    if min(n, m) < 2:
        return math.nan
    values, counts = np.unique(np.concatenate([a, b]), return_counts=True)
    if len(values) == 1:
        return 1.0
    greater = (a[:, None] > b).sum() + 0.5 * (a[:, None] == b).sum()
    extreme = float(max(greater, n * m - greater))
    if min(n, m) <= FEW and len(values) == n + m:
        return min(1.0, 2 * float(_chances(n, m)[round(extreme) :].sum()))
    ties = float((counts.astype(float) ** 3 - counts).sum())
    spread = math.sqrt(n * m / 12 * (n + m + 1 - ties / ((n + m) * (n + m - 1))))
    return min(1.0, math.erfc((extreme - n * m / 2 - 0.5) / spread / math.sqrt(2)))


@lru_cache(maxsize=64)
def _chances(n: int, m: int) -> np.ndarray:
    """Of each number of pairs in which the first is greater if both sides are alike, (n m + 1,).

    The coefficients of the product of (1 - q^(m + i)) / (1 - q^i) over i from 1 to n.
    """
    chances = np.zeros(n * m + 1)
    chances[0] = 1.0
    for i in range(1, min(n, m) + 1):
        above = chances.copy()
        above[max(n, m) + i :] -= chances[: -(max(n, m) + i)] if max(n, m) + i <= n * m else 0
        for start in range(i):
            above[start::i] = np.cumsum(above[start::i])
        chances = above / above.sum()
    return chances
