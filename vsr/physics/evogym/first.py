"""First contact on the lattice: forces of the first substeps where EvoGym's worlds begin.

Its bodies begin at rest with corners exactly on borders of other voxels. A border belongs to the cells on both sides,
and the last bit of a double decides who touches whom. So these contacts are computed with numpy's doubles, from the
expressions that place EvoGym's points, for every cell that a robot's grid may have. After a substep bodies have
left the lattice, and the contact of vsr.physics.evogym.contact goes on. An object that nothing touches falls straight,
so that its corners are still on borders to the left and right when it lands: that contact is computed likewise.

Forces at first are whole multiples of half of a contact's force at depth 0 (HALF). They depend on which edges of a
robot's voxel are outside, so a table has an entry for each of the 16 sets of edges
(vsr.physics.evogym.model.edge_bits).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from vsr.physics.evogym.law import (
    CONTACT,
    CONTACT_DAMPING,
    CONTACT_OFFSET,
    DRAG,
    FRICTION,
    FRICTION_SCALE,
    GRAVITY,
    PARALLEL,
    SIDE,
    SUBSTEP,
)
from vsr.robot.corners import RING, corner_steps

HALF = 0.5 * CONTACT * CONTACT_OFFSET
SETS = 16
"""Of outer edges."""
EDGE_ORDER = (2, 1, 0, 3)
"""Edges in the order top, right, bottom, left, of which the first of the nearest is taken."""
STEPS = tuple(corner_steps(2))
"""Up and right, of corners by their bits."""

Point = tuple[float, float]


class Piece(NamedTuple):
    """Voxels that EvoGym places as one object."""

    x: int
    y: int
    """lowest left cell of its grid"""
    solid: tuple[tuple[bool, ...], ...]
    """rows of cells, the lowest first"""
    soft: tuple[tuple[bool, ...], ...] | None = None
    """of ground: which of them are a body's, soft or beside soft ones; such a piece is ground and an object"""
    falls: bool = False
    """whether it falls straight until it meets the ground or another piece that does not"""

    @staticmethod
    def of(x: int, y: int, solid: np.ndarray, soft: np.ndarray | None = None, falls: bool = False) -> Piece:
        return Piece(int(x), int(y), _as_rows(solid), None if soft is None else _as_rows(soft), falls)


def _as_rows(cells: np.ndarray) -> tuple[tuple[bool, ...], ...]:
    return tuple(tuple(bool(cell) for cell in row) for row in cells)


class Spot(NamedTuple):
    """A voxel of a piece in the grid of its object."""

    row: int
    column: int
    piece: int
    """its number in the object"""
    piece_row: int
    piece_column: int
    fixed: bool = False
    """whether it is a voxel of the ground that does not move"""


class Beginning(NamedTuple):
    """Where everything in a world begins."""

    robot: tuple[int, int]
    """lowest left cell of the robot's grid"""
    ground: tuple[Piece, ...]
    objects: tuple[Piece, ...]
    """pieces of objects, as in the model; those that touch nothing may begin elsewhere"""
    shift: tuple[int, int] = (0, 0)
    """by how many cells objects may begin farther to the right, from the first to the second"""


class First(NamedTuple):
    """Tables in units of HALF; k stands for corners by their bits, rows and columns of cells."""

    robot: np.ndarray
    """on the robot's voxels, (sets, k, c, 2)"""
    objects: tuple[np.ndarray | None, ...]
    """on those of objects from each other and the ground, (k, c of the object, 2); None if they touch nothing"""
    objects_by_robot: tuple[np.ndarray | None, ...]
    """on those of objects from the robot's voxels, (sets, c of the robot, k, c of the object, 2), or None"""
    landings: tuple[Landing | None, ...]
    """of objects that the robot does not touch; None if they do not fall straight onto something"""


class Landing(NamedTuple):
    """Of an object that nothing touches at first."""

    after: int
    """substeps of free fall"""
    force: np.ndarray
    """on its voxels in the next substep, for every shift from the first on, (shifts, k, c of the object, 2)"""
    shift: int
    """the first"""


class _Voxel(NamedTuple):
    """A voxel at its place."""

    row: int
    column: int
    corners: tuple[Point, ...]
    """in the order of RING"""
    edges: int
    """outer ones, as bits"""
    speed: Point = (0.0, 0.0)
    """velocity in the substep before"""


