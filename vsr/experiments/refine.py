"""The work of `vsr refine`: robots with smaller time steps, in other trials, of other material, with other physics.

A result that vanishes when it is computed better is not a result. No trial is one that evolution selects on: those come
first in the sequence of trials (vsr.experiments.perturbation.starts_of), these after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import ValidationError
from rich.progress import Progress
from rich.table import Table as TextTable

from vsr.arrays import CorruptFileError
from vsr.controllers import Controller
from vsr.environment.model import Sticking
from vsr.episode import Scenario
from vsr.experiments.console import busy, console_for_tables, say
from vsr.experiments.devices import check_implementation, prepare
from vsr.experiments.formatting import number
from vsr.experiments.memory import explain_out_of_memory, needs_of_refining, require_memory
from vsr.experiments.options import RefineOptions
from vsr.experiments.perturbation import MOST_TRIALS, InitialNoise, Perturbation, perturbations_of, rollout_from
from vsr.experiments.resimulate import Job, StoredRobot, Table, batches_of, job_of, read_robots, resimulate
from vsr.experiments.shipped import SCENE, find_config
from vsr.experiments.storage.files import (
    json_result,
    read_checked_json,
    replace_when_closed,
    require_writable,
    target_file,
    without_nan,
    write_checked_json,
)
from vsr.experiments.storage.runs import Run, read_run, trust_plugins
from vsr.scene import Scene, precision
from vsr.world.spec import World

CHANGES = (("frequency", 0.01), ("damping", 0.02), ("friction", 0.02))
"""Parameters that are changed, one after the other, up and down by these shares."""
LOST = 0.8
"""A trial is lost whose measure is worse than this share of the median with the first factor."""
CHANGED = 0.1
"""A variant that changes the median by more than this share is marked."""
MARK = " !"
"""Behind the share of such a variant."""
STORED = "refinement.json"
"""In a run folder, for its report."""
PICTURES = (".png", ".pdf", ".svg")

Variant = tuple[str, str, dict[str, Any]]
"""A label, a part of a scene, and fields of this part with their other values."""
VARIANTS: tuple[Variant, ...] = tuple(
    (f"sticking: {value}", "world", {"sticking": value}) for value in get_args(Sticking) if value != World().sticking
)
"""Rules of sticking to the ground that are tried: a robot must not depend on one of them."""


# Numbers


@dataclass(frozen=True)
class Robustness:
    """Results of robots; measures are not a number where a simulation failed."""

    factors: tuple[int, ...]
    """by which time steps were smaller"""
    refined: np.ndarray
    """(robots, factors, trials)"""
    changes: tuple[str, ...]
    """changed parameters: 'frequency -1 %'"""
    changed: np.ndarray
    """with the first factor, (robots, changes, trials)"""
    minimized: bool | Sequence[bool] = False
    """whether less is better, for all robots or each of them"""
    variants: tuple[str, ...] = ()
    """labels of other physics"""
    varied: np.ndarray | None = None
    """with the first factor, (robots, variants, trials)"""
    tried: np.ndarray | None = None
    """False for robots that cannot have such physics, (robots, variants)"""

    @property
    def sign(self) -> np.ndarray:
        """-1 where less is better, else 1, (robots, 1)."""
        return np.where(np.broadcast_to(self.minimized, len(self.refined)), -1.0, 1.0)[:, None]

    @property
    def table(self) -> Table:
        """All of them, the factors first, then the changes, then the variants."""
        every = [self.refined, self.changed, *([] if self.varied is None else [self.varied])]
        return Table(np.concatenate(every, 1), self.sign)

    def at(self, factor: int) -> np.ndarray:
        """Every robot's median over trials, in which a failure is worse than any other; NaN if half of them failed."""
        return self.table.aggregated[:, self.factors.index(factor)]

    @property
    def kept(self) -> np.ndarray:
        """Median with the smallest time steps over that with the first, (robots,): 0 if it failed, NaN if both did."""
        return self.table.kept[:, len(self.factors) - 1]

    @property
    def most_changed(self) -> np.ndarray:
        """Of the medians with a changed parameter over that without, the one farthest from 1, (robots,)."""
        if not self.changes:
            return np.full(len(self.refined), np.nan)
        ratios = self.table.kept[:, len(self.factors) :][:, : len(self.changes)]
        farthest = np.argmax(np.nan_to_num(abs(ratios - 1), nan=np.inf), 1)
        return np.take_along_axis(ratios, farthest[:, None], 1)[:, 0]

    @property
    def kept_by_variant(self) -> np.ndarray:
        """Median with each other physics over that without, (robots, variants): 0 if only that failed, else NaN."""
        if self.tried is None or not self.variants:
            return np.empty((len(self.refined), 0))
        return np.where(self.tried, self.table.kept[:, -len(self.variants) :], np.nan)

    @property
    def is_lost(self) -> np.ndarray:
        """True for trials that failed, or are worse than LOST of the first factor's median, (robots, factors, trials).

        A median may hold while single trials collapse.
        """
        first = (self.sign[:, 0] * self.at(self.factors[0]))[:, None, None]
        return ~(self.sign[..., None] * self.refined >= first - (1 - LOST) * abs(first))

    @property
    def lost(self) -> np.ndarray:
        """Share of trials that are lost, not a number if there is no first median, (robots, factors)."""
        known = np.isfinite(self.at(self.factors[0]))[:, None]
        return np.where(known, self.is_lost.mean(-1), np.nan)

    def some(self, which: slice) -> Robustness:
        """Of some of the robots."""
        each = {name: getattr(self, name) for name in ("refined", "changed", "varied", "tried")}
        minimized = np.broadcast_to(self.minimized, len(self.refined))[which].tolist()
        return replace(self, minimized=minimized, **{n: v if v is None else v[which] for n, v in each.items()})

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "factors": list(self.factors),
            "refined": self.refined.tolist(),
            "changes": list(self.changes),
            "changed": self.changed.tolist(),
            "minimized": np.broadcast_to(self.minimized, len(self.refined)).tolist(),
            "lost": self.lost.tolist(),
            "variants": list(self.variants),
            "varied": [] if self.varied is None else self.varied.tolist(),
            "tried": [] if self.tried is None else self.tried.tolist(),
        }

    @staticmethod
    def of_plain(stored: dict[str, Any]) -> Robustness:
        """The reverse; raises ValueError, KeyError or TypeError for what is none."""
        changes, variants = tuple(stored["changes"]), tuple(stored.get("variants", ()))
        refined = np.array(stored["refined"], float)
        robots, _, trials = refined.shape
        return Robustness(
            tuple(stored["factors"]),
            refined,
            changes,
            np.array(stored["changed"], float).reshape(robots, len(changes), trials),
            stored.get("minimized", False),
            variants,
            np.array(stored["varied"], float) if variants else None,
            np.array(stored["tried"], bool) if variants else None,
        )


