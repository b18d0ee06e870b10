"""What the kernel of contacts reads, writes and depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

PRESENT = 4
"""Bit of a cell's flags that says that there is a voxel; those before say which faces lead out."""


@dataclass(frozen=True)
class Plan:
    """What the program depends on."""

    vertices: int
    cells: int
    fixed: tuple[bool, ...]
    """of each rigid body, whether it never moves"""
    round: tuple[bool, ...]
    """of each rigid body"""
    corners: int
    """of every rigid body"""
    faces: int
    finds_ground: bool
    """whether the list is that of corners of bodies on convex ground, which is found here"""
    listed: int
    """contacts of rigid bodies with each other and the ground"""
    iterations: int
    passes: int
    """of the list, in each iteration"""
    duration: float
    """of the step [s]"""
    interpret: bool

    @property
    def bodies(self) -> int:
        return len(self.fixed)

    @property
    def flat(self) -> tuple[int, ...]:
        """Numbers of bodies that have corners."""
        return tuple(number for number, is_round in enumerate(self.round) if not is_round)


class Known(NamedTuple):
    """What a launch reads of one world; p vertices, c cells, s bodies, m contacts of the list."""

    position: Any
    """of vertices [m], (2, p)"""
    velocity: Any
    """[m/s], (2, p)"""
    inverse_mass: Any
    """(p,)"""
    lever: Any
    """(2, p)"""
    inverse_inertia: Any
    """(p,)"""
    surface: Any
    """1 for vertices that can touch, else 0, (p,)"""
    friction: Any
    """(p,)"""
    restitution: Any
    """(p,)"""
    cells: Any
    """None if there are no rigid bodies"""
    bodies: Any
    """None likewise"""
    ground: Any
    """a convex terrain by its numbers, if contacts with it are to be found here; else None"""
    gravity: Any
    listed: Any
    """contacts of rigid bodies that were found before; or None"""
    blocks: Any
    """contacts of vertices with blocks of ground; or None"""
    kept: Any
    """impulses of the step before, by group"""


class Cells(NamedTuple):
    """Voxels, and vertices as these see them."""

    outward: Any
    """out of the robot at its vertices, (2, p)"""
    places: Any
    """(4, c)"""
    flags: Any
    """(c,)"""
    side: Any
    """[m], (c,)"""


class BodyTables(NamedTuple):
    """Rigid bodies."""

    corner: Any
    """in their own frames [m], (s, v, 2)"""
    normal: Any
    """(s, f, 2)"""
    offset: Any
    """(s, f)"""
    radius: Any
    """(s,)"""
    inverse_mass: Any
    inverse_inertia: Any
    friction: Any
    restitution: Any
    position: Any
    """(s, 2)"""
    rotation: Any
    """(s, 2, 2)"""
    velocity: Any
    """(s, 2)"""
    spin: Any
    """(s, 1)"""


class Listed(NamedTuple):
    """Contacts of rigid bodies; of the numbers -1 means none."""

    numbers: Any
    """of the first and second body, (2, m)"""
    contact: Any
    """Found of (2, m) and (m,); None if they are to be found"""
    levers: Any
    """(2, m) of the first, and of the second; None likewise"""


class Pressed(NamedTuple):
    """Impulses on the first side [N s]."""

    press: Any
    drag: Any


class Outcome(NamedTuple):
    """What a launch writes."""

    given: Any
    """impulses on vertices [N s], (2, p)"""
    velocity: Any
    """of vertices [m/s], (2, p)"""
    bodies: Any
    """position, rotation, velocity, spin of rigid bodies after the step; None if there are none"""
    kept: Any


class Found(NamedTuple):
    """One group of contacts or a part of it, all of one shape; vectors are tuples in the kernel."""

    normal: Any
    depth: Any
    touches: Any
    friction: Any
    restitution: Any
