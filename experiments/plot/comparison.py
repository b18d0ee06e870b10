"""Are two runs different? Medians over seeds, a rank test and an effect size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vsr.experiments.numbers import count
from vsr.experiments.plot.curves import check_one_goal, labels
from vsr.experiments.runs import Run
from vsr.experiments.runs.ranks import middle, p_value, quantile

NUMBERS_AT_ONCE = 4_000_000
"""Comparisons of two seeds that are made together."""


@dataclass(frozen=True)
class Row:
    """One run's final best measures over its seeds."""

    run: str
    seeds: int
    failed: int
    """seeds whose robots all failed; worse than any other in the numbers below, which are infinite if many failed"""
    generations: int
    first: float
    """median over seeds after the first generation"""
    final: float
    """median over seeds at the end"""
    worse: float
    """the quartile of the worse seeds at the end"""
    better: float
    """the quartile of the better seeds at the end"""


@dataclass(frozen=True)
class Pair:
    """Two runs against each other."""

    first: str
    second: str
    difference: float
    """of the medians, first minus second"""
    p: float
    """two-sided Mann-Whitney, exact for few seeds without ties; not a number with fewer than two seeds"""
    p_holm: float
    """corrected for the number of pairs"""
    effect: float
    """chance that a seed of the first is better than one of the second (Vargha and Delaney's A); 0.5 is no effect"""


@dataclass(frozen=True)
class Comparison:
    """All runs and all pairs of them."""

    measure: str
    rows: tuple[Row, ...]
    pairs: tuple[Pair, ...]
    warnings: tuple[str, ...]
    """what makes a comparison unfair"""


def compare(runs: Sequence[Run]) -> Comparison:
    """Compare the last generations of runs with one goal."""
    check_one_goal(runs)
    names = labels(runs)
    rows = tuple(describe(run, name) for run, name in zip(runs, names, strict=True))
    pairs = tuple(_pairs(runs, names))
    return Comparison(runs[0].experiment.fitness.measure, rows, pairs, tuple(_warnings(runs, names)))


def clearest(pairs: Sequence[Pair], most: int = 100) -> tuple[list[Pair], str]:
    """As many pairs as people look at, those with the smallest p if there are more, and a note that says so."""
    if len(pairs) <= most:
        return list(pairs), ""
    chosen = sorted(range(len(pairs)), key=lambda place: (np.nan_to_num(pairs[place].p, nan=2.0), place))[:most]
    return [pairs[place] for place in sorted(chosen)], f"the {most} of {count(len(pairs))} pairs with the smallest p"


def describe(run: Run, name: str) -> Row:
    """What one run came to."""
    sign, final = run.experiment.fitness.sign, run.fitness[:, -1]
    first, last, worse, better = (
        sign * float(value)
        for value in (middle(run.fitness[:, 0]), middle(final), quantile(final, 0.25), quantile(final, 0.75))
    )
    failed = int(np.isinf(final).sum())
    return Row(name, len(final), failed, run.generations, first, last, worse, better)


def _pairs(runs: Sequence[Run], names: Sequence[str]) -> Iterator[Pair]:
    """Every run against every later one."""
    finals = [run.fitness[:, -1] for run in runs]
    first, second = np.triu_indices(len(runs), 1)
    medians = np.array([float(middle(final)) for final in finals]) * runs[0].experiment.fitness.sign
    with np.errstate(invalid="ignore"):
        differences = medians[first] - medians[second]  # not a number if both are infinite
    p, effects = rank_tests(finals, first, second)
    numbers = zip(differences.tolist(), p.tolist(), holm(p).tolist(), effects.tolist(), strict=True)
    for i, j, of_pair in zip(first.tolist(), second.tolist(), numbers, strict=True):
        yield Pair(names[i], names[j], *of_pair)


def rank_tests(samples: Sequence[np.ndarray], first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two-sided Mann-Whitney p and Vargha and Delaney's A of many pairs, given by indices of their samples.

    p follows from the sizes, from A and from how many values are equal; so there are far fewer tests than pairs.
    """
    sizes = np.array([len(sample) for sample in samples])
    p, effects = np.full(len(first), np.nan), np.empty(len(first))
    tests: dict[tuple[int, int, float, int], float] = {}
    for n, m in {(int(n), int(m)) for n, m in zip(sizes[first], sizes[second], strict=True)}:
        whole = np.flatnonzero((sizes[first] == n) & (sizes[second] == m))
        for chosen in np.array_split(whole, max(1, whole.size * n * m // NUMBERS_AT_ONCE)):
            a = np.stack([samples[i] for i in first[chosen]])
            b = np.stack([samples[j] for j in second[chosen]])
            effects[chosen] = superiority(a, b)
            if min(n, m) > 1:
                keys = [(n, m, *key) for key in zip(effects[chosen].tolist(), _ties(a, b).tolist(), strict=True)]
                for key, one, other in zip(keys, a, b, strict=True):
                    if key not in tests:
                        tests[key] = p_value(one, other)
                p[chosen] = [tests[key] for key in keys]
    return p, effects


def _ties(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sum of t³ - t over groups of t equal values, of samples along the last axis."""
    ordered = np.sort(np.concatenate([a, b], -1), -1)
    equal = ordered[..., 1:] == ordered[..., :-1]
    before, found = np.zeros(equal.shape[:-1], int), np.zeros(equal.shape[:-1], int)
    for place in range(equal.shape[-1]):  # t³ - t is the sum of 3 k (k + 1) over k equal neighbours
        before = np.where(equal[..., place], before + 1, 0)
        found += 3 * before * (before + 1)
    return found


def superiority(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Chance that one of the first is larger than one of the second (Vargha and Delaney's A); 0.5 is no effect.

    Samples are along the last axis.
    """
    a, b = a[..., :, None], b[..., None, :]
    return (a > b).mean((-2, -1)) + 0.5 * (a == b).mean((-2, -1))


def _warnings(runs: Sequence[Run], names: Sequence[str]) -> Iterator[str]:
    for run, name in zip(runs, names, strict=True):
        if run.generations < run.experiment.generations:
            yield f"{name} is not finished: {count(run.generations)} of {count(run.experiment.generations)} generations"
    if len({run.generations * run.experiment.ea.n_pop for run in runs}) > 1:
        yield "the runs have had different numbers of evaluations"


def holm(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Holm's correction for several tests at once; what is no number stays so."""
    corrected = np.array(values, float)
    known = np.flatnonzero(~np.isnan(corrected))
    order = known[np.argsort(corrected[known], kind="stable")]
    rising = np.minimum(1.0, corrected[order] * np.arange(len(order), 0, -1))
    corrected[order] = np.maximum.accumulate(rising)
    return corrected
