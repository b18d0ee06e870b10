"""Are two runs different? Medians over seeds, a rank test and an effect size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vsr.experiments.formatting import count
from vsr.experiments.plot.curves import as_measure, check_one_goal, labels, one_metric
from vsr.experiments.ranks import holm, p_value, quantiles_of_each, superiority
from vsr.experiments.storage.runs import Curves

MOST_PAIRS = 100
"""As many as people look at."""
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


class Pair(NamedTuple):
    """Two runs against each other."""

    first: str
    second: str
    difference: float
    """of the medians, first minus second"""
    p: float
    """two-sided Mann-Whitney, exact; not a number with fewer than two seeds"""
    p_holm: float
    """corrected for the number of pairs"""
    effect: float
    """chance that a seed of the first is better than one of the second (Vargha and Delaney's A); 0.5 is no effect"""


class Pairs(Sequence[Pair]):
    """All pairs of some runs, of a thousand runs half a million, each made when it is looked at."""

    def __init__(self, names: Sequence[str], first: np.ndarray, second: np.ndarray, *numbers: np.ndarray):
        """first, second: indices of names; numbers: difference, p, p_holm and effect, each (pairs,)."""
        self.names, self.first, self.second, self.numbers = names, first, second, numbers

    @property
    def p(self) -> np.ndarray:
        """Of all, (pairs,)."""
        return self.numbers[1]

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        numbers = (float(column[place]) for column in self.numbers)
        return Pair(self.names[int(self.first[place])], self.names[int(self.second[place])], *numbers)


@dataclass(frozen=True)
class Comparison:
    """All runs and all pairs of them."""

    measure: str
    rows: tuple[Row, ...]
    pairs: Sequence[Pair]
    warnings: tuple[str, ...]
    """reasons that make a comparison unfair"""
    of_searches: bool = False
    """whether the measure is a metric of searches, and not of their best robots"""

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        parts = {"rows": [vars(row) for row in self.rows], "pairs": [pair._asdict() for pair in self.pairs]}
        return {**vars(self), **parts}


def compare(runs: Sequence[Curves], metric: str | None = None) -> Comparison:
    """Compare the last generations of runs with one goal; metric: of their searches, instead of their best robots."""
    if metric is None:
        check_one_goal(runs)
    else:
        runs = [as_measure(run, one_metric(runs, metric)) for run in runs]
    names = labels(runs)
    rows = tuple(_described(runs, names))
    measure, warnings = runs[0].header.measure, tuple(_warnings(runs, names))
    return Comparison(measure, rows, _pairs(runs, rows), warnings, of_searches=metric is not None)


def clearest(pairs: Sequence[Pair], most: int = MOST_PAIRS) -> tuple[list[Pair], str]:
    """As many pairs as people look at, those with the smallest p if there are more, and a note about it."""
    if len(pairs) <= most:
        return list(pairs), ""
    p = pairs.p if isinstance(pairs, Pairs) else [pair.p for pair in pairs]
    chosen = np.argsort(p, kind="stable")[:most]  # what is no number comes last
    return [
        pairs[place] for place in np.sort(chosen).tolist()
    ], f"the {most} of {count(len(pairs))} pairs with the smallest p"


def describe(run: Curves, name: str) -> Row:
    """The final results of one run."""
    (row,) = _described([run], [name])
    return row


def _described(runs: Sequence[Curves], names: Sequence[str]) -> Iterator[Row]:
    """The final results of runs, all at once, which is quicker than one by one."""
    firsts, finals = ([_fitness(run, place) for run in runs] for place in (0, -1))
    medians, quartiles = quantiles_of_each(firsts, [0.5]), quantiles_of_each(finals, [0.25, 0.5, 0.75])
    for run, name, final, (first,), ends in zip(runs, names, finals, medians, quartiles, strict=True):
        sign = run.header.sign
        worse, last, better = (sign * ends).tolist()
        failed = int(np.isinf(final).sum())
        yield Row(name, len(final), failed, run.generations, sign * float(first), last, worse, better)


def _fitness(run: Curves, place: int) -> np.ndarray:
    """Best fitness in one generation, negative infinity where all had failed, (seeds,)."""
    return np.nan_to_num(run.header.sign * run.best[:, place], nan=-np.inf)


def _pairs(runs: Sequence[Curves], rows: Sequence[Row]) -> Pairs:
    """Every run against every later one."""
    finals = [_fitness(run, -1) for run in runs]
    first, second = np.triu_indices(len(runs), 1)
    medians = np.array([row.final for row in rows])
    with np.errstate(invalid="ignore"):
        differences = medians[first] - medians[second]  # not a number if both are infinite
    p, effects = rank_tests(finals, first, second)
    return Pairs([row.run for row in rows], first, second, differences, p, holm(p), effects)


def rank_tests(samples: Sequence[np.ndarray], first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two-sided Mann-Whitney p and Vargha and Delaney's A of many pairs, given by indices of their samples.

    p follows from the sizes, from A and from which ranks are equal; so there are far fewer tests than pairs.
    """
    sizes = np.array([len(sample) for sample in samples])
    whole = {int(size): np.stack([sample for sample in samples if len(sample) == size]) for size in np.unique(sizes)}
    place = np.array([np.sum(sizes[:index] == size) for index, size in enumerate(sizes)])
    everything = np.concatenate(samples)
    all_differ = np.unique(everything).size == everything.size
    p, effects = np.full(len(first), np.nan), np.empty(len(first))
    codes = sizes[first] * (sizes.max() + 1) + sizes[second]
    for code in np.unique(codes).tolist():
        n, m = divmod(code, int(sizes.max()) + 1)
        pairs = np.flatnonzero(codes == code)
        tests: dict[tuple[int, bytes], float] = {}
        for chosen in np.array_split(pairs, max(1, pairs.size * n * m // NUMBERS_AT_ONCE)):
            a, b = whole[n][place[first[chosen]]], whole[m][place[second[chosen]]]
            effects[chosen] = superiority(a, b)
            if min(n, m) > 1:
                sums = np.rint(2 * n * m * effects[chosen]).astype(int)
                ties = [b""] * len(chosen) if all_differ else [bytes(own) for own in _ties(a, b)]
                for one, kind in enumerate(zip(sums.tolist(), ties, strict=True)):
                    if kind not in tests:
                        tests[kind] = p_value(a[one], b[one])
                    p[chosen[one]] = tests[kind]
    return p, effects


def _ties(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which of the ordered values are equal to the one before, packed as bits, of samples along the last axis."""
    ordered = np.sort(np.concatenate([a, b], -1), -1)
    return np.packbits(ordered[..., 1:] == ordered[..., :-1], axis=-1)


def _warnings(runs: Sequence[Curves], names: Sequence[str]) -> Iterator[str]:
    for run, name in zip(runs, names, strict=True):
        if not run.is_finished:
            yield f"{name} is not finished: {count(run.generations)} of {count(run.header.generations)} generations"
    if len({run.generations * run.header.population_size for run in runs}) > 1:
        yield "the runs have had different numbers of evaluations"
