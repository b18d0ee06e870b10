"""What an episode was worth: every measure is a function of a Summary, and larger need not be better."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from vsr.tasks.summary import Summary

Measure = Callable[[Summary], Array]


def travel_velocity(episode: Summary) -> Array:
    """Displacement of the centre along x over the duration [m/s]."""
    return (episode.end[0] - episode.start[0]) / episode.total_time


def relative_velocity(episode: Summary) -> Array:
    """Travel velocity over the larger side of the initial bounding box [1/s]."""
    return travel_velocity(episode) / episode.box.max()


def average_height(episode: Summary) -> Array:
    """Mean height of the centre [m]."""
    return episode.mean_height


def average_squared_control(episode: Summary) -> Array:
    """Mean over calls and voxels of the squared, clipped control value."""
    return episode.mean_squared_control


def broken_springs(episode: Summary) -> Array:
    """How many springs broke; 0 if none can."""
    count = 0 if episode.broken_springs is None else episode.broken_springs
    return jnp.asarray(count, episode.total_time.dtype)


MEASURES: dict[str, Measure] = {
    function.__name__: function
    for function in (travel_velocity, relative_velocity, average_height, average_squared_control, broken_springs)
}
"""Every measure of any task by its name."""

USUAL = ("travel_velocity", "relative_velocity", "average_height", "average_squared_control")
"""Those taken unless others are asked for: what every robot has."""
