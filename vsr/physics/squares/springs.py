"""Forces of a voxel's scaffolding on its four masses (2D-VSR-Sim's spring-damper systems).

A spring of frequency f and damping ratio ζ between two anchors acts along the unit vector n between them with

    k = m ω²,  d = 2 ζ ω m,  ω = 2π f,  1/m = 1/m₁ + 1/m₂ + (r₁×n)²/I₁ + (r₂×n)²/I₂,

where the effective mass m includes the turning of the two masses about their own centers and therefore follows the
pose. With the unnormalized d = p₂ - p₁ and q = d·d this needs one root and one division per spring:

    force on mass 1 = φ d,   φ = (ω² (q - L √q) + 2 ζ ω d·ḋ) / ((1/m₁ + 1/m₂) q + ((r₁×d)² + (r₂×d)²) / I),

its torque on mass 1 is φ (r₁×d), and both are reversed for mass 2.

Every array may have further axes at the end (see vsr.physics.squares.model).

Control values set rest lengths (area actuation) or forces on the masses: +1 shrinks a voxel, -1 enlarges it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.compute.xla import materialize
from vsr.physics.actuation import inward_force
from vsr.physics.squares.limits import (
    DAMPING_RATIO,
    TINY,
    area_pressure,
    least_area,
    limit_rate,
    limit_tension,
    pressure_forces,
)
from vsr.physics.squares.model import SIDE_ALONG, SIDE_SPRINGS, SquareModel
from vsr.robot.springs import SQUARE_GROUPS, Group


class Masses(NamedTuple):
    """Motion of all masses; each field (4, rows, columns, ...)."""

    x: Array
    y: Array
    cosine: Array
    sine: Array
    velocity_x: Array
    velocity_y: Array
    spin: Array


class Forces(NamedTuple):
    """What acts on each mass: force [N] and torque about its center [N m]; each (4, rows, columns, ...)."""

    x: Array
    y: Array
    torque: Array


class _Sides(NamedTuple):
    """The two masses of every side as its springs see them; pairs are x and y, fields (4, rows, columns, ...)."""

    center: tuple[Array, Array]
    """from the first mass's center to the second's"""
    center_rate: tuple[Array, Array]
    first_half: tuple[Array, Array]
    """half side of the first mass along the side"""
    second_half: tuple[Array, Array]
    first_spin: Array
    second_spin: Array


class _Spring(NamedTuple):
    """One spring of every side; fields (4, rows, columns, ...)."""

    d_x: Array
    """from its anchor on the first mass to that on the second [m]"""
    d_y: Array
    lever_first: Array
    """r₁×d [m²]"""
    lever_second: Array
    """r₂×d [m²]"""


def spring_forces(model: SquareModel, masses: Masses, rest_length: Array, substep: float) -> Forces:
    """Forces of springs and distance limits.

    rest_length: of each kind of spring now [m], (kinds, rows, columns, ...); substep: [s], which limits may be too
    stiff for.
    """
    sides = materialize(masses.spin, _view_sides(model, masses))
    tensions = materialize(masses.spin, tuple(_tension(model, sides, spring, rest_length) for spring in SIDE_SPRINGS))
    rate = limit_rate(model, substep)
    limited = model.lower_limit is not None or model.upper_limit is not None
    limit = limit_tension(model, sides.center, sides.center_rate, rate) if limited else None
    force_x, force_y, torque_first, torque_second = materialize(masses.spin, _side_sums(sides, tensions, limit))
    cross_x, cross_y = materialize(masses.spin, _diagonal_forces(model, masses, rest_length, rate))
    return Forces(
        _on_masses(force_x, cross_x),
        _on_masses(force_y, cross_y),
        jnp.stack([torque_first[corner] + torque_second[corner - 1] for corner in range(4)]),
    )


def _on_masses(of_sides: Array, of_diagonals: Array) -> Array:
    """Sum for each mass: it is the first of its own side, the second of the side before, and one end of a diagonal.

    of_sides: force on each side's first mass, (4, ...); of_diagonals: the same for each diagonal, (2, ...).
    """
    ends = *of_diagonals, *(-of_diagonals)
    return jnp.stack([of_sides[corner] - of_sides[corner - 1] + ends[corner] for corner in range(4)])


def _next(values: Array) -> Array:
    """Each side's second mass: corner k+1 at place k."""
    return jnp.concatenate([values[1:], values[:1]])


def _view_sides(model: SquareModel, masses: Masses) -> _Sides:
    second = Masses(*map(_next, masses))
    pad = (1,) * (masses.x.ndim - 1)
    along_x, along_y = (jnp.asarray(SIDE_ALONG[:, axis], masses.x.dtype).reshape(4, *pad) for axis in (0, 1))

    def half(mass: Masses) -> tuple[Array, Array]:
        return (
            model.half_side * (mass.cosine * along_x - mass.sine * along_y),
            model.half_side * (mass.sine * along_x + mass.cosine * along_y),
        )

    return _Sides(
        center=(second.x - masses.x, second.y - masses.y),
        center_rate=(second.velocity_x - masses.velocity_x, second.velocity_y - masses.velocity_y),
        first_half=half(masses),
        second_half=half(second),
        first_spin=masses.spin,
        second_spin=second.spin,
    )


