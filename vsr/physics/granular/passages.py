"""Passages: grains that come to an outlet go on from an inlet, so that what flows keeps flowing.

An inlet has places on a regular grid, farther apart than two grains are wide. A place is free if no grain would overlap
one put there. The first grains in the outlet, in the order of cells, get the free places in a fixed order; those for
whom there is none wait in the outlet. No grain is made or lost.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import dot, split
from vsr.physics.granular.model import GrainModel, GrainState

APART = 1.05
"""Between places of an inlet, in diameters of the largest grain."""
SEED = 0
"""Of the order in which places are taken: mixed, so that an inlet fills evenly."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Passage:
    """From an outlet to an inlet."""

    outlet: Any
    """a shape (vsr.sdf) in the world's frame: grains whose center is in it leave"""
    low: Array
    """the first place of the inlet [m], (dimension,)"""
    velocity: Array | None
    """of grains that come in [m/s], (dimension,); None: they keep theirs"""
    spacing: float = field(metadata={"static": True})
    """of places along each axis [m]"""
    counts: tuple[int, ...] = field(metadata={"static": True})
    """of places along each axis"""

    @property
    def capacity(self) -> int:
        """How many grains can come in at once."""
        return math.prod(self.counts)


def passage(
    grains: GrainModel,
    outlet: Any,
    low: Sequence[float],
    high: Sequence[float],
    velocity: Sequence[float] | None = None,
) -> Passage:
    """From a shape to the box between two corners [m]; velocity at the inlet [m/s], None to keep one's own.

    Whole grains come to lie in the box. Raises ValueError for one that holds no grain.
    """
    room = np.asarray(high, float) - np.asarray(low, float) - 2 * grains.largest
    if len(room) != grains.dimension or (room < 0).any():
        raise ValueError(
            f"an inlet from {tuple(low)} to {tuple(high)} m holds no grain of {grains.largest:g} m radius; "
            f"it needs {grains.dimension} axes, each of {2 * grains.largest:g} m or more"
        )
    spacing = APART * 2 * grains.largest
    counts = tuple(int(length / spacing + 1e-6) + 1 for length in room)
    dtype = grains.start.position.dtype
    return Passage(
        outlet=outlet,
        low=jnp.asarray(np.asarray(low, float) + grains.largest, dtype),
        velocity=None if velocity is None else jnp.asarray(velocity, dtype),
        spacing=spacing,
        counts=counts,
    )


def passed(through: Passage, grains: GrainModel, state: GrainState) -> tuple[GrainState, Array]:
    """The grains after those in the outlet have gone to free places of the inlet, and how many did, ()."""
    leaving = through.outlet.distance(split(state.position, 0)) < 0
    order = np.random.default_rng(SEED).permutation(through.capacity)
    free = _free(through, grains, state)[order]
    # The k-th grain that leaves gets the k-th free place.
    chosen = jnp.nonzero(free, size=through.capacity, fill_value=0)[0]
    rank = jnp.cumsum(leaving) - 1
    moved = leaving & (rank < free.sum())
    place = jnp.asarray(order)[chosen[jnp.clip(rank, 0, through.capacity - 1)]]
    position = jnp.where(moved, _places(through)[:, place], state.position)
    velocity = state.velocity
    if through.velocity is not None:
        velocity = jnp.where(moved, through.velocity[:, None], velocity)
    apart = moved | moved[state.neighbor]
    return replace(
        state,
        position=position,
        velocity=velocity,
        spin=None if state.spin is None else jnp.where(moved, 0, state.spin),
        # What a grain and its neighbors gave each other is over; the list is made anew before the next step.
        impulse=jnp.where(apart[:, None], 0, state.impulse),
        rolling=None if state.rolling is None else jnp.where(apart[:, None], 0, state.rolling),
        body_impulse=jnp.where(moved, 0, state.body_impulse),
        listed_at=jnp.where(moved, jnp.inf, state.listed_at),
    ), moved.sum()


def _places(through: Passage) -> Array:
    """Of the inlet [m], (dimension, places)."""
    steps = np.stack(np.unravel_index(np.arange(through.capacity), through.counts))
    return through.low[:, None] + through.spacing * jnp.asarray(steps, through.low.dtype)


def _free(through: Passage, grains: GrainModel, state: GrainState) -> Array:
    """Whether a grain put at a place would overlap none, (places,).

    Places are farther apart than grains are wide: only those at the corners of its own cell can be taken by a grain.
    """
    counts = jnp.array(through.counts)[:, None]
    first = jnp.floor((state.position - through.low[:, None]) / through.spacing)
    # NaN must not become an index, nor what is far away a large one.
    first = jnp.where(jnp.isfinite(first), jnp.clip(first, -2, counts + 1), -2).astype(jnp.int32)
    taken = jnp.zeros(through.capacity, bool)
    for corner in itertools.product((0, 1), repeat=grains.dimension):
        cell = first + jnp.array(corner)[:, None]
        way = split(through.low[:, None] + through.spacing * cell - state.position, 0)
        # Sizes of grains that leave are not known here, so the largest counts.
        hit = (dot(way, way) < (2 * grains.largest) ** 2) & ((cell >= 0) & (cell < counts)).all(0)
        number = jnp.ravel_multi_index(tuple(jnp.clip(cell, 0, counts - 1)), through.counts, mode="clip")
        taken = taken.at[number].max(hit)
    return ~taken