def robustness_of(
    scenes: Sequence[Scene],
    measures: Sequence[str],
    *,
    factors: Sequence[int],
    trials: int,
    height: float | None = None,
    changes: Sequence[tuple[str, float]] = CHANGES,
    variants: Sequence[Variant] = VARIANTS,
    minimized: bool | Sequence[bool] = False,
    done: Callable[[int, int], None] = lambda episodes, total: None,
) -> Robustness:
    """Of every scene its measure; done: called with the number of episodes that were simulated since, and of all.

    height: most that trials begin higher [m]; if absent, that of Jitter for such voxels.
    """
    jobs = jobs_of(range(len(scenes)), scenes, measures, factors, trials, height, changes)
    first = len(factors) + 2 * len(changes)
    same: dict[int, list[int]] = {}
    tried = np.zeros((len(scenes), len(variants)), bool)
    for i, variant in enumerate(variants):
        same[first + i], others = _with_variant(scenes, variant)
        tried[[*same[first + i], *others], i] = True
        there, own = list(others.values()), [measures[row] for row in others]
        jobs += jobs_of(list(others), there, own, factors[:1], trials, height, (), first + i)
    total = sum(job.episodes for job in jobs)
    shape = len(scenes), first + len(variants), trials
    found = resimulate(jobs, shape, lambda episodes: done(episodes, total)).astype(float)
    for column, rows_of_same in same.items():
        found[rows_of_same, column] = found[rows_of_same, 0]
    refined, changed, varied = np.split(found, (len(factors), first), 1)
    labels = tuple(f"{name} {100 * sign * share:+g} %" for name, share in changes for sign in (-1, 1))
    names = tuple(label for label, *_ in variants)
    return Robustness(tuple(factors), refined, labels, changed, minimized, names, varied, tried)


