"""Robots simulated again: with finer steps, from other starts, of slightly different material.

A result that vanishes when it is computed better is not a result. Robots whose arrays have the same shapes are
simulated together, all starts of all of them in one batch.
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

from vsr.controllers import Controller
from vsr.episode import Scenario
from vsr.experiments.evaluation import Jitter, Start, rollout_from, starts_of
from vsr.experiments.population import on_all_devices, robots_at_once, stack
from vsr.scene import Scene, precision

CHANGES = (("frequency", 0.01), ("damping", 0.02), ("friction", 0.02))
"""Parameters that are changed, one after the other, up and down by these shares."""

Case = tuple[int, Start]
"""By which factor steps are finer, and the starts, (starts,)."""


@dataclass(frozen=True)
class Robustness:
    """What came of robots; measures are not a number where a simulation failed."""

    factors: tuple[int, ...]
    """by which steps were finer"""
    refined: np.ndarray
    """(robots, factors, starts)"""
    changes: tuple[str, ...]
    """what was changed: 'frequency -1 %'"""
    changed: np.ndarray
    """with the first factor, (robots, changes, starts)"""
    minimised: bool = False
    """whether less is better"""

    def at(self, factor: int) -> np.ndarray:
        """Every robot's median over starts, in which a failure is worse than any other; NaN if half of them failed."""
        return self.median(self.refined[:, self.factors.index(factor)])

    def median(self, values: np.ndarray) -> np.ndarray:
        """Over starts, (robots,), likewise."""
        sound = np.isnan(values).mean(1) < 0.5
        worst = np.inf if self.minimised else -np.inf
        return np.where(sound, np.median(np.where(np.isnan(values), worst, values), 1), np.nan)

    @property
    def kept(self) -> np.ndarray:
        """Median with the finest steps over that with the first, (robots,): 0 if only that failed, NaN if both did."""
        first, last = self.at(self.factors[0]), self.at(self.factors[-1])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(np.isfinite(first) & np.isnan(last), 0, last / first)

    @property
    def most_changed(self) -> np.ndarray:
        """Of the medians with a changed parameter over that without, the one farthest from 1, (robots,)."""
        if not self.changes:
            return np.full(len(self.refined), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            medians = np.stack([self.median(self.changed[:, i]) for i in range(len(self.changes))], 1)
            first = self.at(self.factors[0])[:, None]
            ratios = np.where(np.isfinite(first) & np.isnan(medians), 0, medians / first)
        farthest = np.argmax(np.nan_to_num(abs(ratios - 1), nan=np.inf), 1)
        return np.take_along_axis(ratios, farthest[:, None], 1)[:, 0]

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "factors": list(self.factors),
            "refined": self.refined.tolist(),
            "changes": list(self.changes),
            "changed": self.changed.tolist(),
            "minimised": self.minimised,
        }

    @staticmethod
    def of_plain(stored: dict[str, Any]) -> Robustness:
        """The reverse."""
        return Robustness(
            tuple(stored["factors"]),
            np.array(stored["refined"], float),
            tuple(stored["changes"]),
            np.array(stored["changed"], float),
            bool(stored.get("minimised", False)),
        )


def robustness_of(
    scenes: Sequence[Scene],
    measures: Sequence[str],
    *,
    factors: Sequence[int],
    starts: int,
    height: float | None = None,
    changes: Sequence[tuple[str, float]] = CHANGES,
    minimised: bool = False,
    done: Callable[[], None] = lambda: None,
) -> Robustness:
    """Of every scene its measure; done: called after each of `batches_of`.

    height: most that starts are higher [m]; if absent, that of Jitter for such voxels.
    """
    labels = [f"{name} {100 * sign * share:+g} %" for name, share in changes for sign in (-1, 1)]
    found = np.full((len(scenes), len(factors) + len(labels), starts), np.nan)
    for group in groups_of(scenes, measures):
        with precision(group.precision):
            jitter = group.jitter if height is None else Jitter(height=height)
            cases = _cases(factors, starts, jitter, changes, jnp.dtype(group.precision))
            for i, (factor, differing) in enumerate(cases):
                found[group.places, i] = group.measured(factor, differing)
                done()
    count = len(factors)
    return Robustness(tuple(factors), found[:, :count], tuple(labels), found[:, count:], minimised)


