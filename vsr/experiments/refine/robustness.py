"""Robots simulated again: with smaller time steps, in other trials, of slightly different material, with other physics.

A result that vanishes when it is computed better is not a result. No trial is one that evolution selects on: those come
first in the sequence of trials (vsr.experiments.evaluation.starts_of), these after them. Robots whose arrays have the
same shapes are simulated together, all trials of all of them in one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import ValidationError

from vsr.controllers import Controller
from vsr.environment.model import Sticking
from vsr.episode import Scenario
from vsr.experiments.evaluation import MOST_STARTS, Jitter, Start, rollout_from, starts_of
from vsr.experiments.population import on_all_devices, robots_at_once, stack
from vsr.scene import Scene, precision
from vsr.world.spec import World

CHANGES = (("frequency", 0.01), ("damping", 0.02), ("friction", 0.02))
"""Parameters that are changed, one after the other, up and down by these shares."""
LOST = 0.8
"""A trial is lost whose measure is worse than this share of the median with the first factor."""
CHANGED = 0.1
"""A variant that changes the median by more than this share is marked."""

Variant = tuple[str, str, dict[str, Any]]
"""A label, a part of a scene, and fields of this part with their other values."""
VARIANTS: tuple[Variant, ...] = tuple(
    (f"sticking: {value}", "world", {"sticking": value}) for value in get_args(Sticking) if value != World().sticking
)
"""What is tried otherwise: rules of sticking to the ground, among which a robot must not depend on one."""

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
    minimised: bool | Sequence[bool] = False
    """whether less is better, for all robots or each of them"""
    variants: tuple[str, ...] = ()
    """labels of other physics"""
    varied: np.ndarray | None = None
    """with the first factor, (robots, variants, starts)"""
    tried: np.ndarray | None = None
    """False for robots that cannot have such physics, (robots, variants)"""

    @property
    def sign(self) -> np.ndarray:
        """-1 where less is better, else 1, (robots,)."""
        return np.where(np.broadcast_to(self.minimised, len(self.refined)), -1.0, 1.0)

    @property
    def is_lost(self) -> np.ndarray:
        """True for trials that failed, or are worse than LOST of the first factor's median, (robots, factors, starts).

        A median may hold while single trials collapse.
        """
        first = (self.sign * self.at(self.factors[0]))[:, None, None]
        return ~(self.sign[:, None, None] * self.refined >= first - (1 - LOST) * abs(first))

    @property
    def lost(self) -> np.ndarray:
        """Share of trials that are lost, not a number if there is no first median, (robots, factors)."""
        known = np.isfinite(self.at(self.factors[0]))[:, None]
        return np.where(known, self.is_lost.mean(-1), np.nan)

    @property
    def kept_by_variant(self) -> np.ndarray:
        """Median with each other physics over that without, (robots, variants): 0 if only that failed, else NaN."""
        if self.varied is None or self.tried is None or not self.variants:
            return np.empty((len(self.refined), 0))
        medians = np.stack([self.median(self.varied[:, i]) for i in range(len(self.variants))], 1)
        return np.where(self.tried, _ratio(medians, self.at(self.factors[0])[:, None]), np.nan)

    def some(self, which: slice) -> Robustness:
        """Of some of the robots."""
        each = {name: getattr(self, name) for name in ("refined", "changed", "varied", "tried")}
        minimised = np.broadcast_to(self.minimised, len(self.refined))[which].tolist()
        return replace(self, minimised=minimised, **{n: v if v is None else v[which] for n, v in each.items()})

    def at(self, factor: int) -> np.ndarray:
        """Every robot's median over starts, in which a failure is worse than any other; NaN if half of them failed."""
        return self.median(self.refined[:, self.factors.index(factor)])

    def median(self, values: np.ndarray) -> np.ndarray:
        """Over starts, (robots,), likewise."""
        sound = np.isnan(values).mean(1) < 0.5
        worst = -np.inf * self.sign[:, None]
        return np.where(sound, np.median(np.where(np.isnan(values), worst, values), 1), np.nan)

    @property
    def kept(self) -> np.ndarray:
        """Median with the finest steps over that with the first, (robots,): 0 if only that failed, NaN if both did."""
        return _ratio(self.at(self.factors[-1]), self.at(self.factors[0]))

    @property
    def most_changed(self) -> np.ndarray:
        """Of the medians with a changed parameter over that without, the one farthest from 1, (robots,)."""
        if not self.changes:
            return np.full(len(self.refined), np.nan)
        medians = np.stack([self.median(self.changed[:, i]) for i in range(len(self.changes))], 1)
        ratios = _ratio(medians, self.at(self.factors[0])[:, None])
        farthest = np.argmax(np.nan_to_num(abs(ratios - 1), nan=np.inf), 1)
        return np.take_along_axis(ratios, farthest[:, None], 1)[:, 0]

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "factors": list(self.factors),
            "refined": self.refined.tolist(),
            "changes": list(self.changes),
            "changed": self.changed.tolist(),
            "minimised": np.broadcast_to(self.minimised, len(self.refined)).tolist(),
            "lost": self.lost.tolist(),
            "variants": list(self.variants),
            "varied": [] if self.varied is None else self.varied.tolist(),
            "tried": [] if self.tried is None else self.tried.tolist(),
        }

    @staticmethod
    def of_plain(stored: dict[str, Any]) -> Robustness:
        """The reverse."""
        return Robustness(
            tuple(stored["factors"]),
            np.array(stored["refined"], float),
            tuple(stored["changes"]),
            np.array(stored["changed"], float),
            stored.get("minimised", False),
            tuple(stored.get("variants", ())),
            np.array(stored["varied"], float) if stored.get("variants") else None,
            np.array(stored["tried"], bool) if stored.get("variants") else None,
        )


