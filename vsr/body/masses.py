"""Kinds of masses in a voxel's corners, as a description sees them: each kind has an engine (vsr.physics.engine)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vsr.body.springs import POINT_GROUPS, SQUARE_GROUPS, Group

Masses = Literal["squares", "points"]
"""What lies in a voxel's corners: squares that turn, as in 2D-VSR-Sim, or points, in 2-D and 3-D."""


@dataclass(frozen=True)
class MassKind:
    """What a description must know of one kind."""

    dimensions: tuple[int, ...]
    """in which it exists"""
    turns: bool
    """whether it has an extent and an angle"""
    groups: tuple[Group, ...]
    """of springs that can join it"""
    meaningless: tuple[str, ...]
    """fields of a material that it does not have"""

    def groups_in(self, dimension: int) -> tuple[Group, ...]:
        """Groups of springs that can join it in 2-D or 3-D."""
        return self.groups if dimension == 3 else tuple(g for g in self.groups if g is not Group.space_diagonals)


MASSES: dict[Masses, MassKind] = {
    "squares": MassKind((2,), True, SQUARE_GROUPS, ("young_modulus", "density", "yield_force", "fluid")),
    "points": MassKind(
        (2, 3), False, POINT_GROUPS, ("mass_side_ratio", "angular_damping", "lower_limit", "upper_limit")
    ),
}
"""Every kind by its name."""


def usual_masses(dimension: int) -> Masses:
    """The kind that a body has unless it says otherwise: the first that exists in its dimension."""
    return next(name for name, kind in MASSES.items() if dimension in kind.dimensions)


def impossible(masses: Masses, dimension: int) -> str | None:
    """Why there cannot be such masses in 2-D or 3-D, if so."""
    if dimension in MASSES[masses].dimensions:
        return None
    others = [name for name, kind in MASSES.items() if dimension in kind.dimensions]
    only = " and ".join(f"{size}-D" for size in MASSES[masses].dimensions)
    return f"{masses} only exist in {only}: in {dimension}-D masses are {' or '.join(others)}"
