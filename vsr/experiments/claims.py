"""Claims about experiments, and verdicts on them: a kind of claim is one class and one line in CLAIMS.

Each is tested by a rule that is fixed before any run. Samples are over seeds. Tests are exact. All claims of one
family, by default all of a study, are corrected together by Holm's method. A claim is `supported` if the corrected p is
below 0.05 and the difference is as claimed, `contradicted` if it is below 0.05 and the difference is the opposite, and
otherwise `not significant`. A claim about a run that is not finished is not judged.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from vsr.experiments.ranks import holm, middle, p_value, resampled, sign_test, superiority, superiority_interval
from vsr.experiments.refine import Robustness
from vsr.experiments.resimulate import aggregate
from vsr.experiments.storage.runs import Run
from vsr.physics.failure import Failure
from vsr.spec import Real, Registry, Spec

SIGNIFICANT = 0.05

Holds = Literal["supported", "not significant", "contradicted", "not run"]
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

    @property
    def final(self) -> np.ndarray:
        """Fitness of each seed's best robot as the run reports it: confirmed, where that was asked for, (seeds,)."""
        return self.run.fitness[:, -1]

    def during(self, begin: float, end: float) -> np.ndarray:
        """Each seed's best fitness in the search, averaged from one share of the generations to another, (seeds,)."""
        last = self.run.generations - 1
        return self.run.search_fitness[:, round(begin * last) : round(end * last) + 1].mean(1)

    @property
    def repeated(self) -> np.ndarray | None:
        """Fitness in those repeats, negative infinity where one failed, (seeds, repeats)."""
        return None if self.repeats is None else np.nan_to_num(self.sign * self.repeats, nan=-np.inf)

    @property
    def typical(self) -> np.ndarray | None:
        """Fitness of each seed's final best in the median of its repeats, (seeds,)."""
        return None if self.repeated is None else middle(self.repeated.T)


@dataclass(frozen=True)
class Outcome:
    """What the test of a claim gave, before it is corrected for other tests."""

    evidence: str
    p: float
    as_claimed: bool
    """whether the difference is the claimed one, and not the opposite"""
    effect: float = math.nan
    """Vargha and Delaney's A: chance that a seed has more of what is claimed; 0.5 is no effect"""
    interval: tuple[float, float] = (math.nan, math.nan)
    """of 95 % for the effect, by bootstrap"""


@dataclass(frozen=True)
class Verdict:
    """Whether a claim is borne out, and in which numbers."""

    holds: Holds
    evidence: str
    tested: Outcome | None = None
    p_holm: float = math.nan
    """p, corrected for all tests of the family"""

    @property
    def effect(self) -> str:
        """With its interval, for people."""
        if self.tested is None or not math.isfinite(self.tested.effect):
            return ""
        low, high = self.tested.interval
        return f"{self.tested.effect:.2f} [{low:.2f}, {high:.2f}]"

    @property
    def p(self) -> str:
        """As it is, and corrected, for people."""
        if self.tested is None or math.isnan(self.tested.p):
            return ""
        return f"{self.tested.p:.2g} ({self.p_holm:.2g})"


NOT_EXCHANGED = "winners have not been exchanged yet"


class Claim(Spec):
    """Something that experiments are expected to show."""

    text: str
    """the claim in words"""
    family: str = ""
    """claims of one family are corrected together; by default all of a study that name none"""

    @property
    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """Names of the experiments it is about."""

    @abstractmethod
    def test(self, results: Mapping[str, Result]) -> Outcome | str:
        """The test, or why there is none; `results` has all that it needs."""


