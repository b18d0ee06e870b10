"""Trials, perturbations and re-checks behind an individual's fitness.

Gaits are chaotic, and selection finds whatever luck and the integrator's errors give. There are three remedies.
Several trials that differ a little show what is luck. Other grounds, frictions, masses and stiffnesses show what exists
in one world only. Smaller time steps show what exists at one step size only; as they cost more, only the
leaders are re-checked with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from vsr.controllers import Controller, in_trial
from vsr.episode import EpisodeState, Scenario, begin, reset, rollout
from vsr.physics.engine import ENGINES, engine_of
from vsr.robot import Material
from vsr.spec import Count, OneOf, Real, Seconds, Spec
from vsr.terrain import TERRAINS, AnyGround, chosen
from vsr.world.defaults import filled, in_proportion
from vsr.world.placement import place
from vsr.world.schedule import Schedule
from vsr.world.spec import VoxelLike

Share = Annotated[Real, Field(ge=0, le=0.5)]
Aggregate = Literal["median", "mean", "worst"]
Resample = Literal["never", "every_generation"]
MOST_TRIALS = 64
"""In which an individual is simulated, or simulated again with smaller time steps."""
FURTHEST = 100.0
"""Factors are between this and its inverse."""


def _rising(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] > bounds[1]:
        raise PydanticCustomError("rising", "Input should be two factors, the smaller first")
    return bounds


Factor = Annotated[Real, Field(ge=1 / FURTHEST, le=FURTHEST)]
Factors = Annotated[tuple[Factor, Factor], AfterValidator(_rising)]
"""The least and the greatest."""


class InitialNoise(Spec):
    """How much trials differ. The first is always the undisturbed one."""

    height: Annotated[Real, Field(ge=0)] = 0.001
    """dropped from up to this height above [m]; the default is for voxels of the default side, and in proportion to it
    for others"""
    frequency: Share = 0.0
    """of all springs, largest relative change: 0.01 is one percent"""
    damping: Share = 0.0
    """damping ratio of all springs, likewise"""
    friction: Share = 0.0
    """of all masses, likewise"""

    def for_voxels(self, voxels: VoxelLike) -> InitialNoise:
        """With a height that suits such voxels, unless one was given."""
        return filled(self, height=in_proportion(type(self).model_fields["height"].default, voxels))


class DomainRandomization(Spec):
    """Factors that trials draw, each from an interval, such as [0.5, 2]; null for none."""

    friction: Factors | None = None
    """of all masses; contact takes the geometric mean with the ground's"""
    mass: Factors | None = None
    """of all masses; springs stay as stiff as they are"""
    stiffness: Factors | None = None
    """of all springs, whose damping ratio stays as it is"""
    gravity: Factors | None = None

    @property
    def quickest(self) -> tuple[float, float]:
        """The greatest factor of springs' frequency, and the factor of mass that goes with it."""
        stiffest, lightest = (self.stiffness or (1.0, 1.0))[1], (self.mass or (1.0, 1.0))[0]
        return math.sqrt(stiffest / lightest), lightest

    @property
    def given(self) -> dict[str, tuple[float, float]]:
        """Factors that are not null."""
        return {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}

    @property
    def scaled(self) -> tuple[str, ...]:
        """Quantities that engines must be able to scale (vsr.physics.contract.Engine.scales)."""
        needed = {"friction": ("friction",), "mass": ("mass", "frequency"), "stiffness": ("frequency",), "gravity": ()}
        return tuple(dict.fromkeys(one for name in self.given for one in needed[name]))


class Refine(Spec):
    """A second look, with smaller time steps, at those that would lead."""

    factor: Annotated[Count, Field(ge=2, le=64)] = 4
    """substeps are shorter by this factor"""
    top: Annotated[Real, Field(gt=0, le=1)] = 0.05
    """share of a generation that is checked: its fittest"""
    trials: Annotated[Count, Field(ge=1, le=MOST_TRIALS)] = 3
    """in which they are checked"""


class GradientWindows(Spec):
    """Windows of an episode through which fitness is differentiated, for searches and learning that uses gradients."""

    window: Seconds = 1.0
    """length of each [s], in whole control calls"""
    windows: Annotated[Count, Field(ge=1, le=100_000)] | None = None
    """how many, each at the end of an equal part of the episode; if absent, as many as fit"""

    def cut(self, schedule: Schedule) -> tuple[int, int]:
        """Control calls of a window, and how many windows there are, 0 if none fits."""
        length = max(1, round(self.window / schedule.interval))
        most = schedule.calls // length
        return length, most if self.windows is None else self.windows

    def share(self, schedule: Schedule) -> float:
        """Of the episode that windows cover."""
        length, count = self.cut(schedule)
        return length * count / max(1, schedule.calls)


Ground = Annotated[AnyGround, OneOf(TERRAINS)]


