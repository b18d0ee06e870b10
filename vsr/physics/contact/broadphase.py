"""Broad phase: vertices and voxels that are near each other, a list of fixed length, made anew every few substeps.

A pair is listed if the vertex is within a skin of the box around the voxel, whose sides are along the axes. Pairs
over the capacity are counted, and the count fails the simulation (vsr.physics.failure.Failure.contact_overflow).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.physics.contact.lattices import Lattice
from vsr.physics.contact.vectors import beside, look_up

SKIN = 0.15
"""How far from a voxel's box vertices are listed, in sides of voxels."""
LEAST_CAPACITY = 16
"""Of lists of pairs, also for the smallest bodies."""
CORNER_CAPACITY = 24
"""For corners of the ground that are near voxels."""


class CandidatePairs(NamedTuple):
    """Vertices and voxels that may touch; capacity m."""

    point: Array
    """number of the vertex, or of a corner of the ground, (m,)"""
    cell: Array
    """number of the voxel, (m,)"""
    counts: Array
    """False for slots that are empty, (m,)"""
    overflow: Array
    """pairs that exceeded the capacity of a list so far, ()"""


def no_pairs(capacity: int) -> CandidatePairs:
    """Before anything was listed."""
    none = jnp.zeros(capacity, jnp.int32)
    return CandidatePairs(none, none, jnp.zeros(capacity, bool), jnp.zeros((), jnp.int32))


def capacity_for(lattices: tuple[Lattice, ...]) -> int:
    """As many as all robots have vertices: more than touch at once unless a body is crumpled up."""
    return max(LEAST_CAPACITY, sum(math.prod(size + 1 for size in one.present.shape) for one in lattices))


def may_touch(lattices: tuple[Lattice, ...], with_itself: bool) -> np.ndarray | None:
    """True for vertices (p) and voxels (c) that are not neighbors at rest, (p, c); None if none may touch."""
    if len(lattices) < 2 and not with_itself:
        return None
    blocks = []
    for row, one in enumerate(lattices):
        vertices = one.at_surface.shape[0]
        line = []
        for column, other in enumerate(lattices):
            cells = other.present.shape
            if row == column:
                line.append(
                    ~_corners_of(cells, vertices) if with_itself else np.zeros((vertices, math.prod(cells)), bool)
                )
            else:
                line.append(np.ones((vertices, math.prod(cells)), bool))
        blocks.append(np.concatenate(line, 1))
    return np.concatenate(blocks)


def _corners_of(cells: tuple[int, ...], vertices: int) -> np.ndarray:
    """True where a lattice vertex is a corner of a cell, in whatever layer, (vertices, cells)."""
    sizes = tuple(size + 1 for size in cells)
    place, cell = np.indices(sizes).reshape(len(sizes), -1), np.indices(cells).reshape(len(cells), -1)
    step = place[:, :, None] - cell[:, None]
    corner = ((step == 0) | (step == 1)).all(0)
    return np.tile(corner, (vertices // corner.shape[0], 1))


def list_pairs(
    point: Array, counts: Array, position: Array, lattice: Lattice, allowed: Array | None, before: CandidatePairs
) -> CandidatePairs:
    """Points and voxels that are near now.

    point: [m], (dimension, p); counts: True for those that count, (p,); position: of all vertices [m]; allowed: True
    for pairs that may touch, (p, c); None if all may.
    """
    low, high = boxes(position, lattice, SKIN * lattice.side)
    near = counts[:, None] & lattice.present
    if allowed is not None:
        near &= allowed
    for axis, place in enumerate(point):
        near &= (place[:, None] > low[axis]) & (place[:, None] < high[axis])
    return _compressed(near, before)


def boxes(position: Array, lattice: Lattice, skin: Array) -> tuple[Array, Array]:
    """Around every voxel, along the axes: lowest and highest coordinates [m], (dimension, c) each."""
    corner = look_up(position, lattice.corner_vertices, 1)
    return corner.min(1) - skin, corner.max(1) + skin


def _compressed(near: Array, before: CandidatePairs) -> CandidatePairs:
    """The first pairs of a table (p, c), as many as the capacity allows."""
    capacity, cells = before.point.shape[0], near.shape[1]
    count = jnp.cumsum(near.reshape(-1, *near.shape[2:]).astype(jnp.int32), 0)
    wanted = beside(np.arange(1, capacity + 1, dtype=np.int32), count, 1)
    # The first place at which so many were counted, by halving.
    low, high = jnp.zeros_like(wanted), jnp.full_like(wanted, count.shape[0] - 1)
    for _ in range(count.shape[0].bit_length()):
        middle = (low + high) // 2
        reached = look_up(count, middle) >= wanted
        low, high = jnp.where(reached, low, middle + 1), jnp.where(reached, middle, high)
    exists = wanted <= count[-1]
    found = jnp.where(exists, low, 0)
    missed = jnp.maximum(count[-1] - capacity, 0)
    return CandidatePairs(found // cells, found % cells, exists, before.overflow + missed)
