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


def limit_tension(
    model: SquareModel, center: tuple[Array, Array], center_rate: tuple[Array, Array], rate: Array
) -> Array:
    """Tension (over distance) that keeps centers of side-adjacent masses within their limits, (4, rows, columns, ...).

    center: from the first mass of each side to the second [m]; center_rate: its rate [m/s]; rate: of active limits
    [rad/s]. Lengths are compared squared: exact in sign, right to first order, and no root is needed.
    """
    distance_2 = center[0] ** 2 + center[1] ** 2
    closing = center[0] * center_rate[0] + center[1] * center_rate[1]

    def tension(limit: Array, side: int) -> Array:
        limit_2 = jnp.maximum(limit * limit, TINY)
        excess = (distance_2 - limit_2) / (2 * limit_2)
        pull = model.mass / 2 * (rate**2 * excess + 2 * DAMPING_RATIO * rate * closing / limit_2)
        return jnp.where(side * excess > 0, side * jnp.maximum(side * pull, 0), 0) * model.present

    total = jnp.zeros_like(distance_2)
    if model.lower_limit is not None:
        total = total + tension(model.lower_limit, -1)
    if model.upper_limit is not None:
        total = total + jnp.where(jnp.isfinite(model.upper_limit), tension(model.upper_limit, +1), 0)
    return total


def least_area(model: SquareModel) -> Array:
    """Of the square of its four centers, with all sides at their lower limit [m²], (rows, columns, ...)."""
    assert model.lower_limit is not None
    return model.lower_limit**2


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
