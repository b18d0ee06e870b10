"""Blocks of cells as grid lattices.

`of_cells` assembles voxel by voxel: an edge shared by four voxels gets a quarter of its stiffness from each, a face
diagonal half, a node an eighth of each voxel's mass. So surfaces are as soft and as light as they should be.
`of_pairs` puts one equal spring between each pair of neighbors and one equal mass on every node, as Titan and Cronos
do, which makes surfaces too stiff.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from vsr.lattice.grid import Direction, directions, kind, spring_shape
from vsr.lattice.model import GridSprings, Lattice
from vsr.lattice.moduli import Stiffness


def of_cells(
    present: np.ndarray,
    side: float,
    springs: Stiffness,
    density: float,
    *,
    thickness: float = 1.0,
    damping_time: float = 0.0,
    damping: float = 0.0,
    anchored: np.ndarray | None = None,
    dtype: jnp.dtype | type = jnp.float32,
) -> Lattice:
    """The lattice of all present cells, (rows, columns) or (levels, rows, columns), lowest first.

    side: of a cell [m]; density: [kg/m³]; thickness: in 2-D [m]; damping_time: a spring's damping over its
    stiffness [s]; damping: decay rate of all velocities [1/s]; anchored: True for nodes fixed, one more
    along every axis than cells.

    Cells that share a node are joined there, also if they touch only at a corner; voxel robots keep those apart.
    """
    present = np.asarray(present, bool)
    dimension = present.ndim
    nodes = tuple(size + 1 for size in present.shape)
    corner_mass = density * side**dimension * (thickness if dimension == 2 else 1.0) / 2**dimension
    mass = np.zeros(nodes)
    for corner in itertools.product((0, 1), repeat=dimension):
        mass[_shifted(present.shape, corner)] += corner_mass * present
    stiffness = [
        _shared_springs(present, direction, springs[kind(direction)] / voxels_of_a_spring(kind(direction), dimension))
        for direction in directions(dimension)
    ]
    return _lattice(nodes, side, stiffness, mass, damping_time, damping, anchored, dtype)


def of_pairs(
    nodes: Sequence[int],
    side: float,
    springs: Stiffness,
    mass: float,
    *,
    damping_time: float = 0.0,
    damping: float = 0.0,
    anchored: np.ndarray | None = None,
    dtype: jnp.dtype | type = jnp.float32,
) -> Lattice:
    """A full block with one spring per pair and one mass [kg] per node.

    nodes: along each axis, the highest axis first.
    """
    dimension = len(nodes)
    # One number serves a whole direction: less to read in every step.
    stiffness = [np.full((1,) * dimension, springs[kind(direction)]) for direction in directions(dimension)]
    return _lattice(tuple(nodes), side, stiffness, np.full(nodes, mass), damping_time, damping, anchored, dtype)


def voxels_of_a_spring(spring_kind: int, dimension: int) -> int:
    """How many voxels share a spring inside a block.

    Four an edge in 3-D, two a face diagonal there or an edge in 2-D.
    """
    return 2 ** (dimension - 1 - spring_kind)


def spring_count(nodes: Sequence[int]) -> int:
    """Springs of a full block of nodes."""
    return sum(int(np.prod(spring_shape(nodes, direction))) for direction in directions(len(nodes)))


def grid_positions(nodes: Sequence[int], side: float) -> np.ndarray:
    """Of a block's nodes [m], (*nodes, dimension), from the origin."""
    axes = np.meshgrid(*(np.arange(size) * side for size in nodes), indexing="ij")
    return np.stack(axes[::-1], -1)


def _lattice(
    nodes: tuple[int, ...],
    side: float,
    stiffness: list[np.ndarray],
    mass: np.ndarray,
    damping_time: float,
    damping: float,
    anchored: np.ndarray | None,
    dtype: jnp.dtype | type,
) -> Lattice:
    dimension = len(nodes)
    free = (mass > 0) & (True if anchored is None else ~np.asarray(anchored, bool))
    lengths = [side * (kind(direction) + 1) ** 0.5 for direction in directions(dimension)]

    def arrays(values: list[np.ndarray]) -> tuple:
        return tuple(jnp.asarray(value, dtype) for value in values)

    return Lattice(
        springs=GridSprings(
            stiffness=arrays(stiffness),
            rest_length=arrays([np.full((1,) * dimension, length) for length in lengths]),
            damping=arrays([damping_time * value for value in stiffness]) if damping_time else None,
        ),
        rest_position=jnp.asarray(grid_positions(nodes, side), dtype),
        mass=jnp.asarray(mass, dtype),
        inverse_mass=jnp.asarray(np.divide(1, mass, out=np.zeros(nodes), where=free), dtype),
        damping=jnp.asarray(damping, dtype),
    )


def _shifted(cells: tuple[int, ...], corner: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(start, start + size) for start, size in zip(corner, cells, strict=True))


def _shared_springs(present: np.ndarray, direction: Direction, share: float) -> np.ndarray:
    """Stiffness of all springs of one direction, each voxel adding its share to its own."""
    total = np.zeros(spring_shape([size + 1 for size in present.shape], direction))
    # A voxel has a spring of this direction for every corner of the side that the direction does not step along.
    for corner in itertools.product(*((0,) if step else (0, 1) for step in reversed(direction))):
        total[_shifted(present.shape, corner)] += share * present
    return total
