"""Claims about experiments, and whether they hold: a kind of claim is one class and one line in CLAIMS.

Each judges numbers that runs have left, by a rule that is fixed before they are seen. `in part` means that the medians
agree with the claim but not clearly, or not in size.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.stats import levene

from vsr.experiments.ranks import middle, p_value
from vsr.experiments.refine import Robustness
from vsr.experiments.resimulate import aggregate
from vsr.experiments.storage.runs import Run
from vsr.physics.failure import Failure
from vsr.spec import Real, Registry, Spec

SIGNIFICANT = 0.05

Holds = Literal["yes", "in part", "no", "not run"]
Share = Annotated[Real, Field(ge=0, le=1)]


GAIT = ("contact", "feet", "duty", "sinkage", "effort")
"""Metrics of gaits (vsr.evidence.reproduce.gait); effort: mean squared control value."""
Trait = Literal["voxels", "width", "height", "contact", "contact_share", "feet", "duty", "sinkage", "effort"]
TRAITS: dict[Trait, str] = {
    "voxels": "voxels",
    "width": "width [voxels]",
    "height": "height [voxels]",
    "contact": "voxels in contact at a time",
    "contact_share": "share of its voxels in contact",
    "feet": "feet",
    "duty": "duty of a foot",
    "sinkage": "sinkage [m]",
    "effort": "mean squared control",
}
"""Traits that winners are compared by, with their labels."""


@dataclass(frozen=True)
class Exchange:
    """Results of robots in worlds. Worlds are named after the experiments they belong to."""

    names: tuple[str, ...]
    """of the experiments, in their order"""
    home: np.ndarray
    """place of the experiment that each robot comes from, (robots,); seeds follow each other"""
    factors: tuple[int, ...]
    """by which time steps were smaller"""
    measured: np.ndarray
    """the goal's measure, not a number where the simulation failed, (robots, worlds, factors, trials)"""
    failure: np.ndarray
    """why it failed, 0 if it did not, likewise"""
    gait: dict[str, np.ndarray]
    """each of GAIT: median over trials with the first factor, not a number if all failed, (robots, worlds)"""
    body: dict[str, np.ndarray]
    """voxels, width and height [voxels], not a number for a seed without a robot, (robots,)"""

    @property
    def counted(self) -> np.ndarray:
        """Fitness that counts, negative infinity for a failure, (robots, worlds)."""
        known = np.where(self.failure > 0, np.nan, self.measured)[:, :, [0, -1]]
        return np.nan_to_num(aggregate(known), nan=-np.inf).min(-1)

    def fitness(self, experiment: str, world: str) -> np.ndarray:
        """That of one experiment's robots in a world, (seeds,)."""
        return self.counted[self._of(experiment), self.names.index(world)]

    def kept(self, experiment: str, world: str) -> np.ndarray:
        """Share of its fitness at home that each robot keeps, negative infinity if it fails, (seeds,).

        Not a number where it gets nowhere at home.
        """
        home, abroad = self.fitness(experiment, experiment), self.fitness(experiment, world)
        return np.where(home > 0, abroad / np.where(home > 0, home, 1), np.nan)

    def trait(self, experiment: str, name: Trait) -> np.ndarray:
        """One of TRAITS of an experiment's robots, at home, (seeds,); not a number where it is not known."""
        own, world = self._of(experiment), self.names.index(experiment)
        if name == "contact_share":
            return self.gait["contact"][own, world] / self.body["voxels"][own]
        return self.body[name][own] if name in self.body else self.gait[name][own, world]

    def failures(self, experiment: str, world: str) -> Counter[str]:
        """How many simulations of an experiment's robots in a world failed, by reason."""
        codes = self.failure[self._of(experiment), self.names.index(world)]
        return Counter(Failure(int(code)).label for code in codes.ravel() if code)

    def robustness(self, experiment: str) -> Robustness:
        """Its robots at home, with default and smaller time steps."""
        refined = self.measured[self._of(experiment), self.names.index(experiment)]
        unchanged = np.zeros((len(refined), 0, refined.shape[-1]))
        return Robustness(self.factors, refined, (), unchanged)

    def best(self, experiment: str) -> int:
        """Place of the seed whose robot is the best at home."""
        return int(np.argmax(self.fitness(experiment, experiment)))

    def _of(self, experiment: str) -> np.ndarray:
        return self.home == self.names.index(experiment)