def _ratio(median: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Of medians to the first, 0 if only the former failed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isfinite(first) & np.isnan(median), 0, median / first)


def robustness_of(
    scenes: Sequence[Scene],
    measures: Sequence[str],
    *,
    factors: Sequence[int],
    starts: int,
    height: float | None = None,
    changes: Sequence[tuple[str, float]] = CHANGES,
    variants: Sequence[Variant] = VARIANTS,
    minimised: bool | Sequence[bool] = False,
    done: Callable[[], None] = lambda: None,
) -> Robustness:
    """Of every scene its measure; done: called after each of `batches_of`.

    height: most that starts are higher [m]; if absent, that of Jitter for such voxels.
    """
    found = _measures(scenes, measures, factors, starts, height, changes, done)
    count = len(factors)
    varied = np.full((len(scenes), len(variants), starts), np.nan)
    tried = np.zeros((len(scenes), len(variants)), bool)
    for i, variant in enumerate(variants):
        same, others = _with_variant(scenes, variant)
        varied[same, i] = found[same, 0]
        tried[[*same, *others], i] = True
        if others:
            places, own = list(others), [measures[place] for place in others]
            varied[places, i] = _measures(list(others.values()), own, factors[:1], starts, height, (), done)[:, 0]
    labels = tuple(f"{name} {100 * sign * share:+g} %" for name, share in changes for sign in (-1, 1))
    names = tuple(label for label, *_ in variants)
    return Robustness(tuple(factors), found[:, :count], labels, found[:, count:], minimised, names, varied, tried)


def _with_variant(scenes: Sequence[Scene], variant: Variant) -> tuple[list[int], dict[int, Scene]]:
    """Places of scenes that are so already, and others made so; without those that cannot be."""
    _, part, fields = variant
    same, others = [], {}
    for place, scene in enumerate(scenes):
        parts: dict[str, Any] = {name: getattr(scene, name) for name in type(scene).model_fields}
        if all(getattr(parts[part], name) == value for name, value in fields.items()):
            same.append(place)
            continue
        parts[part] = parts[part].model_copy(update=fields)
        try:
            others[place] = type(scene)(**parts)
        except ValidationError:
            continue
    return same, others


def _measures(
    scenes: Sequence[Scene],
    measures: Sequence[str],
    factors: Sequence[int],
    starts: int,
    height: float | None,
    changes: Sequence[tuple[str, float]],
    done: Callable[[], None],
) -> np.ndarray:
    """With all factors, then with all changes up and down, (robots, factors + 2 changes, starts)."""
    found = np.full((len(scenes), len(factors) + 2 * len(changes), starts), np.nan)
    for group in groups_of(scenes, measures):
        with precision(group.precision):
            jitter = group.jitter if height is None else Jitter(height=height)
            cases = cases_of(factors, starts, jitter, changes, jnp.dtype(group.precision))
            for i, (factor, differing) in enumerate(cases):
                found[group.places, i] = group.measured(factor, differing)
                done()
    return found


def cases_of(
    factors: Sequence[int], starts: int, jitter: Jitter, changes: Sequence[tuple[str, float]], dtype: jnp.dtype
) -> Iterator[Case]:
    """All have all factors of parameters, so that those with the same steps share one program."""
    given = starts_of(jitter, starts, dtype, after=MOST_STARTS)
    undisturbed = {"higher": 0, "frequency": 1, "damping": 1, "friction": 1}
    missing = {name: value for name, value in undisturbed.items() if getattr(given, name) is None}
    usual = given._replace(**{name: jnp.full(starts, value, dtype) for name, value in missing.items()})
    yield from ((factor, usual) for factor in factors)
    for name, share in changes:
        for sign in (-1, 1):
            yield factors[0], usual._replace(**{name: jnp.full(starts, 1 + sign * share, dtype)})


def batches_of(
    scenes: Sequence[Scene],
    measures: Sequence[str],
    factors: int,
    changes: int = len(CHANGES),
    variants: Sequence[Variant] = VARIANTS,
) -> int:
    """How often `done` will be called."""
    others = [_with_variant(scenes, variant)[1] for variant in variants]
    again = sum(len(groups_of(list(own.values()), [measures[place] for place in own])) for own in others)
    return len(groups_of(scenes, measures)) * (factors + 2 * changes) + again


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
