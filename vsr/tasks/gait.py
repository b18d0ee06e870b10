"""The gait of a robot, followed from control call to control call: its rhythm, and when its feet touch the ground.

The rhythm is the frequency at which the center's vertical velocity has most power. A bank of damped resonators, one
every 0.1 Hz and about as wide, listens to it; so nothing but their states is kept, however long an episode is.
A foot is a column of the grid; it touches where any of its voxels does.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.physics.engine import AnyModel, engine_of
from vsr.world.state import WorldModel, WorldState

SPACING = 0.1
"""Between two resonators, and their width [Hz]."""
HIGHEST = 8.0
"""Frequency that is listened to [Hz], or half that of control calls."""
SETTLING = 3.0
"""Time at the start in which robots come to stand, and which is not listened to [s]."""
STILL = 2e-3
"""Root of the mean squared vertical velocity below which nothing moves [sides of a voxel per s]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Gait:
    """What was followed so far."""

    height: Array
    """of the center at the last call [m], ()"""
    resonance: Array
    """of each resonator, complex as two numbers [m/s], (2, resonators)"""
    power: Array
    """sum over calls of the resonances' squares [m²/s²], (resonators,)"""
    squared: Array
    """sum over calls of the squared vertical velocity [m²/s²], ()"""
    contact: Array
    """calls at which any voxel touched, ()"""
    feet: Array
    """calls at which each column touched, (columns,)"""
    columns: Array
    """1 for columns that have a voxel, (columns,)"""
    calls: Array
    """all, ()"""
    interval: Array
    """from call to call [s], ()"""
    voxel_side: Array
    """[m], ()"""


def frequencies(interval: Array | float) -> Array:
    """Of all resonators [Hz]; those that calls are too rare for are 0."""
    listened = SPACING * np.arange(1, round(HIGHEST / SPACING) + 1)
    return jnp.where(listened < 0.5 / interval, listened, 0.0)


def begin_gait(world: WorldModel, state: WorldState, interval: float) -> Gait:
    """Before the first step."""
    model = world.robots[0]
    dtype = model.mass.dtype
    count, zero = round(HIGHEST / SPACING), jnp.zeros((), dtype)
    columns = _by_column(model.present)
    return Gait(
        height=_height(model, state),
        resonance=jnp.zeros((2, count), dtype),
        power=jnp.zeros(count, dtype),
        squared=zero,
        contact=zero,
        feet=jnp.zeros_like(columns, dtype),
        columns=columns.astype(dtype),
        calls=zero,
        interval=jnp.asarray(interval, dtype),
        voxel_side=jnp.asarray(model.voxel_side, dtype),
    )


def follow_gait(gait: Gait, world: WorldModel, state: WorldState, felt: Array | None) -> Gait:
    """One control step later; felt: 1 for voxels that loose objects touch, *cells, None if there are none."""
    model = world.robots[0]
    height = _height(model, state)
    settled = gait.calls * gait.interval >= SETTLING
    velocity = jnp.where(settled, (height - gait.height) / gait.interval, 0)
    turn = 2 * jnp.pi * frequencies(gait.interval).astype(velocity.dtype) * gait.interval
    fade = jnp.exp(-2 * jnp.pi * SPACING * gait.interval)
    real, imaginary = gait.resonance
    cosine, sine = jnp.cos(turn), jnp.sin(turn)
    real, imaginary = (
        fade * (cosine * real - sine * imaginary) + velocity,
        fade * (sine * real + cosine * imaginary),
    )
    contact = engine_of(model).voxel_motion(model, world.environment, state.robots[0]).contact
    if felt is not None:
        contact = jnp.maximum(contact, felt)
    feet = _by_column(contact * model.present).astype(velocity.dtype)
    return Gait(
        height=height,
        resonance=jnp.stack([real, imaginary]),
        power=gait.power + real**2 + imaginary**2,
        squared=gait.squared + velocity**2,
        contact=gait.contact + feet.max(),
        feet=gait.feet + feet,
        columns=gait.columns,
        calls=gait.calls + 1,
        interval=gait.interval,
        voxel_side=gait.voxel_side,
    )


def rhythm(gait: Gait) -> Array:
    """The frequency with most power [Hz], between resonators by the weight of its neighbors; 0 if nothing moves."""
    listened = frequencies(gait.interval).astype(gait.power.dtype)
    power = jnp.where(listened > 0, gait.power, 0)
    place = jnp.argmax(power)
    near = jnp.abs(jnp.arange(len(power)) - place) <= 1
    weight = jnp.where(near, power, 0)
    center = (weight * listened).sum() / jnp.maximum(weight.sum(), jnp.finfo(power.dtype).tiny)
    moves = gait.squared > (STILL * gait.voxel_side) ** 2 * jnp.maximum(gait.calls, 1)
    return jnp.where(moves, center, 0)


def duty(gait: Gait) -> Array:
    """Share of calls at which each column touched, (columns,)."""
    return gait.feet / jnp.maximum(gait.calls, 1)


def _height(model: AnyModel, state: WorldState) -> Array:
    return engine_of(model).center(model, state.robots[0])[-1]


def _by_column(cells: Array) -> Array:
    """1 for columns of which any cell is not 0, (columns,)."""
    return (cells > 0).any(tuple(range(cells.ndim - 1)))
