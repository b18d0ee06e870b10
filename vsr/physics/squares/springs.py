"""Forces of a voxel's scaffolding on its four masses (2D-VSR-Sim's spring-damper systems).

A spring of frequency f and damping ratio ζ between two anchors acts along the unit vector n between them with

    k = m ω²,  d = 2 ζ ω m,  ω = 2π f,  1/m = 1/m₁ + 1/m₂ + (r₁×n)²/I₁ + (r₂×n)²/I₂,

where the effective mass m includes the turning of the two masses about their own centers and therefore follows the
pose. With the unnormalized d = p₂ - p₁ and q = d·d this needs one root and one division per spring:

    force on mass 1 = φ d,   φ = (m ω²/2) (q - L √q + (2 ζ/ω) d·ḋ) / (q + (m/2I) ((r₁×d)² + (r₂×d)²)),

its torque on mass 1 is φ (r₁×d), and both are reversed for mass 2.

Written for whole grids and for the lanes of a GPU kernel alike: arrays may have any further axes at the end. Distances
are measured from a voxel's first cluster, so a robot far away is computed as precisely as one at the origin.

Control values set rest lengths (area actuation) or forces on the masses: +1 shrinks a voxel, -1 enlarges it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.xla import materialize
from vsr.physics.actuation import inward_force
from vsr.physics.squares.contact import Motion, Pose
from vsr.physics.squares.limits import TINY, area_pressure, limit_numbers, limit_tension, pressure_forces
from vsr.physics.squares.model import SIDE_SPRINGS, SquareModel
from vsr.robot.springs import SQUARE_GROUPS, Group

Numbers = dict[str, Array]
"""Of voxels, by name: `spring_numbers`."""


def spring_numbers(model: SquareModel, substep: float) -> Numbers:
    """All that forces of voxels depend on, (rows, columns, ...), some with an axis before; substep: see `limit_rate`.

    There are the numbers of limits and of force actuation only if a material has them.
    """
    has_springs = model.angular_frequency > 0
    numbers = {
        "half_side": model.half_side * model.present,
        "stiffness": model.mass * model.angular_frequency**2 / 2 * model.groups,
        "lag": jnp.where(has_springs, 2 * model.damping_ratio / jnp.where(has_springs, model.angular_frequency, 1), 0),
        "mass_over_inertia": model.mass / (2 * model.inertia),
        "offset_x": model.mass_offset[:, :, :, 0],
        "offset_y": model.mass_offset[:, :, :, 1],
    }
    if model.max_force is not None:
        numbers["max_force"] = model.max_force
    return numbers | limit_numbers(model, substep)


class _Masses(NamedTuple):
    """Of voxels; pairs are x and y, fields (4, ...)."""

    center: tuple[Array, Array]
    """seen from the voxel's first cluster [m]"""
    arm: tuple[Array, Array]
    """from the cluster's center to the mass's"""
    near: tuple[Array, Array]
    """from the center to the corner on the next mass's side and inward, both as the side has them that leads there"""
    velocity: tuple[Array, Array]
    spin: Array


class _Sides(NamedTuple):
    """The second mass of every side as the first sees it; pairs are x and y, fields (4, ...)."""

    center: tuple[Array, Array]
    """from the first mass's center"""
    rate: tuple[Array, Array]
    """of its change"""
    near: tuple[Array, Array]
    spin: Array


class _Spring(NamedTuple):
    """One spring of every side; fields (4, ...)."""

    d_x: Array
    """from its anchor on the first mass to that on the second [m]"""
    d_y: Array
    lever_first: Array
    """r₁×d [m²]"""
    lever_second: Array
    """r₂×d [m²]"""


