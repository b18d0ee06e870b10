"""Rigid convex bodies: their mass properties, where they are, and points inside them.

A body with flat faces is its corners and the half-spaces behind its faces; a round one is its center and a radius. All
bodies of a world share the numbers of corners and faces: what is too many has no extent. Arrays in the world's frame
are those of vsr.physics.contact.vectors.

Faces, edges, volume and moments of inertia follow from a described shape (`form_of`), in numpy, before tracing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.physics.contact.vectors import beside, dot, looks_along, summed

FAR = 1e9
"""Distance behind a face that does not exist [m]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Shapes:
    """Rigid shapes, each in its own frame, the center of mass at the origin; s shapes, v corners, f faces, e ends."""

    corner: Array
    """[m], the last again for what is too many, (s, v, dimension)"""
    normal: Array
    """unit vectors out of the faces, 0 for what is too many, (s, f, dimension)"""
    offset: Array
    """from the origin to the face along its normal [m], FAR for what is too many, (s, f)"""
    outline: Array
    """numbers of the corners round every face, counter-clockwise seen from outside, the last again for what is too
    many; in 2-D the two ends of a side, (s, f, e)"""
    edge: Array
    """directions of edges, each once, 0 for what is too many; none in 2-D, (s, g, dimension)"""
    radius: Array
    """of what is round, 0 for others [m], (s,)"""
    round: tuple[bool, ...] = field(metadata={"static": True})
    """which shapes are round"""

    @property
    def dimension(self) -> int:
        return self.corner.shape[-1]


class Placed(NamedTuple):
    """Shapes where they are now."""

    center: Array
    """[m], (dimension, s)"""
    corner: Array
    """[m], (dimension, s, v)"""
    normal: Array
    """(dimension, s, f)"""
    offset: Array
    """from the world's origin to the faces along their normals [m], (s, f)"""
    ends: Array
    """corners round every face [m], (dimension, s, f, e)"""
    edge: Array
    """(dimension, s, g)"""
    radius: Array
    """(s,)"""

    def faces(self) -> list[tuple[Array, Array]]:
        """Normals (dimension, s) and offsets (s,), one after the other."""
        return [(self.normal[:, :, face], self.offset[:, face]) for face in range(self.offset.shape[1])]

    def of(self, number: np.ndarray) -> Placed:
        """Some of them, by numbers known before tracing."""
        axes = (1, 1, 1, 0, 1, 1, 0)
        return Placed(*(jnp.take(part, number, axis) for part, axis in zip(self, axes, strict=True)))


def place(shapes: Shapes, position: Array, rotation: Array) -> Placed:
    """Shapes at places [m], (s, dimension), turned from their own axes to the world's, (s, dimension, dimension)."""
    turn = jnp.moveaxis(rotation, 0, 2)[:, :, :, None]  # (dimension, dimension, s, 1)

    def turned(vectors: Array) -> Array:
        return summed(turn * jnp.moveaxis(vectors, 2, 0)[None], 1)

    center, normal = jnp.swapaxes(position, 0, 1), turned(shapes.normal)
    corner = center[:, :, None] + turned(shapes.corner)
    shape = shapes.outline.shape
    around = shapes.outline.reshape(1, shape[0], -1, *shape[3:])
    ends = jnp.take_along_axis(corner, around, 2)
    return Placed(
        center=center,
        corner=corner,
        normal=normal,
        offset=shapes.offset + dot(normal, center[:, :, None]),
        ends=ends.reshape(*corner.shape[:2], *shape[1:3], *ends.shape[3:]),
        edge=turned(shapes.edge),
        radius=shapes.radius,
    )


class Distance(NamedTuple):
    """Points against bodies."""

    distance: Array
    """from the surface, negative inside [m], (s, p)"""
    normal: Array
    """of the nearest face, or out of the center, (dimension, s, p)"""
    lever: Array
    """from the body's center to the point [m], (dimension, s, p)"""


def points_in(
    placed: Placed,
    round_ones: tuple[bool, ...],
    point: Array,
    outward: Array | None = None,
    margin: Array | float = 0.0,
) -> Distance:
    """How deep points, (dimension, p), are in all bodies. The distance is exact inside; outside it is a lower bound.

    outward: out of the bodies that have the points, (dimension, p): faces that look the same way do not count, and are
    crossed only beyond a margin [m]. None: all faces count.
    """
    lever = point[:, None] - placed.center[:, :, None]
    away = None if outward is None else outward[:, None]
    distance, normal = deepest_face(placed.faces(), point[:, None], away, margin)
    return or_round(placed.radius, round_ones, Distance(distance, normal, lever))


