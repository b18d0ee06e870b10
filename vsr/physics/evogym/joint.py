"""The robot and all objects of its world side by side in one grid, so that one program moves them all.

Nodes of the bodies follow each other along x, which leaves one empty column of cells between two bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.physics.evogym.model import EvogymModel


class Joint(NamedTuple):
    """All bodies of a world; c and n as for models, of the grid that holds them all."""

    layer: Array
    """(layers, corners, c)"""
    inverse_mass: Array
    """(layers, n)"""
    node_mass: Array
    """(layers, n)"""
    stiffness: Array
    """(6, c)"""
    horizontal: Array
    """c"""
    vertical: Array
    """c"""
    rigid: Array
    """c"""
    outer: Array
    """(4, c)"""
    voxel_side: Array
    """()"""
    owner: np.ndarray
    """whose every cell is: 0 for the robot, then the objects in their order, c"""
    columns: tuple[int, ...]
    """of cells of every body"""


def joint(models: Sequence[EvogymModel], batch: tuple[int, ...]) -> Joint:
    """The first is the robot; batch: further axes of all arrays."""

    def cells(of: Callable[[EvogymModel], Array], before: int) -> Array:
        return beside([of(model) for model in models], before, 1, batch)

    def nodes(of: Callable[[EvogymModel], Array]) -> Array:
        return beside([_with_layers(of(model), layers) for model in models], 1, 0, batch)

    rows = max(model.present.shape[0] for model in models)
    layers = max(model.layer.shape[0] for model in models)
    columns = tuple(model.present.shape[1] for model in models)
    owner = np.concatenate([np.full((rows, width + 1), number) for number, width in enumerate(columns)], 1)[:, :-1]
    layer = cells(lambda model: _with_layers(model.layer, layers), 2)
    # Corners of empty cells see the first layer, those between bodies too.
    nowhere = layer.sum(0) == 0
    layer = layer.at[0].set(jnp.where(nowhere, 1, layer[0]))
    return Joint(
        layer=layer,
        inverse_mass=nodes(lambda model: model.inverse_mass),
        node_mass=nodes(lambda model: model.node_mass),
        stiffness=cells(lambda model: model.stiffness, 1),
        horizontal=cells(lambda model: model.horizontal, 0),
        vertical=cells(lambda model: model.vertical, 0),
        rigid=cells(lambda model: model.rigid, 0),
        outer=cells(lambda model: model.outer, 1),
        voxel_side=models[0].voxel_side,
        owner=owner,
        columns=columns,
    )


def beside(parts: Sequence[Array], before: int, gap: int, batch: tuple[int, ...]) -> Array:
    """Arrays of several bodies along x, 0 where there is none; before: axes before rows and columns, of equal length.

    gap: empty columns between two.
    """
    rows = max(part.shape[before] for part in parts)
    padded = []
    for number, part in enumerate(parts):
        part = jnp.broadcast_to(part, (*part.shape[: before + 2], *batch))
        room = (0, rows - part.shape[before]), (0, gap if number + 1 < len(parts) else 0)
        padded.append(jnp.pad(part, [(0, 0)] * before + list(room) + [(0, 0)] * len(batch)))
    return jnp.concatenate(padded, before + 1)


def apart(nodes: Array, models: Sequence[EvogymModel]) -> list[Array]:
    """What `beside` did to arrays of nodes, undone, (layers, n, ...) each."""
    found, first = [], 0
    for model in models:
        layers, rows, columns = model.node_mass.shape[:3]
        found.append(nodes[:layers, :rows, first : first + columns])
        first += columns
    return found


def nodes_beside(parts: Sequence[Array], models: Sequence[EvogymModel], batch: tuple[int, ...]) -> Array:
    """Arrays of nodes of several bodies as one, (layers, n, ...)."""
    layers = max(model.layer.shape[0] for model in models)
    return beside([_with_layers(part, layers) for part in parts], 1, 0, batch)


def _with_layers(values: Array, layers: int) -> Array:
    """With empty layers at the end."""
    return jnp.pad(values, [(0, layers - values.shape[0])] + [(0, 0)] * (values.ndim - 1))
