"""Rigid objects, soft ones and further robots as plain faces and balls with colors, for pages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsr.drawing.faces import outer_faces
from vsr.drawing.objects import FIXED, FREE
from vsr.drawing.outlines import ROUND_A_SQUARE
from vsr.drawing.recording import Recording

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