def or_round(radius: Array, round_ones: tuple[bool, ...], flat: Distance) -> Distance:
    """From round bodies by their radius [m], (s,), from others as given."""
    distance, normal, lever = flat
    if any(round_ones):
        away = jnp.sqrt(dot(lever, lever) + jnp.finfo(lever.dtype).tiny)
        is_round = beside(np.array(round_ones)[:, None], away, 2)
        distance = jnp.where(is_round, away - radius[:, None], distance)
        normal = jnp.where(is_round, lever / away, normal)
    return Distance(distance, normal, lever)


def deepest_face(
    faces: Sequence[tuple[Array, Array]],
    point: Array,
    outward: Array | None = None,
    margin: Array | float = 0.0,
) -> tuple[Array, Array]:
    """The greatest distance from any face and that face's normal; point, outward: (dimension, s or 1, p).

    faces: normals (dimension, s) and offsets (s,) as seen from where points are. Those
    that look the same way as outward count only if the point is beyond them by more than a margin [m].
    """
    distance = normal = None
    for here, offset in faces:
        here = here[:, :, None]
        away = dot(here, point) - offset[:, None]
        if outward is not None:
            away = jnp.where(looks_along(here, outward) & (away < margin), -FAR, away)
        if distance is None or normal is None:
            distance, normal = away, jnp.broadcast_to(here, (point.shape[0], *away.shape))
        else:
            normal = jnp.where(away > distance, here, normal)
            distance = jnp.maximum(away, distance)
    assert distance is not None
    assert normal is not None
    return distance, normal


ALIKE = 1e-6
"""Normals and directions nearer than this are one."""


class Form(NamedTuple):
    """A shape about its center of mass, along its principal axes."""

    corner: np.ndarray
    """[m], (corners, dimension); the center alone of what is round"""
    outline: list[list[int]]
    """corners round every face, counter-clockwise from outside; in 2-D the two ends of a side; none of what is round"""
    volume: float
    """[m³], in 2-D [m²]"""
    gyration: np.ndarray
    """moments of inertia over mass [m²], (1,) or (3,)"""
    axes: np.ndarray
    """from these axes to those in which it was described, (dimension, dimension)"""
    radius: float
    """of what is round, 0 for others [m]"""

    @property
    def normals(self) -> np.ndarray:
        """Out of the faces, (faces, dimension)."""
        found = []
        for face in self.outline:
            ends = self.corner[face]
            if self.corner.shape[1] == 2:
                along = ends[1] - ends[0]
                normal = np.array([along[1], -along[0]])
            else:  # Newell's sum is good for any polygon
                following = np.roll(ends, -1, 0)
                normal = np.cross(ends, following).sum(0)
            found.append(normal / np.linalg.norm(normal))
        return np.array(found).reshape(-1, self.corner.shape[1])

    @property
    def edges(self) -> np.ndarray:
        """Their directions, each once, (edges, dimension); none in 2-D."""
        found: list[np.ndarray] = []
        if self.corner.shape[1] == 2:
            return np.zeros((0, 2))
        for face in self.outline:
            for one, other in zip(face, [*face[1:], face[0]], strict=True):
                way = self.corner[other] - self.corner[one]
                way = way / np.linalg.norm(way)
                if not any(1 - abs(way @ known) < ALIKE for known in found):
                    found.append(way)
        return np.array(found).reshape(-1, 3)


def form_of(corner: np.ndarray, radius: float = 0.0) -> Form:
    """The convex hull of corners [m], (corners, dimension), or what is round with a radius [m] about its center."""
    dimension = corner.shape[1]
    same = np.eye(dimension)
    if radius:
        size, share = (math.pi * radius**2, 0.5) if dimension == 2 else (4 / 3 * math.pi * radius**3, 0.4)
        return Form(np.zeros((1, dimension)), [], size, np.full(2 * dimension - 3, share * radius**2), same, radius)
    return _polygon(corner) if dimension == 2 else _polyhedron(corner)


