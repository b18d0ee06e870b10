"""How long a substep of a body of point masses may be.

As for square masses (vsr.physics.squares.stability), a body is stable if each of its voxels is alone. The bound
itself is that of lattices (vsr.lattice.stability).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from vsr.body.corners import corner_steps
from vsr.body.material import Material
from vsr.lattice.grid import directions, kind
from vsr.lattice.stability import stable_step
from vsr.physics.points.assembly import corner_mass, spring_constants
from vsr.physics.points.model import USUAL_INTEGRATOR


def longest_point_substep(
    material: Material, voxel_side: float, dimension: int, integrator: str | None = None
) -> float:
    """The stability bound of a material [s], 0 if no substep is stable."""
    mass = corner_mass(material, voxel_side, dimension)
    stiffness, damping = spring_constants(material, voxel_side, dimension)
    stiff, viscous = (_largest_eigenvalue(tuple(constants), dimension) / mass for constants in (stiffness, damping))
    if not any(stiffness):
        return math.inf
    relaxation = min(c / k for c, k in zip(damping, stiffness, strict=True) if k > 0)
    return stable_step(stiff, viscous, relaxation, integrator or USUAL_INTEGRATOR)


@lru_cache(maxsize=256)
def _largest_eigenvalue(constants: tuple[float, ...], dimension: int) -> float:
    """Of the stiffness matrix of one voxel with these constants for its kinds of springs."""
    corners = [np.array(steps[::-1]) for steps in corner_steps(dimension)]
    index = {tuple(corner): number for number, corner in enumerate(corners)}
    matrix = np.zeros((len(corners) * dimension,) * 2)
    for corner in corners:
        for direction in directions(dimension):
            other = index.get(tuple(corner + direction))
            if other is None:
                continue
            gradient = np.zeros((len(corners), dimension))
            unit = np.array(direction) / np.linalg.norm(direction)
            gradient[index[tuple(corner)]], gradient[other] = -unit, unit
            matrix += constants[kind(direction)] * np.outer(gradient, gradient)
    return float(np.linalg.eigvalsh(matrix)[-1])
