"""Contact of clusters with the ground: impulses with Coulomb friction and restitution, then a position nudge.

Clusters are rigid and only springs join them, so contact is solved for each cluster alone. Of its corners the two
deepest are treated; on a straight piece of ground no more can carry load. As in the original, a corner that is in
the ground must not move further in (or must bounce, if it came fast), friction is bounded by the normal impulse
found so far and solved before the normal direction, and a part of the depth beyond a small slop is undone by moving
the cluster without giving it velocity, unless it bounces and so leaves on its own.

Two rules keep the answer from depending on the substep. A corner that will be in the ground amid the substep
is treated already, and comes to rest just below the surface: found only afterwards, contact would always come half a
substep late. And whether a corner came fast is asked before the forces of the substep act: otherwise a foot that is
pressed hard would bounce off the ground it stands on.

Contact never adds energy. Newton's restitution with friction would, from a coefficient of 0.8 on for a square (Kane's
paradox): there the impulses are made smaller, all alike, until the cluster has no more energy than it came with.

Every array may have further axes at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.compute.xla import iterate, materialize
from vsr.environment import Environment
from vsr.environment.model import Sticking
from vsr.environment.surfaces import BOUNCE_SPEED, SLOP, combined_friction, combined_restitution
from vsr.physics.squares.model import SquareModel
from vsr.terrain.surface import Terrain, nearest_surface

CORRECTED_SHARE = 1 - 0.8**10
"""Share of the depth beyond the slop undone in each substep (dyn4j: ten passes of a fifth in each step)."""
MAX_CORRECTION = 0.2
"""Most a cluster is moved at once [m] (dyn4j's maximum linear correction)."""
LEAD = 0.5
"""Share of a substep by which contact is predicted."""
SINK = 0.001
"""How deep a corner is let in that is caught above the ground [m]: it then stays in contact, in spite of round-off."""
ITERATIONS = 4
"""Passes over the two corners; docs/understand/physics.md says what fewer and more do."""
AT_REST = 100.0
"""Acceleration that gives a corner within a substep the speed of leaving up to which it counts as resting [m/s²]."""
NOWHERE = 1e9
"""Lifts a corner that does not exist off any ground [m]."""


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


Points = Array | tuple[Array, ...]
"""A value for each of a cluster's corners: an array with the corners first, or a tuple."""


class Corners(NamedTuple):
    """Where a cluster can touch this ground."""

    offset_x: Points
    """corner seen from the cluster's center at rest [m]"""
    offset_y: Points
    lift: Points
    """0, or NOWHERE for a corner that does not exist [m]"""
    friction: Points
    """coefficient on this ground"""
    restitution: Points
    """likewise"""


class Mobility(NamedTuple):
    """How readily clusters move; each (layers, rows+1, columns+1, ...)."""

    free: Array
    """1, or 0 where there is no cluster or it is anchored"""
    turning: Array
    """mass over moment of inertia [1/m²], 0 where not free"""
    gyration: Array
    """moment of inertia over mass [m²], likewise"""


Ground = Callable[[Array, Array], tuple[Array, Array, Array]]
"""Of any points, x and y [m]: height over the nearest ground [m], negative inside it, and its unit normal, x and y."""


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
    """whether the corner is in the ground, or will be in the middle of the substep"""
    may_stick: Array | bool
    """whether friction may bring it to rest alone"""
    friction: Array
    """coefficient"""
    bounces: Array
    """whether it came fast enough, and is thrown back"""
    target: Array
    """normal velocity after the contact [m/s]"""
    normal: tuple[Array, Array, Array]
    """unit direction (x, y) of the normal impulse and its lever about the center [m]"""
    tangent: tuple[Array, Array, Array]
    """the same of the tangential impulse"""


_Impulses = tuple[Array, ...]
"""Tangential impulses at the first and the second corner, then the normal ones, over the cluster's mass [m/s]."""


class _Equations(NamedTuple):
    """What each of the four impulses must be, given the other three."""

    alone: _Impulses
    """if the others are zero"""
    coupling: tuple[tuple[Array, ...], ...]
    """how much less for each of the others, in their order"""


def ground_line(environment: Environment) -> Terrain | None:
    """The ground as a line, the only kind that square masses know; raises TypeError for what they do not know."""
    terrain = environment.terrain
    if terrain is not None and terrain.line is None:
        raise TypeError("square masses move in 2-D, where the ground is a line; this is a height field")
    if environment.drag is not None or environment.bodies:
        raise TypeError("square masses know gravity, a line of ground and loads; drag and obstacles need point masses")
    return None if terrain is None else terrain.line


def mobility_of(model: SquareModel) -> Mobility:
    free = model.inverse_mass > 0
    turns = free & (model.inverse_inertia > 0)
    turning = jnp.where(free, model.inverse_inertia / jnp.where(free, model.inverse_mass, 1), 0)
    gyration = jnp.where(turns, model.inverse_mass / jnp.where(turns, model.inverse_inertia, 1), 0)
    return Mobility(free.astype(model.inverse_mass.dtype), turning, gyration)


def corners_on(model: SquareModel, terrain: Terrain) -> Corners:
    """A robot's corners on a ground."""
    return Corners(
        offset_x=model.contact_offset[:, :, :, :, 0],
        offset_y=model.contact_offset[:, :, :, :, 1],
        lift=jnp.where(model.contact_active, 0, NOWHERE).astype(model.contact_offset.dtype),
        friction=combined_friction(model.contact_friction, terrain.friction),
        restitution=combined_restitution(model.contact_restitution, terrain.restitution),
    )


def radius_of(corners: Corners) -> Array:
    """Distance of each cluster's farthest corner from its center [m]."""
    squared = (x * x + y * y for x, y in zip(corners.offset_x, corners.offset_y, strict=True))
    return jnp.sqrt(reduce(jnp.maximum, squared))


def corner_heights(ground: Ground, offset_x: Array, offset_y: Array, lift: Array | None, pose: Pose) -> Array:
    """Of one or all corners over the ground [m], negative inside it; without lift they exist."""
    x = pose.x + pose.cosine * offset_x - pose.sine * offset_y
    y = pose.y + pose.sine * offset_x + pose.cosine * offset_y
    height = ground(x, y)[0]
    return height if lift is None else height + lift


def heights_over_ground(terrain: Terrain, x: Array, y: Array) -> Array:
    """Distance of points from the nearest line of the ground [m], negative inside."""
    return nearest_surface(terrain, x, y)[0]


def reach_ahead(motion: Motion, radius: Array, substep: float) -> Array:
    """How high above the ground a cluster's corners may be and yet touch it [m]; radius: of its farthest corner [m]."""
    return LEAD * substep * (jnp.abs(motion.x) + jnp.abs(motion.y) + radius * jnp.abs(motion.spin))


def resolve_contact(
    ground: Ground,
    mobility: Mobility,
    corners: Corners,
    heights: Points,
    pose: Pose,
    before: Motion,
    motion: Motion,
    substep: float,
    sticking: Sticking,
) -> tuple[Motion, tuple[Array, Array]]:
    """Velocities that respect the ground, and the nudge out of it, x and y [m].

    heights: of the corners over the ground [m]; before, motion: velocities before and after all other forces of the
    substep [s]; sticking: which corners may stick. Where no corner gets into the ground, nothing changes.
    """
    deepest, next_deepest = materialize(pose.x, _deepest_corners(corners, pose, heights))
    first, second = materialize(
        pose.x,
        tuple(
            _constrain(ground, pose, corner, before, motion, substep, sticking) for corner in (deepest, next_deepest)
        ),
    )
    depth = jnp.clip(CORRECTED_SHARE * (-deepest.height - SLOP), 0, MAX_CORRECTION) * mobility.free
    depth = jnp.where(first.bounces, 0, depth)
    return _solve(mobility, first, second, before, motion), (depth * first.normal[0], depth * first.normal[1])


def _deepest_corners(corners: Corners, pose: Pose, heights: Points) -> tuple[_Corner, _Corner]:
    deepest, height = _lowest(heights)
    others = tuple(jnp.where(deepest == i, 2 * NOWHERE, height) for i, height in enumerate(heights))
    next_deepest, next_height = _lowest(others)

    def corner(index: Array, height: Array) -> _Corner:
        offset_x, offset_y = _pick(corners.offset_x, index), _pick(corners.offset_y, index)
        return _Corner(
            height,
            pose.cosine * offset_x - pose.sine * offset_y,
            pose.sine * offset_x + pose.cosine * offset_y,
            _pick(corners.friction, index),
            _pick(corners.restitution, index),
        )

    return corner(deepest, height), corner(next_deepest, next_height)


def _lowest(heights: Points) -> tuple[Array, Array]:
    """Index and value of the least, the first of equals."""
    index, least = jnp.zeros(heights[0].shape, jnp.int32), heights[0]
    for i, height in enumerate(heights[1:], 1):
        index = jnp.where(height < least, i, index)
        least = jnp.minimum(height, least)
    return index, least


def _pick(values: Points, index: Array) -> Array:
    """values[index] along the first axis, for each element."""
    picked = values[0]
    for i, value in enumerate(values[1:], 1):
        picked = jnp.where(index == i, value, picked)
    return picked


def _constrain(
    ground: Ground, pose: Pose, corner: _Corner, before: Motion, motion: Motion, substep: float, sticking: Sticking
) -> _Constraint:
    _, normal_x, normal_y = ground(pose.x + corner.arm_x, pose.y + corner.arm_y)
    normal = normal_x, normal_y, corner.arm_x * normal_y - corner.arm_y * normal_x
    came, goes = _speed(before, normal), _speed(motion, normal)
    bounces = (came < -BOUNCE_SPEED) & (corner.restitution > 0)
    sinks = jnp.where(corner.height > 0, (corner.height + SINK) * (-1 / substep), 0)
    may_stick = {"in_contact": True, "resting": came <= AT_REST * substep, "approaching": goes <= 0}
    return _Constraint(
        active=corner.height + LEAD * substep * jnp.minimum(goes, 0) < 0,
        may_stick=may_stick[sticking],
        friction=corner.friction,
        bounces=bounces,
        target=jnp.where(bounces, -corner.restitution * came, sinks),
        normal=normal,
        tangent=(normal_y, -normal_x, -corner.arm_x * normal_x - corner.arm_y * normal_y),
    )


def _speed(motion: Motion, direction: tuple[Array, Array, Array]) -> Array:
    """Velocity of the corner along a direction given with its lever."""
    return motion.x * direction[0] + motion.y * direction[1] + motion.spin * direction[2]


def _solve(mobility: Mobility, first: _Constraint, second: _Constraint, before: Motion, motion: Motion) -> Motion:
    """Sequential impulses, a fixed number of passes over both corners, begun with sticking where friction can hold.

    With much friction (over 4/3 for a square) a corner may have two ways on, to stick or to slip off, and both
    satisfy Coulomb's law (Painlevé's paradox). The original's solver remembers impulses from step to step and so goes
    on sticking; trying to stick first does the same without a memory. A corner that leaves the ground on one of these
    ways may stick on the other: see `Environment.sticking`.

    Speeds are linear in the impulses, so a pass need not know the velocities: every impulse in turn becomes what
    brings its own corner to the target speed while the other three act.
    """
    alone = _stick_on_one(mobility, first, motion)
    together = _stick_on_both(mobility, first, second, motion)
    start = tuple(jnp.where(second.active, both, one) for both, one in zip(together, alone, strict=True))
    equations, start = materialize(motion.spin, (_equations(mobility, first, second, motion), start))

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
        for i in (2, 3):
            values[i] = jnp.maximum(solution(values, i), 0)
        return tuple(values)

    directions = first.tangent, second.tangent, first.normal, second.normal
    impulses = iterate(ITERATIONS, improve, start)
    change_x, change_y, change_spin = (
        sum(impulse * direction[part] for impulse, direction in zip(impulses, directions, strict=True))
        for part in range(3)
    )
    change = Motion(mobility.free * change_x, mobility.free * change_y, mobility.turning * change_spin)
    change = materialize(motion.spin, change)
    share = _share_without_gain(mobility, before, motion, change)
    return Motion(*(part + share * more for part, more in zip(motion, change, strict=True)))


def _share_without_gain(mobility: Mobility, before: Motion, motion: Motion, change: Motion) -> Array:
    """The largest share of a change of velocity, at most 1, after which a cluster has no more energy of motion than
    before the forces of the substep or after them."""

    def product(one: Motion, other: Motion) -> Array:
        """Twice the energy over the mass [m²/s²]."""
        return one.x * other.x + one.y * other.y + mobility.gyration * one.spin * other.spin

    given, along = product(change, change), product(motion, change)
    room = jnp.maximum(product(before, before) - product(motion, motion), 0)
    gains = given + 2 * along > room
    root = jnp.sqrt(jnp.where(gains, along * along + given * room, 1))
    return jnp.where(gains, (root - along) / jnp.where(gains, given, 1), 1)


def _equations(mobility: Mobility, first: _Constraint, second: _Constraint, motion: Motion) -> _Equations:
    """One equation an impulse; that of a normal impulse of a corner in the air says zero."""
    directions = first.tangent, second.tangent, first.normal, second.normal
    targets = 0, 0, first.target, second.target
    turned = [mobility.turning * direction[2] for direction in directions]
    shares = [1 / (1 + turn * direction[2]) for turn, direction in zip(turned, directions, strict=True)]
    shares[2:] = jnp.where(first.active, shares[2], 0), jnp.where(second.active, shares[3], 0)
    # How much of an impulse acts along another's direction; both corners' tangents are their normals, turned alike.
    normal, other = first.normal, second.normal
    along, across = normal[0] * other[0] + normal[1] * other[1], normal[1] * other[0] - normal[0] * other[1]
    straight = {(0, 1): along, (2, 3): along, (0, 3): across, (1, 2): -across}

    def response(i: int, j: int) -> Array:
        """Change of the speed along direction i by an impulse along direction j."""
        i, j = min(i, j), max(i, j)
        return turned[i] * directions[j][2] + straight.get((i, j), 0)

    responses = {(i, j): response(i, j) for i in range(4) for j in range(i + 1, 4)}
    changes = [speed - _speed(motion, direction) for speed, direction in zip(targets, directions, strict=True)]
    return _Equations(
        tuple(share * change for share, change in zip(shares, changes, strict=True)),
        tuple(
            tuple(share * responses[min(i, j), max(i, j)] for j in range(4) if j != i) for i, share in enumerate(shares)
        ),
    )


def _stick_on_one(mobility: Mobility, contact: _Constraint, motion: Motion) -> _Impulses:
    """Impulses that give the first corner its target normal velocity and no tangential one, if within the cone."""
    normal_lever, tangent_lever = contact.normal[2], contact.tangent[2]
    normal_turn, tangent_turn = mobility.turning * normal_lever, mobility.turning * tangent_lever
    normal_response, tangent_response = 1 + normal_turn * normal_lever, 1 + tangent_turn * tangent_lever
    coupling = normal_turn * tangent_lever
    scale = 1 / (normal_response + tangent_turn * tangent_lever)
    normal_change = contact.target - _speed(motion, contact.normal)
    tangent_change = -_speed(motion, contact.tangent)
    normal = scale * (tangent_response * normal_change - coupling * tangent_change)
    tangent = scale * (normal_response * tangent_change - coupling * normal_change)
    holds = contact.active & contact.may_stick & (normal > 0) & (jnp.abs(tangent) <= contact.friction * normal)
    zero = jnp.zeros_like(normal)
    return jnp.where(holds, tangent, 0), zero, jnp.where(holds, normal, 0), zero


def _stick_on_both(mobility: Mobility, first: _Constraint, second: _Constraint, motion: Motion) -> _Impulses:
    """Impulses that bring a cluster with two corners on one plane to rest, if both press and friction can hold.

    Both corners press, so the cluster as a whole approaches: this is so whichever corners may stick alone.

    The normal impulses follow from the momentum and the turning; friction is shared out in their proportion.
    """
    normal_x, normal_y, first_lever = first.normal
    tangent_x, tangent_y, first_arm = first.tangent
    second_lever, second_arm = second.normal[2], second.tangent[2]
    press = -(motion.x * normal_x + motion.y * normal_y)
    drag = -(motion.x * tangent_x + motion.y * tangent_y)
    turning = -mobility.gyration * motion.spin - 0.5 * (first_arm + second_arm) * drag
    span = second_lever - first_lever
    wide = jnp.abs(span) > 1e-6
    on_first = (second_lever * press - turning) / jnp.where(wide, span, 1)
    on_second = press - on_first
    bounces = first.bounces | second.bounces
    presses = (on_first >= 0) & (on_second >= 0) & (press > 0)
    holds = first.active & second.active & wide & ~bounces & presses & (jnp.abs(drag) <= first.friction * press)
    share = drag / jnp.where(holds, press, 1)
    first_normal, second_normal = jnp.where(holds, on_first, 0), jnp.where(holds, on_second, 0)
    return share * first_normal, share * second_normal, first_normal, second_normal
