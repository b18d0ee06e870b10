"""Bodies of EvoGym's point masses as arrays: the robot, other objects of voxels in its world, and the ground.

Arrays are laid out as for our own point masses (vsr.physics.points.model): cells (rows, columns), the lowest first,
nodes one more each way, a layer more where voxels touch only at a corner.

Ground is a fixed grid of cells (`GroundCells`): which cell a point is in, and which of its edges are outside.

The robot and all objects of its world lie side by side in one grid (`joint`), so that one program moves them all. Nodes
of the bodies follow each other along x, which leaves one empty column of cells between two bodies.

An object may have many pieces, as a heap of blocks or all soft voxels of the ground. They lie in its grid as densely as
they fit, whatever their places in the world.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.physics.evogym.first import Beginning, Spot

EDGES = 4
"""Bottom, right, top, left: bits of a cell's code, the lowest first."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GroundCells:
    """Cells of the size of a voxel, the lowest left one at the origin."""

    code: Array
    """0 for an empty cell, else 16 and a bit for each edge that has no neighbor, (rows, columns)"""

    @staticmethod
    def of(solid: np.ndarray | Array, soft: np.ndarray | Array | bool = False) -> GroundCells:
        """From True for solid cells, (rows, columns), the lowest first; inside or outside `jit`.

        soft: which of them are voxels of a body, and here only neighbors.
        """
        solid = jnp.asarray(solid, bool)
        fixed = solid & ~jnp.asarray(soft, bool)
        return GroundCells(jnp.where(fixed, 16 + edge_bits(outer_edges(solid)), 0).astype(jnp.int32))


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


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EvogymModel:
    """One body. EvoGym's units; c stands for the axes of cells, n for those of nodes."""

    engine: ClassVar[str] = "evogym"
    """which moves it (vsr.physics.engine)"""

    present: Array
    """1 where there is a voxel, else 0, c"""
    mass: Array
    """1 everywhere, c: a voxel has no mass of its own, only nodes have"""
    voxel_side: Array
    """()"""
    layer: Array
    """1 for the layer in which each corner's node is, (layers, corners, c)"""
    rest_position: Array
    """of the nodes in the undeformed body, (n, 2)"""
    node_mass: Array
    """1, or 0 where there is none, (layers, n)"""
    inverse_mass: Array
    """likewise, and 0 where a node is fixed, (layers, n)"""
    friction: Array
    """without meaning here, where friction is viscous, (layers, n)"""
    restitution: Array
    """without meaning here, (layers, n)"""
    stiffness: Array
    """of a voxel's bottom, right, top and left edge and both diagonals, 0 for an edge counted by a neighbor, (6, c)"""
    horizontal: Array
    """1 for voxels that drive their bottom and top edge, c"""
    vertical: Array
    """1 for voxels that drive their left and right edge, c"""
    rigid: Array
    """1 for rigid voxels, c"""
    outer: Array
    """1 for edges without a neighbor: bottom, right, top, left, (4, c)"""
    ground: GroundCells | None = None
    """voxels that do not move; None for the environment's line of ground"""
    objects: tuple[EvogymObject, ...] = ()
    """what else is made of voxels in the same world"""
    beginning: Beginning | None = field(default=None, metadata={"static": True})
    """where EvoGym's world begins, for its first contact; None for other worlds"""
    tables: dict[str, Array] | None = None
    """what the kernel reads of bodies that does not change (vsr.physics.evogym.kernel.prepared)"""

    @property
    def dimension(self) -> int:
        """Of the plane."""
        return 2


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EvogymObject:
    """A package, a beam, a heap of blocks or what is soft in the ground: a body that nobody controls."""

    body: EvogymModel
    start: Array
    """of its grid's lowest left corner, (2,)"""
    name: str = field(metadata={"static": True})
    """by which tasks find it"""
    spots: tuple[Spot, ...] = field(default=(), metadata={"static": True})
    """where voxels of several pieces are in its grid; () for one piece, which is the grid"""
    ground: bool = field(default=False, metadata={"static": True})
    """whether it is one with the fixed ground, which it does not touch then, nor itself"""

    @property
    def pieces(self) -> int:
        """How many there are."""
        return 1 + max((spot.piece for spot in self.spots), default=0)

    @property
    def voxel_spots(self) -> tuple[Spot, ...]:
        """Where voxels may be."""
        if self.spots:
            return self.spots
        rows, columns = self.body.present.shape[:2]
        return tuple(Spot(row, column, 0, row, column) for row in range(rows) for column in range(columns))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Moving:
    """Where the nodes of one body are and how they move."""

    position: Array
    """(layers, n, 2)"""
    velocity: Array
    """(layers, n, 2)"""
    drift: Array
    """velocity with what limits on lengths did to positions, which contact sees, (layers, n, 2)"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EvogymState:
    """The robot, and what else is made of voxels in its world."""

    position: Array
    """(layers, n, 2)"""
    velocity: Array
    """(layers, n, 2)"""
    drift: Array
    """see Moving, (layers, n, 2)"""
    unstable: Array
    """whether more of its voxels overlapped at some time than EvoGym allows, ()"""
    objects: tuple[Moving, ...] = ()
    """as in the model"""


GROUND, NOBODY = -1, -2
"""Owners of cells: soft ground, and none where there is never a voxel."""


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
    """whose every cell is: 0 for the robot, then pieces of objects in their order; or GROUND, or NOBODY, c"""
    columns: tuple[int, ...]
    """of cells of every body"""


def joint(
    models: Sequence[EvogymModel], batch: tuple[int, ...], objects: Sequence[EvogymObject] | None = None
) -> Joint:
    """The first is the robot; batch: further axes of all arrays; objects: what the others are, if not single pieces."""

    def cells(of: Callable[[EvogymModel], Array], before: int) -> Array:
        return beside([of(model) for model in models], before, 1, batch)

    def nodes(of: Callable[[EvogymModel], Array]) -> Array:
        return beside([_with_layers(of(model), layers) for model in models], 1, 0, batch)

    layers = max(model.layer.shape[0] for model in models)
    columns = tuple(model.present.shape[1] for model in models)
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
        owner=_owners(models, objects or [EvogymObject(model, model.rest_position, "") for model in models[1:]]),
        columns=columns,
    )


def _owners(models: Sequence[EvogymModel], objects: Sequence[EvogymObject]) -> np.ndarray:
    """See Joint."""
    rows = max(model.present.shape[0] for model in models)
    width = sum(model.present.shape[1] + 1 for model in models) - 1
    owner = np.full((rows, width), NOBODY)
    high, first = models[0].present.shape[:2]
    owner[:high, :first] = 0
    number = 1
    for one in objects:
        for spot in one.voxel_spots:
            owner[spot.row, first + 1 + spot.column] = GROUND if one.ground else number + spot.piece
        first += 1 + one.body.present.shape[1]
        number += one.pieces
    return owner


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