def _with_variant(scenes: Sequence[Scene], variant: Variant) -> tuple[list[int], dict[int, Scene]]:
    """Rows of scenes that are so already, and others made so; without those that cannot be."""
    _, part, fields = variant
    same, others = [], {}
    for row, scene in enumerate(scenes):
        parts: dict[str, Any] = {name: getattr(scene, name) for name in type(scene).model_fields}
        if all(getattr(parts[part], name) == value for name, value in fields.items()):
            same.append(row)
            continue
        parts[part] = parts[part].model_copy(update=fields)
        try:
            others[row] = type(scene)(**parts)
        except ValidationError:
            continue
    return same, others


def jobs_of(
    all_rows: Sequence[int],
    scenes: Sequence[Scene],
    measures: Sequence[str],
    factors: Sequence[int],
    trials: int,
    height: float | None,
    changes: Sequence[tuple[str, float]],
    column: int = 0,
) -> list[Job]:
    """A job for each batch with each factor, then with each change up and down.

    all_rows: of the table, one for each scene; column: of the first factor.
    """
    jitters = [
        InitialNoise().for_voxels(scene.robot.body) if height is None else InitialNoise(height=height)
        for scene in scenes
    ]
    jobs = []
    for batch in batches_of(scenes, list(zip(measures, jitters, strict=True)), Scene.build):
        measure, jitter = batch.kind
        with precision(batch.precision):
            variations = list(variations_of(factors, trials, jitter, changes, jnp.dtype(batch.precision)))
        jobs += [
            job_of(batch, all_rows, i, factor, differing, MeasureEpisode(measure))
            for i, (factor, differing) in enumerate(variations, column)
        ]
    return jobs


def variations_of(
    factors: Sequence[int], trials: int, jitter: InitialNoise, changes: Sequence[tuple[str, float]], dtype: jnp.dtype
) -> Iterator[tuple[int, Perturbation]]:
    """By which factor time steps are smaller, and the trials, (trials,).

    All have all factors of parameters, so that those with the same steps share one program.
    """
    given = perturbations_of(jitter, trials, dtype, after=MOST_TRIALS)
    undisturbed = {"higher": 0, "frequency": 1, "damping": 1, "friction": 1}
    missing = {name: value for name, value in undisturbed.items() if getattr(given, name) is None}
    complete = given._replace(**{name: jnp.full(trials, value, dtype) for name, value in missing.items()})
    yield from ((factor, complete) for factor in factors)
    for name, share in changes:
        for sign in (-1, 1):
            yield factors[0], complete._replace(**{name: jnp.full(trials, 1 + sign * share, dtype)})


@dataclass(frozen=True)
class MeasureEpisode:
    """An episode of which one measure is observed."""

    measure: str

    def __call__(self, robot: tuple[Scenario, Controller], trial: Perturbation, _: Any) -> Array:
        scenario, controller = robot
        return scenario.task.evaluate(rollout_from(scenario, controller, trial), (self.measure,))[self.measure]


# The command


