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
from pydantic import Field

from vsr.controllers import Controller, in_trial
from vsr.episode import EpisodeState, Scenario, begin, reset, rollout
from vsr.physics.engine import ENGINES, engine_of
from vsr.randomization import DomainRandomization, engine_factors
from vsr.spec import Count, OneOf, Real, Seconds, Spec
from vsr.terrain import TERRAINS, AnyGround, chosen
from vsr.world.build import chosen_bed
from vsr.world.defaults import filled, in_proportion
from vsr.world.placement import place
from vsr.world.schedule import Schedule
from vsr.world.spec import VoxelLike

Share = Annotated[Real, Field(ge=0, le=0.5)]
Aggregate = Literal["median", "mean", "worst"]
Resample = Literal["never", "every_generation"]
MOST_TRIALS = 64
"""In which an individual is simulated, or simulated again with smaller time steps."""


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


class Refine(Spec):
    """A second look, with smaller time steps and in other trials, at those that would lead."""

    factor: Annotated[Count, Field(ge=1, le=64)] = 4
    """substeps are shorter by this factor; 1 for other trials alone"""
    top: Annotated[Real, Field(gt=0, le=1)] = 0.05
    """share of a generation that is checked: its fittest"""
    trials: Annotated[Count, Field(ge=1, le=MOST_TRIALS)] = 3
    """in which they are checked"""


class Confirm(Spec):
    """A last look, in fresh trials with the time steps of `refine`, at every robot that a run reports."""

    trials: Annotated[Count, Field(ge=1, le=MOST_TRIALS)] = 16
    """in which nobody was selected; their aggregate is the fitness that the run reports"""
    perturbation: Share = 0.01
    """of springs' frequency, damping ratio and friction, largest relative change: 0.01 is one percent"""


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
    beds: Annotated[Count, Field(ge=1, le=64)] = 1
    """of grains, from that of the world on; trials alternate. Fresh trials are on other beds"""
    resample: Resample = "never"
    """whether trials are the same for all individuals and generations, or resampled in every generation"""
    aggregate: Aggregate = "median"
    """aggregate over several trials; a trial that failed is worse than any other"""
    refine: Refine | None = Refine()
    """how the fittest are re-checked with smaller time steps; null for not at all, the default where these are of one
    length only"""
    confirm: Confirm | None = Confirm()
    """how the fitness of a run's best robots is measured at its end; null to report that of the search, the default
    where the fittest are not re-checked"""
    gradients: GradientWindows = GradientWindows()
    """where the episode is differentiated, if the search needs gradients"""

    @property
    def summary(self) -> str:
        """How the fitness of a leading individual is computed; empty for a single simulation."""
        parts = [f"{self.aggregate} of {self.trials} trials"] if self.trials > 1 else []
        parts += [f"{1 + len(self.terrains)} terrains"] if self.terrains else []
        parts += [f"{self.beds} beds of grains"] if self.beds > 1 else []
        parts += [f"{name} x {low:g} to {high:g}" for name, (low, high) in self.randomize.given.items()]
        parts += ["resampled in every generation"] if self.resample == "every_generation" else []
        if self.refine is not None:
            again = self.refine
            steps = f"with time steps {again.factor} times smaller " if again.factor > 1 else ""
            parts.append(f"re-checked {steps}in {again.trials} trials")
        return ", ".join(parts)

    def for_voxels(self, voxels: VoxelLike) -> EvaluationOptions:
        """With what suits such voxels, where nothing was given: lengths, trials, and whether leaders are re-checked."""
        grounds = 1 if self.resample == "every_generation" else max(1 + len(self.terrains), self.beds)
        again = self.refine
        if "refine" not in self.model_fields_set and ENGINES[voxels.engine].fixed_substep is not None:
            again = None
        elif again is not None and "trials" not in again.model_fields_set:
            again = filled(again, trials=max(again.trials, min(grounds, MOST_TRIALS)))
        last = self.confirm
        if "confirm" not in self.model_fields_set and again is None:
            last = None
        elif last is not None and "trials" not in last.model_fields_set:
            last = filled(last, trials=max(last.trials, min(1 + len(self.terrains), MOST_TRIALS)))
        found = filled(self, trials=max(self.trials, min(grounds, MOST_TRIALS)))
        changes = {"jitter": self.jitter.for_voxels(voxels), "refine": again, "confirm": last}
        changes = {name: value for name, value in changes.items() if value != getattr(found, name)}
        return found.model_copy(update=changes) if changes else found

    def issues(self) -> list[tuple[tuple[str, ...], str]]:
        """Settings that contradict each other: where and why."""
        found: list[tuple[tuple[str, ...], str]] = []
        if self.confirm is not None and self.refine is None:
            found.append((("confirm",), "it takes the time steps of `refine`, which is null: set this to null, too"))
        if self.resample == "every_generation":
            return found
        several = "give several trials, or `resample: every_generation`"
        if self.randomize.given and self.trials == 1:
            found.append((("randomize",), f"one start alone draws the middle of every interval: {several}"))
        grounds = max(1 + len(self.terrains), self.beds)
        looks = (("trials", self.trials), ("refine", self.refine.trials if self.refine else grounds))
        for name, trials in looks:
            if trials < grounds:
                what = "terrains" if self.terrains else "beds"
                text = f"{trials} given; {grounds} {what} need as many at least, or `resample: every_generation`"
                found.append(((name,) if name == "trials" else ("refine", "trials"), text))
        return found

    @property
    def confirmation(self) -> str:
        """How the fitness of a run's best robots is measured; empty if it is that of the search."""
        if self.confirm is None or self.refine is None:
            return ""
        again = f"{self.aggregate} of {self.confirm.trials} fresh trials"
        return again if self.refine.factor == 1 else f"{again} with time steps {self.refine.factor} times smaller"

    @property
    def fresh_jitter(self) -> InitialNoise:
        """How fresh trials differ: as the others, and in the parameters that `confirm` names."""
        assert self.confirm is not None
        least = self.confirm.perturbation
        changed = {name: max(least, getattr(self.jitter, name)) for name in OF_JITTER if name != "height"}
        return self.jitter.model_copy(update=changed)

    @property
    def last_cost(self) -> int:
        """Of confirming one robot at the end, in episodes with default steps."""
        return 0 if self.confirm is None or self.refine is None else self.confirm.trials * self.refine.factor

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
    bed: Array | None = None
    """number of the bed of grains, of several (vsr.world.build.build_beds)"""
    number: Array | None = None
    """of the start, for noise of its own and for what a task draws when an episode begins; 0 is the undisturbed one"""