def voxel_forces(
    numbers: Numbers, pose: Pose, motion: Motion, lengths: Array, control: Array
) -> tuple[Array, Array, Array]:
    """Force x and y [N] and torque [N m] on the cluster of each of a voxel's four masses, (4, ...).

    pose, motion: of these clusters, (4, ...); lengths: of the kinds of spring now [m], (kinds, ...); control: in
    [-1, 1]. From springs, limits and force actuation.
    """
    masses = materialize(pose.x, _see_masses(numbers, pose, motion))
    sides = materialize(pose.x, _see_sides(masses))
    tensions = materialize(pose.x, tuple(_tension(numbers, masses, sides, spring, lengths) for spring in SIDE_SPRINGS))
    limit = limit_tension(numbers, sides.center, sides.rate)
    force_x, force_y, torque_first, torque_second = materialize(pose.x, _side_sums(masses, sides, tensions, limit))
    cross_x, cross_y = materialize(pose.x, _diagonal_forces(numbers, masses, lengths))
    force_x, force_y = _on_masses(force_x, cross_x), _on_masses(force_y, cross_y)
    torque = jnp.stack([torque_first[corner] + torque_second[corner - 1] for corner in range(4)])
    if "max_force" in numbers:
        inward_x, inward_y = inward_force(control * numbers["max_force"], masses.center, (0,))
        force_x, force_y = materialize(pose.x, (force_x + inward_x, force_y + inward_y))
    return materialize(pose.x, (force_x, force_y, torque + masses.arm[0] * force_y - masses.arm[1] * force_x))


def mass_centers(numbers: Numbers, pose: Pose) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """From clusters' centers to those of a voxel's four masses, and from its first cluster's [m], x and y (4, ...)."""
    arm_x = pose.cosine * numbers["offset_x"] - pose.sine * numbers["offset_y"]
    arm_y = pose.sine * numbers["offset_x"] + pose.cosine * numbers["offset_y"]
    return (arm_x, arm_y), ((pose.x - pose.x[:1]) + arm_x, (pose.y - pose.y[:1]) + arm_y)


def _on_masses(of_sides: Array, of_diagonals: Array) -> Array:
    """Sum for each mass: it is the first of its own side, the second of the side before, and one end of a diagonal.

    of_sides: force on each side's first mass, (4, ...); of_diagonals: the same for each diagonal, (2, ...).
    """
    ends = *of_diagonals, *(-of_diagonals)
    return jnp.stack([of_sides[corner] - of_sides[corner - 1] + ends[corner] for corner in range(4)])


def _next(values: Array) -> Array:
    """Each side's second mass: corner k+1 at place k."""
    return jnp.concatenate([values[1:], values[:1]])


def _see_masses(numbers: Numbers, pose: Pose, motion: Motion) -> _Masses:
    arm, center = mass_centers(numbers, pose)
    half_cosine, half_sine = numbers["half_side"] * pose.cosine, numbers["half_side"] * pose.sine
    u, v = half_cosine - half_sine, half_cosine + half_sine  # the corner of mass 0 that all its sides' springs share
    return _Masses(
        center,
        arm,
        (jnp.stack([u[0], -v[1], -u[2], v[3]]), jnp.stack([v[0], u[1], -v[2], -u[3]])),
        (motion.x - motion.spin * arm[1], motion.y + motion.spin * arm[0]),
        motion.spin,
    )


def _see_sides(masses: _Masses) -> _Sides:
    center, velocity = masses.center, masses.velocity
    return _Sides(
        center=(_next(center[0]) - center[0], _next(center[1]) - center[1]),
        rate=(_next(velocity[0]) - velocity[0], _next(velocity[1]) - velocity[1]),
        near=(_next(masses.near[0]), _next(masses.near[1])),
        spin=_next(masses.spin),
    )


def _see_spring(masses: _Masses, sides: _Sides, sign_first: int, sign_second: int) -> _Spring:
    """The spring between the given inward sides of the two masses."""
    (first_x, first_y), (second_x, second_y) = masses.near, sides.near
    if sign_first < 0:  # a quarter turn back
        first_x, first_y = first_y, -first_x
    if sign_second < 0:  # and forward, as seen from the second mass
        second_x, second_y = -second_y, second_x
    d_x = (sides.center[0] + second_x) - first_x
    d_y = (sides.center[1] + second_y) - first_y
    return _Spring(d_x, d_y, first_x * d_y - first_y * d_x, second_x * d_y - second_y * d_x)


