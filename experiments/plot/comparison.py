"""Are two runs different? Medians over seeds, a rank test and an effect size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from vsr.experiments.numbers import count
from vsr.experiments.plot.curves import check_one_goal, labels
from vsr.experiments.runs import Run
from vsr.experiments.runs.ranks import middle, p_value, quantile


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
    pairs = [_pair(runs[i], runs[j], names[i], names[j]) for i, j in combinations(range(len(runs)), 2)]
    return Comparison(runs[0].experiment.fitness.measure, rows, _correct(pairs), tuple(_warnings(runs, names)))


def describe(run: Run, name: str) -> Row:
    """What one run came to."""
    sign, final = run.experiment.fitness.sign, run.fitness[:, -1]
    first, last, worse, better = (
        sign * float(value)
        for value in (middle(run.fitness[:, 0]), middle(final), quantile(final, 0.25), quantile(final, 0.75))
    )
    failed = int(np.isinf(final).sum())
    return Row(name, len(final), failed, run.generations, first, last, worse, better)


def _pair(first: Run, second: Run, first_name: str, second_name: str) -> Pair:
    a, b = first.fitness[:, -1], second.fitness[:, -1]
    p = p_value(a, b)
    medians = [first.experiment.fitness.sign * float(middle(values)) for values in (a, b)]
    difference = math.nan if np.isinf(medians).all() else medians[0] - medians[1]
    return Pair(first_name, second_name, difference, p, p, superiority(a, b))


def superiority(a: np.ndarray, b: np.ndarray) -> float:
    """Chance that one of the first is larger than one of the second (Vargha and Delaney's A); 0.5 is no effect."""
    return float((a[:, None] > b).mean() + 0.5 * (a[:, None] == b).mean())


def _warnings(runs: Sequence[Run], names: Sequence[str]) -> Iterator[str]:
    for run, name in zip(runs, names, strict=True):
        if run.generations < run.experiment.generations:
            yield f"{name} is not finished: {count(run.generations)} of {count(run.experiment.generations)} generations"
    if len({run.generations * run.experiment.ea.n_pop for run in runs}) > 1:
        yield "the runs have had different numbers of evaluations"


def _correct(pairs: list[Pair]) -> tuple[Pair, ...]:
    corrected = holm([pair.p for pair in pairs])
    return tuple(
        Pair(pair.first, pair.second, pair.difference, pair.p, p, pair.effect)
        for pair, p in zip(pairs, corrected, strict=True)
    )


def holm(values: Sequence[float]) -> list[float]:
    """Holm's correction for several tests at once; what is no number stays so."""
    known = sorted((p, i) for i, p in enumerate(values) if not math.isnan(p))
    corrected = list(values)
    largest = 0.0
    for rank, (p, i) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        corrected[i] = largest
    return corrected