@lru_cache(maxsize=64)
def first_contacts(beginning: Beginning, rows: int, columns: int) -> First:
    """rows, columns: of the robot's grid."""
    everywhere = Piece.of(*beginning.robot, np.ones((rows, columns), bool))
    on_robot = np.zeros((SETS, 4, rows, columns, 2))
    on_objects = [np.zeros((4, *np.shape(one.solid), 2)) for one in beginning.objects]
    by_robot = [np.zeros((SETS, rows, columns, 4, *np.shape(one.solid), 2), np.float32) for one in beginning.objects]
    mine = list(_voxels(everywhere))
    fixed = [voxel for piece in beginning.ground for voxel in _voxels(piece, soft=False)]
    others = [list(_voxels(piece, soft=True)) for piece in beginning.objects]
    for one, other in _touching(mine, fixed):
        for edges in range(1, SETS):
            _add(one._replace(edges=edges), other, on_robot[edges], None)
    for number, voxels in enumerate(others):
        for one, other in _touching(mine, voxels):
            for edges in range(1, SETS):
                there = by_robot[number][edges, one.row, one.column]
                _add(one._replace(edges=edges), other, on_robot[edges], there)
        for one, other in _touching(voxels, fixed if beginning.objects[number].soft is None else []):
            _add(one, other, on_objects[number], None)
        for more in range(number + 1, len(others)):
            for one, other in _touching(voxels, others[more]):
                _add(one, other, on_objects[number], on_objects[more])
    # On the lattice depths are whole voxels, so that forces are whole but for rounding.
    for table in (on_robot, *on_objects, *by_robot):
        np.round(table, out=table)
    touched = [bool(alone.any() or together.any()) for alone, together in zip(on_objects, by_robot, strict=True)]
    return First(
        on_robot,
        tuple(table if any_ else None for table, any_ in zip(on_objects, touched, strict=True)),
        tuple(table if table.any() else None for table in by_robot),
        tuple(
            _landing(number, beginning) if piece.falls and not alone.any() else None
            for number, (piece, alone) in enumerate(zip(beginning.objects, on_objects, strict=True))
        ),
    )


def _landing(number: int, beginning: Beginning) -> Landing | None:
    """Of the object with this number, which falls straight; None if it meets nothing or only borders."""
    fixed = [*beginning.ground, *(piece for piece in beginning.objects if not piece.falls)]
    low, high = beginning.shift
    found, after = [], 0
    for shift in range(low, high + 1):

        def shifted(piece: Piece, shift: int = shift) -> list[_Voxel]:
            return list(_voxels(piece._replace(x=piece.x + shift) if piece in beginning.objects else piece))

        voxels, below = shifted(beginning.objects[number]), [voxel for piece in fixed for voxel in shifted(piece)]
        after = _substeps_of_fall(_room(voxels, below))
        if after is None:
            return None
        fall, before = (_fallen(count) for count in (after, after - 1))
        lower = [
            one._replace(corners=tuple((x, y - fall) for x, y in one.corners), speed=(0.0, (before - fall) / SUBSTEP))
            for one in voxels
        ]
        force = np.zeros((4, *np.shape(beginning.objects[number].solid), 2))
        for one, other in _touching(lower, below):
            _add(one, other, force, None)
        found.append(force)
    return Landing(after, np.stack(found), low) if np.any(found) else None


def _room(voxels: list[_Voxel], below: list[_Voxel]) -> float:
    """How far voxels can fall before they meet others, be it at a border; infinity if they meet none."""
    corner, tops = (np.array([voxel.corners[place] for voxel in some]) for some, place in ((voxels, 0), (below, 3)))
    apart = corner[:, None] - tops[None]
    meets = (np.abs(apart[..., 0]) < 1.5 * SIDE) & (apart[..., 1] > -0.5 * SIDE)
    return float(np.min(apart[..., 1], initial=np.inf, where=meets))


def _fallen(substeps: int) -> float:
    """Way of a free fall with drag."""
    time = substeps * SUBSTEP
    return GRAVITY / DRAG * (time + float(np.expm1(-DRAG * time)) / DRAG)


def _substeps_of_fall(room: float) -> int | None:
    """After how many substeps a free fall has gone farther than this."""
    if not np.isfinite(room):
        return None
    count = max(int((2 * max(room, 0) / GRAVITY) ** 0.5 / SUBSTEP), 1)
    while _fallen(count) <= room:
        count += 1
    return count


class OfObject(NamedTuple):
    """The part of the tables that is an object's, in its grid."""

    alone: np.ndarray | None
    """from other objects and the ground, (k, c, 2); None if it touches nothing"""
    by_robot: np.ndarray | None
    """from the robot's voxels, (sets, c of the robot, k, cells, 2), or None"""
    rows: np.ndarray
    """of those cells, (cells,)"""
    columns: np.ndarray


def of_object(first: First, number: int, spots: Sequence[Spot], shape: tuple[int, ...]) -> OfObject:
    """number: of the object's first piece; spots: where voxels are in its grid of some shape."""
    alone, found = np.zeros((4, *shape, 2)), {}
    touched = False
    for spot in spots:
        table, by_robot = first.objects[number + spot.piece], first.objects_by_robot[number + spot.piece]
        touched |= table is not None
        if table is not None:
            alone[:, spot.row, spot.column] = table[:, spot.piece_row, spot.piece_column]
        if by_robot is not None and by_robot[..., spot.piece_row, spot.piece_column, :].any():
            found[spot.row, spot.column] = by_robot[..., spot.piece_row, spot.piece_column, :]
    rows, columns = np.array([*found]).reshape(-1, 2).T
    by_robot = np.stack([*found.values()], -2) if found else None
    return OfObject(alone if touched else None, by_robot, rows.astype(int), columns.astype(int))


