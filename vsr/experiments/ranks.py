"""Medians, quartiles, exact tests and effect sizes over seeds.

A seed that failed is negative infinity, and worse than any other. Several tests at once are corrected by Holm's method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

MOST_EXACT = 2_500
"""Pairs of seeds up to which the test is exact: 50 against 50."""
RESAMPLES, RESAMPLING_SEED = 10_000, 0
"""Of bootstrap intervals, which are therefore the same at every call."""


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
    """Two-sided Mann-Whitney test: exact, also with ties; not a number with fewer than two seeds.

    All ways to share out the seeds are equally probable; p is the share of those whose rank sum is as far from its mean
    as the one that was found, or farther. From MOST_EXACT pairs of seeds on it is the normal approximation.
    """
    if min(a.size, b.size) < 2:
        return math.nan
    if a.size * b.size > MOST_EXACT:
        from scipy.stats import mannwhitneyu  # it takes a second to load

        return float(mannwhitneyu(a, b, alternative="two-sided", method="asymptotic").pvalue)
    _, group, sizes = np.unique(np.concatenate([a, b]), return_inverse=True, return_counts=True)
    ranks = (2 * np.cumsum(sizes) - sizes + 1)[group]  # twice the mean rank of equal values: whole numbers
    ways = _rank_sums(tuple(sorted(ranks.tolist())), a.size)
    sums = np.arange(ways.size)
    mean = a.size * ranks.sum() / ranks.size
    far = np.abs(sums - mean) >= abs(ranks[: a.size].sum() - mean) - 1e-9
    return min(1.0, float(ways[far].sum() / ways.sum()))


def sign_test(more: np.ndarray, less: np.ndarray) -> float:
    """Exact one-sided sign test of a median: p of so many seeds on one side, or more, if both are as likely.

    more, less: whether a seed is on that side, or on the other; one at the value itself is on neither.
    """
    count, size = int(more.sum()), int(more.sum() + less.sum())
    return sum(math.comb(size, each) for each in range(count, size + 1)) / 2**size


@lru_cache(maxsize=256)
def _rank_sums(ranks: tuple[int, ...], chosen: int) -> np.ndarray:
    """In how many ways a number of these ranks have each sum, (sums,)."""
    ways = np.zeros((chosen + 1, sum(sorted(ranks)[-chosen:]) + 1))
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank]  # the right side is read before anything is written
    return ways[chosen]


def superiority(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Chance that one of the first is larger than one of the second (Vargha and Delaney's A); 0.5 is no effect.

    Samples are along the last axis.
    """
    a, b = a[..., :, None], b[..., None, :]
    wins, draws = ((found.sum((-2, -1), dtype=np.int32)) for found in (a > b, a == b))
    return (wins + 0.5 * draws) / (a.shape[-2] * b.shape[-1])


def resampled(samples: Sequence[np.ndarray], statistic: Callable[..., np.ndarray]) -> np.ndarray:
    """A statistic of samples whose seeds were drawn again with replacement, (RESAMPLES,).

    statistic: of as many samples, each (resamples, seeds).
    """
    random = np.random.default_rng(RESAMPLING_SEED)
    parts = []
    for _ in range(10):  # so that no array gets large
        drawn = (random.integers(sample.size, size=(RESAMPLES // 10, sample.size)) for sample in samples)
        parts.append(statistic(*(sample[which] for sample, which in zip(samples, drawn, strict=True))))
    return np.concatenate(parts)


def superiority_interval(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Bootstrap interval of 95 % of Vargha and Delaney's A."""
    low, high = np.quantile(resampled((a, b), superiority), (0.025, 0.975))
    return float(low), float(high)


def holm(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Holm's correction for several tests at once; what is no number stays so."""
    corrected = np.array(values, float)
    known = np.flatnonzero(~np.isnan(corrected))
    order = known[np.argsort(corrected[known], kind="stable")]
    rising = np.minimum(1.0, corrected[order] * np.arange(len(order), 0, -1))
    corrected[order] = np.maximum.accumulate(rising)
    return corrected
