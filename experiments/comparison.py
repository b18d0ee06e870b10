"""Are two runs different? Medians over seeds, a rank test and an effect size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import mannwhitneyu

from experiments.config.problems import UserError
from experiments.curves import labels
from experiments.runs import Run


@dataclass(frozen=True)
class Row:
    """One run's final best measures over its seeds."""

    run: str
    seeds: int
    generations: int
    first: float
    """median over seeds after the first generation"""
    final: float
    """median over seeds at the end"""
    low: float
    """lower quartile at the end"""
    high: float
    """upper quartile at the end"""


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
    measure: str
    rows: tuple[Row, ...]
    pairs: tuple[Pair, ...]


def compare(runs: Sequence[Run]) -> Comparison:
    """Compare the final generations of runs of one measure."""
    goals = {f"{run.experiment.fitness.direction} {run.experiment.fitness.measure}" for run in runs}
    if len(goals) > 1:
        raise UserError(f"these runs cannot be compared: they have different goals ({', '.join(sorted(goals))})")
    names = labels(runs)
    rows = tuple(_row(run, name) for run, name in zip(runs, names, strict=True))
    pairs = [_pair(runs[i], runs[j], names[i], names[j]) for i, j in combinations(range(len(runs)), 2)]
    return Comparison(runs[0].experiment.fitness.measure, rows, _correct(pairs))


def _row(run: Run, name: str) -> Row:
    final = _final(run)
    low, middle, high = np.nanquantile(final, [0.25, 0.5, 0.75]) if np.isfinite(final).any() else [math.nan] * 3
    first = float(np.nanmedian(run.best[:, 0])) if np.isfinite(run.best[:, 0]).any() else math.nan
    return Row(name, len(final), run.generations, first, float(middle), float(low), float(high))


def _pair(first: Run, second: Run, first_name: str, second_name: str) -> Pair:
    sign = first.experiment.fitness.sign
    # A seed whose robots all failed is worse than any other.
    a, b = (np.nan_to_num(sign * _final(run), nan=-np.inf) for run in (first, second))
    p = float(mannwhitneyu(a, b, alternative="two-sided").pvalue) if min(a.size, b.size) > 1 else math.nan
    wins = (a[:, None] > b).mean() + 0.5 * (a[:, None] == b).mean()
    difference = float(np.nanmedian(_final(first)) - np.nanmedian(_final(second)))
    return Pair(first_name, second_name, difference, p, p, float(wins))


def _correct(pairs: list[Pair]) -> tuple[Pair, ...]:
    """Holm's correction for several tests at once."""
    known = sorted((pair.p, i) for i, pair in enumerate(pairs) if not math.isnan(pair.p))
    corrected = [pair.p for pair in pairs]
    largest = 0.0
    for rank, (p, i) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        corrected[i] = largest
    return tuple(
        Pair(pair.first, pair.second, pair.difference, pair.p, holm, pair.effect)
        for pair, holm in zip(pairs, corrected, strict=True)
    )


def _final(run: Run) -> np.ndarray:
    return run.best[:, -1]
