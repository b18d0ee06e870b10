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
from vsr.physics.settle import iterate, settle
from vsr.terrain.surface import Terrain, surface

BOUNCE_SPEED = 1.0
"""Slower approaches do not bounce [m/s] (dyn4j's restitution velocity)."""
SLOP = 0.005
"""Depth that is left alone [m] (dyn4j's linear tolerance)."""
CORRECTED_SHARE = 1 - 0.8**10
"""Share of the depth beyond the slop undone in each substep (dyn4j: ten passes of a fifth in each step)."""
MAX_CORRECTION = 0.2
"""Most a cluster is moved at once [m] (dyn4j's maximum linear correction)."""
ITERATIONS = 4
"""Passes over the two corners; docs/physics.md tells what fewer and more do."""
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
    """whether the corner is in the ground"""
    friction: Array
    """coefficient"""
    wanted: Array
    """normal velocity after the contact [m/s]"""
    normal: tuple[Array, Array, Array]
    """unit direction (x, y) of the normal impulse and its lever about the centre [m]"""
    tangent: tuple[Array, Array, Array]
    """the same of the tangential impulse"""


_Impulses = tuple[Array, ...]
"""Tangential impulses at the first and the second corner, then the normal ones [N s]."""


class _Equations(NamedTuple):
    """What each of the four impulses must be, given the other three."""

    alone: _Impulses
    """if the others are zero"""
    coupling: tuple[tuple[Array, ...], ...]
    """how much less for each of the others, in their order"""


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
    heights = settle(pose.x, _corner_heights(model, terrain, pose))
    deepest, next_deepest = settle(pose.x, _deepest_corners(model, grip, pose, heights))
    first, second = settle(
        pose.x,
        tuple(_constrain(terrain, pose, corner, motion) for corner in (deepest, next_deepest)),
    )
    depth = jnp.clip(CORRECTED_SHARE * (-deepest.height - SLOP), 0, MAX_CORRECTION) * (model.inverse_mass > 0)
    return _solve(model, first, second, motion), (depth * first.normal[0], depth * first.normal[1])


def heights_over_ground(terrain: Terrain, x: Array, y: Array) -> Array:
    """Distance of points from the ground's line below them [m], negative inside."""
    height, _, normal_y = surface(terrain, x)
    return (y - height) * normal_y


def _corner_heights(model: Model, terrain: Terrain, pose: Pose) -> Array:
    """Of all corners over the ground [m], (points, layers, rows+1, columns+1, ...)."""
    offset_x, offset_y = model.contact_offset[:, :, :, :, 0], model.contact_offset[:, :, :, :, 1]
    x = pose.x + pose.cosine * offset_x - pose.sine * offset_y
    y = pose.y + pose.sine * offset_x + pose.cosine * offset_y
    return jnp.where(model.contact_active, heights_over_ground(terrain, x, y), NOWHERE)


def _deepest_corners(model: Model, grip: Grip, pose: Pose, heights: Array) -> tuple[_Corner, _Corner]:
    deepest = _lowest(heights)
    others = [jnp.where(deepest == i, 2 * NOWHERE, height) for i, height in enumerate(heights)]
    next_deepest = _lowest(others)

    def corner(index: Array) -> _Corner:
        offset_x = _pick(model.contact_offset[:, :, :, :, 0], index)
        offset_y = _pick(model.contact_offset[:, :, :, :, 1], index)
        return _Corner(
            _pick(heights, index),
            pose.cosine * offset_x - pose.sine * offset_y,
            pose.sine * offset_x + pose.cosine * offset_y,
            _pick(grip.friction, index),
            _pick(grip.restitution, index),
        )

    return corner(deepest), corner(next_deepest)


def _lowest(heights: Array | list[Array]) -> Array:
    """Index of the least, the first of equals."""
    index, least = jnp.zeros(heights[0].shape, jnp.int32), heights[0]
    for i, height in enumerate(heights[1:], 1):
        index = jnp.where(height < least, i, index)
        least = jnp.minimum(height, least)
    return index


def _pick(values: Array, index: Array) -> Array:
    """values[index] along the first axis, for each element."""
    picked = values[0]
    for i, value in enumerate(values[1:], 1):
        picked = jnp.where(index == i, value, picked)
    return picked


