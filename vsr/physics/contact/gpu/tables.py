"""Tables of the contact kernel: its constants, inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from vsr.physics.contact.solids import SolidState

PRESENT = 0
"""Bit of a cell's flags that says that there is a voxel."""
LEADS_OUT, OUTER = 1, 7
"""The first of the bits that say which faces lead out, and which have no voxel across."""
SURFACE, EXISTS = 0, 1
"""Bits of a vertex's flags: it can touch, and there is one."""
SPIN = 6
"""Row of the spin in a table of carriers, the last of those that say how they move (vsr.physics.contract.Carriers)."""


@dataclass(frozen=True)
class Plan:
    """What the program depends on."""

    dimension: int
    vertices: int
    cells: int
    points: int
    """that may be in voxels: capacity of the longest list of them, or corners of all rigid bodies that have any and
    faces that round ones may touch"""
    neighbors: int
    """capacity for vertices near voxels"""
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
    shifts: int
    """iterations of shifts"""
    passes: int
    """of the list, in each iteration"""
    counts_of_voxels: tuple[int, int]
    """both iterations, of contacts among voxels, and with corners of the ground"""
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

    @property
    def rounds(self) -> tuple[int, ...]:
        """Numbers of round bodies."""
        return tuple(number for number, is_round in enumerate(self.round) if is_round)


class Known(NamedTuple):
    """What a launch reads of one world; p vertices, c cells, s bodies, m contacts of the list.

    A voxel has k = 4 corners in 2-D, 8 in 3-D.
    """

    robots: Any
    """where vertices are and how they move: of the only robot as its kernel has it (vsr.physics.contract.Carriers,
    PointMotion), else Plain"""
    vertices: Any
    """where vertices were after the last step [m], (dimension, p)"""
    inverse_mass: Any
    """(p,)"""
    inverse_inertia: Any
    """(p,); None where vertices are their own carriers"""
    flags: Any
    """of vertices, (p,)"""
    friction: Any
    """(p,)"""
    restitution: Any
    """(p,)"""
    cells: Any
    margin: Any
    """by which a face that looks the same way as what touches it reaches beyond itself, at most [m]"""
    bodies: Any
    """None if there are none"""
    ground: Any
    """a convex terrain by its numbers, if contacts with it are to be found here; else None"""
    gravity: Any
    listed: Any
    """contacts of rigid bodies with each other and the ground; or None"""
    blocks: Any
    """contacts of vertices with blocks of ground; or None"""
    may_touch: Any
    """a bit for each cell that a vertex may touch, numbers of 32 bits, (numbers, p); None if none may touch any"""
    overflow: Any
    """pairs of these that found no place so far, (1,)"""
    ground_corners: Any
    """near voxels; or None"""
    kept: Any
    """impulses of the step before, by group"""


class Plain(NamedTuple):
    """Vertices of any robots."""

    position: Any
    """[m], (dimension, p)"""
    velocity: Any
    """[m/s], (dimension, p)"""
    lever: Any
    """(2, p); None in 3-D"""

    @property
    def moving(self) -> tuple[Any, ...]:
        """What the kernel changes: nothing."""
        return ()


class Cells(NamedTuple):
    """Voxels."""

    corner_vertices: Any
    """of their corners among vertices, (k, c)"""
    around: Any
    """the cells of which a vertex is a corner, -1 where there is none, (k, p)"""
    flags: Any
    """(c,)"""
    side: Any
    """[m], (c,)"""


class GroundCorners(NamedTuple):
    """Convex corners of the ground that are near voxels; capacity n."""

    point: Any
    """numbers, (n,)"""
    cell: Any
    """(n,)"""
    counts: Any
    """1, or 0 for empty slots, which come last, (n,)"""
    place: Any
    """of all corners [m], (2, q)"""
    friction: Any
    """of the ground"""
    restitution: Any


class BodyTables(NamedTuple):
    """Rigid bodies before the step; fields as of Solids and SolidState (vsr.physics.contact.solids)."""

    corner: Any
    """in their own frames [m], (s, v, dimension)"""
    normal: Any
    """(s, f, dimension)"""
    offset: Any
    """(s, f)"""
    radius: Any
    """(s,)"""
    mass: Any
    inertia: Any
    friction: Any
    restitution: Any
    state: SolidState


class Listed(NamedTuple):
    """Contacts of rigid bodies; of the numbers -1 means none."""

    numbers: Any
    """of the first and second body, (2, m)"""
    contact: Any
    """Found of (dimension, m) and (m,); None if they are to be found"""
    levers: Any
    """(dimension, m) of the first, and of the second; None likewise"""


class Outcome(NamedTuple):
    """What a launch writes."""

    robots: Any
    """what moves of them, in the same memory as it is read from; empty if vertices are given plainly"""
    given: Any
    """impulses on vertices [N s], (dimension, p)"""
    shift: Any
    """shifts of vertices [kg m], (dimension, p); None where robots are pushed here"""
    vertices: Any
    """where they are then [m], (dimension, p)"""
    bodies: Any
    """state of rigid bodies after the step; None if there are none"""
    kept: Any
    overflow: Any
    """pairs that found no place so far, (1,); None if none are looked for"""


class Shared(NamedTuple):
    """Memory through which lanes exchange what they found; n points that may be in voxels, m neighbors."""

    position: Any
    """of vertices, (dimension, p)"""
    lever: Any
    """(dimension, p)"""
    velocity: Any
    """(dimension, p)"""
    outward: Any
    """(dimension, p)"""
    load: Any
    """(p,)"""
    middle: Any
    """of cells, (dimension, c)"""
    low: Any
    """lowest corners of the boxes around cells, (dimension, c)"""
    high: Any
    """(dimension, c)"""
    center: Any
    """of rigid bodies, (s, dimension)"""
    rotation: Any
    """(s, dimension, dimension)"""
    cell: Any
    """of points, (n,)"""
    vertex: Any
    """(n,)"""
    touches: Any
    """(n,)"""
    weight: Any
    """of the corners of their cells, (k, n)"""
    impulse: Any
    """(dimension, n)"""
    near_vertex: Any
    """(m,)"""
    near_cell: Any
    """(m,)"""


class Found(NamedTuple):
    """Contacts that are found before."""

    normal: Any
    depth: Any
    touches: Any
    friction: Any
    restitution: Any
