"""Robots simulated again: robots x variations x trials to a table, for `vsr refine`, `evaluate`, `verify`, `reproduce`.

Robots whose arrays have equal shapes are one batch. A job is every robot of a batch in every trial of some variations,
such as smaller time steps, other materials or other grounds: one program, compiled once, which runs on all devices, in
calls of a limited number of episodes. Programs are compiled side by side, since compiling takes longer than simulating
on an accelerator. A trial that fails is kept, as not a number, and counts as worse than any other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.stages import Compiled, Lowered

from vsr.experiments.config import EVOLVED, UserError, load
from vsr.experiments.config.loading import with_settings
from vsr.experiments.config.yaml import read_yaml
from vsr.experiments.console import warn
from vsr.experiments.experiment import Experiment, Fitness
from vsr.experiments.perturbation import Aggregate
from vsr.experiments.population import on_all_devices, robots_at_once, stack
from vsr.experiments.storage.robots import load_robot, read_title, robot_file
from vsr.experiments.storage.runs import read_run
from vsr.scene import Scene, precision

EPISODES_IN_A_CALL = {"cpu": 2048}
MANY_IN_A_CALL = 65_536
"""Most episodes of one call of a program, after which progress is shown: on a processor, and elsewhere."""
AGGREGATES = {"median": np.median, "mean": np.mean, "worst": np.min}

Episode = Callable[[Any, Any, Any], Any]
"""From arrays of one robot, of one trial, and those that all share, to what is observed. It is a part of the program,
so it must be hashable: a function, or a frozen dataclass that can be called."""


# Robots


@dataclass(frozen=True)
class StoredRobot:
    """A robot to simulate again, as a file or a run has it."""

    name: str
    scene: Scene
    goal: Fitness
    """fitness that it was selected for"""
    value: float | None
    """value of that fitness in its file"""


def read_robots(path: Path, settings: Sequence[str] = ()) -> list[StoredRobot]:
    """The robot of a file, or every seed's best of a run, with values set over theirs (`path=value`).

    Raises UserError if there is none.
    """
    if not path.is_dir():
        return [_read_robot(path, settings)]
    run = read_run(path)
    warn(run.warnings)
    robots = []
    for index, seed in enumerate(run.experiment.seeds):
        file = robot_file(run.path, seed)
        if file.is_file():
            title = read_title(file)
            value = None if title is None else title.value
            scene = with_settings(load_robot(file), settings, str(file))
            robots.append(StoredRobot(f"{run.name}, seed {seed}", scene, run.experiment.fitness, value))
        elif np.isfinite(run.best[index, -1]):
            warn([f"{file}: missing, so that seed {seed} is left out"])
    if not robots:
        raise UserError(f"{path}: it keeps no best robot yet")
    return robots


def _read_robot(path: Path, settings: Sequence[str]) -> StoredRobot:
    scene = load(path, settings)
    if isinstance(scene, Experiment):
        raise UserError(f"{path}: its robot is still to evolve; give vsr evolve this file, then vsr refine the run")
    title = read_title(path)
    if title is not None and title.measure in scene.task.known_measures():
        measure, value = title.measure, title.value
    else:
        measures = scene.task.measures
        measure, value = "relative_velocity" if "relative_velocity" in measures else measures[0], None
    # The block `evolved` states whether less was better.
    evolved: Any = (read_yaml(path).data or {}).get(EVOLVED)
    for key in ("experiment", "fitness", "direction"):
        evolved = evolved.get(key) if isinstance(evolved, dict) else None
    goal = Fitness(measure=measure, direction="minimize" if evolved == "minimize" else "maximize")
    return StoredRobot(path.stem, scene, goal, value)


@dataclass(frozen=True)
class RobotBatch:
    """Robots of one kind whose arrays have equal shapes."""

    rows: list[int]
    """their numbers among all"""
    arrays: Any
    """built models and controllers, with a leading axis (robots,)"""
    kind: Any
    precision: str


def batches_of(scenes: Sequence[Scene], kinds: Sequence[Any], build: Callable[[Scene], Any]) -> list[RobotBatch]:
    """Scenes by the shapes of what `build` makes of them; kinds: hashable, of each scene, what all of a batch share."""
    alike: dict[Any, list[tuple[int, Any]]] = {}
    for row, (scene, kind) in enumerate(zip(scenes, kinds, strict=True)):
        with precision(scene.physics.precision):
            arrays = build(scene)
        leaves, structure = jax.tree.flatten(arrays)
        shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        alike.setdefault((kind, scene.physics.precision, structure, shapes), []).append((row, arrays))
    batches = []
    for (kind, exactness, *_), members in alike.items():
        with precision(exactness):
            arrays = stack([arrays for _, arrays in members])
        batches.append(RobotBatch([row for row, _ in members], arrays, kind, exactness))
    return batches


# Simulation


@dataclass(frozen=True)
class Job:
    """Every robot of a batch in every trial of some variations, by one program."""

    rows: Sequence[int]
    """of the table, one for each robot"""
    columns: Sequence[int]
    """of the table, one for each variation"""
    robots: Any
    """with a leading axis (robots,)"""
    trials: Any
    """with a leading axis (variations * trials,), the variations first"""
    episode: Episode
    cells: int
    """of a robot's grid"""
    precision: str
    shared: Any = None
    """further arrays, the same for all episodes"""

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many robots, variations, and trials of each variation."""
        trials = jax.tree.leaves(self.trials)[0].shape[0]
        return len(self.rows), len(self.columns), trials // len(self.columns)

    @property
    def episodes(self) -> int:
        """How many are simulated."""
        return int(np.prod(self.shape))

    def calls(self) -> np.ndarray:
        """Numbers of robot and trial of each episode, (calls, episodes, 2).

        Calls are equally long, so that one program serves all; copies of the first episode fill up the last.
        """
        robots, trials = self.shape[0], self.shape[1] * self.shape[2]
        pairs = np.stack(np.divmod(np.arange(robots * trials, dtype=np.int32), trials), -1)
        most = EPISODES_IN_A_CALL.get(jax.default_backend(), MANY_IN_A_CALL)
        size = -(-len(pairs) // -(-len(pairs) // most))
        return np.concatenate([pairs, pairs[:1].repeat(-len(pairs) % size, 0)]).reshape(-1, size, 2)

    def lowered(self) -> Lowered:
        """The program, still to be compiled."""
        pairs = self.calls()[0]
        at_once = robots_at_once(len(pairs), self.cells)
        with precision(self.precision):
            return _observe.lower(self.robots, self.trials, self.shared, pairs, episode=self.episode, at_once=at_once)

    def run(self, program: Compiled, done: Callable[[int], None]) -> Any:
        """Observations, (robots, variations, trials, ...) each; done: see `simulate_jobs`."""
        found, left = [], self.episodes
        with precision(self.precision):
            for pairs in self.calls():
                found.append(jax.device_get(program(self.robots, self.trials, self.shared, pairs)))
                done(min(left, len(pairs)))
                left -= len(pairs)
        joined = jax.tree.map(lambda *parts: np.concatenate(parts)[: self.episodes], *found)
        return jax.tree.map(lambda leaf: leaf.reshape(*self.shape, *leaf.shape[1:]), joined)


def job_of(batch: RobotBatch, all_rows: Sequence[int], column: int, factor: int, trials: Any, episode: Episode) -> Job:
    """One variation of a batch of `Scene.build`: smaller time steps, and trials; all_rows: of all scenes."""
    scenario, controller = batch.arrays
    schedule = replace(scenario.schedule, substeps=factor * scenario.schedule.substeps)
    return Job(
        rows=[all_rows[row] for row in batch.rows],
        columns=[column],
        robots=(replace(scenario, schedule=schedule), controller),
        trials=trials,
        episode=episode,
        cells=int(np.prod(scenario.model.present.shape[1:])),
        precision=batch.precision,
    )


@partial(jax.jit, static_argnames=("episode", "at_once"))
def _observe(robots: Any, trials: Any, shared: Any, pairs: Array, *, episode: Episode, at_once: int) -> Any:
    def one(pair: Array) -> Any:
        robot = jax.tree.map(lambda leaf: leaf[pair[0]], robots)
        trial = jax.tree.map(lambda leaf: leaf[pair[1]], trials)
        return episode(robot, trial, shared)

    return on_all_devices(one, pairs, at_once)


def simulate_jobs(
    jobs: Sequence[Job], done: Callable[[int], None] = lambda episodes: None
) -> Iterator[tuple[Job, Any]]:
    """Each job with what was observed, (robots, variations, trials, ...) each, one after the other.

    done: called with the number of episodes that were simulated since.
    """
    lowered = [job.lowered() for job in jobs]  # JAX compiles equal ones once
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for job, program in zip(jobs, pool.map(Lowered.compile, lowered), strict=True):
            yield job, job.run(program, done)


def resimulate(
    jobs: Sequence[Job], shape: tuple[int, int, int], done: Callable[[int], None] = lambda episodes: None
) -> np.ndarray:
    """Measures, `shape` = (robots, variations, trials); not a number where an episode failed or no job has it."""
    found = list(simulate_jobs(jobs, done))
    values = np.full(shape, np.nan, np.result_type(np.float32, *(own.dtype for _, own in found)))
    for job, own in found:
        values[np.ix_(job.rows, job.columns)] = own
    return values


# Tables


def aggregate(values: np.ndarray, sign: np.ndarray | float = 1.0, how: Aggregate = "median") -> np.ndarray:
    """One number of all trials, a failure being worse than any other; not a number where it is one itself.

    values: (..., trials), not a number for a failure; sign: 1 where more is better, -1 where less is, (...).
    """
    sign = np.broadcast_to(sign, values.shape[:-1])
    fitness = np.where(np.isfinite(values), sign[..., None].astype(values.dtype) * values, -np.inf)
    one = AGGREGATES[how](fitness, axis=-1)
    return np.where(np.isfinite(one), sign * one, np.nan)


def share_kept(aggregated: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Ratio of numbers to others: 0 where only the former failed, not a number where there is no ratio."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(np.isfinite(aggregated), aggregated, 0) / first
    return np.where(np.isfinite(share), share, np.nan)


@dataclass(frozen=True)
class Table:
    """Results of robots in all trials of variations."""

    values: np.ndarray
    """measures, not a number where an episode failed, (robots, variations, trials)"""
    sign: np.ndarray
    """1 where more is better, -1 where less is, (robots, variations)"""
    how: Aggregate = "median"
    """which number of several trials counts"""

    @property
    def aggregated(self) -> np.ndarray:
        """One number of all trials, see `aggregate`, (robots, variations)."""
        return aggregate(self.values, self.sign, self.how)

    @property
    def kept(self) -> np.ndarray:
        """These over the first variation's, see `share_kept`, (robots, variations)."""
        aggregated = self.aggregated
        return share_kept(aggregated, aggregated[:, :1])
