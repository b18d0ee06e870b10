"""Limits that keep a voxel from collapsing and from turning inside out.

The original stops side-adjacent masses with a rigid, impulsive joint at a least (or greatest) distance. Here a violated
limit is a damped spring that only pushes away from the limit. Its stiffness belongs to the material, so that another
substep computes the same body.

A limit of distances has no say about which way round a voxel is: pushed hard enough, masses pass each other, and on the
other side it pushes the wrong way. So a voxel with a least distance also has a least area. Area has a sign: what is
inside out is pushed back all the harder.

Every array may have further axes at the end.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.physics.squares.model import SquareModel
from vsr.robot.material import Material

STIFFNESS = 3.0
"""Angular frequency of an active limit over that of the material's springs."""
STIFF = 225.0
"""Limits need not be stiffer than this [rad/s] ..."""
LEAST_STIFFNESS = 1.4
"""... unless the springs are: an active limit is at least this much stiffer than they are."""
LEAST_FREQUENCY = 1.0
"""Softer springs have the limits of springs of this frequency [Hz]."""
MOST_PER_SUBSTEP = 0.45
"""Most that this angular frequency times the substep may be, for stability. Automatic substeps keep to it
(`substep_of_limits`); whoever asks for coarser ones gets softer limits."""
DAMPING_RATIO = 0.7

TINY = 1e-12
"""Keeps what has no length from dividing by zero [m²]."""
NO_LIMIT = 1e30
"""The squared upper limit of what has none [m²]."""


def limit_rate(model: SquareModel, substep: float) -> Array:
    """Angular frequency of active limits [rad/s], (rows, columns, ...)."""
    return jnp.minimum(_own_rate(model.angular_frequency), MOST_PER_SUBSTEP / substep)


def substep_of_limits(material: Material) -> float:
    """The longest substep with which a material's limits are as stiff as they should be [s]."""
    if material.lower_limit == 0 and material.upper_limit is None:
        return math.inf
    return MOST_PER_SUBSTEP / float(_own_rate(np.asarray(2 * math.pi * material.spring_frequency)))


def _own_rate(springs: Any) -> Any:
    """Angular frequency of active limits, given that of the springs [rad/s]."""
    springs = springs.clip(2 * math.pi * LEAST_FREQUENCY)
    return (STIFFNESS * springs).clip(None, STIFF).clip(LEAST_STIFFNESS * springs)


def limit_numbers(model: SquareModel, substep: float) -> dict[str, Array]:
    """All that forces of limits depend on, (rows, columns, ...), those that there are; substep: see `limit_rate`."""
    numbers: dict[str, Array] = {}
    rate = limit_rate(model, substep)
    stiffness = model.present * model.mass * rate**2
    for name, limit in (("lower", model.lower_limit), ("upper", model.upper_limit)):
        if limit is not None:
            squared = jnp.clip(limit * limit, TINY, NO_LIMIT)
            numbers |= {"limit_lag": 2 * DAMPING_RATIO / rate}
            numbers |= {name: squared, f"{name}_stiffness": stiffness / (4 * squared)}
    if model.lower_limit is not None:
        # Of the square of a voxel's four centers, with all sides at their lower limit.
        numbers |= {"least_area": model.lower_limit**2, "area_stiffness": 2 * stiffness}
    return numbers


def limit_tension(
    numbers: dict[str, Array], center: tuple[Array, Array], center_rate: tuple[Array, Array]
) -> Array | None:
    """Tension (over distance) that keeps centers of side-adjacent masses within their limits, (4, ...), if any.

    center: from the first mass of each side to the second [m]; center_rate: its rate [m/s]. Lengths are compared
    squared: exact in sign, right to first order, and no root is needed.
    """
    parts = []
    for name, within in (("lower", jnp.minimum), ("upper", jnp.maximum)):
        if name in numbers:
            excess = center[0] * center[0] + center[1] * center[1] - numbers[name]
            late = 2 * numbers["limit_lag"] * (center[0] * center_rate[0] + center[1] * center_rate[1])
            # The spring of a limit never pulls a lower one shut nor pushes an upper one open.
            pull = within(numbers[f"{name}_stiffness"] * (excess + late), 0)
            parts.append(jnp.where(excess < 0 if name == "lower" else excess > 0, pull, 0))
    return sum(parts[1:], parts[0]) if parts else None


def area_pressure(
    stiffness: Array, least: Array, lag: Array, diagonals: tuple[Array, ...], rates: tuple[Array, ...]
) -> Array:
    """Pressure of a voxel whose area is less than its least, 0 for others [N/m].

    stiffness: twice a mass times the squared rate of its limits [N/m]; lag: twice the damping ratio over that rate [s];
    least: area [m²]; diagonals: x and y of those from masses 0 and 1 to their opposites [m]; rates: their rates [m/s].
    Divided by the squared diagonals, its stiffness as masses feel it is the same for all shapes.
    """
    first_x, first_y, second_x, second_y = diagonals
    area = 0.5 * (first_x * second_y - first_y * second_x)
    growth = 0.5 * (rates[0] * second_y - rates[1] * second_x + first_x * rates[3] - first_y * rates[2])
    size = first_x * first_x + first_y * first_y + second_x * second_x + second_y * second_y + TINY
    missing = least - area
    return jnp.where(missing > 0, stiffness * jnp.maximum(missing - lag * growth, 0) / size, 0)


def pressure_forces(pressure: Array, diagonals: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """What a pressure does to masses 0 and 1: force x and y [N] each, reversed on the opposite masses."""
    first_x, first_y, second_x, second_y = diagonals
    half = 0.5 * pressure
    return (-half * second_y, half * second_x), (half * first_y, -half * first_x)
