"""Fluid in the chambers of a lattice: what an environment holds as `contents`.

A closed inner surface is a chamber. In a lattice of cells that is a void that no path of empty cells leads out of; in a
mesh filled with points it is a surface of the mesh that encloses no solid, whose corners become nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import ndimage

from vsr.lattice.mesh import Mesh, of_mesh_points, surfaces
from vsr.lattice.model import Lattice
from vsr.physics.fluid import surface as exact
from vsr.physics.fluid.surface import Filling, Surface, surface_of, voxel_faces
from vsr.robot.corners import corner_steps


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Contents:
    """Chambers and what they hold."""

    surface: Surface
    """over the nodes of a lattice, flattened"""
    filling: Filling

    def load(self, position: Array, gravity: Array | float) -> Array:
        """Force on every node [N]; position: [m], both (*nodes, dimension)."""
        flat = position.reshape(-1, position.shape[-1])
        return exact.load(self.surface, flat, self.filling, gravity).reshape(position.shape)

    def energy(self, position: Array, gravity: Array | float) -> Array:
        """Of all chambers [J], (); position: [m], (*nodes, dimension)."""
        flat = position.reshape(-1, position.shape[-1])
        return exact.energy(self.surface, flat, self.filling, gravity).sum()


def voids(present: np.ndarray, dtype: jnp.dtype | type = jnp.float32, depth: float = 1.0) -> Surface:
    """The chambers of a lattice of cells (`of_cells`, `of_mesh_cells`): everything empty that is closed in.

    present: True where there is a cell; depth: of a 2-D lattice [m]. Raises ValueError if there is no void.
    """
    present = np.asarray(present, bool)
    label = np.pad(present, 1, constant_values=False)
    label, count = ndimage.label(~label)  # pyright: ignore[reportGeneralTypeIssues]
    label = label[(slice(1, -1),) * present.ndim]
    # The outside is the part that the frame around the grid belongs to: the first.
    cells = np.argwhere(label > 1)
    if not len(cells):
        raise ValueError("the lattice has no chamber: every empty cell is joined to the outside by others")
    nodes = tuple(size + 1 for size in present.shape)
    corners = np.stack([np.ravel_multi_index((cells + step).T, nodes) for step in corner_steps(present.ndim)], 1)
    number = np.repeat(label[tuple(cells.T)] - 2, 2 * present.ndim)
    return surface_of(
        voxel_faces(corners), int(np.prod(nodes)), chamber=number, chambers=count - 1, depth=depth, dtype=dtype
    )


def of_hollow_mesh(
    mesh: Mesh, count: int, young_modulus: float, density: float, **options: Any
) -> tuple[Lattice, Surface]:
    """A mesh with closed inner surfaces filled with points, and its chambers; arguments as for `of_mesh_points`.

    Corners of the inner surfaces are nodes, besides `count` others. Raises ValueError if there is no inner surface.
    """
    inner = [part for part in surfaces(mesh) if part.signed_volume < 0]
    if not inner:
        raise ValueError("the mesh has no inner surface, so there is no chamber")
    triangles = np.concatenate([part.corners for part in inner])
    place, node = np.unique(triangles.reshape(-1, 3), axis=0, return_inverse=True)
    lattice = of_mesh_points(mesh, count, young_modulus, density, besides=place, **options)
    # Normals lead out of the solid, and so into the fluid: seen from the solid, corners go round the other way.
    faces = node.reshape(-1, 3)[:, ::-1]
    number = np.repeat(np.arange(len(inner)), [len(part.corners) for part in inner])
    kind = lattice.mass.dtype
    return lattice, surface_of(faces, len(lattice.mass), chamber=number, chambers=len(inner), dtype=kind)
