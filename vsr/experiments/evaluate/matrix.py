"""Every robot in every case.

Robots of one shape, in all starts, with all faults and on all grounds that share a program, are one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.episode import rollout, scenario_of
from vsr.experiments.estimate import told_if_exhausted
from vsr.experiments.evaluate.faults import Trials, impaired, trials_of
from vsr.experiments.evaluate.robots import Flock
from vsr.experiments.evaluate.sets import EvaluationSet
from vsr.experiments.evaluate.settings import Setting, fitting, settle
from vsr.experiments.evaluation import Take, begun_from, combined
from vsr.experiments.population import on_all_devices, robots_at_once
from vsr.scene import plan, precision
from vsr.tasks import Task
from vsr.terrain import together
from vsr.world.build import build_systems
from vsr.world.schedule import Schedule

EPISODES_AT_ONCE = {"cpu": 2048}
MANY_AT_ONCE = 65_536
"""Of one call of a program, after which progress is shown: on a processor, and elsewhere."""


@dataclass(frozen=True)
class Matrix:
    """What came of robots in cases."""

    robots: tuple[str, ...]
    sources: tuple[int, ...]
    """of the robots, among the runs and files given"""
    measures: np.ndarray
    """name of what was measured, empty where a case does not suit a robot, (robots, cases)"""
    signs: np.ndarray
    """1 where more is better, -1 where less is, (robots, cases)"""
    values: np.ndarray
    """not a number where a simulation failed, (robots, cases, starts)"""
    take: Take

    @property
    def suits(self) -> np.ndarray:
        """Where robots were simulated, (robots, cases)."""
        return self.measures != ""

    @property
    def taken(self) -> np.ndarray:
        """One number of all starts, not a number where that is a failure or nothing was simulated, (robots, cases)."""
        fitness = np.where(np.isfinite(self.values), self.signs[..., None] * self.values, -np.inf)
        one = self.signs * np.asarray(combined(self.take, jnp.asarray(fitness)))
        return np.where(np.isfinite(one) & self.suits, one, np.nan)

    @property
    def kept(self) -> np.ndarray:
        """Over what the robot reached in the first case, where both are of one measure, (robots, cases).

        0 for a failure; not a number where there is nothing to compare with.
        """
        taken = self.taken
        same = (self.measures == self.measures[:, :1]) & self.suits
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(np.isfinite(taken), taken, 0) / taken[:, :1]
        return np.where(same & np.isfinite(share), share, np.nan)


@dataclass(frozen=True)
class Job:
    """One program, and what it is called with."""

    flock: Flock
    rows: slice
    """numbers of the flock's robots"""
    settings: tuple[Setting, ...]
    """that differ in their grounds only"""
    faults: tuple[str, ...]
    refine: int

    def cases(self, described: EvaluationSet) -> list[int]:
        """Their numbers, the grounds first."""
        known = {case: number for number, case in enumerate(described.cases)}
        return [known[*setting.names, fault] for setting in self.settings for fault in self.faults]

    @property
    def episodes(self) -> int:
        """In each start."""
        return self.flock.size * len(self.settings) * len(self.faults)


def jobs_of(flocks: Sequence[Flock], described: EvaluationSet) -> tuple[list[Job], list[str]]:
    """All programs to run, and what is left out and why."""
    jobs, left, first = [], {}, 0
    for flock in flocks:
        rows = slice(first, first + flock.size)
        first += flock.size
        alike: dict[Any, list[Setting]] = {}
        for names in ((task, ground) for task in described.tasks for ground in described.terrains):
            setting = settle(flock, described, names)
            if isinstance(setting, str):
                left.setdefault((*names, setting), []).append(flock)
            else:
                alike.setdefault(setting.program, []).append(setting)
        for settings in alike.values():
            for factor in dict.fromkeys(fault.refine for fault in described.faults.values()):
                faults = [(name, fault) for name, fault in described.faults.items() if fault.refine == factor]
                names, reasons = fitting(flock, settings[0], faults)
                for name, reason in reasons.items():
                    left.setdefault((settings[0].names[0], name, reason), []).append(flock)
                if names:
                    jobs.append(Job(flock, rows, tuple(settings), tuple(names), factor))
    return jobs, [_left_out(where, whose, flocks) for where, whose in left.items()]


