"""Contact of clusters with the ground: impulses with Coulomb friction and restitution, then a position nudge.

Clusters are rigid and only springs join them, so contact is solved for each cluster alone. Of its corners the two
deepest are treated; on a straight piece of ground no more can carry load. As in the original, a corner that is in
the ground must not move further in (or must bounce, if it came fast), friction is bounded by the normal impulse
found so far and solved before the normal direction, and a part of the depth beyond a small slop is undone by moving
the cluster without giving it velocity.

Every array may have further axes at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.physics.model import Model
from vsr.terrain.surface import Terrain, surface

BOUNCE_SPEED = 1.0
"""Slower approaches do not bounce [m/s] (dyn4j's restitution velocity)."""
SLOP = 0.005
"""Depth that is left alone [m] (dyn4j's linear tolerance)."""
CORRECTED_SHARE = 0.2
"""Share of the depth beyond the slop undone in each substep (dyn4j's Baumgarte factor)."""
MAX_CORRECTION = 0.2
"""Most a cluster is moved at once [m] (dyn4j's maximum linear correction)."""
ITERATIONS = 6
"""Passes over the two corners (docs/physics.md has the effect of more)."""
NOWHERE = 1e9
"""Height over ground of a corner that does not exist [m]."""


class Pose(NamedTuple):
    """Where clusters are; each (layers, rows+1, columns+1, ...)."""

    x: Array
    y: Array
    cosine: Array
    sine: Array


class Motion(NamedTuple):
    """How clusters move; each (layers, rows+1, columns+1, ...)."""

    x: Array
    y: Array
    spin: Array


class Grip(NamedTuple):
    """Coefficients of each corner on this ground; each (points, layers, rows+1, columns+1, ...)."""

    friction: Array
    restitution: Array


class _Corner(NamedTuple):
    """One chosen corner of every cluster; fields (layers, rows+1, columns+1, ...)."""

    height: Array
    """over the ground, negative inside it [m]"""
    arm_x: Array
    arm_y: Array
    friction: Array
    restitution: Array


class _Constraint(NamedTuple):
    """What one corner asks of its cluster's velocity."""

    active: Array
    friction: Array
    wanted: Array
    """normal velocity after the contact [m/s]"""
    normal: tuple[Array, Array, Array]
    """direction and lever of the normal impulse"""
    tangent: tuple[Array, Array, Array]
    normal_mass: Array
    tangent_mass: Array


def combine_grip(model: Model, terrain: Terrain) -> Grip:
    """Friction by the geometric mean, restitution by the larger."""
    return Grip(
        jnp.sqrt(model.contact_friction * terrain.friction),
        jnp.maximum(model.contact_restitution, terrain.restitution),
    )


def resolve_contact(
    model: Model, terrain: Terrain, grip: Grip, pose: Pose, motion: Motion
) -> tuple[Motion, tuple[Array, Array]]:
    """Velocities that respect the ground, and the nudge out of it, x and y [m].

    motion: velocities after all other forces.
    """
    first, second = _deepest_corners(model, terrain, grip, pose)
    constraints = []
    for corner in (first, second):
        _, normal_x, normal_y = surface(terrain, pose.x + corner.arm_x)
        constraints.append(_constrain(model, corner, normal_x, normal_y, motion))
    _, normal_x, normal_y = surface(terrain, pose.x + first.arm_x)
    depth = jnp.clip(CORRECTED_SHARE * (-first.height - SLOP), 0, MAX_CORRECTION) * (model.inverse_mass > 0)
    return _solve(model, constraints, motion), (depth * normal_x, depth * normal_y)


def heights_over_ground(terrain: Terrain, x: Array, y: Array) -> Array:
    """Distance of points from the ground's line below them [m], negative inside."""
    height, _, normal_y = surface(terrain, x)
    return (y - height) * normal_y


def _deepest_corners(model: Model, terrain: Terrain, grip: Grip, pose: Pose) -> tuple[_Corner, _Corner]:
    offset_x, offset_y = model.contact_offset[:, :, :, :, 0], model.contact_offset[:, :, :, :, 1]
    arm_x = pose.cosine * offset_x - pose.sine * offset_y
    arm_y = pose.sine * offset_x + pose.cosine * offset_y
    height = heights_over_ground(terrain, pose.x + arm_x, pose.y + arm_y)
    height = jnp.where(model.contact_active, height, NOWHERE)
    friction = jnp.broadcast_to(grip.friction, height.shape)
    restitution = jnp.broadcast_to(grip.restitution, height.shape)
    corners = [_Corner(*values) for values in zip(height, arm_x, arm_y, friction, restitution, strict=True)]
    deepest, next_deepest = corners[0], corners[0]._replace(height=jnp.full_like(height[0], 2 * NOWHERE))
    for corner in corners[1:]:
        ahead = corner.height < deepest.height
        loser = _choose(ahead, deepest, corner)
        deepest = _choose(ahead, corner, deepest)
        next_deepest = _choose(loser.height < next_deepest.height, loser, next_deepest)
    return deepest, next_deepest


def _choose(condition: Array, yes: _Corner, no: _Corner) -> _Corner:
    return _Corner(*(jnp.where(condition, a, b) for a, b in zip(yes, no, strict=True)))


def _constrain(model: Model, corner: _Corner, normal_x: Array, normal_y: Array, motion: Motion) -> _Constraint:
    normal_lever = corner.arm_x * normal_y - corner.arm_y * normal_x
    tangent_lever = -corner.arm_x * normal_x - corner.arm_y * normal_y
    normal = normal_x, normal_y, normal_lever
    approach = _speed(motion, normal)

    def effective_mass(lever: Array) -> Array:
        mobility = model.inverse_mass + model.inverse_inertia * lever * lever
        return jnp.where(mobility > 0, 1 / jnp.where(mobility > 0, mobility, 1), 0)

    return _Constraint(
        active=corner.height < 0,
        friction=corner.friction,
        wanted=jnp.where(approach < -BOUNCE_SPEED, -corner.restitution * approach, 0),
        normal=normal,
        tangent=(normal_y, -normal_x, tangent_lever),
        normal_mass=effective_mass(normal_lever),
        tangent_mass=effective_mass(tangent_lever),
    )


def _speed(motion: Motion, direction: tuple[Array, Array, Array]) -> Array:
    """Velocity of the corner along a direction given with its lever."""
    return motion.x * direction[0] + motion.y * direction[1] + motion.spin * direction[2]


def _push(model: Model, motion: Motion, direction: tuple[Array, Array, Array], impulse: Array) -> Motion:
    return Motion(
        motion.x + model.inverse_mass * impulse * direction[0],
        motion.y + model.inverse_mass * impulse * direction[1],
        motion.spin + model.inverse_inertia * impulse * direction[2],
    )


def _solve(model: Model, constraints: list[_Constraint], motion: Motion) -> Motion:
    """Sequential impulses: all friction, then all normals, a fixed number of times."""
    zero = jnp.zeros_like(motion.x)
    normal_impulse = [zero for _ in constraints]
    tangent_impulse = [zero for _ in constraints]
    for _ in range(ITERATIONS):
        for i, contact in enumerate(constraints):
            bound = contact.friction * normal_impulse[i]
            total = tangent_impulse[i] - contact.tangent_mass * _speed(motion, contact.tangent)
            total = jnp.clip(total, -bound, bound)
            motion = _push(model, motion, contact.tangent, total - tangent_impulse[i])
            tangent_impulse[i] = total
        for i, contact in enumerate(constraints):
            total = normal_impulse[i] - contact.normal_mass * (_speed(motion, contact.normal) - contact.wanted)
            total = jnp.where(contact.active, jnp.maximum(total, 0), 0)
            motion = _push(model, motion, contact.normal, total - normal_impulse[i])
            normal_impulse[i] = total
    return motion