def _polygon(corner: np.ndarray) -> Form:
    away = corner - corner.mean(0)
    corner = corner[np.argsort(np.arctan2(away[:, 1], away[:, 0]))]
    corner = corner - corner[0]  # near 0 there are more digits
    following = np.roll(corner, -1, 0)
    cross = corner[:, 0] * following[:, 1] - corner[:, 1] * following[:, 0]
    area = 0.5 * cross.sum()
    corner = corner - ((corner + following) * cross[:, None]).sum(0) / (6 * area)
    following = np.roll(corner, -1, 0)
    cross = corner[:, 0] * following[:, 1] - corner[:, 1] * following[:, 0]
    squares = (corner**2 + corner * following + following**2).sum(1)
    outline = [[number, (number + 1) % len(corner)] for number in range(len(corner))]
    return Form(corner, outline, float(area), np.array([(cross * squares).sum() / (12 * area)]), np.eye(2), 0.0)


def _polyhedron(corner: np.ndarray) -> Form:
    from scipy.spatial import ConvexHull

    hull = ConvexHull(corner)
    inner = corner.mean(0)
    volume, first, second = 0.0, np.zeros(3), np.zeros((3, 3))
    for triangle in hull.simplices:  # tetrahedra with the inner point, whose integrals are known
        ends = corner[triangle] - inner
        part = abs(np.linalg.det(ends)) / 6
        total = ends.sum(0)
        volume += part
        first += part * total / 4
        second += part * (ends.T @ ends + np.outer(total, total)) / 20
    middle = first / volume
    spread = second / volume - np.outer(middle, middle)
    gyration = np.trace(spread) * np.eye(3) - spread
    axes = _principal(gyration)
    placed = (corner - inner - middle) @ axes
    outline = _faces(placed, (hull.equations[:, :3] @ axes))
    return Form(placed, outline, volume, np.diag(axes.T @ gyration @ axes), axes, 0.0)


def _principal(gyration: np.ndarray) -> np.ndarray:
    """Principal axes as columns; the axes as they are if those are principal."""
    beside = np.abs(gyration - np.diag(np.diag(gyration))).max()
    if beside < ALIKE * np.trace(gyration):
        return np.eye(3)
    axes = np.linalg.eigh(gyration)[1]
    return axes * np.array([1, 1, np.sign(np.linalg.det(axes))])


def _faces(corner: np.ndarray, normals: np.ndarray) -> list[list[int]]:
    """Corners round every face; normals: of the hull's triangles, some of which lie in one plane."""
    size, found = np.ptp(corner, axis=0).max(), []
    for normal in normals:
        if any(normal @ known > 1 - ALIKE for known, _ in found):
            continue
        height = corner @ normal
        upon = np.flatnonzero(height > height.max() - 1e-4 * size)
        away = corner[upon] - corner[upon].mean(0)
        aside = away[0] / np.linalg.norm(away[0])
        angle = np.arctan2(away @ np.cross(normal, aside), away @ aside)
        found.append((normal, upon[np.argsort(angle)].tolist()))
    return [outline for _, outline in found]


def shapes_of(forms: Sequence[Form], dtype: jnp.dtype | type) -> Shapes:
    """Forms as arrays of equal sizes: what is too many has no extent."""
    dimension = forms[0].corner.shape[1]
    corners = max(len(form.corner) for form in forms)
    faces = max(1, *(len(form.outline) for form in forms))
    ends = max([2, *(len(face) for form in forms for face in form.outline)])
    edges = max(len(form.edges) for form in forms)
    corner = np.stack([_filled(form.corner, corners, form.corner[-1]) for form in forms])
    normal = np.stack([_filled(form.normals, faces, np.zeros(dimension)) for form in forms])
    offset = [
        _filled((form.normals * form.corner[[face[0] for face in form.outline]]).sum(1), faces, FAR) for form in forms
    ]
    outline = np.zeros((len(forms), faces, ends), np.int32)
    for number, form in enumerate(forms):
        for place, face in enumerate(form.outline):
            outline[number, place] = _filled(np.array(face), ends, face[-1])
    return Shapes(
        corner=jnp.asarray(corner, dtype),
        normal=jnp.asarray(normal, dtype),
        offset=jnp.asarray(np.stack(offset), dtype),
        outline=jnp.asarray(outline),
        edge=jnp.asarray(np.stack([_filled(form.edges, edges, np.zeros(dimension)) for form in forms]), dtype),
        radius=jnp.asarray([form.radius for form in forms], dtype),
        round=tuple(form.radius > 0 for form in forms),
    )


def _filled(values: np.ndarray, count: int, filling: np.ndarray | float) -> np.ndarray:
    """With as many more at the end as are missing."""
    missing = np.broadcast_to(filling, (count - len(values), *values.shape[1:]))
    return np.concatenate([values, missing])
