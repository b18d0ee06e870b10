"""Voxels as points meet them: a point that is in a voxel is put out through the nearest outer face.

A voxel is the quadrilateral of its corners, in 3-D the hexahedron whose faces are taken as planes. The place of a point
in it is that of the multilinear map from the unit square or cube: its weights add up to 1 and give back the point, so
what is shared out among the corners by them acts at the point itself.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.body.corners import corner_steps
from vsr.compute.vector import Vector, dot, minus

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


def at_surface(present: Array) -> Array:
    """True for corners of voxels that are on an outer face, (corners, *cells)."""
    dimension = present.ndim
    found = [jnp.zeros(present.shape, bool)] * 2**dimension
    for face in faces(dimension):
        bare = (present > 0) & (_beyond(present, face) == 0)
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
    """from the nearest face that leads out, negative inside; positive outside of the voxel [m], m"""
    normal: Vector
    """out of that face"""
    is_inside: Array
    """m"""


def face_planes(corner: list[Vector], dimension: int) -> list[tuple[Vector, Vector]]:
    """A point and the unit normal of every face; corner: by their bits, each a Vector."""
    planes = []
    for face in faces(dimension):
        ends = [corner[number] for number in face.corners]
        if dimension == 2:
            along = minus(ends[1], ends[0])
            middle, normal = ends[0], (along[1], -along[0])
        else:
            one, two = minus(ends[3], ends[0]), minus(ends[2], ends[1])
            middle = tuple(0.25 * sum(parts) for parts in zip(*ends, strict=True))
            (a, b, c), (x, y, z) = one, two
            normal = (b * z - c * y, c * x - a * z, a * y - b * x)
        size = 1 / jnp.sqrt(jnp.maximum(dot(normal, normal), 1e-20))
        planes.append((middle, tuple(size * part for part in normal)))
    return planes


def point_in_voxel(point: Vector, corner: list[Vector], leads_out: Array) -> Inside:
    """Points in voxels whose corners are given by their bits; leads_out: True for such faces, (faces, m)."""
    nearest, least = None, None
    inside = jnp.ones((), bool)
    for number, (middle, normal) in enumerate(face_planes(corner, len(point))):
        height = dot(minus(point, middle), normal)
        inside = inside & (height < 0)
        counts = jnp.where(leads_out[number], height, -jnp.inf)
        if least is None or nearest is None:
            least, nearest = counts, normal
        else:
            better = counts > least
            nearest = tuple(jnp.where(better, n, best) for n, best in zip(normal, nearest, strict=True))
            least = jnp.maximum(counts, least)
    assert least is not None
    assert nearest is not None
    found = jnp.isfinite(least)
    shape = least.shape
    return Inside(
        jnp.where(found, least, 0), tuple(jnp.broadcast_to(part, shape) for part in nearest), inside & found
    )


def weights_at(point: Vector, corner: list[Vector]) -> Array:
    """Of every corner for points in voxels, (corners, m); they add up to 1 and give back the point."""
    dimension = len(point)
    terms = _terms([minus(place, point) for place in corner], dimension)  # near 0 there are more digits
    place = [jnp.full_like(point[0], 0.5)] * dimension
    for _ in range(NEWTON_STEPS):
        rest = tuple(-part for part in _mapped(terms, place))
        columns = [_slope(terms, place, axis) for axis in range(dimension)]
        step = _solved(columns, rest)
        place = [jnp.clip(part + more, -0.5, 1.5) for part, more in zip(place, step, strict=True)]
    weights = [
        math.prod((part if bit else 1 - part for bit, part in zip(reversed(bits), place, strict=True)), start=1.0)
        for bits in corner_steps(dimension)
    ]
    return jnp.stack(weights)


def _terms(corner: list[Vector], dimension: int) -> dict[int, Vector]:
    """Factors of the multilinear map: of products of the coordinates whose bits are set."""
    terms = {}
    for bits in range(2**dimension):
        total = None
        for corner_bits in range(2**dimension):
            if corner_bits & ~bits:
                continue
            sign = (-1) ** (bits ^ corner_bits).bit_count()
            part = tuple(sign * value for value in corner[corner_bits])
            total = part if total is None else tuple(a + b for a, b in zip(total, part, strict=True))
        assert total is not None
        terms[bits] = total
    return terms


def _mapped(terms: dict[int, Vector], place: list[Array]) -> Vector:
    total = terms[0]
    for bits, factor in terms.items():
        if bits:
            product = _product(place, bits)
            total = tuple(a + product * b for a, b in zip(total, factor, strict=True))
    return total


def _slope(terms: dict[int, Vector], place: list[Array], axis: int) -> Vector:
    """How the map changes along one coordinate."""
    total = terms[1 << axis]
    for bits, factor in terms.items():
        others = bits & ~(1 << axis)
        if bits >> axis & 1 and others:
            product = _product(place, others)
            total = tuple(a + product * b for a, b in zip(total, factor, strict=True))
    return total


def _product(place: list[Array], bits: int) -> Array:
    return math.prod((part for axis, part in enumerate(place) if bits >> axis & 1), start=jnp.ones((), place[0].dtype))


def _solved(columns: list[Vector], rest: Vector) -> list[Array]:
    """Coordinates whose columns add up to the rest (Cramer's rule)."""

    def determinant(columns: list[Vector]) -> Array:
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


@lru_cache
def neighbours_at_rest(cells: tuple[int, ...], layers: int) -> np.ndarray:
    """True where a lattice vertex is a corner of a cell, (layers x vertices, cells): these do not touch each other."""
    sizes = tuple(size + 1 for size in cells)
    number = np.arange(math.prod(sizes)).reshape(sizes)
    found = np.zeros((math.prod(sizes), math.prod(cells)), bool)
    for steps in corner_steps(len(cells)):
        window = tuple(slice(step, step + size) for step, size in zip(steps, cells, strict=True))
        found[number[window].ravel(), np.arange(math.prod(cells))] = True
    return np.tile(found, (layers, 1))
