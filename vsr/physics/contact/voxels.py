"""Points in voxels and in solid cells of ground: a point inside is put out through the nearest outer face.

A voxel is the quadrilateral of its corners, in 3-D the hexahedron whose faces are taken as planes. The place of a point
in it is that of the multilinear map from the unit square or cube: its weights add up to 1 and give back the point, so
what is shared out among the corners by them acts at the point itself.

Solid cells of ground are those of vsr.terrain.blocks. Arrays are those of vsr.physics.contact.vectors.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.physics.contact.vectors import cross, dot, largest, look_up, looks_along
from vsr.robot.corners import corner_steps
from vsr.terrain import Blocks
from vsr.terrain.base import AnyTerrain

NEWTON_STEPS = 3
"""Towards a point's place in a voxel; deformed as voxels are, the rest is below rounding."""


class Face(NamedTuple):
    """A side of a voxel; corners by their bits."""

    corners: tuple[int, ...]
    """so ordered that the normal leads out"""
    axis: int
    """of the array of cells across which it lies"""
    side: int
    """-1 or 1 along that axis"""


@lru_cache
def faces(dimension: int) -> tuple[Face, ...]:
    """All sides of a voxel."""
    found = []
    for way, side in itertools.product(range(dimension), (-1, 1)):  # x, y, z
        on = [corner for corner in range(2**dimension) if (corner >> way & 1) == (side > 0)]
        if dimension == 2:  # with the normal to the right of the way from the first to the second
            corners = tuple(on if (side > 0) == (way == 0) else reversed(on))
        else:
            u, v = 1 << (way + 1) % 3, 1 << (way + 2) % 3
            low = on[0]
            corners = (low, low | u, low | v, low | u | v) if side > 0 else (low, low | v, low | u, low | u | v)
        found.append(Face(corners, dimension - 1 - way, side))
    return tuple(found)


