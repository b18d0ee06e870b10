"""Where the springs of a 2-D robot are drawn; those that broke are not."""

from __future__ import annotations

import numpy as np

from vsr.drawing.recording import Recording


class SpringLines:
    """All springs of a recorded episode."""

    def __init__(self, recording: Recording):
        self.recording = recording
        rows = [
            (voxel, number, *ends)
            for voxel, has in enumerate(recording.springs)
            for number, (group, *ends) in enumerate(recording.spring_ends)
            if has[group] and (recording.lacking is None or not recording.lacking[voxel, number])
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
        center = recording.masses[moment, self.voxel, mass]
        if recording.angle is None:
            return center
        return np.where((corner < 0)[:, None], center, recording.mass_corners[moment, self.voxel, mass, corner])