class Gain(Claim):
    """Evolution makes robots better, by about some ratio, than the best of the random first generation.

    The ratio of last to first best is taken seed by seed. Its median is tested for lying within a quarter (or the
    tolerance given) of the expected one by two one-sided sign tests, or, if it lies outside, by a two-sided one for
    lying outside. All are exact. Seeds without a meaningful ratio are left out and counted. The interval of 95 % is by
    bootstrap.
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

    def test(self, results: Mapping[str, Result]) -> Outcome | str:
        result = results[self.experiment]
        ratios = _gains(result)
        if ratios.size < 2:
            return "fewer than two seeds have a first and a last best with a meaningful ratio"
        found, left_out = float(np.median(ratios)), result.final.size - ratios.size
        low, high = self.about * (1 - self.tolerance), self.about * (1 + self.tolerance)
        within = low <= found <= high
        if within:
            p = max(sign_test(ratios > low, ratios < low), sign_test(ratios < high, ratios > high))
        else:
            beyond, inside = (ratios < low, ratios > low) if found < low else (ratios > high, ratios < high)
            p = min(1.0, 2 * sign_test(beyond, inside))
        ends = np.quantile(resampled((ratios,), lambda drawn: np.median(drawn, -1)), (0.025, 0.975)).tolist()
        evidence = (
            f"{median(result, result.final)} against {median(result, result.during(0.0, 0.0))} at random: "
            f"{number(found)} times [{ends[0]:.3g}, {ends[1]:.3g}], {low:.3g} to {high:.3g} expected"
        )
        return Outcome(evidence + (f"; {left_out} seeds left out" if left_out else ""), p, within)


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

    Exact two-sided Mann-Whitney test of the fitness that runs report at their end, or of the search's best fitness
    averaged over a part of the generations.
    """

    type: Literal["above"] = "above"
    during: tuple[Share, Share] | None = None
    """from and to which share of the generations; by default the end"""

    def test(self, results: Mapping[str, Result]) -> Outcome | str:
        better, worse = results[self.experiment], results[self.than]
        if self.during is not None:
            a, b = better.during(*self.during), worse.during(*self.during)
            return _tested(a, b, _against(better, worse, a, b))
        a, b = better.final, worse.final
        evidence, again = _against(better, worse, a, b), (better.typical, worse.typical)
        if again[0] is not None and again[1] is not None:
            evidence += f"; in the median of further repeats {_against(better, worse, again[0], again[1])}"
        return _tested(a, b, evidence)


class GainsMore(Comparison):
    """Evolution makes one experiment's robots better by a larger ratio than another's.

    Exact two-sided Mann-Whitney test of the ratios of last best to first best, seed by seed. Seeds without a meaningful
    ratio are left out and counted.
    """

    type: Literal["gains_more"] = "gains_more"

    def test(self, results: Mapping[str, Result]) -> Outcome | str:
        a, b = (_gains(results[name]) for name in self.needs)
        if not (a.size and b.size):
            return "no seed has a first and a last best with a meaningful ratio"
        left_out = sum(results[name].final.size for name in self.needs) - a.size - b.size
        evidence = f"{np.median(a):.3g} times against {np.median(b):.3g} times"
        return _tested(a, b, evidence + (f"; {left_out} seeds left out" if left_out else ""))


class Wider(Comparison):
    """One experiment's final results spread more over seeds than another's.

    Exact two-sided Mann-Whitney test of the distances of seeds from the median of their own experiment. Seeds that
    failed are left out and counted.
    """

    type: Literal["wider"] = "wider"

    def test(self, results: Mapping[str, Result]) -> Outcome | str:
        finals = [results[name].final for name in self.needs]
        a, b = (values[np.isfinite(values)] for values in finals)
        if min(a.size, b.size) < 2:
            return "fewer than two seeds have a robot"
        left_out = sum(values.size for values in finals) - a.size - b.size
        evidence = f"σ {a.std():.3g} against {b.std():.3g}" + (f"; {left_out} seeds left out" if left_out else "")
        a, b = (abs(values - np.median(values)) for values in (a, b))
        return _tested(a, b, f"{evidence}; distances from the median {np.median(a):.3g} against {np.median(b):.3g}")


class FaresBetter(Comparison):
    """One experiment's winners are better than another's in some world, where both are simulated alike.

    Each robot counts with the lesser of its medians over trials with default and smallest time steps, a failure less
    than any other. Exact two-sided Mann-Whitney test."""

    type: Literal["fares_better"] = "fares_better"
    world: str
    """the experiment to whose world both go"""

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.experiment, self.than, self.world)))

    def test(self, results: Mapping[str, Result]) -> Outcome | str:
        found = results[self.experiment].exchange
        if found is None:
            return NOT_EXCHANGED
        a, b = (found.fitness(name, self.world) for name in (self.experiment, self.than))
        return _tested(a, b, _against(results[self.experiment], results[self.than], a, b))


class KeepsMore(Comparison):
    """Winners of one experiment keep more of their fitness in another's world than the other's keep in theirs.

    Exact two-sided Mann-Whitney test of the shares that are kept. Robots that get nowhere at home are left out and
    counted.
    """

    type: Literal["keeps_more"] = "keeps_more"

    def test(self, results: Mapping[str, Result]) -> Outcome | str:
        found = results[self.experiment].exchange
        if found is None:
            return NOT_EXCHANGED
        shares = found.kept(self.experiment, self.than), found.kept(self.than, self.experiment)
        a, b = (values[~np.isnan(values)] for values in shares)
        if not (a.size and b.size):
            return "no robot of one of them gets anywhere at home"
        left_out = sum(values.size for values in shares) - a.size - b.size
        evidence = f"{_percent(a)} kept against {_percent(b)}"
        return _tested(a, b, evidence + (f"; {left_out} robots left out" if left_out else ""))


