"""What is seen of a robot at the end of every interval, added up: enough for the summary of an episode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

EXPLOSION_SPEED = 1e4
"""A mass faster than this [m/s] has exploded: nothing a robot can do gets it there, and instability soon does."""


class Telemetry(NamedTuple):
    """One entry per cluster or node, whatever the engine's array of them."""

    height: Array
    """sum over intervals and the masses there of the height of their centres [m]"""
    diverged: Array
    """True if its state ever was not finite or exploded"""


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
    return Telemetry(seen.height.sum(0), seen.diverged.any(0))


def has_diverged(whereabouts: tuple[Array, ...], velocity: Array) -> Array:
    """True where a sum of coordinates is not finite or a velocity exploded; velocity: [m/s], (..., dimension)."""
    finite = jnp.isfinite(sum(whereabouts))
    # A comparison with NaN is false, so this also catches velocities that are not numbers.
    return ~(finite & ((velocity**2).sum(-1) < EXPLOSION_SPEED**2))