def _constrain(terrain: Terrain, pose: Pose, corner: _Corner, motion: Motion) -> _Constraint:
    _, normal_x, normal_y = surface(terrain, pose.x + corner.arm_x)
    normal = normal_x, normal_y, corner.arm_x * normal_y - corner.arm_y * normal_x
    approach = _speed(motion, normal)
    return _Constraint(
        active=corner.height < 0,
        friction=corner.friction,
        wanted=jnp.where(approach < -BOUNCE_SPEED, -corner.restitution * approach, 0),
        normal=normal,
        tangent=(normal_y, -normal_x, -corner.arm_x * normal_x - corner.arm_y * normal_y),
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


def _solve(model: Model, first: _Constraint, second: _Constraint, motion: Motion) -> Motion:
    """Sequential impulses, a fixed number of passes over both corners, begun with sticking where friction can hold.

    With much friction (over 4/3 for a square) a corner may have two ways on, to stick or to slip off, and both satisfy
    Coulomb's law. The original's solver remembers impulses from step to step and so goes on sticking; trying to stick
    first does the same without a memory.

    Speeds are linear in the impulses, so a pass need not know the velocities: every impulse in turn becomes what brings
    its own corner to the wanted speed while the other three act.
    """
    alone = _stick_on_one(model, first, motion)
    together = _stick_on_both(model, first, second, motion)
    start = tuple(jnp.where(second.active, both, one) for both, one in zip(together, alone, strict=True))
    equations, start = settle(motion.spin, (_equations(model, first, second, motion), start))

    def solution(impulses: list[Array], i: int) -> Array:
        total = equations.alone[i]
        for coupling, other in zip(equations.coupling[i], impulses[:i] + impulses[i + 1 :], strict=True):
            total = total - coupling * other
        return total

    def improve(impulses: _Impulses) -> _Impulses:
        values = list(impulses)
        for i, friction in enumerate((first.friction, second.friction)):
            bound = friction * values[i + 2]
            values[i] = jnp.clip(solution(values, i), -bound, bound)
        for i, active in enumerate((first.active, second.active), 2):
            values[i] = jnp.where(active, jnp.maximum(solution(values, i), 0), 0)
        return tuple(values)

    directions = first.tangent, second.tangent, first.normal, second.normal
    for direction, impulse in zip(directions, iterate(ITERATIONS, improve, start), strict=True):
        motion = _push(model, motion, direction, impulse)
    return motion


def _equations(model: Model, first: _Constraint, second: _Constraint, motion: Motion) -> _Equations:
    directions = first.tangent, second.tangent, first.normal, second.normal
    wanted = 0, 0, first.wanted, second.wanted

    def mobility(one: tuple[Array, Array, Array], other: tuple[Array, Array, Array]) -> Array:
        """Change of the speed along one direction by an impulse along the other [1/kg]."""
        along = one[0] * other[0] + one[1] * other[1]
        return model.inverse_mass * along + model.inverse_inertia * one[2] * other[2]

    def inertia_along(lever: Array) -> Array:
        """Impulse along a direction per change of its speed [kg]."""
        return _inverse_or_zero(model.inverse_mass + model.inverse_inertia * lever * lever)

    masses = [inertia_along(direction[2]) for direction in directions]
    changes = [speed - _speed(motion, direction) for speed, direction in zip(wanted, directions, strict=True)]
    return _Equations(
        tuple(mass * change for mass, change in zip(masses, changes, strict=True)),
        tuple(
            tuple(mass * mobility(one, other) for other in directions if other is not one)
            for mass, one in zip(masses, directions, strict=True)
        ),
    )


def _stick_on_one(model: Model, contact: _Constraint, motion: Motion) -> _Impulses:
    """Impulses that give the first corner its wanted normal velocity and no tangential one, if within the cone."""
    normal_lever, tangent_lever = contact.normal[2], contact.tangent[2]
    normal_mobility = model.inverse_mass + model.inverse_inertia * normal_lever * normal_lever
    tangent_mobility = model.inverse_mass + model.inverse_inertia * tangent_lever * tangent_lever
    coupling = model.inverse_inertia * normal_lever * tangent_lever
    scale = _inverse_or_zero(normal_mobility * tangent_mobility - coupling * coupling)
    normal_change = contact.wanted - _speed(motion, contact.normal)
    tangent_change = -_speed(motion, contact.tangent)
    normal = scale * (tangent_mobility * normal_change - coupling * tangent_change)
    tangent = scale * (normal_mobility * tangent_change - coupling * normal_change)
    holds = contact.active & (normal > 0) & (jnp.abs(tangent) <= contact.friction * normal)
    zero = jnp.zeros_like(normal)
    return jnp.where(holds, tangent, 0), zero, jnp.where(holds, normal, 0), zero


def _stick_on_both(model: Model, first: _Constraint, second: _Constraint, motion: Motion) -> _Impulses:
    """Impulses that bring a cluster with two corners on one plane to rest, if both press and friction can hold.

    The normal impulses follow from the momentum and the turning; friction is shared out in their proportion.
    """
    normal_x, normal_y, first_lever = first.normal
    tangent_x, tangent_y, first_arm = first.tangent
    second_lever, second_arm = second.normal[2], second.tangent[2]
    mass, inertia = _inverse_or_zero(model.inverse_mass), _inverse_or_zero(model.inverse_inertia)
    press = -mass * (motion.x * normal_x + motion.y * normal_y)
    drag = -mass * (motion.x * tangent_x + motion.y * tangent_y)
    turning = -inertia * motion.spin - (first_arm + second_arm) / 2 * drag
    span = second_lever - first_lever
    wide = jnp.abs(span) > 1e-6
    on_first = (second_lever * press - turning) / jnp.where(wide, span, 1)
    on_second = press - on_first
    bounces = (first.wanted > 0) | (second.wanted > 0)
    presses = (on_first >= 0) & (on_second >= 0) & (press > 0)
    holds = first.active & second.active & wide & ~bounces & presses & (jnp.abs(drag) <= first.friction * press)
    share = drag / jnp.where(holds, press, 1)
    first_normal, second_normal = jnp.where(holds, on_first, 0), jnp.where(holds, on_second, 0)
    return share * first_normal, share * second_normal, first_normal, second_normal


def _inverse_or_zero(values: Array) -> Array:
    return jnp.where(values > 0, 1 / jnp.where(values > 0, values, 1), 0)