def refine(options: RefineOptions) -> None:
    """Simulate again, print the table, write what is asked for."""
    prepare(options.device)
    picture = None if options.plot is None else target_file("--plot", options.plot, PICTURES)
    if options.trust_plugins:
        trust_plugins(options.given)
    for name in options.given:
        if Path(name).is_dir() and not options.settings:
            require_writable(Path(name), Path(name) / STORED)
    with json_result(options.json) as write:
        _refine(options, picture, write)


def _refine(options: RefineOptions, picture: Path | None, write: Callable[[Any], None]) -> None:
    sources = {
        name: read_robots(find_config(name, SCENE, folders=True), options.settings)
        for name in dict.fromkeys(options.given)
    }
    _distinguish(sources)
    robots = [robot for of_source in sources.values() for robot in of_source]
    scenes = [robot.scene for robot in robots]
    for scene in scenes:
        check_implementation(scene.physics)
    needs = needs_of_refining(scenes, options.trials, len(options.factors) + 2 * len(CHANGES) + len(VARIANTS))
    require_memory("vsr refine", needs)
    with (
        explain_out_of_memory(needs),
        Progress(transient=True) as progress,
        busy("simulating", counting=False),
    ):
        task = progress.add_task(f"{len(robots)} robots again", total=None)
        found = robustness_of(
            scenes,
            [robot.goal.measure for robot in robots],
            factors=options.factors,
            trials=options.trials,
            minimized=[robot.goal.sign < 0 for robot in robots],
            done=lambda episodes, total: progress.update(task, advance=episodes, total=total),
        )
    show(robots, found)
    write(as_plain(robots, found))
    if picture is not None:
        goals = {robot.goal.measure for robot in robots}
        label = goals.pop() if len(goals) == 1 else "measure"
        plot_robustness([robot.name for robot in robots], found, label, picture)
    first = 0
    for name, of_source in sources.items():
        own = found.some(slice(first, first + len(of_source)))
        first += len(of_source)
        if Path(name).is_dir() and not options.settings:  # else it would be about other robots than the run's
            write_checked_json(Path(name) / STORED, {**as_plain(of_source, own), **stamp(read_run(name))})


def _distinguish(sources: dict[str, list[StoredRobot]]) -> None:
    """Robots of different files have different names: where short ones are alike, the paths given stand before them."""
    short = [robot.name for robots in sources.values() for robot in robots]
    for given, robots in sources.items():
        sources[given] = [
            replace(robot, name=f"{given}: {robot.name}") if short.count(robot.name) > 1 else robot for robot in robots
        ]


def as_plain(robots: Sequence[StoredRobot], found: Robustness) -> dict[str, Any]:
    """As JSON has it."""
    named = [{"name": robot.name, "measure": robot.goal.measure, "file": robot.value} for robot in robots]
    return without_nan({"robots": named, **found.to_plain()})


def stamp(run: Run) -> dict[str, Any]:
    """The identity of a run's state."""
    return without_nan({"generations": run.generations, "final": run.best[:, -1].tolist()})


def stored_refinement(run: Run) -> dict[str, Any] | None:
    """The results stored in a run folder; None if there are none, or if the run has gone on since."""
    try:
        stored = read_checked_json(run.path / STORED)
        return stored if {name: stored[name] for name in stamp(run)} == stamp(run) else None
    except (CorruptFileError, KeyError):
        return None


def show(robots: Sequence[StoredRobot], found: Robustness) -> None:
    """The table, and what it comes to."""
    table = TextTable(box=None)
    for i, name in enumerate(head(found)):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows([(robot.name, robot.value) for robot in robots], found):
        table.add_row(*row)
    console_for_tables().print(table)
    say(summary(found))


def head(found: Robustness) -> list[str]:
    """Names of the columns."""
    medians = [f"x{factor}" for factor in found.factors]
    lost = [f"lost x{factor}" for factor in _ends(found)]
    spread = f"spread x{found.factors[0]}"
    return ["robot", "its file", *medians, spread, "kept", *lost, "most changed", *found.variants]


