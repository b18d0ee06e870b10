"""How driven bodies move (vsr.physics.granular.bodies.Motion)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.linear import product
from vsr.physics.granular.bodies import Body, Pose, at_rest, turn_by


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Fixed:
    """Not at all."""

    at: Pose

    def pose(self, time: Array) -> Pose:
        return self.at


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Steady:
    """With the velocity and the spin of its first pose, from a time on."""

    start: Pose
    begin: Array | float = 0.0
    """[s]; before, it stands still"""

    def pose(self, time: Array) -> Pose:
        moving = time >= self.begin
        elapsed = jnp.maximum(time - self.begin, 0)
        return Pose(
            position=self.start.position + elapsed * self.start.velocity,
            rotation=product(turn_by(elapsed * self.start.spin), self.start.rotation),
            velocity=jnp.where(moving, self.start.velocity, 0),
            spin=jnp.where(moving, self.start.spin, 0),
        )


def fixed(shape: Any, position: Sequence[float], friction: float = 0.5) -> Body:
    """A body that stands still, its origin at a position [m]."""
    return Body(shape, jnp.asarray(friction, float), Fixed(at_rest(jnp.asarray(position, float))))


def driven(
    shape: Any,
    position: Sequence[float],
    velocity: Sequence[float],
    friction: float = 0.5,
    *,
    spin: Sequence[float] | None = None,
    begin: float = 0.0,
) -> Body:
    """A body that moves steadily from a time on [s]; position [m], velocity [m/s], spin [rad/s]."""
    pose = at_rest(jnp.asarray(position, float))
    pose = replace(pose, velocity=jnp.asarray(velocity, float))
    if spin is not None:
        pose = replace(pose, spin=jnp.asarray(spin, float))
    return Body(shape, jnp.asarray(friction, float), Steady(pose, jnp.asarray(begin, float)))


def free(
    shape: Any, position: Sequence[float], mass: float, inertia: float | Sequence[float], friction: float = 0.5
) -> Body:
    """A body that grains and gravity move, its center of mass at a position [m]; mass [kg], inertia [kg m²]."""
    return Body(
        shape,
        jnp.asarray(friction, float),
        at_rest(jnp.asarray(position, float)),
        jnp.asarray(mass, float),
        jnp.asarray(inertia, float),
    )