def _see_spring(sides: _Sides, sign_first: int, sign_second: int) -> _Spring:
    """The spring between the given inward sides of the two masses."""
    (first_x, first_y), (second_x, second_y) = sides.first_half, sides.second_half
    arm_first_x, arm_first_y = first_x - sign_first * first_y, first_y + sign_first * first_x
    arm_second_x, arm_second_y = -second_x - sign_second * second_y, -second_y + sign_second * second_x
    d_x = sides.center[0] + arm_second_x - arm_first_x
    d_y = sides.center[1] + arm_second_y - arm_first_y
    return _Spring(d_x, d_y, arm_first_x * d_y - arm_first_y * d_x, arm_second_x * d_y - arm_second_y * d_x)


def _tension(model: SquareModel, sides: _Sides, spring: tuple[int, int, int, int], rest_length: Array) -> Array:
    """φ of one of SIDE_SPRINGS in every side [N/m], (4, rows, columns, ...)."""
    sign_first, sign_second, group, kind = spring
    d_x, d_y, lever_first, lever_second = _see_spring(sides, sign_first, sign_second)
    q = d_x * d_x + d_y * d_y + TINY
    # An anchor at r on a mass that turns with rate w adds d·(w ẑ×r) = w (r×d) to d·ḋ.
    opening = d_x * sides.center_rate[0] + d_y * sides.center_rate[1]
    opening = opening + sides.second_spin * lever_second - sides.first_spin * lever_first
    damping = 2 * model.damping_ratio * model.angular_frequency
    pull = model.angular_frequency**2 * (q - rest_length[kind] * jnp.sqrt(q)) + damping * opening
    resistance = 2 / model.mass * q + 1 / model.inertia * (lever_first**2 + lever_second**2)
    return model.groups[group] * pull / resistance


def _side_sums(sides: _Sides, tensions: tuple[Array, ...], limit: Array | None) -> tuple[Array, Array, Array, Array]:
    """Of the four springs and the limit of each side: force on the first mass, torque on the first and the second."""
    force_x = force_y = torque_first = torque_second = jnp.zeros_like(sides.first_spin)
    for (sign_first, sign_second, _, _), tension in zip(SIDE_SPRINGS, tensions, strict=True):
        spring = _see_spring(sides, sign_first, sign_second)
        force_x = force_x + tension * spring.d_x
        force_y = force_y + tension * spring.d_y
        torque_first = torque_first + tension * spring.lever_first
        torque_second = torque_second - tension * spring.lever_second
    if limit is not None:
        force_x = force_x + limit * sides.center[0]
        force_y = force_y + limit * sides.center[1]
    return force_x, force_y, torque_first, torque_second


def _diagonal_forces(model: SquareModel, masses: Masses, rest_length: Array, rate: Array) -> tuple[Array, Array]:
    """Forces of the two diagonal springs and of the least area on masses 0 and 1, (2, rows, columns, ...).

    They are reversed on the opposite masses and act on the centers, so there is no torque. rate: of active limits.
    """
    d_x, d_y = masses.x[2:] - masses.x[:2], masses.y[2:] - masses.y[:2]
    rate_x = masses.velocity_x[2:] - masses.velocity_x[:2]
    rate_y = masses.velocity_y[2:] - masses.velocity_y[:2]
    q = d_x * d_x + d_y * d_y + TINY
    pull = model.angular_frequency**2 * (q - rest_length[2] * jnp.sqrt(q))
    pull = pull + 2 * model.damping_ratio * model.angular_frequency * (d_x * rate_x + d_y * rate_y)
    tension = model.groups[SQUARE_GROUPS.index(Group.central_cross)] * pull * model.mass / (2 * q)
    force_x, force_y = tension * d_x, tension * d_y
    if model.lower_limit is None:
        return force_x, force_y
    diagonals = d_x[0], d_y[0], d_x[1], d_y[1]
    pressure = area_pressure(
        2 * model.mass * rate**2 * model.present,
        least_area(model),
        2 * DAMPING_RATIO / rate,
        diagonals,
        (rate_x[0], rate_y[0], rate_x[1], rate_y[1]),
    )
    outward = pressure_forces(pressure, diagonals)
    return force_x + jnp.stack([outward[0][0], outward[1][0]]), force_y + jnp.stack([outward[0][1], outward[1][1]])


def rest_lengths(model: SquareModel, control: Array) -> Array:
    """Rest length of each kind of spring [m], (kinds, rows, columns, ...), linear in the control on either side.

    control: in [-1, 1], (rows, columns, ...). The ends are the lengths in a voxel of side l sqrt(1 -+ ρ), so the
    paper's l sqrt(1 - f ρ) holds at f = -1, 0 and 1, and the original's straight lines hold between.
    """
    shrunk, rest, enlarged = model.spring_length
    return rest - jnp.maximum(control, 0) * (rest - shrunk) + jnp.maximum(-control, 0) * (enlarged - rest)


def add_actuation_forces(model: SquareModel, masses: Masses, control: Array, forces: Forces) -> Forces:
    """Add the forces of voxels with force actuation."""
    if model.max_force is None:
        return forces
    force_x, force_y = inward_force(control * model.max_force, (masses.x, masses.y), (0,))
    return forces._replace(x=forces.x + force_x, y=forces.y + force_y)
