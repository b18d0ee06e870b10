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
    """The modes of lowest frequency, fewer than there are ways to move.

    position: of the nodes in a pose of equilibrium [m], (*nodes, dimension); if absent, undeformed. Damping, contact
    and drives and breaking are left out.
    """
    basis = free_directions(lattice)
    stiffness, mass = _matrices(lattice, basis, position)
    shift = SHIFT * float((np.asarray(stiffness.diagonal(), float) / np.asarray(mass.diagonal(), float)).max())
    return _modes(lattice, basis, *eigsh(stiffness, count, mass, sigma=shift, which="LM"))


def highest_mode(lattice: Lattice) -> Modes:
    """The one mode of highest frequency about the undeformed pose, which limits the step."""
    basis = free_directions(lattice)
    stiffness, mass = _matrices(lattice, basis, None)
    # The mass matrix is diagonal, so its root makes an ordinary problem of the generalized one.
    root = sparse.diags_array(1 / np.sqrt(mass.diagonal()))
    squared, vectors = eigsh(root @ stiffness @ root, 1, which="LM")
    return _modes(lattice, basis, squared, root @ vectors)


def _matrices(
    lattice: Lattice, basis: sparse.csc_array, position: np.ndarray | None
) -> tuple[sparse.csc_array, sparse.csc_array]:
    """Stiffness and mass in the ways the nodes can move."""
    masses = np.repeat(np.asarray(lattice.mass, float).reshape(-1), lattice.dimension)
    stiffness = stiffness_matrix(lattice, position=position)
    mass = sparse.diags_array(masses)
    return sparse.csc_array(basis.T @ stiffness @ basis), sparse.csc_array(basis.T @ mass @ basis)


def _modes(lattice: Lattice, basis: sparse.csc_array, squared: np.ndarray, vectors: np.ndarray) -> Modes:
    """In order and scaled; squared: angular frequencies [1/s²], vectors: in the basis, one a column."""
    order = np.argsort(squared)
    shape = (basis @ vectors[:, order]).T.reshape(len(order), *lattice.rest_position.shape)
    largest = np.linalg.norm(shape, axis=-1).reshape(len(order), -1).max(1)
    shape = shape / largest.reshape(-1, *(1,) * (shape.ndim - 1))
    return Modes(np.sqrt(np.maximum(squared[order], 0)) / (2 * np.pi), shape)


def stiffness_matrix(lattice: Lattice, *, position: np.ndarray | None = None) -> sparse.csr_array:
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
    return sparse.coo_array((flat[0], (flat[1], flat[2])), shape=(size, size)).tocsr()


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


def free_directions(lattice: Lattice) -> sparse.csc_array:
    """Every way in which a node can move as one column, orthonormal, (nodes * dimension, ways)."""
    dimension = lattice.dimension
    mobile = np.flatnonzero(np.asarray(lattice.inverse_mass).reshape(-1) > 0)
    freedom = np.eye(dimension) if lattice.freedom is None else np.asarray(lattice.freedom, float)
    projections = np.broadcast_to(freedom, (*lattice.mass.shape, dimension, dimension))
    lengths, vectors = np.linalg.eigh(projections.reshape(-1, dimension, dimension)[mobile])
    node, which = np.nonzero(lengths > 0.5)
    rows = mobile[node][:, None] * dimension + np.arange(dimension)
    columns = np.broadcast_to(np.arange(len(node))[:, None], rows.shape)
    entries = vectors[node, :, which].reshape(-1), (rows.reshape(-1), columns.reshape(-1))
    return sparse.coo_array(entries, shape=(lattice.mass.size * dimension, len(node))).tocsc()
