"""Forces of a voxel's scaffolding on its four masses (2D-VSR-Sim's spring-damper systems).

A spring of frequency f and damping ratio ζ between two anchors acts along the unit vector n between them with

    k = m ω²,  d = 2 ζ ω m,  ω = 2π f,  1/m = 1/m₁ + 1/m₂ + (r₁×n)²/I₁ + (r₂×n)²/I₂,

where the effective mass m includes the turning of the two masses about their own centres and therefore follows the
pose. With the unnormalised d = p₂ - p₁ and q = d·d this needs one root and one division per spring:

    force on mass 1 = φ d,   φ = (ω² (q - L √q) + 2 ζ ω d·ḋ) / ((1/m₁ + 1/m₂) q + ((r₁×d)² + (r₂×d)²) / I),

its torque on mass 1 is φ (r₁×d), and both are reversed for mass 2.

Every array may have further axes at the end (see vsr.physics.model).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.physics.model import Model
from vsr.physics.scaffolding import GROUPS, SIDE_ALONG, SIDE_SPRINGS, Group

TINY = 1e-12
"""Keeps a spring of no length from dividing by zero [m²]."""

LIMIT_RATE = 0.3
"""Angular frequency of an active distance limit times the substep: stiff, yet far from its own stability bound."""
LIMIT_DAMPING_RATIO = 0.7


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
    """What acts on each mass: force [N] and torque about its centre [N m]; each (4, rows, columns, ...)."""

    x: Array
    y: Array
    torque: Array


class _Sides(NamedTuple):
    """The two masses of every side as its springs see them; fields (4, rows, columns, ...)."""

    gap: tuple[Array, Array]
    """from the first mass's face to the second's"""
    gap_rate: tuple[Array, Array]
    center: tuple[Array, Array]
    """from the first mass's centre to the second's"""
    center_rate: tuple[Array, Array]
    along: tuple[tuple[Array, Array], tuple[Array, Array]]
    """half side of the first and second mass along the side"""
    spin: tuple[Array, Array]


def spring_forces(model: Model, masses: Masses, rest_length: Array, substep: float) -> Forces:
    """Forces of springs and distance limits.

    rest_length: of each kind of spring now [m], (kinds, rows, columns, ...); substep: [s], sets the stiffness of
    active limits.
    """
    sides = _view_sides(model, masses)
    force_x, force_y, torque_first, torque_second = _side_springs(model, sides, rest_length)
    limit = _limit_tension(model, sides, substep)
    if limit is not None:
        force_x = force_x + limit * sides.center[0]
        force_y = force_y + limit * sides.center[1]
    cross_x, cross_y = _central_springs(model, masses, rest_length)
    return Forces(
        force_x - _previous(force_x) + cross_x,
        force_y - _previous(force_y) + cross_y,
        torque_first + _previous(torque_second),
    )


def _next(values: Array) -> Array:
    """Each side's second mass: corner k+1 at place k."""
    return jnp.concatenate([values[1:], values[:1]])


def _previous(values: Array) -> Array:
    """Each mass's other side: side k-1 at place k."""
    return jnp.concatenate([values[3:], values[:3]])


def _view_sides(model: Model, masses: Masses) -> _Sides:
    second = Masses(*map(_next, masses))
    pad = (1,) * (masses.x.ndim - 1)
    along_x, along_y = (jnp.asarray(SIDE_ALONG[:, axis], masses.x.dtype).reshape(4, *pad) for axis in (0, 1))

    def arm(mass: Masses) -> tuple[Array, Array]:
        return (
            model.half_side * (mass.cosine * along_x - mass.sine * along_y),
            model.half_side * (mass.sine * along_x + mass.cosine * along_y),
        )

    first_arm, second_arm = arm(masses), arm(second)
    center = second.x - masses.x, second.y - masses.y
    center_rate = second.velocity_x - masses.velocity_x, second.velocity_y - masses.velocity_y
    return _Sides(
        gap=(center[0] - first_arm[0] - second_arm[0], center[1] - first_arm[1] - second_arm[1]),
        # An arm a turns with rate ω × a, and ẑ × (along) is the inward arm (-a_y, a_x).
        gap_rate=(
            center_rate[0] + masses.spin * first_arm[1] + second.spin * second_arm[1],
            center_rate[1] - masses.spin * first_arm[0] - second.spin * second_arm[0],
        ),
        center=center,
        center_rate=center_rate,
        along=(first_arm, second_arm),
        spin=(masses.spin, second.spin),
    )


