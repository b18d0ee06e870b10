"""Ground of voxels that do not move: which cell of a fixed grid a point is in, and which of its edges are outside."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

EDGES = 4
"""Bottom, right, top, left: bits of a cell's code, the lowest first."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GroundCells:
    """Cells of the size of a voxel, the lowest left one at the origin."""

    code: Array
    """0 for an empty cell, else 16 and a bit for each edge that has no neighbor, (rows, columns)"""

    @staticmethod
    def of(solid: np.ndarray | Array) -> GroundCells:
        """From True for solid cells, (rows, columns), the lowest first; inside or outside `jit`."""
        solid = jnp.asarray(solid, bool)
        return GroundCells(jnp.where(solid, 16 + edge_bits(outer_edges(solid)), 0).astype(jnp.int32))


def outer_edges(present: Array) -> Array:
    """True for the bottom, right, top and left edges of voxels that have no neighbor there, (4, rows, columns)."""
    padded = jnp.pad(present, 1)
    rows, columns = present.shape
    around = [(0, 1), (1, 2), (2, 1), (1, 0)]
    beside = jnp.stack([padded[row : row + rows, column : column + columns] for row, column in around])
    return present & ~beside


def edge_bits(outer: Array) -> Array:
    """Flags of edges as one number, (4, ...) -> (...)."""
    return sum(outer[edge].astype(jnp.int32) << edge for edge in range(EDGES))  # pyright: ignore[reportReturnType]


def code_at(ground: GroundCells, row: Array, column: Array) -> Array:
    """Codes of cells by their numbers, 0 outside the grid; further axes of the ground go with the last of the numbers.

    A point that is not finite is nowhere.
    """
    rows, columns = ground.code.shape[:2]
    inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
    # NaN is not inside, so that it never becomes an index.
    row, column = (jnp.where(inside, number, 0).astype(jnp.int32) for number in (row, column))
    batch = ground.code.shape[2:]
    if all(size == 1 for size in batch):
        found = ground.code.reshape(rows, columns)[row, column]
    else:
        lanes = (jax.lax.broadcasted_iota(jnp.int32, batch, axis) for axis in range(len(batch)))
        found = ground.code[(row, column, *lanes)]
    return jnp.where(inside, found, 0)


def has_edge(code: Array, edge: int) -> Array:
    """Whether an edge of cells is outside."""
    return (code >> edge) & 1 > 0
