"""Points of the robot and of an object in EvoGym's units, which its rules and observations are made of.

A voxel is 0.1 long and a step of an environment takes 0.003, whatever the physics: so rewards and observations have the
same size in both.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.physics.engine import engine_of
from vsr.robot import ENGINE_KINDS
from vsr.world.state import WorldModel, WorldState, motion_of

VOXEL = 0.1
"""Side of a voxel in EvoGym's units."""
STEP = 0.003
"""One step of an environment in its units of time."""
OUR_STEP, OUR_SIDE = 0.055, 3.0
"""The same in our world: [s] for voxels of 3 m; it goes with the square root of the side, as falling does."""


def step_seconds(engine: str, voxel_side: float | Array) -> float | Array:
    """One step of an environment in the units of some masses [s]; voxel_side: [m]."""
    kind = ENGINE_KINDS[engine]
    if "time_step" in kind.default_physics:
        return kind.default_physics["time_step"]
    return OUR_STEP * (voxel_side / OUR_SIDE) ** 0.5


class Part(NamedTuple):
    """Points of one body; p stands for their axis."""

    point: Array
    """(p, dimension)"""
    exists: Array
    """False for slots without a point, (p,)"""
    center: Array
    """mean of the points, (dimension,)"""
    velocity: Array
    """mean of theirs, (dimension,)"""

    @property
    def x(self) -> Array:
        """Of the center."""
        return self.center[0]

    @property
    def up(self) -> Array:
        """Height of the center."""
        return self.center[-1]


class Seen(NamedTuple):
    """A world at one moment."""

    robot: Part
    object: Part | None
    """the package or beam; None if there is none"""
    unstable: Array
    """whether the robot overlapped itself more than EvoGym allows, ()"""
    terrain: Part | None = None
    """ground that moves; None if nothing does, or nobody looks"""


def seen(world: WorldModel, state: WorldState, name: str | None, terrain: tuple[str, ...] = ()) -> Seen:
    """A world in EvoGym's units; name: of the object that is carried, pushed or caught; terrain: of what else counts as
    ground."""
    model, robot = world.robots[0], state.robots[0]
    engine = engine_of(model)
    length = VOXEL / model.voxel_side
    speed = length * step_seconds(model.engine, model.voxel_side) / STEP
    found = engine.vertices(model, robot)
    mine = part_of(found.position * length, found.velocity * speed, found.exists)
    unstable = getattr(robot, "unstable", jnp.zeros((), bool))
    carried = None if name is None else _object(world, state, name, length, speed)
    moving = [_object(world, state, other, length, speed) for other in terrain]
    return Seen(mine, carried, unstable, _as_one(moving) if moving else None)


def _as_one(parts: list[Part]) -> Part:
    point, exists = (jnp.concatenate([getattr(part, name) for part in parts]) for name in ("point", "exists"))
    return part_of(point, jnp.zeros_like(point), exists)


def _object(world: WorldModel, state: WorldState, name: str, length: Array, speed: Array) -> Part:
    engine = engine_of(world.robots[0])
    for own in engine.own_bodies(world.robots[0], state.robots[0]):
        if own.name == name:
            found = engine.vertices(own.model, own.state)
            return part_of(found.position * length, found.velocity * speed, found.exists)
    motion = motion_of(world, state, name)
    part = part_of(motion.vertices * length, jnp.zeros_like(motion.vertices), motion.exists)
    return part._replace(velocity=motion.velocity * speed)


def part_of(point: Array, velocity: Array, exists: Array) -> Part:
    """From arrays with any axes of points."""
    dimension = point.shape[-1]
    point, velocity, exists = point.reshape(-1, dimension), velocity.reshape(-1, dimension), exists.reshape(-1)
    count = jnp.maximum(exists.sum(), 1)

    def mean(values: Array) -> Array:
        return jnp.where(exists[:, None], values, 0).sum(0) / count

    return Part(point, exists, mean(point), mean(velocity))


def relative(part: Part) -> Array:
    """Points seen from their center, 0 for empty slots, (p, dimension)."""
    return jnp.where(part.exists[:, None], part.point - part.center, 0)


def orientation(first: Array, part: Part) -> Array:
    """How far a body has turned since the start, counter-clockwise, from 0 to 2 pi, ().

    EvoGym's estimate: the mean over points of the angle between now and then, weighted by the first distance from the
    center; if the cross products say clockwise, 2 pi less that. No true angle where parts turn both ways.
    EvoGym takes arccosines, and that of 0.99999 where rounding made a cosine larger than 1, so that it sees up to 0.001
    in a body that has not moved. Here that is 0, because arctangents round less, which counts in 32 bits.
    first: points seen from their center at the start, (p, dimension); in 3-D the plane of x and up counts.
    """
    old, new = (values[:, jnp.array([0, values.shape[1] - 1])] for values in (first, relative(part)))
    before, now = (jnp.sqrt((values**2).sum(1)) for values in (old, new))
    sound = part.exists & (before * now > 1e-7)
    safe = jnp.where(sound, before * now, 1)
    cosine = jnp.where(sound, (old * new).sum(1) / safe, 1)
    clockwise = jnp.where(sound, (new[:, 0] * old[:, 1] - new[:, 1] * old[:, 0]) / safe, 0)
    weight = jnp.where(part.exists, before, 0)
    mean = (weight * jnp.arctan2(jnp.abs(clockwise), cosine)).sum() / jnp.maximum(weight.sum(), 1e-9)
    rounding = jnp.finfo(mean.dtype).eps ** 0.5  # a sum of sines that is smaller has no direction
    return jnp.where(clockwise.sum() > rounding, 2 * jnp.pi - mean, mean)
