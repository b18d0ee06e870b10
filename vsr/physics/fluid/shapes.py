"""Closed shapes to measure with: nodes [m] and faces, counter-clockwise as seen from outside. For checks and timing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsr.physics.fluid.surface import voxel_faces
from vsr.robot.corners import corner_steps


class Shape(NamedTuple):
    """A closed surface."""

    position: np.ndarray
    """of the nodes [m], (nodes, dimension)"""
    corners: np.ndarray
    """nodes of every face, (faces, corners)"""


def icosphere(level: int = 4, radius: float = 1.0) -> Shape:
    """An icosahedron whose triangles are cut into four and pushed out onto the ball, level times."""
    golden = (1 + 5**0.5) / 2
    signs = [(one, two) for one in (-1.0, 1.0) for two in (-1.0, 1.0)]
    position = np.array([np.roll((0.0, one, two * golden), turn) for turn in range(3) for one, two in signs])
    position /= np.linalg.norm(position, axis=1, keepdims=True)
    corners = _hull(position)
    for _ in range(level):
        edges = np.sort(np.stack([corners, np.roll(corners, -1, 1)], -1).reshape(-1, 2), 1)
        edges, place = np.unique(edges, axis=0, return_inverse=True)
        middle = position[edges].mean(1)
        inner = len(position) + place.reshape(corners.shape)
        position = np.concatenate([position, middle / np.linalg.norm(middle, axis=1, keepdims=True)])
        cut = [np.stack([corners[:, k], inner[:, k], inner[:, k - 1]], 1) for k in range(3)]
        corners = np.concatenate([*cut, inner])
    return Shape(radius * position, corners)


def _hull(position: np.ndarray) -> np.ndarray:
    """Triangles of the convex hull, turned outwards."""
    from scipy.spatial import ConvexHull

    corners = ConvexHull(position).simplices
    a, b, c = position[corners].swapaxes(0, 1)
    inwards = (np.cross(b - a, c - a) * (a + b + c)).sum(1) < 0
    return np.where(inwards[:, None], corners[:, ::-1], corners)


def upright_ring(around: int = 64, across: int = 32, radius: float = 1.0, thickness: float = 0.35) -> Shape:
    """A ring that stands on the ground: columns through its middle have two sections.

    radius: of the ring's middle line [m]; thickness: radius of its section [m].
    """
    turn, roll = np.meshgrid(np.arange(around), np.arange(across), indexing="ij")
    one, two = 2 * np.pi * (turn + 0.5) / around, 2 * np.pi * roll / across
    out = radius + thickness * np.cos(two)
    position = np.stack([out * np.cos(one), thickness * np.sin(two), out * np.sin(one)], -1).reshape(-1, 3)
    here, ahead = turn * across + roll, (turn + 1) % around * across + roll
    up, ahead_up = turn * across + (roll + 1) % across, (turn + 1) % around * across + (roll + 1) % across
    quads = np.stack([here, up, ahead_up, ahead], -1).reshape(-1, 4)
    return Shape(position, np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]))


def bowl(level: int = 4, radius: float = 1.0, height: float = 1.0) -> Shape:
    """The lower half of a ball, stretched to a height [m], under a flat lid at height 0."""
    ball = icosphere(level)
    # An icosahedron has no equator of edges: nodes above it are pressed flat onto it, which leaves a lid.
    position = ball.position * (radius, radius, height)
    position[:, 2] = np.minimum(position[:, 2], 0)
    return Shape(position, ball.corners)


def block(size: tuple[float, float, float] = (1.0, 1.0, 1.0)) -> Shape:
    """A box of twelve triangles, its lowest corner at the origin."""
    cube = voxel_block(1, 1, 1)
    return Shape(cube.position * size, np.concatenate([cube.corners[:, [0, 1, 2]], cube.corners[:, [0, 2, 3]]]))


def voxel_block(*cells: int, shaken: float = 0.0, seed: int = 0) -> Shape:
    """All faces of all voxels of a grid, each of side 1 m; cells: the vertical first.

    shaken: how far nodes are moved at most, along each axis [m]. The faces of a voxel follow each other.
    """
    vertices = [count + 1 for count in cells]
    position = np.stack(np.unravel_index(np.arange(np.prod(vertices)), vertices)[::-1], 1).astype(float)
    position += np.random.default_rng(seed).uniform(-shaken, shaken, position.shape)
    return Shape(position, voxel_faces(voxel_corners(*cells)))


def voxel_corners(*cells: int) -> np.ndarray:
    """Nodes of every voxel of a grid, numbered as vsr.robot.corners says, (voxels, corners)."""
    vertices = [count + 1 for count in cells]
    nodes = np.arange(np.prod(vertices)).reshape(vertices)
    return np.stack(
        [
            nodes[tuple(slice(step, step + count) for step, count in zip(steps, cells, strict=True))].reshape(-1)
            for steps in corner_steps(len(cells))
        ],
        1,
    )


def signed_volume(shape: Shape) -> float:
    """Sum of the tetrahedra between the triangles and the origin [m³]: another way than by surface integrals."""
    a, b, c = shape.position[shape.corners].swapaxes(0, 1)
    return float((a * np.cross(b, c)).sum() / 6)
