"""Telemetry: values of a robot at the end of every interval, added up, enough for the summary of an episode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from vsr.physics.failure import Failure

SHARE_OF_SIDE = 0.25
"""Of a voxel's side that a mass may move in one substep: contact and springs do not follow what is faster."""
EXPLOSION_SPEED = 1e4
"""The limit where neither voxels nor substeps are known [m/s]: instability soon gets there."""


class Telemetry(NamedTuple):
    """One entry per cluster or node, whatever the engine's array of them."""

    height: Array
    """sum over intervals and the masses there of the height of their centers [m]"""
    failure: Array
    """the first Failure that befell it, 0 if none did, whole numbers"""


S = TypeVar("S")
Seen = TypeVar("Seen")
"""Telemetry, or a pytree of it: one for each robot."""


def through_intervals(
    interval: Callable[[S, Any], tuple[S, Seen]], state: S, controls: Array | tuple[Array, ...]
) -> tuple[S, Seen]:
    """The state after one interval per control, and all that was seen; controls: (intervals, ...), of each robot."""
    if jax.tree.leaves(controls)[0].shape[0] == 1:
        return interval(state, jax.tree.map(lambda control: control[0], controls))
    state, seen = jax.lax.scan(interval, state, controls)
    return state, jax.tree.map(_added_up, seen, is_leaf=lambda part: isinstance(part, Telemetry))


def _added_up(seen: Telemetry) -> Telemetry:
    first = (seen.failure > 0).argmax(0)
    return Telemetry(seen.height.sum(0), jnp.take_along_axis(seen.failure, first[None], 0)[0])


def fastest_speed(voxel_side: Array | float, substep: float) -> Array | float:
    """From which on a mass has exploded [m/s]: it moves SHARE_OF_SIDE of a voxel's side [m] in one substep [s], 270 m/s
    for 3 m and 1/360 s. Small voxels may fall faster than that: a fall of a hundred sides is never an explosion."""
    return jnp.maximum(SHARE_OF_SIDE * voxel_side / substep, jnp.sqrt(2 * 9.81 * 100 * voxel_side))


def failure_of(
    whereabouts: tuple[Array, ...],
    velocity: Array,
    inverted: Array | bool = False,
    fastest: Array | float = EXPLOSION_SPEED,
) -> Array:
    """What befell engine: a sum of coordinates that is not finite, or a speed from `fastest` on [m/s].

    velocity: [m/s], (..., dimension); inverted: whether a voxel of theirs is inside out; fastest: see `fastest_speed`.
    """
    squared = (velocity**2).sum(-1)
    return failure_code(jnp.isfinite(sum(whereabouts) + squared), squared, inverted, fastest)


def failure_code(
    finite: Array, squared_speed: Array, inverted: Array | bool = False, fastest: Array | float = EXPLOSION_SPEED
) -> Array:
    """For every mass a Failure or 0; squared_speed: [m²/s²]; inverted, fastest: see `failure_of`."""
    slow = squared_speed < fastest * fastest
    code = jnp.where(slow, jnp.where(inverted, int(Failure.inverted), int(Failure.none)), int(Failure.exploded))
    return jnp.where(finite, code, int(Failure.not_finite)).astype(jnp.int32)