def outward(present: Array) -> Array:
    """Which faces lead nearer to the outside, True or False, (faces, *cells); present: 1 where there is a voxel.

    Of voxels at the surface these are the outer faces. A point that got deeper is led out the shortest way.
    """
    dimension = present.ndim
    depth = (present > 0).astype(jnp.int32)
    for _ in range((min(present.shape) + 1) // 2 - 1):
        around = jnp.stack([_beyond(depth, face) for face in faces(dimension)]).min(0)
        depth = jnp.where(present > 0, around + 1, 0)
    return jnp.stack([(_beyond(depth, face) < depth) for face in faces(dimension)])


def outer(present: Array) -> Array:
    """True for faces of voxels across which there is none, (faces, *cells)."""
    return jnp.stack([(present > 0) & (_beyond(present, face) == 0) for face in faces(present.ndim)])


def at_surface(present: Array) -> Array:
    """True for corners of voxels that are on an outer face, (corners, *cells)."""
    dimension = present.ndim
    found = [jnp.zeros(present.shape, bool)] * 2**dimension
    for face, bare in zip(faces(dimension), outer(present), strict=True):
        for corner in face.corners:
            found[corner] = found[corner] | bare
    return jnp.stack(found)


def _beyond(values: Array, face: Face) -> Array:
    """Values of the cells across a face, 0 outside of the grid."""
    padded = jnp.pad(values, 1)
    window = tuple(
        slice(1 + (face.side if axis == face.axis else 0), 1 + (face.side if axis == face.axis else 0) + size)
        for axis, size in enumerate(values.shape)
    )
    return padded[window]


class Inside(NamedTuple):
    """Points against voxels; m stands for their axes."""

    distance: Array
    """from the nearest face that leads out, negative inside [m], m; 0 if none does"""
    normal: Array
    """out of that face, (dimension, m)"""
    is_inside: Array
    """whether the point is in the voxel and a face leads out, m"""


def face_planes(corner: Array) -> list[tuple[Array, Array]]:
    """A point and the unit normal of every face, each (dimension, m); corner: (dimension, corners, m)."""
    planes, dimension = [], corner.shape[0]
    for face in faces(dimension):
        ends = [corner[:, number] for number in face.corners]
        if dimension == 2:
            along = ends[1] - ends[0]
            middle, normal = ends[0], jnp.stack([along[1], -along[0]])
        else:
            middle = 0.25 * (ends[0] + ends[1] + ends[2] + ends[3])
            normal = cross(ends[3] - ends[0], ends[2] - ends[1])
        planes.append((middle, normal / jnp.sqrt(jnp.maximum(dot(normal, normal), 1e-20))))
    return planes


def point_in_voxel(
    point: Array, corner: Array, leads_out: Array, outward: Array | None = None, margin: Array | float = 0.0
) -> Inside:
    """Points (dimension, m) in voxels (dimension, corners, m); leads_out: True for such faces, (faces, m).

    outward: out of the body that has the point, (dimension, m): faces that look the same way do not count, and are
    crossed only beyond a margin [m]. None: all faces count.
    """
    least = inside = nearest = None
    for number, (middle, normal) in enumerate(face_planes(corner)):
        height, counts, limit = dot(point - middle, normal), leads_out[number], 0.0
        if outward is not None:
            aside = counts & looks_along(normal, outward)
            counts, limit = counts & ~aside, jnp.where(aside, margin, 0)
        within, here = height < limit, jnp.where(counts, height, -jnp.inf)
        if least is None or inside is None or nearest is None:
            least, inside, nearest = here, within, jnp.broadcast_to(normal, (point.shape[0], *here.shape))
        else:
            inside, nearest = inside & within, jnp.where(here > least, normal, nearest)
            least = jnp.maximum(here, least)
    assert least is not None
    assert inside is not None
    assert nearest is not None
    found = jnp.isfinite(least)
    return Inside(jnp.where(found, least, 0), nearest, inside & found)


class OnFace(NamedTuple):
    """Points over one face of voxels each; m stands for their axes."""

    distance: Array
    """from the face, negative in the voxel, infinite where another face or a corner is nearer [m], m"""
    normal: Array
    """from the place on the face to the point, or out of the voxel that the point is in, (dimension, m)"""
    place: Array
    """on the face, nearest to the point [m], (dimension, m)"""


def points_on_faces(point: Array, corner: Array, leads_out: Array, is_outer: Array) -> list[OnFace]:
    """How near points (dimension, m) are to each face of voxels (dimension, corners, m); both flags: (faces, m).

    In front of an outer face its inner part counts, in 3-D with its edges; corners are vertices, which are found
    otherwise. A point in the voxel is only at the nearest face that leads out.
    """
    planes = face_planes(corner)
    heights = [dot(point - middle, normal) for middle, normal in planes]
    below = [jnp.where(counts, height, -jnp.inf) for counts, height in zip(leads_out, heights, strict=True)]
    least, inside = largest(jnp.stack(below), 0)[0], largest(jnp.stack(heights), 0)[0] < 0
    found = []
    for number, face in enumerate(faces(point.shape[0])):
        (_, normal), height = planes[number], heights[number]
        normal = jnp.broadcast_to(normal, (point.shape[0], *height.shape))
        distance, way, place = _in_front(
            point, [corner[:, end] for end in face.corners], height, normal, point - height * normal
        )
        distance = jnp.where(is_outer[number] & (height > 0), distance, jnp.inf)
        here = inside & leads_out[number] & (height == least)
        found.append(
            OnFace(
                jnp.where(here, height, distance),
                jnp.where(here, normal, way),
                jnp.where(here, point - height * normal, place),
            )
        )
    return found


def _in_front(point: Array, ends: list[Array], height: Array, normal: Array, foot: Array) -> tuple[Array, Array, Array]:
    """Distance [m], m, direction, and place [m], (dimension, m) each, of points before faces; ends: of the face."""
    if len(ends) == 2:
        along, length = _along(point, *ends)
        return jnp.where((along > 0) & (along < length), height, jnp.inf), normal, foot
    round_it = [(ends[one], ends[other]) for one, other in ((0, 1), (1, 3), (3, 2), (2, 0))]
    within = [dot(cross(end - begin, normal), foot - begin) < 0 for begin, end in round_it]
    upon = within[0] & within[1] & within[2] & within[3]
    distance, way, place = jnp.where(upon, height, jnp.inf), normal, foot
    for begin, end in round_it:
        along, length = _along(point, begin, end)
        at = begin + along / jnp.maximum(length, 1e-20) * (end - begin)
        away = point - at
        gap = jnp.sqrt(jnp.maximum(dot(away, away), 1e-20))
        nearer = ~upon & (along > 0) & (along < length) & (gap < distance)
        distance, way, place = (jnp.where(nearer, *both) for both in ((gap, distance), (away / gap, way), (at, place)))
    return distance, way, place


def _along(point: Array, begin: Array, end: Array) -> tuple[Array, Array]:
    """How far points are along edges, and how long these are, times the length [m²]."""
    way = end - begin
    return dot(point - begin, way), dot(way, way)


def weights_at(point: Array, corner: Array) -> Array:
    """Of every corner for points in voxels, (corners, m); they add up to 1 and give back the point."""
    dimension = point.shape[0]
    terms = _terms(corner - point[:, None])  # near 0 there are more digits
    place = [jnp.full_like(point[0], 0.5)] * dimension
    for _ in range(NEWTON_STEPS):
        columns = [_gradient(terms, place, axis) for axis in range(dimension)]
        step = _solved(columns, -_mapped(terms, place))
        place = [jnp.clip(part + more, -0.5, 1.5) for part, more in zip(place, step, strict=True)]
    weights = [
        math.prod((part if bit else 1 - part for bit, part in zip(reversed(bits), place, strict=True)), start=1.0)
        for bits in corner_steps(dimension)
    ]
    return jnp.stack(weights)


def _terms(corner: Array) -> list[Array]:
    """Factors of the multilinear map: of products of the coordinates whose bits are set, each (dimension, m)."""
    terms = []
    for bits in range(corner.shape[1]):
        parts = [
            (-1) ** (bits ^ number).bit_count() * corner[:, number]
            for number in range(corner.shape[1])
            if not number & ~bits
        ]
        terms.append(sum(parts[1:], parts[0]))
    return terms


def _mapped(terms: list[Array], place: list[Array]) -> Array:
    total = terms[0]
    for bits, factor in enumerate(terms):
        if bits:
            total = total + _product(place, bits) * factor
    return total


def _gradient(terms: list[Array], place: list[Array], axis: int) -> Array:
    """How the map changes along one coordinate."""
    total = terms[1 << axis]
    for bits, factor in enumerate(terms):
        others = bits & ~(1 << axis)
        if bits >> axis & 1 and others:
            total = total + _product(place, others) * factor
    return total


def _product(place: list[Array], bits: int) -> Array:
    return math.prod((part for axis, part in enumerate(place) if bits >> axis & 1), start=jnp.ones((), place[0].dtype))


def _solved(columns: list[Array], rest: Array) -> list[Array]:
    """Coordinates whose columns add up to the rest (Cramer's rule)."""

    def determinant(columns: list[Array]) -> Array:
        if len(columns) == 2:
            (a, c), (b, d) = columns
            return a * d - b * c
        (a, b, c), (d, e, f), (g, h, i) = columns
        return a * (e * i - f * h) - d * (b * i - c * h) + g * (b * f - c * e)

    whole = determinant(columns)
    whole = jnp.where(jnp.abs(whole) > 1e-12, whole, 1e-12)
    return [
        determinant([rest if column == axis else part for column, part in enumerate(columns)]) / whole
        for axis in range(len(columns))
    ]


class InBlocks(NamedTuple):
    """Points in solid cells; m of them."""

    depth: Array
    """below the nearest side that leads out [m], (m,)"""
    normal: Array
    """out of that side, (dimension, m)"""
    is_inside: Array
    """(m,)"""


def points_in_blocks(blocks: Blocks, point: Array) -> InBlocks:
    """point: [m], (dimension, m); in 3-D cells are the same for all y."""
    x, up = point[0], point[-1]
    rows, columns = blocks.solid.shape[:2]
    column = jnp.floor((x - blocks.start) / blocks.width)
    # A failed robot may be anywhere, even nowhere: NaN must not become an index.
    column = jnp.where(jnp.isfinite(column), jnp.clip(column, 0, columns - 1), 0).astype(jnp.int32)
    row = jnp.zeros(up.shape, jnp.int32)
    for number in range(1, rows):
        row = row + (up >= blocks.level[number])
    over = (up >= blocks.level[0]) & (up < blocks.level[rows])
    place = row * columns + column
    further = blocks.solid.shape[2:]
    held = look_up(blocks.solid.reshape(-1, *further), place)
    left = blocks.start + blocks.width * column
    low, high = look_up(blocks.level, row), look_up(blocks.level, row + 1)
    # Beyond the ends columns go on, and no side is near.
    depths = x - left, left + blocks.width - x, up - low, high - up
    leads_out = blocks.leads_out.reshape(4, -1, *further)
    ways = ((-1, 0), (1, 0), (0, -1), (0, 1))
    least, normal = jnp.full_like(x, jnp.inf), jnp.zeros_like(point)
    for number, (depth, (along, upwards)) in enumerate(zip(depths, ways, strict=True)):
        counts = look_up(leads_out[number], place)
        here = jnp.where(counts, depth, jnp.inf)
        way = jnp.zeros_like(point).at[0].set(along).at[-1].set(upwards)
        normal = jnp.where(here < least, way, normal)
        least = jnp.minimum(here, least)
    found = held & over & jnp.isfinite(least)
    return InBlocks(jnp.where(found, least, 0), normal, found)


def ground_corners(terrain: AnyTerrain | None, dimension: int) -> tuple[Array, Array] | None:
    """Convex corners of a ground [m], (dimension, q), and whether each is one, (q,); None if there are none.

    Only in 2-D: in 3-D they are edges.
    """
    return None if dimension == 3 or terrain is None else terrain.corners()