class MoreOf(Comparison):
    """Winners of one experiment have more of a trait, each at home, than another's.

    Exact two-sided Mann-Whitney test. Robots of which it is not known (they failed) are left out and counted.
    """

    type: Literal["more_of"] = "more_of"
    trait: Trait
    """of what"""

    def test(self, results: Mapping[str, Result]) -> Outcome | str:
        found = results[self.experiment].exchange
        if found is None:
            return NOT_EXCHANGED
        values = [found.trait(name, self.trait) for name in self.needs]
        a, b = (each[np.isfinite(each)] for each in values)
        if not (a.size and b.size):
            return "no robot of one of them is left"
        left_out = sum(each.size for each in values) - a.size - b.size
        evidence = f"{np.median(a):.3g} against {np.median(b):.3g}"
        return _tested(a, b, evidence + (f"; {left_out} robots left out" if left_out else ""))


class MetricAbove(Comparison):
    """One experiment's search ends with more of something that searches report themselves than another's.

    Metrics are those of archives and fronts, such as body.coverage or hypervolume; `bodies`, how many different ones
    the population or the archives hold, is reported by all. Exact two-sided Mann-Whitney test.
    """

    type: Literal["metric_above"] = "metric_above"
    metric: str
    """of what"""

    def test(self, results: Mapping[str, Result]) -> Outcome | str:
        metrics = {name: self._metric(results[name].run) for name in self.needs}
        if silent := [name for name, values in metrics.items() if values is None]:
            return f"{silent[0]} reports no metric '{self.metric}'"
        a, b = (np.nan_to_num(values[:, -1], nan=-np.inf) for values in metrics.values() if values is not None)
        return _tested(a, b, f"{float(middle(a)):.3g} against {float(middle(b)):.3g}")

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


def judge(claims: Sequence[Claim], results: Mapping[str, Result]) -> list[Verdict]:
    """Verdicts on claims, those of each family corrected together; results: of experiments that have been run."""
    tested = [_test(claim, results) for claim in claims]
    corrected = np.full(len(claims), np.nan)
    for family in {claim.family for claim in claims}:
        own = [place for place, claim in enumerate(claims) if claim.family == family]
        corrected[own] = holm([one.p if isinstance(one := tested[place], Outcome) else math.nan for place in own])
    return [_verdict(one, float(p)) for one, p in zip(tested, corrected, strict=True)]


def _test(claim: Claim, results: Mapping[str, Result]) -> Outcome | str:
    missing = [name for name in claim.needs if name not in results]
    if missing:
        return f"{', '.join(missing)} missing"
    unfinished = [name for name in claim.needs if not results[name].run.is_finished]
    return f"{', '.join(unfinished)} not finished" if unfinished else claim.test(results)


def _verdict(tested: Outcome | str, p_holm: float) -> Verdict:
    if isinstance(tested, str):
        return Verdict("not run", tested)
    clear = p_holm < SIGNIFICANT
    holds: Holds = "not significant" if not clear else "supported" if tested.as_claimed else "contradicted"
    return Verdict(holds, tested.evidence, tested, p_holm)


def _tested(a: np.ndarray, b: np.ndarray, evidence: str) -> Outcome:
    """The exact Mann-Whitney test of whether the first numbers are larger."""
    effect = float(superiority(a, b))
    return Outcome(evidence, p_value(a, b), effect > 0.5, effect, superiority_interval(a, b))


def _percent(shares: np.ndarray) -> str:
    value = float(middle(shares))
    return f"{100 * value:.0f} %" if math.isfinite(value) else "none"


def gain(result: Result) -> float:
    """Final median over that of the first generation; not a number where a ratio means nothing."""
    first, last = (result.sign * float(middle(values)) for values in (result.during(0.0, 0.0), result.final))
    return last / first if min(first, last) > 0 and math.isfinite(last / first) else math.nan


def _gains(result: Result) -> np.ndarray:
    """Last best over first best of every seed for which that means something."""
    first, last = (result.sign * values for values in (result.during(0.0, 0.0), result.final))
    known = np.isfinite(first) & np.isfinite(last) & (first > 0) & (last > 0)
    return last[known] / first[known]


def median(result: Result, fitness: np.ndarray) -> str:
    """The measure's median over seeds."""
    return number(result.sign * float(middle(fitness)))


def number(value: float) -> str:
    """For people."""
    return f"{value:.3g}" if math.isfinite(value) else "none"


def _against(better: Result, worse: Result, a: np.ndarray, b: np.ndarray) -> str:
    return f"{median(better, a)} against {median(worse, b)}"