class EvaluationOptions(Spec):
    """How fitness is computed from simulations."""

    trials: Annotated[Count, Field(ge=1, le=MOST_TRIALS)] = 3
    """simulations of every individual; by default one for every ground, but 3 at least"""
    jitter: InitialNoise = InitialNoise()
    """how they differ a little"""
    randomize: DomainRandomization = DomainRandomization()
    """how they differ a lot"""
    terrains: Annotated[tuple[Ground, ...], Field(max_length=64)] = ()
    """further grounds; trials alternate: the first is on that of `world`, the next on the first of these, and so on"""
    resample: Resample = "never"
    """whether trials are the same for all individuals and generations, or resampled in every generation"""
    aggregate: Aggregate = "median"
    """aggregate over several trials; a trial that failed is worse than any other"""
    refine: Refine | None = Refine()
    """how the fittest are re-checked with smaller time steps; null for not at all, the default where these are of one
    length only"""
    gradients: GradientWindows = GradientWindows()
    """where the episode is differentiated, if the search needs gradients"""

    @property
    def summary(self) -> str:
        """How the fitness of a leading individual is computed; empty for a single simulation."""
        parts = [f"{self.aggregate} of {self.trials} trials"] if self.trials > 1 else []
        parts += [f"{1 + len(self.terrains)} terrains"] if self.terrains else []
        parts += [f"{name} x {low:g} to {high:g}" for name, (low, high) in self.randomize.given.items()]
        parts += ["resampled in every generation"] if self.resample == "every_generation" else []
        if self.refine is not None:
            again = self.refine
            parts.append(f"re-checked with time steps {again.factor} times smaller in {again.trials} trials")
        return ", ".join(parts)

    def for_voxels(self, voxels: VoxelLike) -> EvaluationOptions:
        """With what suits such voxels, where nothing was given: lengths, trials, and whether leaders are re-checked."""
        grounds = 1 if self.resample == "every_generation" else 1 + len(self.terrains)
        again = self.refine
        if "refine" not in self.model_fields_set and ENGINES[voxels.engine].fixed_substep is not None:
            again = None
        elif again is not None and "trials" not in again.model_fields_set:
            again = filled(again, trials=max(again.trials, min(grounds, MOST_TRIALS)))
        found = filled(self, trials=max(self.trials, min(grounds, MOST_TRIALS)))
        changes = {"jitter": self.jitter.for_voxels(voxels), "refine": again}
        changes = {name: value for name, value in changes.items() if value != getattr(found, name)}
        return found.model_copy(update=changes) if changes else found

    def issues(self) -> list[tuple[tuple[str, ...], str]]:
        """Settings that contradict each other: where and why."""
        if self.resample == "every_generation":
            return []
        found: list[tuple[tuple[str, ...], str]] = []
        several = "give several trials, or `resample: every_generation`"
        if self.randomize.given and self.trials == 1:
            found.append((("randomize",), f"one start alone draws the middle of every interval: {several}"))
        grounds = 1 + len(self.terrains)
        looks = (("trials", self.trials), ("refine", self.refine.trials if self.refine else grounds))
        for name, trials in looks:
            if trials < grounds:
                text = f"{trials} given; {grounds} terrains need as many at least, or `resample: every_generation`"
                found.append(((name,) if name == "trials" else ("refine", "trials"), text))
        return found

    def stiffened(self, material: Material) -> Material:
        """The material as its springs are quickest in some start."""
        quicker, mass = self.randomize.quickest
        if material.density is not None and material.young_modulus is not None:
            changes = {
                "young_modulus": quicker**2 * mass * material.young_modulus,
                "density": mass * material.density,
            }
        else:
            changes = {"spring_frequency": quicker * material.spring_frequency, "mass": mass * material.mass}
        return material.model_copy(update=changes)

    def cost(self, individuals: int) -> int:
        """Of a generation, in episodes with default steps."""
        again = 0
        if self.refine is not None:
            again = math.ceil(self.refine.top * individuals) * self.refine.trials * self.refine.factor
        return individuals * self.trials + again


class Perturbation(NamedTuple):
    """How one trial differs from the undisturbed one, or many do; None for equal parts. Each () or (trials,)."""

    higher: Array | None = None
    """[m]"""
    frequency: Array | None = None
    """factor"""
    damping: Array | None = None
    """factor"""
    friction: Array | None = None
    """factor"""
    mass: Array | None = None
    """factor; frequencies stay as they are"""
    gravity: Array | None = None
    """factor"""
    ground: Array | None = None
    """number of the ground, of several (vsr.terrain.together)"""
    number: Array | None = None
    """of the start, for noise of its own"""


OF_JITTER = ("height", "frequency", "damping", "friction")
RANDOMIZED = ("friction", "mass", "stiffness", "gravity")
GOLDEN = 1.1673039782614187
"""x⁵ = x + 1: multiples of its inverse powers fill four dimensions evenly, as those of the golden ratio fill one."""
STRIDES = (*map(math.sqrt, (2, 3, 5, 7)), *(GOLDEN**-power for power in (1, 2, 3, 4)))
"""Multiples of irrational numbers fill every interval evenly, whatever their count, and each quantity its own way."""