def _ends(found: Robustness) -> tuple[int, ...]:
    """The first factor and the last one."""
    return tuple(dict.fromkeys((found.factors[0], found.factors[-1])))


def rows(robots: Sequence[tuple[str, float | None]], found: Robustness) -> list[list[str]]:
    """One for each robot, as text; robots: names, and the claims of their files."""
    medians = [found.at(factor) for factor in found.factors]
    shown = []
    for i, (name, value) in enumerate(robots):
        first = found.refined[i, 0]
        ends = [float(end(first)) for end in (np.nanmin, np.nanmax)] if np.isfinite(first).any() else []
        lost = [_share(found.lost[i, found.factors.index(factor)]) for factor in _ends(found)]
        variants = [_share(kept) + (MARK if _differs(kept) else "") for kept in found.kept_by_variant[i]]
        shown.append(
            [
                name,
                "" if value is None else number(value),
                *(number(float(median[i])) for median in medians),
                " to ".join(map(number, ends)),
                _share(found.kept[i]),
                *lost,
                _share(found.most_changed[i]),
                *variants,
            ]
        )
    return shown


def _share(value: float) -> str:
    return f"{100 * value:.0f} %" if np.isfinite(value) else ""


def _differs(kept: float | np.ndarray) -> Any:
    """Whether a variant changes the median by more than CHANGED."""
    return abs(np.asarray(kept) - 1) > CHANGED


def summary(found: Robustness) -> str:
    """In a few sentences: how many robots keep their fitness, in how many trials it is lost, and what changes it."""
    kept = found.kept[np.isfinite(found.kept)]
    if not len(kept):
        return "none could be simulated again"
    near = int((abs(kept - 1) <= 0.1).sum())
    lost = found.lost[:, -1]
    said = [
        f"with time steps {found.factors[-1]} times smaller the median robot "
        f"keeps {100 * np.median(kept):.1f} % of its "
        f"measure, {near} of {len(found.kept)} keep it within 10 %, the worst keeps {100 * kept.min():.0f} %",
        f"{100 * np.nanmean(lost):.0f} % of all trials are then below {100 * LOST:.0f} % of the x{found.factors[0]} "
        f"median, in {int((lost > 0).sum())} of {len(lost)} robots",
    ]
    differing = zip(found.variants, _differs(found.kept_by_variant).sum(0), strict=True)
    said += [f"{changed} of {len(lost)} robots change by more than 10 % with {label}" for label, changed in differing]
    return "; ".join(said)


def plot_robustness(names: Sequence[str], found: Robustness, measure: str, target: Path) -> None:
    """Median over trials of every robot, with the range of its trials; a cross for every trial that is lost."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for i, name in enumerate(names):
        values, lost = found.refined[i], found.lost[i, -1]
        medians = [found.at(factor)[i] for factor in found.factors]
        # Failed trials have no place in the figure.
        label = name + (f", {100 * lost:.0f} % of trials lost" if lost > 0 else "")
        (line,) = axes.plot(found.factors, medians, marker="o", markersize=3, label=label)
        known = np.isfinite(values).any(1)
        low, high = (edge(values[known], 1) for edge in (np.nanmin, np.nanmax))
        factors = np.array(found.factors)[known]
        axes.fill_between(factors, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        steps = np.broadcast_to(np.array(found.factors)[:, None], values.shape)
        axes.plot(steps[found.is_lost[i]], values[found.is_lost[i]], "x", color=line.get_color(), markersize=4)
    axes.set_xscale("log", base=2)
    axes.set_xticks(found.factors, [f"{factor}" for factor in found.factors])
    axes.set(xlabel="time steps, times smaller", ylabel=measure.replace("_", " "))
    if len(names) <= 10:
        axes.legend(fontsize="x-small")
    with replace_when_closed(target) as partial:
        figure.savefig(partial, format=target.suffix[1:])
