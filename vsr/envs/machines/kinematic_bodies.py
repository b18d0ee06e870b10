"""Machines among grains: bodies that are driven steadily through a control interval, and what grains do to them.

A machine knows where its bodies are at the beginning and at the end of an interval. Between the two each moves with
constant velocity and spin, so the grains see a smooth motion and the next interval begins where this one ended.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.linear import product
from vsr.environment import Environment
from vsr.physics.failure import first_of
from vsr.physics.granular import Grains, GrainState, Pose, Steady
from vsr.physics.granular.passages import Passage, passed
from vsr.physics.granular.step import step
from vsr.terrain.sand import longest_step

GRAVITY = 9.81
"""[m/s²]"""


@dataclass(frozen=True)
class Pacing:
    """How an episode is cut into steps. Static: each is compiled once."""

    duration: float
    """of an episode [s]; rounded up to whole intervals"""
    interval: float
    """under one action [s]"""
    substeps: int
    """steps of grains in an interval"""

    @property
    def limit(self) -> int:
        """Actions until the time is up."""
        return max(1, math.ceil(self.duration / self.interval - 1e-6))

    @property
    def substep(self) -> float:
        """[s]"""
        return self.interval / self.substeps


class Felt(NamedTuple):
    """What grains did to the driven bodies in an interval, in the mean."""

    force: Array
    """[N], (bodies, 3)"""
    torque: Array
    """about each body's origin [N m], (bodies, 3)"""


class Driven(NamedTuple):
    """What came of an interval."""

    grains: GrainState
    felt: Felt
    passed: Array
    """grains that went through the passage, ()"""


def nothing_felt(bodies: int, dtype: jnp.dtype) -> Felt:
    """By so many bodies."""
    return Felt(jnp.zeros((bodies, 3), dtype), jnp.zeros((bodies, 3), dtype))


def pacing(duration: float, interval: float, radius: float, depth: float, substeps: int | None = None) -> Pacing:
    """With steps that let grains of a radius lie still in beds of a depth [m], or with those given."""
    if not (duration > 0 and interval > 0):
        raise ValueError(f"duration and interval must be above 0; got {duration:g} and {interval:g} s")
    if substeps is None:
        substeps = math.ceil(interval / longest_step(radius, depth, GRAVITY))
    if substeps < 1:
        raise ValueError(f"substeps must be 1 or more; got {substeps}")
    return Pacing(duration, interval, substeps)


def drive(
    grains: Grains, state: GrainState, poses: tuple[Pose, ...], pace: Pacing, passage: Passage | None = None
) -> Driven:
    """An interval later; poses: where the last bodies of `grains.bodies` begin, with their velocity and spin."""
    resting = grains.bodies[: len(grains.bodies) - len(poses)]
    moving = grains.bodies[len(resting) :]
    # Time begins anew with each interval: sums of many steps would drift against the poses.
    zero = jnp.zeros_like(state.time)
    steady = tuple(replace(body, motion=Steady(pose, zero)) for body, pose in zip(moving, poses, strict=True))
    grains = replace(grains, bodies=(*resting, *steady))
    environment = Environment(gravity=jnp.asarray(GRAVITY, state.position.dtype), terrain=None)

    def one(number: int, now: tuple[GrainState, Felt, Array]) -> tuple[GrainState, Felt, Array]:
        state, felt, through = now
        state, _, reactions = step(grains, environment, state, (), pace.substep)
        own = reactions[len(resting) :]
        if own:
            force = felt.force + jnp.stack([reaction.impulse for reaction in own])
            felt = Felt(force, felt.torque + jnp.stack([reaction.turning for reaction in own]))
        if passage is not None:
            state, more = passed(passage, grains, state)
            through = through + more.astype(through.dtype)
        return state, felt, through

    start = replace(state, time=zero), nothing_felt(len(poses), state.position.dtype), jnp.zeros((), jnp.int32)
    state, felt, through = jax.lax.fori_loop(0, pace.substeps, one, start)
    return Driven(state, jax.tree.map(lambda impulse: impulse / pace.interval, felt), through)


def failure_after(grains: Grains, before: Array, state: GrainState) -> Array:
    """The first failure of an episode so far, ()."""
    return first_of(before, grains.failure(state))


def leading_to(first: Pose, last: Pose, duration: float) -> Pose:
    """The first pose with the steady motion that ends in the last a duration [s] later."""
    return replace(
        first,
        velocity=(last.position - first.position) / duration,
        spin=rotation_vector(product(last.rotation, first.rotation.T)) / duration,
    )


def rotation_vector(rotation: Array) -> Array:
    """The axis times the angle of a turn of less than half a circle [rad], (3,); rotation: (3, 3)."""
    skew = 0.5 * (rotation - rotation.T)
    across = jnp.stack([skew[2, 1], skew[0, 2], skew[1, 0]])  # the axis times the sine
    squared = (across**2).sum()
    small = squared < 1e-12
    sine = jnp.sqrt(jnp.where(small, 1, squared))
    angle = jnp.arctan2(sine, 0.5 * (jnp.trace(rotation) - 1))
    return across * jnp.where(small, 1, angle / sine)
