"""Rigid things, soft ones and further robots as plain faces and balls with colours, for pages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsr.drawing.faces import outer_faces
from vsr.drawing.outlines import ROUND_A_SQUARE
from vsr.drawing.recording import Recording
from vsr.drawing.things import FIXED, FREE

VOXELS = "#9fc58a"
"""Colour of voxels of soft things and further robots."""


class ShownThings(NamedTuple):
    """n faces of e corners, b balls."""

    face: np.ndarray
    """[m], (moments, n, e, dimension)"""
    colours: tuple[str, ...]
    """of the faces"""
    ball: np.ndarray
    """[m], (moments, b, dimension)"""
    spoke: np.ndarray
    """(moments, b, dimension)"""
    radius: np.ndarray
    """[m], (b,)"""
    ball_colours: tuple[str, ...]


def faces_of(recording: Recording) -> ShownThings | None:
    """All things of a recording; None if there are none."""
    things, moments, dimension = recording.things, len(recording.time), recording.dimension
    if things is None and not recording.others:
        return None
    none = np.zeros((moments, 0, dimension))
    faces = [] if things is None else list(np.moveaxis(things.face, 1, 0))
    colours = [] if things is None else [FIXED if fixed else FREE for fixed in things.is_fixed]
    for other in recording.others:
        own = _voxel_faces(other)
        faces += list(np.moveaxis(own, 1, 0))
        colours += [VOXELS] * own.shape[1]
    most = max([3, *(face.shape[1] for face in faces)])
    filled = [np.concatenate([face, np.repeat(face[:, -1:], most - face.shape[1], 1)], 1) for face in faces]
    return ShownThings(
        face=np.stack(filled, 1) if filled else np.zeros((moments, 0, most, dimension)),
        colours=tuple(colours),
        ball=none if things is None else things.ball,
        spoke=none if things is None else things.spoke,
        radius=np.zeros(0) if things is None else things.radius,
        ball_colours=() if things is None else tuple(FIXED if fixed else FREE for fixed in things.ball_is_fixed),
    )


def _voxel_faces(recording: Recording) -> np.ndarray:
    """Outlines of voxels in 2-D, outer faces in 3-D [m], (moments, faces, 4, dimension)."""
    if recording.dimension == 2:
        return recording.corners[:, :, list(ROUND_A_SQUARE)]
    voxel, corner, _ = outer_faces(recording)
    return recording.corners[:, voxel[:, None], corner]
