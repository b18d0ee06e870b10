"""Which faces of 3-D voxels are painted, and which masses of bodies with fluid."""

from __future__ import annotations

import numpy as np

from vsr.drawing.outlines import BRIGHTNESS, FACES, TOWARDS
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
