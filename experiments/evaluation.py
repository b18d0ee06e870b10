"""How often and how finely an individual is simulated before its fitness is believed.

Gaits are chaotic, and selection finds whatever luck and the integrator's errors give. Two things stand against it.
Several starts that differ a little show what is luck. Steps finer than usual show what exists at one step size only;
as they cost more, only those that would lead are checked with them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field

from vsr.controllers import Controller
from vsr.episode import EpisodeState, Scenario, begin, reset, rollout
from vsr.physics.engine import engine_of
from vsr.spec import Count, Real, Spec
from vsr.tasks import Summary, move_rigidly, place

Share = Annotated[Real, Field(ge=0, le=0.5)]
Take = Literal["median", "mean", "worst"]


class Jitter(Spec):
    """How much starts differ. The first is always the undisturbed one."""

    height: Annotated[Real, Field(ge=0)] = 0.001
    """dropped from up to so much higher [m]"""
    frequency: Share = 0.0
    """of all springs, up to so much more or less, as a share: 0.01 is one percent"""
    damping: Share = 0.0
    """damping ratio of all springs, likewise"""
    friction: Share = 0.0
    """of all masses, likewise"""


class Refine(Spec):
    """A second look, with finer steps, at those that would lead."""

    factor: Annotated[Count, Field(ge=2, le=64)] = 4
    """substeps are shorter by this factor"""
    top: Annotated[Real, Field(gt=0, le=1)] = 0.05
    """share of a generation that is checked: its fittest"""
    starts: Annotated[Count, Field(ge=1, le=64)] = 3
    """in which they are checked"""


class EvaluationOptions(Spec):
    """What fitness is made of."""

    starts: Annotated[Count, Field(ge=1, le=64)] = 1
    """simulations of every individual"""
    jitter: Jitter = Jitter()
    """how they differ"""
    take: Take = "median"
    """what counts of several starts; a start that failed is worse than any other"""
    refine: Refine | None = None
    """if given, the fittest are believed only as far as finer steps confirm them"""

    @property
    def summary(self) -> str:
        """What the number of a leading individual stands for; empty for a single simulation."""
        parts = [f"{self.take} of {self.starts} starts"] if self.starts > 1 else []
        if self.refine is not None:
            parts.append(f"confirmed with steps {self.refine.factor} times finer in {self.refine.starts} starts")
        return ", ".join(parts)

    def cost(self, individuals: int) -> int:
        """Of a generation, in episodes with usual steps."""
        again = 0
        if self.refine is not None:
            again = math.ceil(self.refine.top * individuals) * self.refine.starts * self.refine.factor
        return individuals * self.starts + again


class Start(NamedTuple):
    """How one start differs from the undisturbed one, or many do; None for what does not. Each () or (starts,)."""

    higher: Array | None = None
    """[m]"""
    frequency: Array | None = None
    """factor"""
    damping: Array | None = None
    """factor"""
    friction: Array | None = None
    """factor"""


def starts_of(jitter: Jitter, count: int, dtype: jnp.dtype | type = jnp.float32) -> Start:
    """A number of starts, the same at every call, spread evenly over what is allowed, the undisturbed one first."""
    if count == 1:
        return Start()
    # Multiples of irrational numbers fill every interval evenly, whatever their count, and each quantity its own way.
    roots = math.sqrt(2), math.sqrt(3), math.sqrt(5), math.sqrt(7)
    shares = np.outer(roots, np.arange(count)) % 1
    either_way = np.where(np.arange(count) > 0, 2 * shares - 1, 0)

    def factors(most: float, quantity: int) -> Array | None:
        return jnp.asarray(1 + most * either_way[quantity], dtype) if most else None

    return Start(
        higher=jnp.asarray(jitter.height * shares[0], dtype) if jitter.height else None,
        frequency=factors(jitter.frequency, 1),
        damping=factors(jitter.damping, 2),
        friction=factors(jitter.friction, 3),
    )


def combined(take: Take, fitness: Array, axis: int = -1) -> Array:
    """One fitness from those of several starts, negative infinity for those that failed."""
    if take == "worst":
        return fitness.min(axis)
    return fitness.mean(axis) if take == "mean" else jnp.median(fitness, axis)


def rollout_from(scenario: Scenario, controller: Controller, start: Start) -> Summary:
    """The episode of a robot that starts a little differently."""
    scenario, state = begun_from(scenario, start)
    return rollout(scenario, controller, state)


def begun_from(scenario: Scenario, start: Start) -> tuple[Scenario, EpisodeState]:
    """What stays as it is, and the first moment, for a robot that starts a little differently."""
    key, model = jax.random.key(0), scenario.model
    factors = {name: getattr(start, name) for name in ("frequency", "damping", "friction")}
    if any(factor is not None for factor in factors.values()):
        given = {name: 1.0 if factor is None else factor for name, factor in factors.items()}
        model = engine_of(model).scaled(model, **given)
        scenario = replace(scenario, world=replace(scenario.world, robots=(model,)))
    if start.higher is None:
        return scenario, reset(key, scenario)
    world = scenario.world
    robot = place(model, world.environment.terrain, scenario.task.placement, world.cover)
    up = jnp.zeros(robot.position.shape[-1], robot.position.dtype).at[-1].set(start.higher)
    return scenario, begin(scenario, move_rigidly(model, robot, shift=up), key)
