"""Between clusters (on lattice vertices) and masses (in voxel corners), by slicing and joining only.

Every array may have further axes at the end.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from vsr.compute.grid import overlap
from vsr.physics.squares.scaffolding import CORNER_CELLS


def corners_of_vertices(vertices: Array) -> Array:
    """Each voxel's view of the vertices, (rows+1, columns+1, ...) -> (4, rows, columns, ...)."""
    rows, columns = vertices.shape[0] - 1, vertices.shape[1] - 1
    return jnp.stack([vertices[r : r + rows, c : c + columns] for r, c in CORNER_CELLS])


def vertices_of_corners(corners: Array) -> Array:
    """Each vertex's view of the voxels around it, (4, rows, columns, ...) -> (4, rows+1, columns+1, ...)."""
    rest = ((0, 0),) * (corners.ndim - 3)
    return jnp.stack([jnp.pad(corners[k], ((r, 1 - r), (c, 1 - c), *rest)) for k, (r, c) in enumerate(CORNER_CELLS)])


def masses_of_clusters(clusters: Array, in_second_layer: Array) -> Array:
    """Give every mass its cluster's value, (layers, rows+1, columns+1, ...) -> (4, rows, columns, ...)."""
    first = corners_of_vertices(clusters[0])
    if clusters.shape[0] == 1:
        return first
    return jnp.where(in_second_layer > 0, corners_of_vertices(clusters[1]), first)


def clusters_of_masses(masses: Array, in_second_layer: Array, layers: int) -> Array:
    """Add up the masses' values, (4, rows, columns, ...) -> (layers, rows+1, columns+1, ...)."""

    def total(corners: Array) -> Array:
        south_west, south_east, north_east, north_west = corners
        upper, lower = overlap(south_west, south_east, 1), overlap(north_west, north_east, 1)
        return overlap(upper, lower, 0)

    if layers == 1:
        return total(masses)[None]
    return jnp.stack([total(masses * (1 - in_second_layer)), total(masses * in_second_layer)])