@dataclass(frozen=True)
class Result:
    """The results of an experiment."""

    name: str
    label: str
    run: Run
    repeats: np.ndarray | None = None
    """the measure of each seed's best robot, simulated several times, (seeds, repeats); the first one is unperturbed"""
    robustness: Robustness | None = None
    """fitness that each seed's best robot keeps with smaller time steps and changed parameters"""
    exchange: Exchange | None = None
    """results of all experiments' best robots in the worlds of all"""

    @property
    def sign(self) -> float:
        """Fitness over the measure."""
        return self.run.experiment.fitness.sign

    def late(self, begin: float = 1.0, end: float = 1.0) -> np.ndarray:
        """Each seed's best fitness, averaged from one share of the generations to another, (seeds,)."""
        last = self.run.generations - 1
        return self.run.fitness[:, round(begin * last) : round(end * last) + 1].mean(1)

    @property
    def repeated(self) -> np.ndarray | None:
        """Fitness in those repeats, negative infinity where one failed, (seeds, repeats)."""
        return None if self.repeats is None else np.nan_to_num(self.sign * self.repeats, nan=-np.inf)

    @property
    def typical(self) -> np.ndarray | None:
        """Fitness of each seed's final best in the median of its repeats, (seeds,)."""
        return None if self.repeated is None else middle(self.repeated.T)


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, and in which numbers."""

    holds: Holds
    evidence: str


NOT_EXCHANGED = Verdict("not run", "winners have not been exchanged yet")


class Claim(Spec):
    """Something that experiments are expected to show."""

    text: str
    """the claim in words"""

    @property
    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """Names of the experiments it is about."""

    @abstractmethod
    def judge(self, results: Mapping[str, Result]) -> Verdict:
        """Whether it holds; `results` has all that it needs."""


class Gain(Claim):
    """Evolution makes robots better, by some ratio, than the best of the random first generation.

    Yes if the ratio of the medians over seeds, last generation to first, is the expected one within a quarter (or the
    tolerance given) and a two-sided Mann-Whitney test is significant (p < 0.05); in part if there is any other gain.
    """

    type: Literal["gain"] = "gain"
    experiment: str
    """which one"""
    about: Annotated[Real, Field(gt=1)]
    """the ratio"""
    tolerance: Annotated[Real, Field(gt=0)] = 0.25
    """part of the ratio by which it may differ"""

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.experiment,)

    def judge(self, results: Mapping[str, Result]) -> Verdict:
        result = results[self.experiment]
        first, last = result.late(0.0, 0.0), result.late()
        ratio, p = gain(result), p_value(last, first)
        low, high = self.about * (1 - self.tolerance), self.about * (1 + self.tolerance)
        evidence = (
            f"{median(result, last)} against {median(result, first)} at random: {number(ratio)} times "
            f"({low:.3g} to {high:.3g} expected), p = {p:.2g}"
        )
        if low <= ratio <= high and p < SIGNIFICANT:
            return Verdict("yes", evidence)
        return Verdict("in part" if middle(last) > middle(first) else "no", evidence)


class Comparison(Claim):
    """Something that holds for one experiment more than for another."""

    experiment: str
    """the one that is more"""
    than: str
    """the one that is less"""

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.experiment, self.than)


class Above(Comparison):
    """One experiment's best robots are better than another's, at the end or during a part of the run.

    Yes if the median over seeds is better and a two-sided Mann-Whitney test is significant (p < 0.05); in part if only
    the median is better.
    """

    type: Literal["above"] = "above"
    during: tuple[Share, Share] = (1.0, 1.0)
    """from and to which share of the generations; by default the last one"""

    def judge(self, results: Mapping[str, Result]) -> Verdict:
        better, worse = results[self.experiment], results[self.than]
        a, b = better.late(*self.during), worse.late(*self.during)
        evidence = _against(better, worse, a, b)
        again = better.typical, worse.typical
        if self.during == (1.0, 1.0) and again[0] is not None and again[1] is not None:
            evidence += f"; in the median of several repeats {_against(better, worse, again[0], again[1])}"
        if self.during == (1.0, 1.0):
            evidence += f"; p over the generations: {_course(better, worse)}"
        if middle(a) <= middle(b):
            return Verdict("no", evidence)
        return Verdict("yes" if p_value(a, b) < SIGNIFICANT else "in part", evidence)


class GainsMore(Comparison):
    """Evolution makes one experiment's robots better by a larger ratio than another's.

    Of every seed the ratio of its last best to its first is taken. Yes if the median over seeds is larger and a
    two-sided Mann-Whitney test is significant (p < 0.05); in part if it is only larger.
    """

    type: Literal["gains_more"] = "gains_more"

    def judge(self, results: Mapping[str, Result]) -> Verdict:
        a, b = (_gains(results[name]) for name in self.needs)
        if not (a.size and b.size):
            return Verdict("no", "no seed has a first and a last best with a meaningful ratio")
        p = p_value(a, b)
        evidence = f"{np.median(a):.3g} times against {np.median(b):.3g} times (medians over seeds), p = {p:.2g}"
        if np.median(a) <= np.median(b):
            return Verdict("no", evidence)
        return Verdict("yes" if p < SIGNIFICANT else "in part", evidence)


class Wider(Comparison):
    """One experiment's final results spread more over seeds than another's.

    Yes if the standard deviation is larger and a Brown-Forsythe test is significant (p < 0.05); in part if it is only
    larger.
    """

    type: Literal["wider"] = "wider"

    def judge(self, results: Mapping[str, Result]) -> Verdict:
        a, b = (values[np.isfinite(values)] for values in (results[name].late() for name in self.needs))
        if min(a.size, b.size) < 2:
            return Verdict("no", "fewer than two seeds have a robot")
        p = float(levene(a, b, center="median").pvalue) if min(a.size, b.size) > 2 else math.nan
        evidence = f"σ {a.std():.3g} against {b.std():.3g}, p = {p:.2g}"
        if a.std() <= b.std():
            return Verdict("no", evidence)
        return Verdict("yes" if p < SIGNIFICANT else "in part", evidence)


class FaresBetter(Comparison):
    """One experiment's winners are better than another's in some world, where both are simulated alike.

    Each robot counts with the lesser of its medians over trials with default and smallest time steps, a failure less
    than any other. Yes if the median over seeds is better and a two-sided Mann-Whitney test is significant (p < 0.05);
    in part if only the median is better."""

    type: Literal["fares_better"] = "fares_better"
    world: str
    """the experiment to whose world both go"""

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.experiment, self.than, self.world)))

    def judge(self, results: Mapping[str, Result]) -> Verdict:
        found = results[self.experiment].exchange
        if found is None:
            return NOT_EXCHANGED
        a, b = (found.fitness(name, self.world) for name in (self.experiment, self.than))
        return _judged(a, b, _against(results[self.experiment], results[self.than], a, b))


class KeepsMore(Comparison):
    """Winners of one experiment keep more of their fitness in another's world than the other's keep in theirs.

    Yes if the median over seeds of the share that is kept is larger and a two-sided Mann-Whitney test is significant
    (p < 0.05); in part if it is only larger. Robots that get nowhere at home are left out and counted.
    """

    type: Literal["keeps_more"] = "keeps_more"

    def judge(self, results: Mapping[str, Result]) -> Verdict:
        found = results[self.experiment].exchange
        if found is None:
            return NOT_EXCHANGED
        shares = found.kept(self.experiment, self.than), found.kept(self.than, self.experiment)
        a, b = (values[~np.isnan(values)] for values in shares)
        if not (a.size and b.size):
            return Verdict("no", "no robot of one of them gets anywhere at home")
        left_out = sum(values.size for values in shares) - a.size - b.size
        evidence = f"{_percent(a)} kept against {_percent(b)}, p = {p_value(a, b):.2g}"
        return _judged(a, b, evidence + (f"; {left_out} robots left out" if left_out else ""))


class MoreOf(Comparison):
    """Winners of one experiment have more of a trait, each at home, than another's.

    Yes if the median over seeds is larger and a two-sided Mann-Whitney test is significant (p < 0.05); in part if it is
    only larger. Robots of which it is not known (they failed) are left out and counted.
    """

    type: Literal["more_of"] = "more_of"
    trait: Trait
    """of what"""

    def judge(self, results: Mapping[str, Result]) -> Verdict:
        found = results[self.experiment].exchange
        if found is None:
            return NOT_EXCHANGED
        values = [found.trait(name, self.trait) for name in self.needs]
        a, b = (each[np.isfinite(each)] for each in values)
        if not (a.size and b.size):
            return Verdict("no", "no robot of one of them is left")
        left_out = sum(each.size for each in values) - a.size - b.size
        evidence = f"{np.median(a):.3g} against {np.median(b):.3g} (medians), p = {p_value(a, b):.2g}"
        return _judged(a, b, evidence + (f"; {left_out} robots left out" if left_out else ""))


class MetricAbove(Comparison):
    """One experiment's search ends with more of something that searches report themselves than another's.

    Metrics are those of archives and fronts, such as body.coverage or hypervolume; `bodies`, how many different ones
    the population or the archives hold, is reported by all. Yes if the median over seeds is larger and a two-sided
    Mann-Whitney test is significant (p < 0.05); in part if it is only larger.
    """

    type: Literal["metric_above"] = "metric_above"
    metric: str
    """of what"""

    def judge(self, results: Mapping[str, Result]) -> Verdict:
        metrics = {name: self._metric(results[name].run) for name in self.needs}
        if silent := [name for name, values in metrics.items() if values is None]:
            return Verdict("not run", f"{silent[0]} reports no metric '{self.metric}'")
        a, b = (np.nan_to_num(values[:, -1], nan=-np.inf) for values in metrics.values() if values is not None)
        evidence = (
            f"{float(middle(a)):.3g} against {float(middle(b)):.3g} (medians over seeds), p = {p_value(a, b):.2g}"
        )
        return _judged(a, b, evidence)

    def _metric(self, run: Run) -> np.ndarray | None:
        """Of every seed and generation, None if the search does not report it."""
        return run.bodies if self.metric == "bodies" else run.metrics.get(self.metric)


CLAIMS: Registry[type[Claim]] = Registry(
    "claim",
    {
        "gain": Gain,
        "gains_more": GainsMore,
        "above": Above,
        "wider": Wider,
        "fares_better": FaresBetter,
        "keeps_more": KeepsMore,
        "more_of": MoreOf,
        "metric_above": MetricAbove,
    },
)
"""Every kind of claim by its name."""


def judge(claim: Claim, results: Mapping[str, Result]) -> Verdict:
    """Whether a claim holds, if its experiments have been run."""
    missing = [name for name in claim.needs if name not in results]
    return Verdict("not run", f"{', '.join(missing)} missing") if missing else claim.judge(results)


def _judged(a: np.ndarray, b: np.ndarray, evidence: str) -> Verdict:
    """Whether the first numbers are larger, in the median and clearly."""
    if middle(a) <= middle(b):
        return Verdict("no", evidence)
    return Verdict("yes" if p_value(a, b) < SIGNIFICANT else "in part", evidence)


def _percent(shares: np.ndarray) -> str:
    value = float(middle(shares))
    return f"{100 * value:.0f} %" if math.isfinite(value) else "none"


def gain(result: Result) -> float:
    """Final median over that of the first generation; not a number where a ratio means nothing."""
    first, last = (result.sign * float(middle(result.late(at, at))) for at in (0.0, 1.0))
    return last / first if min(first, last) > 0 and math.isfinite(last / first) else math.nan


def _gains(result: Result) -> np.ndarray:
    """Last best over first best of every seed for which that means something."""
    first, last = (result.sign * result.late(at, at) for at in (0.0, 1.0))
    known = np.isfinite(first) & np.isfinite(last) & (first > 0) & (last > 0)
    return last[known] / first[known]


def _course(better: Result, worse: Result) -> str:
    """p at parts of the run, marked where the other one is ahead."""
    shown = []
    for share in (0.2, 0.4, 0.6, 0.8, 1.0):
        a, b = better.late(share, share), worse.late(share, share)
        behind = " (behind)" if middle(a) <= middle(b) else ""
        shown.append(f"{100 * share:.0f} % {p_value(a, b):.2g}{behind}")
    return ", ".join(shown)


def median(result: Result, fitness: np.ndarray) -> str:
    """The measure's median over seeds."""
    return number(result.sign * float(middle(fitness)))


def number(value: float) -> str:
    """For people."""
    return f"{value:.3g}" if math.isfinite(value) else "none"


def _against(better: Result, worse: Result, a: np.ndarray, b: np.ndarray) -> str:
    return f"{median(better, a)} against {median(worse, b)}, p = {p_value(a, b):.2g}"