def _voxels(piece: Piece, soft: bool = True) -> Iterator[_Voxel]:
    """Those with outer edges, and where EvoGym's expressions put their corners; soft: of ground that moves in part."""
    solid = np.pad(np.array(piece.solid), 1)
    height = len(piece.solid)
    top = piece.y * SIDE + height * SIDE
    wanted = solid[1:-1, 1:-1] if piece.soft is None else solid[1:-1, 1:-1] & (np.array(piece.soft) == soft)
    for row, column in np.argwhere(wanted).tolist():
        beside = solid[row, column + 1], solid[row + 1, column + 2], solid[row + 2, column + 1], solid[row + 1, column]
        edges = sum(1 << edge for edge, neighbor in enumerate(beside) if not neighbor)
        left, right = (piece.x * SIDE + number * SIDE for number in (column, column + 1))
        low, high = (top - (height - number) * SIDE for number in (row, row + 1))
        if edges:
            yield _Voxel(row, column, ((left, low), (right, low), (right, high), (left, high)), edges)


def _touching(some: list[_Voxel], others: list[_Voxel]) -> Iterator[tuple[_Voxel, _Voxel]]:
    """Pairs that are nearer than half a voxel, which on the lattice is at no distance."""
    if not others:
        return
    there = np.array([voxel.corners[0] for voxel in others])
    for one in some:
        apart = np.abs(there - np.array(one.corners[0])).max(1)
        for number in np.flatnonzero(apart < 1.5 * SIDE):
            yield one, others[number]


def _add(one: _Voxel, other: _Voxel, on_one: np.ndarray, on_other: np.ndarray | None) -> None:
    """Contact of two voxels, either's corners in the other; tables: (k, rows, columns, 2), None if it is fixed."""
    sides = ((one, on_one), (other, on_other))
    for (main, on_main), (hit, on_hit) in (sides, sides[::-1]):
        for place in range(4):
            met = _edge_met(main.corners, place, hit)
            if met is None:
                continue
            depth, edge = met
            normal = np.array([(0, -1), (1, 0), (0, 1), (-1, 0)][edge])
            shared = _shared(depth, normal, np.array(main.speed))
            if on_main is not None:
                on_main[RING[place], main.row, main.column] += shared - _damping(normal, main)
            if on_hit is not None:
                for end in (edge, (edge + 1) % 4):
                    on_hit[RING[end], hit.row, hit.column] -= 0.5 * (shared + _damping(normal, hit))


def _shared(depth: float, normal: np.ndarray, speed: np.ndarray) -> np.ndarray:
    """See vsr.physics.evogym.contact.contact_force, in units of HALF."""
    strength = CONTACT * (CONTACT_OFFSET + depth)
    tangent = np.array((-normal[1], normal[0]))
    friction = -FRICTION * strength * np.tanh(tangent @ speed / (FRICTION_SCALE * strength))
    return (strength * normal + friction * tangent) / HALF


def _damping(normal: np.ndarray, voxel: _Voxel) -> np.ndarray:
    return CONTACT_DAMPING * (normal @ np.array(voxel.speed)) * normal / HALF


def _edge_met(corners: tuple[Point, ...], place: int, hit: _Voxel) -> tuple[float, int] | None:
    """How far a corner is from the edge that it is pushed out through, and which that is, if it is in the voxel and
    came by an outer one."""
    point = corners[place]
    if not _inside(point, hit.corners):
        return None
    ends = corners[place - 1], corners[(place + 1) % 4]
    found: list[tuple[float, int]] = []
    for edge in EDGE_ORDER:
        a, b = hit.corners[edge], hit.corners[(edge + 1) % 4]
        if hit.edges >> edge & 1 and any(_cross_each_other(point, end, a, b) for end in ends):
            along, apart = _minus(b, a), _minus(point, a)
            found.append((abs(_cross(along, apart)) / float(np.hypot(*along)), edge))
    return min(found, key=lambda one: one[0]) if found else None


def _minus(first: Point, second: Point) -> Point:
    return first[0] - second[0], first[1] - second[1]


def _cross(first: Point, second: Point) -> float:
    return first[0] * second[1] - first[1] * second[0]


def _inside(point: Point, corners: tuple[Point, ...]) -> bool:
    """As vsr.physics.evogym.contact.inside."""
    low_left, low_right, high_right, high_left = (_minus(corner, point) for corner in corners)
    diagonal = _cross(low_right, high_left)
    upper = _cross(high_left, high_right), _cross(high_right, low_right)
    lower = _cross(high_left, low_left), _cross(low_left, low_right)
    return any(all(diagonal * side >= 0 for side in triangle) for triangle in (upper, lower))


def _cross_each_other(p: Point, q: Point, a: Point, b: Point) -> bool:
    one, other, apart = _minus(q, p), _minus(b, a), _minus(a, p)
    size = _cross(one, other)
    if abs(size) < PARALLEL:
        return False
    return 0 <= _cross(apart, other) / size <= 1 and 0 <= _cross(apart, one) / size <= 1