def _cases(
    factors: Sequence[int], starts: int, jitter: Jitter, changes: Sequence[tuple[str, float]], dtype: jnp.dtype
) -> Iterator[Case]:
    """All have all factors of parameters, so that those with the same steps share one program."""
    given = starts_of(jitter, starts, dtype)
    undisturbed = {"higher": 0, "frequency": 1, "damping": 1, "friction": 1}
    missing = {name: value for name, value in undisturbed.items() if getattr(given, name) is None}
    usual = given._replace(**{name: jnp.full(starts, value, dtype) for name, value in missing.items()})
    yield from ((factor, usual) for factor in factors)
    for name, share in changes:
        for sign in (-1, 1):
            yield factors[0], usual._replace(**{name: jnp.full(starts, 1 + sign * share, dtype)})


def batches_of(scenes: Sequence[Scene], measures: Sequence[str], factors: int, changes: int = len(CHANGES)) -> int:
    """How often `done` will be called."""
    return len(groups_of(scenes, measures)) * (factors + 2 * changes)


@dataclass(frozen=True)
class Group:
    """Robots that can be simulated together."""

    places: list[int]
    """among all"""
    scenario: Scenario
    """with a leading axis (robots,)"""
    controller: Controller
    measure: str
    precision: str
    jitter: Jitter
    """that suits their voxels"""

    def measured(self, factor: int, differing: Start) -> np.ndarray:
        """(robots, starts)"""
        robots, at_once = self.in_starts(factor, differing)
        values = _measured(robots, measure=self.measure, at_once=at_once)
        return np.asarray(values).reshape(len(self.places), -1)

    def in_starts(self, factor: int, differing: Start) -> tuple[tuple[Scenario, Controller, Start], int]:
        """Every robot in every start, (robots * starts,), with finer steps, and how many to simulate at once."""
        schedule = self.scenario.schedule
        scenario = replace(self.scenario, schedule=replace(schedule, substeps=factor * schedule.substeps))
        robots = len(self.places)
        starts = jax.tree.leaves(differing)[0].shape[0]
        everyone = jax.tree.map(lambda leaf: jnp.repeat(leaf, starts, 0), (scenario, self.controller))
        each = jax.tree.map(lambda leaf: jnp.tile(leaf, robots), differing)
        cells = int(np.prod(scenario.model.present.shape[1:]))
        return (*everyone, each), robots_at_once(robots * starts, cells)


@partial(jax.jit, static_argnames=("measure", "at_once"))
def _measured(robots: Any, *, measure: str, at_once: int) -> Array:
    def one(robot: tuple[Scenario, Controller, Start]) -> Array:
        scenario, controller, start = robot
        return scenario.task.evaluate(rollout_from(scenario, controller, start), (measure,))[measure]

    return on_all_devices(one, robots, at_once)


def groups_of(
    scenes: Sequence[Scene],
    measures: Sequence[str],
    build: Callable[[Scene], tuple[Scenario, Controller]] = Scene.build,
) -> list[Group]:
    """Scenes by the shapes of their arrays; build: makes these."""
    built: dict[Any, list[tuple[int, Any]]] = {}
    for place, (scene, measure) in enumerate(zip(scenes, measures, strict=True)):
        with precision(scene.physics.precision):
            arrays = build(scene)
        leaves, structure = jax.tree.flatten(arrays)
        shapes, jitter = tuple((leaf.shape, leaf.dtype) for leaf in leaves), Jitter().for_voxels(scene.robot.body)
        kind = structure, shapes, measure, scene.physics.precision, jitter
        built.setdefault(kind, []).append((place, arrays))
    groups = []
    for (_, _, measure, exactness, jitter), members in built.items():
        with precision(exactness):
            arrays = stack([arrays for _, arrays in members])
        places = [place for place, _ in members]
        groups.append(Group(places, *arrays, measure=measure, precision=exactness, jitter=jitter))
    return groups
