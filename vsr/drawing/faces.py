"""Faces that are seen: of 3-D voxels, of walls around fluid, and of all objects and further robots of a recording.

Pages draw objects as plain faces and balls with colors (`faces_of`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsr.drawing.objects import FIXED, FREE
from vsr.drawing.outlines import BRIGHTNESS, FACES, ROUND_A_SQUARE, TOWARDS
from vsr.drawing.recording import Recording


def seen_faces(
    recording: Recording, walls: tuple[np.ndarray, np.ndarray] | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outer faces and walls of chambers, each once: voxel, corners in the order of an outline, and brightness."""
    voxel, corner, shade = outer_faces(recording)
    if walls is None or recording.chambers is None:
        return voxel, corner, shade
    dry = ~recording.chambers.is_fluid[voxel]
    bright = {corners: BRIGHTNESS[axis] for (axis, _), corners in FACES.items()}
    of_walls = np.array([bright[tuple(corners)] for corners in walls[1].tolist()])
    return (
        np.concatenate([voxel[dry], walls[0]]),
        np.concatenate([corner[dry], walls[1]]),
        np.concatenate([shade[dry], of_walls]),
    )


def parts_outside_fluid(recording: Recording, walls: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
    """Numbers of parts that are in a solid voxel or in a wall, so that they are more than a place amid the fluid."""
    if walls is None or recording.chambers is None:
        return np.arange(recording.position.shape[1])
    of_walls = recording.part[walls[0][:, None], walls[1]]
    return np.union1d(recording.part[~recording.chambers.is_fluid], of_walls)


def look_here(faces: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """Whether faces look towards the viewer, (faces,); corners [m], (faces, 4, 3), and middles of their voxels [m]."""
    normal = np.cross(faces[:, 2] - faces[:, 0], faces[:, 3] - faces[:, 1])
    outward = (normal * (faces.mean(1) - middle)).sum(1)
    return np.asarray(normal @ TOWARDS * outward > 0)


def outer_faces(recording: Recording) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Voxel, corners in the order of an outline, and brightness of every face without a neighbor."""
    taken = {tuple(place): None for place in recording.place.tolist()}
    voxel, corner, shade = [], [], []
    for (axis, side), corners in FACES.items():
        for index, place in enumerate(recording.place.tolist()):
            place[axis] += side
            if tuple(place) not in taken:
                voxel.append(index)
                corner.append(corners)
                shade.append(BRIGHTNESS[axis])
    return np.array(voxel), np.array(corner), np.array(shade)


VOXELS = "#9fc58a"
"""Color of voxels of soft objects and further robots."""


class ShownObjects(NamedTuple):
    """n faces of e corners, b balls."""

    face: np.ndarray
    """[m], (moments, n, e, dimension)"""
    colors: tuple[str, ...]
    """of the faces"""
    ball: np.ndarray
    """[m], (moments, b, dimension)"""
    spoke: np.ndarray
    """(moments, b, dimension)"""
    radius: np.ndarray
    """[m], (b,)"""
    ball_colors: tuple[str, ...]


def faces_of(recording: Recording) -> ShownObjects | None:
    """All objects of a recording; None if there are none."""
    objects, moments, dimension = recording.objects, len(recording.time), recording.dimension
    if objects is None and not recording.other_robots:
        return None
    none = np.zeros((moments, 0, dimension))
    faces = [] if objects is None else list(np.moveaxis(objects.face, 1, 0))
    colors = [] if objects is None else [FIXED if fixed else FREE for fixed in objects.is_fixed]
    for other in recording.other_robots:
        own = _voxel_faces(other)
        faces += list(np.moveaxis(own, 1, 0))
        colors += [VOXELS] * own.shape[1]
    most = max([3, *(face.shape[1] for face in faces)])
    filled = [np.concatenate([face, np.repeat(face[:, -1:], most - face.shape[1], 1)], 1) for face in faces]
    return ShownObjects(
        face=np.stack(filled, 1) if filled else np.zeros((moments, 0, most, dimension)),
        colors=tuple(colors),
        ball=none if objects is None else objects.ball,
        spoke=none if objects is None else objects.spoke,
        radius=np.zeros(0) if objects is None else objects.radius,
        ball_colors=() if objects is None else tuple(FIXED if fixed else FREE for fixed in objects.ball_is_fixed),
    )


def _voxel_faces(recording: Recording) -> np.ndarray:
    """Outlines of voxels in 2-D, outer faces in 3-D [m], (moments, faces, 4, dimension)."""
    if recording.dimension == 2:
        return recording.corners[:, :, list(ROUND_A_SQUARE)]
    voxel, corner, _ = outer_faces(recording)
    return recording.corners[:, voxel[:, None], corner]
