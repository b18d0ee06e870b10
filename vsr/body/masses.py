"""Kinds of masses in a voxel's corners, as a description sees them: each kind has an engine (vsr.physics.engine)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vsr.body.springs import POINT_GROUPS, SQUARE_GROUPS, Group

Masses = Literal["squares", "points", "evogym"]
"""What lies in a voxel's corners: squares that turn, as in 2D-VSR-Sim, points, in 2-D and 3-D, or EvoGym's points."""
Actuation = Literal["area", "force", "horizontal", "vertical", "none"]
"""What a control value changes: all rest lengths, forces on masses, rest lengths along one direction, nothing."""


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
    actuations: tuple[Actuation, ...]
    """that it knows"""
    usual_side: float = 3.0
    """of a voxel, unless a body says otherwise [m]"""
    only_side: bool = False
    """whether there is no other, because constants are for this one"""
    has_things: bool = False
    """whether robots keep other things of their world with them, as voxels of the same physics"""
    usual_world: Mapping[str, float] = field(default_factory=dict)
    """fields of a world that differ from its defaults"""
    usual_physics: Mapping[str, float] = field(default_factory=dict)
    """fields of physics that differ from its defaults"""

    def groups_in(self, dimension: int) -> tuple[Group, ...]:
        """Groups of springs that can join it in 2-D or 3-D."""
        return self.groups if dimension == 3 else tuple(g for g in self.groups if g is not Group.space_diagonals)


_OF_SQUARES = ("mass_side_ratio", "angular_damping", "lower_limit", "upper_limit")
_OF_POINTS = ("young_modulus", "density", "yield_force", "fluid")
_OF_BOTH = (
    "linear_damping",
    "mass",
    "friction",
    "restitution",
    "spring_frequency",
    "spring_damping_ratio",
    "max_force",
)

MASSES: dict[Masses, MassKind] = {
    "squares": MassKind((2,), True, SQUARE_GROUPS, (*_OF_POINTS, "rigid"), ("area", "force", "none")),
    "points": MassKind(
        (2, 3), False, POINT_GROUPS, (*_OF_SQUARES, "rigid"), ("area", "force", "horizontal", "vertical", "none")
    ),
    "evogym": MassKind(
        (2,),
        False,
        (),
        (*_OF_SQUARES, *_OF_POINTS, *_OF_BOTH, "max_area_change", "scaffolding"),
        ("horizontal", "vertical", "none"),
        usual_side=0.1,
        only_side=True,
        has_things=True,
        usual_world={"gravity": 110.0},
        usual_physics={"time_step": 0.003, "control_interval": 0},
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
