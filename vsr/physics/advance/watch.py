"""What is seen of a robot at the end of every interval, added up: enough for the summary of a life."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from vsr.physics.exchange import clusters_of_masses
from vsr.physics.model import Model, State

EXPLOSION_SPEED = 1e4
"""A mass faster than this [m/s] has exploded: nothing a robot can do gets it there, and instability soon does."""


class Watch(NamedTuple):
    """Each (layers, rows+1, columns+1)."""

    height: Array
    """sum over intervals and the cluster's masses of the height of their centres [m]"""
    broken: Array
    """True if the cluster ever was nowhere or exploded"""


S = TypeVar("S")


def through_intervals(interval: Callable[[S, Array], tuple[S, Watch]], state: S, controls: Array) -> tuple[S, Watch]:
    """The state after one interval per control, and all that was seen; controls: (intervals, ...)."""
    if controls.shape[0] == 1:
        return interval(state, controls[0])
    state, seen = jax.lax.scan(interval, state, controls)
    return state, Watch(seen.height.sum(0), seen.broken.any(0))


class MassSums(NamedTuple):
    """Of every cluster's masses; each (layers, rows+1, columns+1)."""

    count: Array
    offset_x: Array
    """sum of their centres seen from the cluster's at rest [m]"""
    offset_y: Array


def mass_sums(model: Model) -> MassSums:
    """How many masses a cluster has, and where."""
    layers = model.cluster_mass.shape[0]
    present = jnp.broadcast_to(model.present, model.in_second_layer.shape)
    parts = present, model.mass_offset[:, :, :, 0], model.mass_offset[:, :, :, 1]
    return MassSums(*(clusters_of_masses(part, model.in_second_layer, layers) for part in parts))


def look(model: Model, state: State) -> Watch:
    """What is seen of one state."""
    sums = mass_sums(model)
    cosine, sine = state.rotation[..., 0], state.rotation[..., 1]
    return Watch(
        sums.count * state.position[..., 1] + sine * sums.offset_x + cosine * sums.offset_y,
        broken(state),
    )


def broken(state: State) -> Array:
    """True for clusters that are nowhere or have exploded, (layers, rows+1, columns+1)."""
    whereabouts = (*jnp.moveaxis(state.position, -1, 0), *jnp.moveaxis(state.rotation, -1, 0), state.spin)
    finite = jnp.isfinite(sum(whereabouts))
    # A comparison with NaN is false, so this also catches velocities that are not numbers.
    return ~(finite & ((state.velocity**2).sum(-1) < EXPLOSION_SPEED**2))
