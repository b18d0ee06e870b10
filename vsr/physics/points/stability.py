"""The longest stable substep of a body of point masses.

As for square masses (vsr.physics.squares.stability), a body is stable if each of its voxels is alone. The bound
itself is that of lattices (vsr.lattice.stability).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from vsr.lattice.grid import directions, kind
from vsr.lattice.stability import stable_step
from vsr.physics.points.assembly import corner_mass, spring_constants
from vsr.physics.points.model import DEFAULT_INTEGRATOR
from vsr.robot import Fluid
from vsr.robot.corners import corner_steps
from vsr.robot.material import Material


def longest_substep(
    materials: Sequence[Material], voxel_side: float, dimension: int, integrator: str | None = None
) -> float:
    """The stability bound of bodies of some materials [s], 0 if no substep is stable."""
    fluids = [material.fluid for material in materials if material.fluid is not None]
    fluid = max((fluid_stiffness(one, voxel_side, dimension) for one in fluids), default=0.0)
    elastic = [material for material in materials if material.fluid is None or material.fluid.membrane != "none"]
    return min(
        (longest_point_substep(material, voxel_side, dimension, integrator, fluid) for material in elastic),
        default=math.inf,
    )


def fluid_stiffness(fluid: Fluid, voxel_side: float, dimension: int) -> float:
    """Largest eigenvalue of what a chamber of one voxel adds to the stiffness of its corners [N/m].

    That of K/V ∇V ∇Vᵀ, with K the derivative of the pressure by the relative volume; larger chambers have less for
    their nodes. A pressure that pushes outwards stiffens or softens by about itself times a length.
    """
    length = voxel_side if dimension == 3 else fluid.depth
    gradient = {2: 2.0, 3: 1.5}[dimension] * length
    if fluid.drive == "volume" and fluid.kind == "gas":
        modulus = fluid.outside_pressure * (1 + (fluid.volume_limits or (0.0, 0.0))[1])
    elif fluid.drive == "volume" or fluid.added_volume is not None:
        modulus = fluid.bulk_modulus
    else:
        modulus = 0.0
    return gradient * modulus + length * max(map(abs, fluid.pressure_limits or (0.0, 0.0)))


def longest_point_substep(
    material: Material, voxel_side: float, dimension: int, integrator: str | None = None, fluid: float = 0.0
) -> float:
    """The stability bound of a material [s], 0 if no substep is stable; fluid: see `fluid_stiffness` [N/m]."""
    mass = corner_mass(material, voxel_side, dimension)
    stiffness, damping = spring_constants(material, voxel_side, dimension)
    stiff, viscous = (_largest_eigenvalue(tuple(constants), dimension) / mass for constants in (stiffness, damping))
    if not any(stiffness):
        return math.inf
    stiff += fluid / mass
    relaxation = min(c / k for c, k in zip(damping, stiffness, strict=True) if k > 0)
    return stable_step(stiff, viscous, relaxation, integrator or DEFAULT_INTEGRATOR)


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
