"""Natural frequencies and mode shapes of a lattice: K φ = ω² M φ about a pose at rest.

K is the second derivative of the springs' energy: along a spring its stiffness, across it its tension over its length.
So it holds for grids and other lattices, undeformed or bent. Sparse matrices on the host, in double precision; the
smallest frequencies come from shift-inverted Lanczos iteration.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import eigsh

from vsr.lattice.grid import directions, first_ends, second_ends
from vsr.lattice.model import GraphSprings, Lattice, Springs

SHIFT = -1e-9
"""Of the spectrum, over the largest entry of M⁻¹K: what floats freely has frequencies of 0, where K has no inverse."""


class Modes(NamedTuple):
    """Ordered by frequency."""

    frequency: np.ndarray
    """[Hz], (modes,)"""
    shape: np.ndarray
    """of each, with the largest shift of a node 1, (modes, *nodes, dimension)"""


class Ends(NamedTuple):
    """Every spring there is, whatever the lattice; all (springs,)."""

    first: np.ndarray
    """node, counted through the flattened node arrays"""
    second: np.ndarray
    stiffness: np.ndarray
    """[N/m]"""
    rest_length: np.ndarray
    """[m]"""


def natural_modes(lattice: Lattice, count: int, *, position: np.ndarray | None = None) -> Modes:
    """The modes of lowest frequency, at most one less than there are ways to move.

    position: of the nodes in a pose of equilibrium [m], (*nodes, dimension); if absent, undeformed. Damping, contact
    and whatever swings or breaks is left out.
    """
    basis = free_directions(lattice)
    stiffness = (basis.T @ stiffness_matrix(lattice, position=position) @ basis).tocsc()
    masses = np.repeat(np.asarray(lattice.mass, float).reshape(-1), lattice.dimension)
    mass = (basis.T @ sparse.diags(masses) @ basis).tocsc()
    shift = SHIFT * float((stiffness.diagonal() / mass.diagonal()).max())
    squared, vectors = eigsh(stiffness, count, mass, sigma=shift, which="LM")
    order = np.argsort(squared)
    shape = (basis @ vectors[:, order]).T.reshape(count, *lattice.rest_position.shape)
    largest = np.linalg.norm(shape, axis=-1).reshape(count, -1).max(1)
    shape = shape / largest.reshape(-1, *(1,) * (shape.ndim - 1))
    return Modes(np.sqrt(np.maximum(squared[order], 0)) / (2 * np.pi), shape)


def highest_frequency(lattice: Lattice) -> float:
    """Of all modes about rest [Hz]."""
    basis = free_directions(lattice)
    masses = np.repeat(np.asarray(lattice.mass, float).reshape(-1), lattice.dimension)
    root = sparse.diags(1 / np.sqrt((basis.T @ sparse.diags(masses) @ basis).diagonal()))
    scaled = root @ basis.T @ stiffness_matrix(lattice) @ basis @ root
    return float(np.sqrt(eigsh(scaled, 1, which="LM", return_eigenvectors=False)[0])) / (2 * np.pi)


def stiffness_matrix(lattice: Lattice, *, position: np.ndarray | None = None) -> sparse.csr_matrix:
    """Second derivative of the springs' energy by all coordinates [N/m], (nodes * dimension,) * 2, anchored or not."""
    ends = springs_of(lattice.springs, lattice.mass.shape)
    dimension = lattice.dimension
    points = np.asarray(lattice.rest_position if position is None else position, float).reshape(-1, dimension)
    between = points[ends.second] - points[ends.first]
    length = np.linalg.norm(between, axis=1)
    along = between / length[:, None]
    outer = along[:, :, None] * along[:, None, :]
    tension = ends.stiffness * (length - ends.rest_length)
    across = (tension / length)[:, None, None] * (np.eye(dimension) - outer)
    block = ends.stiffness[:, None, None] * outer + across

    rows, columns, values = [], [], []
    for row, column, sign in (
        (ends.first, ends.first, 1),
        (ends.second, ends.second, 1),
        (ends.first, ends.second, -1),
        (ends.second, ends.first, -1),
    ):
        axis = np.arange(dimension)
        rows.append(np.broadcast_to((dimension * row[:, None] + axis)[:, :, None], block.shape))
        columns.append(np.broadcast_to((dimension * column[:, None] + axis)[:, None, :], block.shape))
        values.append(sign * block)
    size = points.size
    flat = [np.concatenate([part.reshape(-1) for part in parts]) for parts in (values, rows, columns)]
    return sparse.coo_matrix((flat[0], (flat[1], flat[2])), shape=(size, size)).tocsr()


def springs_of(springs: Springs, nodes: tuple[int, ...]) -> Ends:
    """The springs of a grid or any other lattice as one list, without empty slots."""
    if isinstance(springs, GraphSprings):
        found = [(springs.first, springs.second, springs.stiffness, springs.rest_length)]
    else:
        number = np.arange(np.prod(nodes)).reshape(nodes)
        found = [
            (first_ends(number, step), second_ends(number, step), stiffness, rest_length)  # pyright: ignore[reportArgumentType]
            for step, stiffness, rest_length in zip(
                directions(len(nodes)), springs.stiffness, springs.rest_length, strict=True
            )
        ]
    # Where all springs of a direction are alike, a grid holds one number for them.
    alike = [[np.broadcast_to(np.asarray(part), np.shape(parts[0])) for part in parts] for parts in found]
    first, second, stiffness, rest_length = (
        np.concatenate([parts[column].reshape(-1) for parts in alike]) for column in range(4)
    )
    there = stiffness > 0
    return Ends(first[there], second[there], stiffness[there].astype(float), rest_length[there].astype(float))


def free_directions(lattice: Lattice) -> sparse.csc_matrix:
    """Every way in which a node can move as one column, orthonormal, (nodes * dimension, ways)."""
    dimension = lattice.dimension
    mobile = np.flatnonzero(np.asarray(lattice.inverse_mass).reshape(-1) > 0)
    if lattice.freedom is None:
        entries = (mobile[:, None] * dimension + np.arange(dimension)).reshape(-1)
        return sparse.identity(lattice.mass.size * dimension, format="csc")[:, entries]
    projections = np.asarray(lattice.freedom, float).reshape(-1, dimension, dimension)[mobile]
    lengths, vectors = np.linalg.eigh(projections)
    node, which = np.nonzero(lengths > 0.5)
    rows = mobile[node][:, None] * dimension + np.arange(dimension)
    columns = np.broadcast_to(np.arange(len(node))[:, None], rows.shape)
    values = vectors[node, :, which]
    shape = (lattice.mass.size * dimension, len(node))
    return sparse.coo_matrix((values.reshape(-1), (rows.reshape(-1), columns.reshape(-1))), shape=shape).tocsc()