def _side_springs(model: Model, sides: _Sides, rest_length: Array) -> tuple[Array, Array, Array, Array]:
    """Sum over the four springs of each side: force on the first mass, torque on the first and on the second."""
    (gap_x, gap_y), (rate_x, rate_y) = sides.gap, sides.gap_rate
    (first_x, first_y), (second_x, second_y) = sides.along
    first_spin, second_spin = sides.spin
    stiffening = model.angular_frequency**2
    damping = 2 * model.damping_ratio * model.angular_frequency
    inverse_mass, inverse_inertia = 2 / model.mass, 1 / model.inertia
    force_x = force_y = torque_first = torque_second = jnp.zeros_like(gap_x)
    for sign_first, sign_second, group, kind in SIDE_SPRINGS:
        d_x = gap_x - sign_second * second_y + sign_first * first_y
        d_y = gap_y + sign_second * second_x - sign_first * first_x
        d_rate_x = rate_x - sign_second * second_spin * second_x + sign_first * first_spin * first_x
        d_rate_y = rate_y - sign_second * second_spin * second_y + sign_first * first_spin * first_y
        q = d_x * d_x + d_y * d_y + TINY
        lever_first = (first_x - sign_first * first_y) * d_y - (first_y + sign_first * first_x) * d_x
        lever_second = (-second_x - sign_second * second_y) * d_y - (-second_y + sign_second * second_x) * d_x
        pull = stiffening * (q - rest_length[kind] * jnp.sqrt(q)) + damping * (d_x * d_rate_x + d_y * d_rate_y)
        resistance = inverse_mass * q + inverse_inertia * (lever_first**2 + lever_second**2)
        tension = model.groups[group] * pull / resistance
        force_x = force_x + tension * d_x
        force_y = force_y + tension * d_y
        torque_first = torque_first + tension * lever_first
        torque_second = torque_second - tension * lever_second
    return force_x, force_y, torque_first, torque_second


def _central_springs(model: Model, masses: Masses, rest_length: Array) -> tuple[Array, Array]:
    """Forces of the two diagonal springs on the four masses; they pull at the centres, so there is no torque."""
    d_x, d_y = masses.x[2:] - masses.x[:2], masses.y[2:] - masses.y[:2]
    rate_x = masses.velocity_x[2:] - masses.velocity_x[:2]
    rate_y = masses.velocity_y[2:] - masses.velocity_y[:2]
    q = d_x * d_x + d_y * d_y + TINY
    pull = model.angular_frequency**2 * (q - rest_length[2] * jnp.sqrt(q))
    pull = pull + 2 * model.damping_ratio * model.angular_frequency * (d_x * rate_x + d_y * rate_y)
    tension = model.groups[GROUPS.index(Group.central_cross)] * pull * model.mass / (2 * q)
    pull_x, pull_y = tension * d_x, tension * d_y
    return jnp.concatenate([pull_x, -pull_x]), jnp.concatenate([pull_y, -pull_y])


def _limit_tension(model: Model, sides: _Sides, substep: float) -> Array | None:
    """Tension (over distance) that keeps the centres of side-adjacent masses within their limits.

    The original stops them with a rigid, impulsive joint; here a violated limit is a spring as stiff as the substep
    allows, which never pulls a lower limit shut nor pushes an upper one open. Lengths are compared squared, which
    is exact in sign and right to first order, and needs no root.
    """
    if model.lower_limit is None and model.upper_limit is None:
        return None
    distance_2 = sides.center[0] ** 2 + sides.center[1] ** 2
    closing = sides.center[0] * sides.center_rate[0] + sides.center[1] * sides.center_rate[1]
    rate = LIMIT_RATE / substep

    def tension(limit: Array, side: int) -> Array:
        limit_2 = jnp.maximum(limit * limit, TINY)
        excess = (distance_2 - limit_2) / (2 * limit_2)
        pull = model.mass / 2 * (rate**2 * excess + 2 * LIMIT_DAMPING_RATIO * rate * closing / limit_2)
        return jnp.where(side * excess > 0, side * jnp.maximum(side * pull, 0), 0) * model.present

    total = jnp.zeros_like(distance_2)
    if model.lower_limit is not None:
        total = total + tension(model.lower_limit, -1)
    if model.upper_limit is not None:
        total = total + jnp.where(jnp.isfinite(model.upper_limit), tension(model.upper_limit, +1), 0)
    return total
