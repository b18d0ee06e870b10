"""The energy of a robot of square masses: of motion, of weight, and of all that is stretched or pressed in it.

Springs have a stiffness that follows the pose (docs/physics.md), so their forces are near to the gradient of this
energy and not equal to it. Dampers and friction have none.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.rotation import quarter_turn
from vsr.environment import Environment
from vsr.physics.actuation import inward_energy
from vsr.physics.contract import Energies
from vsr.physics.squares.actuation import rest_lengths
from vsr.physics.squares.geometry import MassMotion, mass_motion
from vsr.physics.squares.limits import limit_rate
from vsr.physics.squares.model import SquareModel, SquareState
from vsr.physics.squares.scaffolding import SIDE_ALONG, SIDE_SPRINGS

TINY = 1e-12
"""Keeps what has no length from dividing by zero [m²]."""
DIAGONALS = 3
"""Place of the springs between opposite masses among the groups."""


def energies(
    model: SquareModel, environment: Environment, state: SquareState, control: Array, substep: float
) -> Energies:
    """Of a state under control values; substep: see `limit_rate` [s].

    Semi-implicit Euler keeps, of a body with linear springs without error, the energy of positions and of velocities
    half a substep later. That of velocities as they are swings with every oscillation, by up to nine tenths.
    """
    control = jnp.clip(control, -1, 1)

    def stored(position: Array, rotation: Array) -> tuple[Array, Array]:
        return _stored(model, environment, replace(state, position=position, rotation=rotation), control, substep)

    places = state.position, state.rotation
    changes = state.velocity, state.spin[..., None] * quarter_turn(state.rotation)
    (weight, inner), rates = jax.jvp(stored, places, changes)
    moving = (model.cluster_mass * (state.velocity**2).sum(-1)).sum() + (model.cluster_inertia * state.spin**2).sum()
    return Energies(0.5 * moving - 0.5 * substep * sum(rates), weight, inner)


def _stored(
    model: SquareModel, environment: Environment, state: SquareState, control: Array, substep: float
) -> tuple[Array, Array]:
    """Of weight, and of all else but motion [J]."""
    motion = mass_motion(model, state)
    stored = _springs(model, motion, control) + _limits(model, motion, substep) + _least_area(model, motion, substep)
    if model.max_force is not None:
        stored = stored + inward_energy(control * model.max_force, motion.center)
    if environment.load is not None:
        stored = stored - (environment.load * state.position).sum()
    return environment.gravity * (model.cluster_mass * state.position[..., -1]).sum(), stored


def _springs(model: SquareModel, motion: MassMotion, control: Array) -> Array:
    rest = rest_lengths(model, control)
    total = jnp.zeros((), rest.dtype)
    for side in range(4):
        along = SIDE_ALONG[side].astype(float)
        inward = np.array([-along[1], along[0]])
        for first_sign, second_sign, group, kind in SIDE_SPRINGS:
            first = _anchor(model, motion, side, along + first_sign * inward)
            second = _anchor(model, motion, (side + 1) % 4, second_sign * inward - along)
            total = total + _stretched(model, first, second, rest[kind], model.groups[group])
    for corner in (0, 1):
        first, second = (_anchor(model, motion, mass, np.zeros(2)) for mass in (corner, corner + 2))
        total = total + _stretched(model, first, second, rest[2], model.groups[DIAGONALS])
    return total


def _anchor(model: SquareModel, motion: MassMotion, mass: int, place: np.ndarray) -> tuple[Array, Array]:
    """Where a spring is fastened to a mass of every voxel [m], and seen from its centre; place: in half sides."""
    cosine, sine = motion.rotation[mass][..., 0], motion.rotation[mass][..., 1]
    x, y = float(place[0]) * model.half_side, float(place[1]) * model.half_side
    arm = jnp.stack([cosine * x - sine * y, sine * x + cosine * y], -1)
    return motion.center[mass] + arm, arm


def _stretched(
    model: SquareModel, first: tuple[Array, Array], second: tuple[Array, Array], rest: Array, there: Array
) -> Array:
    """Half the stiffness times the squared change of length of one spring of every voxel."""
    between = second[0] - first[0]
    length = jnp.sqrt((between**2).sum(-1) + TINY)
    unit = between / length[..., None]
    levers = [arm[..., 0] * unit[..., 1] - arm[..., 1] * unit[..., 0] for _, arm in (first, second)]
    effective = 1 / (2 / model.mass + (levers[0] ** 2 + levers[1] ** 2) / model.inertia)
    return (0.5 * there * effective * model.angular_frequency**2 * (length - rest) ** 2).sum()


def _limits(model: SquareModel, motion: MassMotion, substep: float) -> Array:
    """Of sides that are too short or too long: the integral of what pushes them back."""
    rate = limit_rate(model, substep)
    total = jnp.zeros((), rate.dtype)
    for side in range(4):
        squared = ((motion.center[(side + 1) % 4] - motion.center[side]) ** 2).sum(-1)
        for limit, sign in ((model.lower_limit, -1), (model.upper_limit, 1)):
            if limit is not None:
                beyond = jnp.where(jnp.isfinite(limit), jnp.maximum(sign * (squared - limit**2), 0), 0)
                stored = model.mass * rate**2 * beyond**2 / (16 * jnp.maximum(limit**2, TINY))
                total = total + (stored * model.present).sum()
    return total


def _least_area(model: SquareModel, motion: MassMotion, substep: float) -> Array:
    if model.lower_limit is None:
        return jnp.zeros((), model.mass.dtype)
    first, second = motion.center[2] - motion.center[0], motion.center[3] - motion.center[1]
    area = 0.5 * (first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0])
    size = (first**2).sum(-1) + (second**2).sum(-1) + TINY
    missing = jnp.maximum(model.lower_limit**2 - area, 0)
    return (model.present * model.mass * limit_rate(model, substep) ** 2 * missing**2 / size).sum()