def _tension(
    numbers: Numbers, masses: _Masses, sides: _Sides, spring: tuple[int, int, int, int], lengths: Array
) -> Array:
    """φ of one of SIDE_SPRINGS in every side [N/m], (4, ...)."""
    sign_first, sign_second, group, kind = spring
    d_x, d_y, lever_first, lever_second = _see_spring(masses, sides, sign_first, sign_second)
    lag, q = numbers["lag"], TINY + d_x * d_x + d_y * d_y
    # An anchor at r on a mass that turns with rate w adds d·(w ẑ×r) = w (r×d) to d·ḋ.
    pull = q - lengths[kind] * jnp.sqrt(q) + d_x * (lag * sides.rate[0]) + d_y * (lag * sides.rate[1])
    pull = pull + (lag * sides.spin) * lever_second - (lag * masses.spin) * lever_first
    resistance = q + numbers["mass_over_inertia"] * (lever_first * lever_first + lever_second * lever_second)
    return (numbers["stiffness"][group] * pull) * (1 / resistance)


def _side_sums(
    masses: _Masses, sides: _Sides, tensions: tuple[Array, ...], limit: Array | None
) -> tuple[Array, Array, Array, Array]:
    """Of the four springs and the limit of each side: force on the first mass, torque on the first and the second."""
    sums: list[Array] = []
    for (sign_first, sign_second, _, _), tension in zip(SIDE_SPRINGS, tensions, strict=True):
        spring = _see_spring(masses, sides, sign_first, sign_second)
        parts = tension * spring.d_x, tension * spring.d_y, tension * spring.lever_first, -tension * spring.lever_second
        sums = [total + part for total, part in zip(sums, parts, strict=True)] if sums else list(parts)
    force_x, force_y, torque_first, torque_second = sums
    if limit is not None:
        force_x, force_y = force_x + limit * sides.center[0], force_y + limit * sides.center[1]
    return force_x, force_y, torque_first, torque_second


def _diagonal_forces(numbers: Numbers, masses: _Masses, lengths: Array) -> tuple[Array, Array]:
    """Forces of the two diagonal springs and of the least area on masses 0 and 1, (2, ...).

    They are reversed on the opposite masses and act on the centers, so there is no torque.
    """
    d_x, d_y = (part[2:] - part[:2] for part in masses.center)
    rate_x, rate_y = (part[2:] - part[:2] for part in masses.velocity)
    inverse_root = jax.lax.rsqrt(TINY + d_x * d_x + d_y * d_y)
    opening = (d_x * rate_x + d_y * rate_y) * (inverse_root * inverse_root)
    pull = 1 - lengths[2] * inverse_root + numbers["lag"] * opening
    tension = numbers["stiffness"][SQUARE_GROUPS.index(Group.central_cross)] * pull
    force_x, force_y = tension * d_x, tension * d_y
    if "least_area" not in numbers:
        return force_x, force_y
    diagonals, rates = (d_x[0], d_y[0], d_x[1], d_y[1]), (rate_x[0], rate_y[0], rate_x[1], rate_y[1])
    pressure = area_pressure(numbers["area_stiffness"], numbers["least_area"], numbers["limit_lag"], diagonals, rates)
    outward = pressure_forces(pressure, diagonals)
    return force_x + jnp.stack([outward[0][0], outward[1][0]]), force_y + jnp.stack([outward[0][1], outward[1][1]])


def rest_lengths(spring_length: Array | Sequence[Array], control: Array) -> Array:
    """Rest length of each kind of spring [m], (kinds, ...), linear in the control on either side.

    spring_length: when shrunk, at rest and enlarged [m], (3, kinds, ...); control: in [-1, 1]. The ends are the lengths
    in a voxel of side l sqrt(1 -+ ρ), so the paper's l sqrt(1 - f ρ) holds at f = -1, 0 and 1, and the original's
    straight lines hold between.
    """
    shrunk, rest, enlarged = spring_length
    return rest - jnp.maximum(control, 0) * (rest - shrunk) + jnp.maximum(-control, 0) * (enlarged - rest)