def perturbations_of(
    jitter: InitialNoise,
    count: int,
    dtype: jnp.dtype | type = jnp.float32,
    *,
    randomize: DomainRandomization | None = None,
    grounds: int = 1,
    key: Array | None = None,
    after: int = 0,
) -> Perturbation:
    """A number of trials, the same at every call, spread evenly over what is allowed, the undisturbed one first.

    grounds: how many there are; key: to draw them at random instead, the first one, too; after: how many are left out
    before the first, so that none is one of these.
    """
    which = after + np.arange(count)
    disturbed = after + count > 1 or key is not None
    if key is not None:
        spreading, turning = jax.random.split(key)
        shares = jax.random.uniform(spreading, (len(STRIDES), count), dtype)
        first = jax.random.randint(turning, (), 0, grounds)
        higher, either_way, inside = shares[0], 2 * shares - 1, shares
    else:
        shares, first = np.outer(STRIDES, which) % 1, 0
        # The first start is undisturbed, and in the middle of what varies.
        higher, either_way, inside = shares[0], np.where(which > 0, 2 * shares - 1, 0), (shares + 0.5) % 1
    jittered = {
        name: 1 + getattr(jitter, name) * either_way[number]
        for number, name in enumerate(OF_JITTER)
        if number and getattr(jitter, name) and disturbed
    }
    varied = {
        name: bounds[0] + (bounds[1] - bounds[0]) * inside[len(OF_JITTER) + number]
        for number, name in enumerate(RANDOMIZED)
        if (bounds := getattr(randomize, name, None)) is not None
    }
    factors = _factors(jittered, varied)
    return Perturbation(
        higher=jnp.asarray(jitter.height * higher, dtype) if jitter.height and disturbed else None,
        **{name: jnp.asarray(values, dtype) for name, values in factors.items()},
        ground=(jnp.asarray(which) + first) % grounds if grounds > 1 else None,
        number=_numbers(which, key),
    )


def _numbers(which: np.ndarray, key: Array | None) -> Array | None:
    """Of trials: as they are counted, or drawn, so that noise is new in every generation; None for the first alone."""
    if key is not None:
        return jax.random.bits(jax.random.fold_in(key, which.size), (which.size,), jnp.uint32)
    return jnp.asarray(which, jnp.uint32) if which[-1] > 0 else None


def _factors(jittered: dict[str, Any], varied: dict[str, Any]) -> dict[str, Any]:
    """Those of `Start`. Stiffness is what frequency squared times mass is."""
    found = dict(jittered)
    if "friction" in varied:
        found["friction"] = varied["friction"] * found.get("friction", 1)
    if "mass" in varied or "stiffness" in varied:
        quicker = (varied.get("stiffness", 1) / varied.get("mass", 1)) ** 0.5
        found["frequency"] = quicker * found.get("frequency", 1)
    return {**found, **{name: varied[name] for name in ("mass", "gravity") if name in varied}}


def aggregate_trials(aggregate: Aggregate, fitness: Array, axis: int = -1) -> Array:
    """One fitness from those of several trials, negative infinity for those that failed."""
    if aggregate == "worst":
        return fitness.min(axis)
    return fitness.mean(axis) if aggregate == "mean" else jnp.median(fitness, axis)


def rollout_from(
    scenario: Scenario, controller: Controller, start: Perturbation, roll: Callable[..., Any] = rollout
) -> Any:
    """The episode of a robot with perturbed initial conditions: its Summary, or the result of `roll`."""
    scenario, state = reset_perturbed(scenario, start)
    return roll(scenario, controller if start.number is None else in_trial(controller, start.number), state)


def reset_perturbed(scenario: Scenario, start: Perturbation) -> tuple[Scenario, EpisodeState]:
    """The constant part of an episode and its first state, for a robot with perturbed initial conditions."""
    key, model, world = jax.random.key(0), scenario.model, scenario.world
    factors = {name: getattr(start, name) for name in ("frequency", "damping", "friction")}
    if start.mass is not None or any(factor is not None for factor in factors.values()):
        given = {name: 1.0 if factor is None else factor for name, factor in factors.items()}
        model = engine_of(model).scaled(model, **given, mass=start.mass)
        world = replace(world, robots=(model,))
    environment = world.environment
    if start.gravity is not None:
        environment = replace(environment, gravity=start.gravity * environment.gravity)
    if start.ground is not None:
        assert environment.terrain is not None
        environment = replace(environment, terrain=chosen(environment.terrain, start.ground))
    world = replace(world, environment=environment)
    scenario = replace(scenario, world=world)
    if start.higher is None:
        return scenario, reset(key, scenario)
    robot = place(model, environment.terrain, scenario.task.placement, world.cover)
    up = jnp.zeros(robot.position.shape[-1], robot.position.dtype).at[-1].set(start.higher)
    # Only shifted, so that a start that is not higher is the undisturbed one in every bit.
    return scenario, begin(scenario, replace(robot, position=robot.position + up), key)
