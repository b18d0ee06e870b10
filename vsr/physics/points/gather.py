"""Between nodes (on lattice vertices) and voxel corners, by slicing and joining only. Further axes may follow.

Corners are numbered by their bits (vsr.robot.corners).
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from vsr.compute.grid import overlap
from vsr.robot.corners import corner_steps


def corners_of_nodes(nodes: Array, layer: Array, dimension: int) -> Array:
    """Each voxel's view of its corners, (layers, n, ...) -> (corners, c, ...); layer: see PointModel."""

    def of_layer(one: Array) -> Array:
        cells = [size - 1 for size in one.shape[:dimension]]
        return jnp.stack(
            [
                one[tuple(slice(step, step + size) for step, size in zip(steps, cells, strict=True))]
                for steps in corner_steps(dimension)
            ]
        )

    if nodes.shape[0] == 1:
        return of_layer(nodes[0])
    return sum(of_layer(nodes[i]) * layer[i] for i in range(nodes.shape[0]))  # pyright: ignore[reportReturnType]


def nodes_of_corners(corners: Array, layer: Array, dimension: int) -> Array:
    """Values of corners added up at their nodes, (corners, c, ...) -> (layers, n, ...)."""

    def total(values: Array) -> Array:
        folded = values.reshape(*(2,) * dimension, *values.shape[1:])
        for _ in range(dimension):  # one corner axis after the other is folded into the axis of cells it steps along
            folded = overlap(folded[0], folded[1], dimension - 1)
        return folded

    layers = layer.shape[0]
    if layers == 1:
        return total(corners)[None]
    return jnp.stack([total(corners * layer[i]) for i in range(layers)])