OF_JITTER = ("height", "frequency", "damping", "friction")
RANDOMIZED = ("friction", "mass", "stiffness", "gravity")
GOLDEN = 1.1673039782614187
"""x⁵ = x + 1: multiples of its inverse powers fill four dimensions evenly, as those of the golden ratio fill one."""
FRESH_BEDS, FIRST_FRESH_BED = 4, 1000
"""Beds of grains for fresh trials, and the number of the first of them, counted from that of the world."""
STRIDES = (*map(math.sqrt, (2, 3, 5, 7)), *(GOLDEN**-power for power in (1, 2, 3, 4)))
"""Multiples of irrational numbers fill every interval evenly, whatever their count, and each quantity its own way."""


def perturbations_of(
    jitter: InitialNoise,
    count: int,
    dtype: jnp.dtype | type = jnp.float32,
    *,
    randomize: DomainRandomization | None = None,
    grounds: int = 1,
    beds: int = 1,
    key: Array | None = None,
    after: int = 0,
) -> Perturbation:
    """A number of trials, the same at every call, spread evenly over what is allowed, the undisturbed one first.

    grounds, beds: how many there are; key: to draw trials at random instead, the first one, too; after: how many are
    left out before the first, so that none is one of these.
    """
    which = after + np.arange(count)
    disturbed = after + count > 1 or key is not None
    if key is not None:
        spreading, turning = jax.random.split(key)
        shares = jax.random.uniform(spreading, (len(STRIDES), count), dtype)
        first = jax.random.randint(turning, (), 0, grounds * beds)
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
        bed=(jnp.asarray(which) + first) % beds if beds > 1 else None,
        number=_numbers(which, key),
    )


def _numbers(which: np.ndarray, key: Array | None) -> Array | None:
    """Of trials: as they are counted, or drawn, so that noise is new in every generation; None for the first alone."""
    if key is not None:
        return jax.random.bits(jax.random.fold_in(key, which.size), (which.size,), jnp.uint32)
    return jnp.asarray(which, jnp.uint32) if which[-1] > 0 else None


def _factors(jittered: dict[str, Any], varied: dict[str, Any]) -> dict[str, Any]:
    """Those of a Perturbation."""
    scaled = {name: factor * jittered.get(name, 1) for name, factor in engine_factors(varied).items()}
    return {**jittered, **scaled, **({"gravity": varied["gravity"]} if "gravity" in varied else {})}


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
    number = start.number if scenario.task.has_random_state else None
    key, model, world = jax.random.key(0 if number is None else number), scenario.model, scenario.world
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
    if start.bed is not None:
        world = replace(world, systems=chosen_bed(world.systems, start.bed))
    scenario = replace(scenario, world=world)
    if start.higher is None:
        return scenario, reset(key, scenario)
    robot = place(model, environment.terrain, scenario.task.placement, world.cover)
    up = jnp.zeros(robot.position.shape[-1], robot.position.dtype).at[-1].set(start.higher)
    # Only shifted, so that a start that is not higher is the undisturbed one in every bit.
    return scenario, begin(scenario, replace(robot, position=robot.position + up), key)
