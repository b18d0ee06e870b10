"""The energy of a robot of square masses: of motion, of weight, and of all that is stretched or pressed in it.

Springs have a stiffness that follows the pose (docs/understand/physics.md), so their forces are near to the gradient of
this energy and not equal to it. Dampers and friction have none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import quarter_turn, turn
from vsr.environment import Environment
from vsr.physics.actuation import inward_energy
from vsr.physics.contract import Energies
from vsr.physics.squares.geometry import MassMotion, mass_motion
from vsr.physics.squares.limits import limit_rate
from vsr.physics.squares.model import SIDE_ALONG, SIDE_SPRINGS, SquareModel, SquareState
from vsr.physics.squares.springs import rest_lengths

TINY = 1e-12
"""Keeps what has no length from dividing by zero [m²]."""
DIAGONALS = 3
"""Place of the springs between opposite masses among the groups."""


def energies(
    model: SquareModel, environment: Environment, state: SquareState, control: Array, substep: float
) -> Energies:
    """Of a state under control values; substep: see `limit_rate` [s].

    Semi-implicit Euler keeps, of a body with linear springs without error, the energy of positions and of velocities
    half a substep later. That of velocities as they are varies with every oscillation, by half of it if it is fast.
    """
    control = jnp.clip(control, -1, 1)

    def stored(position: Array, rotation: Array) -> tuple[Array, Array, Array]:
        return _stored(model, environment, replace(state, position=position, rotation=rotation), control, substep)

    places = state.position, state.rotation
    changes = state.velocity, state.spin[..., None] * quarter_turn(state.rotation)
    (weight, elastic, held), rates = jax.jvp(stored, places, changes)
    moving = (model.cluster_mass * (state.velocity**2).sum(-1)).sum() + (model.cluster_inertia * state.spin**2).sum()
    kinetic = 0.5 * moving
    return Energies(kinetic - 0.5 * substep * sum(rates), weight, elastic + held, kinetic + elastic)


def _stored(
    model: SquareModel, environment: Environment, state: SquareState, control: Array, substep: float
) -> tuple[Array, Array, Array]:
    """Of weight, of springs and limits, and of forces that are held [J]."""
    motion = mass_motion(model, state)
    elastic = _springs(model, motion, control) + _limits(model, motion, substep) + _least_area(model, motion, substep)
    held = jnp.zeros_like(elastic)
    if model.max_force is not None:
        held = held + inward_energy(control * model.max_force, motion.center)
    if environment.load is not None:
        held = held - (environment.load * state.position).sum()
    return environment.gravity * (model.cluster_mass * state.position[..., -1]).sum(), elastic, held


class _Spring(NamedTuple):
    """One spring of a voxel: the masses it joins, where it is fastened to each [half sides], its group and length."""

    masses: tuple[int, int]
    places: tuple[np.ndarray, np.ndarray]
    group: int
    kind: int


def _listed() -> list[_Spring]:
    """All springs of a voxel."""
    found = []
    for side, along in enumerate(SIDE_ALONG):
        inward = np.array([-along[1], along[0]])
        for first, second, group, kind in SIDE_SPRINGS:
            places = along + first * inward, second * inward - along
            found.append(_Spring((side, (side + 1) % 4), places, group, kind))
    middle = np.zeros(2), np.zeros(2)
    return found + [_Spring((corner, corner + 2), middle, DIAGONALS, 2) for corner in (0, 1)]


SPRINGS = _listed()


def _springs(model: SquareModel, motion: MassMotion, control: Array) -> Array:
    """Half the stiffness times the squared change of length of every spring, all at once."""
    first, second = (_anchors(model, motion, end) for end in (0, 1))
    between = second[0] - first[0]
    length = jnp.sqrt((between**2).sum(-1) + TINY)
    unit = between / length[..., None]
    levers = [arm[..., 0] * unit[..., 1] - arm[..., 1] * unit[..., 0] for _, arm in (first, second)]
    effective = 1 / (2 / model.mass + (levers[0] ** 2 + levers[1] ** 2) / model.inertia)
    rest = rest_lengths(model.spring_length, control)[np.array([spring.kind for spring in SPRINGS])]
    there = model.groups[np.array([spring.group for spring in SPRINGS])]
    return (0.5 * there * effective * model.angular_frequency**2 * (length - rest) ** 2).sum()


def _anchors(model: SquareModel, motion: MassMotion, end: int) -> tuple[Array, Array]:
    """Where all springs are fastened with one end [m], and seen from the masses' centers, each (springs, c, 2)."""
    masses = np.array([spring.masses[end] for spring in SPRINGS])
    x, y = (model.half_side * np.array([spring.places[end][axis] for spring in SPRINGS])[:, None, None]
            for axis in (0, 1))  # fmt: skip
    rotation = motion.rotation[masses]
    arm = turn(rotation, jnp.stack([x, y], -1))
    return motion.center[masses] + arm, arm


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
