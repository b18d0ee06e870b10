"""From real materials to spring constants and back.

A lattice of cubic cells of side a with springs k1 along edges, k2 along face diagonals and k3 along space diagonals
(the whole spring, not a voxel's share of it) has, by summing k L² nnnn over the springs of a cell,

    C11 = (k1 + 2 k2 + 4/3 k3) / a,   C12 = C44 = (k2 + 4/3 k3) / a.

It is isotropic if k1 = k2 + 8/3 k3, and then has Poisson's ratio 1/4: springs that pull along their line can do no
other. In 2-D, with thickness t, C11 = (k1 + k2) / t and C12 = C66 = k2 / t; isotropic if k1 = 2 k2, with
Poisson's ratio 1/3 (plane stress).
"""

from __future__ import annotations

from typing import NamedTuple

SPACE_OVER_FACE = 3 / 8
"""Of isotropic lattices in 3-D: k3 over k2, which makes k1 : k2 : k3 = 2 : 1 : 3/8."""


class Stiffness(NamedTuple):
    """Spring constants of a lattice [N/m]; k3 is not used in 2-D."""

    edge: float
    face: float
    space: float = 0.0


def isotropic(young_modulus: float, side: float, dimension: int, *, thickness: float = 1.0) -> Stiffness:
    """The isotropic lattice of cells of some side [m] with a Young's modulus [Pa]; thickness: in 2-D [m]."""
    if dimension == 2:
        face = 3 / 8 * young_modulus * thickness
        return Stiffness(2 * face, face)
    face = young_modulus * side / (2.5 * (1 + 4 / 3 * SPACE_OVER_FACE))
    return Stiffness((1 + 8 / 3 * SPACE_OVER_FACE) * face, face, SPACE_OVER_FACE * face)


def elastic_constants(
    springs: Stiffness, side: float, dimension: int, *, thickness: float = 1.0
) -> tuple[float, float, float]:
    """C11, C12 and C44 (in 2-D C66) of a lattice [Pa]."""
    if dimension == 2:
        return (springs.edge + springs.face) / thickness, springs.face / thickness, springs.face / thickness
    shear = (springs.face + 4 / 3 * springs.space) / side
    return (springs.edge + 2 * springs.face + 4 / 3 * springs.space) / side, shear, shear


def young_modulus(springs: Stiffness, side: float, dimension: int, *, thickness: float = 1.0) -> float:
    """Along an edge [Pa]."""
    c11, c12, _ = elastic_constants(springs, side, dimension, thickness=thickness)
    return c11 - c12**2 / c11 if dimension == 2 else (c11 - c12) * (c11 + 2 * c12) / (c11 + c12)


def poisson_ratio(springs: Stiffness, side: float, dimension: int) -> float:
    """Along an edge."""
    c11, c12, _ = elastic_constants(springs, side, dimension)
    return c12 / c11 if dimension == 2 else c12 / (c11 + c12)


def truss_stiffness(young_modulus: float, area: float, length: float) -> float:
    """Spring constant of a rod, k = E A / L [N/m]; area: of its cross section [m²]."""
    return young_modulus * area / length
