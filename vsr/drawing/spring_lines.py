"""Where the springs of a 2-D robot are drawn; those that broke are not."""

from __future__ import annotations

import numpy as np

from vsr.drawing.recording import CORNER_WAYS, Recording
from vsr.physics.points.springs import spring_corners
from vsr.physics.squares.scaffolding import CORNER_SIGNS, SIDE_ALONG, SIDE_SPRINGS


class SpringLines:
    """All springs of a recorded episode."""

    def __init__(self, recording: Recording):
        self.recording = recording
        if recording.angle is None:  # centres of masses are joined
            rows = [
                (voxel, number, first, -1, second, -1)
                for voxel, has in enumerate(recording.springs)
                for number, (kind, first, second) in enumerate(spring_corners(2))
                if has[kind] and (recording.lacking is None or not recording.lacking[voxel, number])
            ]
        else:
            rows = [
                (voxel, number, *ends)
                for voxel, has in enumerate(recording.springs)
                for number, (group, *ends) in enumerate(square_springs())
                if has[group]
            ]
        self.voxel, self._number, *ends = np.array(rows, int).reshape(-1, 6).T
        self._ends = ends[:2], ends[2:]

    def at(self, moment: int) -> tuple[np.ndarray, np.ndarray]:
        """Of the springs that are whole: the voxel, (springs,), and both ends [m], (springs, 2, 2)."""
        lines = np.stack([self._places(moment, *end) for end in self._ends], 1)
        if self.recording.broken is None:
            return self.voxel, lines
        whole = ~self.recording.broken[moment, self.voxel, self._number]
        return self.voxel[whole], lines[whole]

    def _places(self, moment: int, mass: np.ndarray, corner: np.ndarray) -> np.ndarray:
        """Of masses, and of their corners where these are not -1."""
        recording = self.recording
        centre = recording.masses[moment, self.voxel, mass]
        if recording.angle is None:
            return centre
        return np.where((corner < 0)[:, None], centre, recording.mass_corners[moment, self.voxel, mass, corner])


def square_springs() -> list[tuple[int, int, int, int, int]]:
    """Springs of a voxel of square masses: group, mass and its corner, mass and its corner; corner -1 is the centre."""

    def by_bits(way: np.ndarray) -> int:
        return int((way == CORNER_WAYS).all(1).argmax())

    found = [(3, 0, -1, 3, -1), (3, 1, -1, 2, -1)]
    for side, along in enumerate(SIDE_ALONG):
        inward = np.array([-along[1], along[0]])
        first, second = (by_bits(CORNER_SIGNS[corner % 4]) for corner in (side, side + 1))
        for sign_first, sign_second, group, _ in SIDE_SPRINGS:
            found.append(
                (group, first, by_bits(along + sign_first * inward), second, by_bits(-along + sign_second * inward))
            )
    return found