def _left_out(where: tuple[str, str, str], whose: Sequence[Flock], all_of_them: Sequence[Flock]) -> str:
    task, other, reason = where
    count = sum(flock.size for flock in whose)
    total = sum(flock.size for flock in all_of_them)
    return f"{task}, {other}: left out for {'all' if count == total else f'{count} of {total}'} robots: {reason}"


def evaluate(
    flocks: Sequence[Flock], described: EvaluationSet, jobs: Sequence[Job], done: Callable[[int], None]
) -> Matrix:
    """All robots in all cases; done: called with the number of episodes that were simulated since."""
    shape = sum(flock.size for flock in flocks), len(described.cases)
    measures, signs = np.full(shape, "", dtype=object), np.ones(shape)
    values = np.full((*shape, described.starts), np.nan)
    for job in jobs:
        with precision(job.settings[0].physics.precision), told_if_exhausted(()):
            found = _simulated(job, described, done)
        goal = job.settings[0].goal
        for place, case in enumerate(job.cases(described)):
            values[job.rows, case], measures[job.rows, case] = found[:, place], goal.measure
            signs[job.rows, case] = goal.sign
    return Matrix(
        robots=tuple(name for flock in flocks for name in flock.names),
        sources=tuple(source for flock in flocks for source in flock.sources),
        measures=measures,
        signs=signs,
        values=values,
        take=described.take,
    )


def _simulated(job: Job, described: EvaluationSet, done: Callable[[int], None]) -> np.ndarray:
    """Measures, (robots, cases of the job, starts)."""
    flock, setting = job.flock, job.settings[0]
    dtype = jnp.dtype(setting.physics.precision)
    schedule = plan(flock.voxels, flock.materials, setting.world, setting.task, setting.physics)
    occupants = build_systems(setting.world, flock.voxels, schedule, dtype)
    schedule = replace(schedule, substeps=job.refine * schedule.substeps)
    environment = setting.world.build(dtype)
    if len(job.settings) > 1:
        grounds = [one.world.terrain.build(dtype) for one in job.settings if one.world.terrain is not None]
        environment = replace(environment, terrain=together(grounds))
    faults = [described.faults[name] for name in job.faults]
    trials = trials_of(described, faults, len(job.settings), flock.voxels, flock.cells, dtype)
    count = len(trials.dead)
    pairs = np.stack(np.meshgrid(np.arange(flock.size), np.arange(count), indexing="ij"), -1).reshape(-1, 2)
    found = []
    for part in _parts(pairs):
        found.append(
            _measured(
                (flock.models, flock.controllers, trials, environment, occupants),
                jnp.asarray(part),
                schedule=schedule,
                task=setting.task,
                at_once=robots_at_once(len(part), int(np.prod(flock.cells))),
            )
        )
        done(min(len(part), len(pairs) - sum(map(len, found[:-1]))))
    return np.concatenate(list(map(np.asarray, found)))[: len(pairs)].reshape(flock.size, -1, described.starts)


def _parts(pairs: np.ndarray) -> Iterator[np.ndarray]:
    """In equal parts, so that one program does for all; the last is filled up with copies of the first pair."""
    most = EPISODES_AT_ONCE.get(jax.default_backend(), MANY_AT_ONCE)
    size = -(-len(pairs) // -(-len(pairs) // most))
    filled = np.concatenate([pairs, pairs[:1].repeat(-len(pairs) % size, 0)])
    yield from filled.reshape(-1, size, 2)


@partial(jax.jit, static_argnames=("schedule", "task", "at_once"))
def _measured(everything: Any, pairs: Array, *, schedule: Schedule, task: Task, at_once: int) -> Array:
    """The task's first measure of every pair of a robot and a trial."""
    models, controllers, trials, environment, occupants = everything

    def one(pair: Array) -> Array:
        robot, number = pair
        model, controller = jax.tree.map(lambda leaf: leaf[robot], (models, controllers))
        trial: Trials = jax.tree.map(lambda leaf: leaf[number], trials)
        scenario = scenario_of(model, environment, schedule, task, controller.senses, occupants)
        scenario, start = begun_from(scenario, trial.start)
        episode = rollout(scenario, impaired(controller, model.present, trial), start)
        return task.evaluate(episode, task.measures[:1])[task.measures[0]]

    return on_all_devices(one, pairs, at_once)
