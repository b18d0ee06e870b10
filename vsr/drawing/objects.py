"""Rigid objects around a robot as they are seen: outlines in 2-D, faces in 3-D, balls; also ground that hangs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vsr.episode import Trajectory
from vsr.physics.contact.solids import Solids
from vsr.physics.contact.system import Objects, ObjectsSeen
from vsr.terrain import Blocks
from vsr.terrain.base import AnyTerrain
from vsr.terrain.blocks import Cells

FREE, FIXED = "#d8b26a", "#8c8c8c"
"""Colors of objects that move and of those that do not."""
BREADTH = 30.0
"""How far ground that hangs is drawn along y in 3-D, where it goes on for ever [m]."""


@dataclass(frozen=True)
class RecordedObjects:
    """Faces and balls over time; n faces of e corners, b balls. SI units."""

    face: np.ndarray
    """corners, the last again for what is too many [m], (moments, n, e, dimension)"""
    ball: np.ndarray
    """centers [m], (moments, b, dimension)"""
    spoke: np.ndarray
    """unit vectors that turn with the balls, (moments, b, dimension)"""
    radius: np.ndarray
    """[m], (b,)"""
    is_fixed: np.ndarray
    """of the faces, (n,)"""
    ball_is_fixed: np.ndarray
    """of the balls, (b,)"""

    def over_time(self, change: Callable[[np.ndarray], np.ndarray]) -> RecordedObjects:
        """At other moments; change: what makes values of those, along the first axis."""
        return replace(self, face=change(self.face), ball=change(self.ball), spoke=change(self.spoke))

    def moved(self, shift: np.ndarray) -> RecordedObjects:
        """Elsewhere [m], (moments, dimension)."""
        return replace(self, face=self.face + shift[:, None, None], ball=self.ball + shift[:, None])


def objects_of(
    trajectory: Trajectory, systems: Mapping[str, Any], terrain: AnyTerrain | None, ground: Cells | None = None
) -> RecordedObjects | None:
    """Those of an episode, None if there are none; systems: of its world, by name; ground: cells in its place."""
    moments, dimension = len(trajectory.time), trajectory.state.position.shape[-1]
    parts = []
    for name, system in systems.items():
        if isinstance(system, Objects) and system.solids is not None and trajectory.systems is not None:
            parts.append(recorded_solids(system.solids, trajectory.systems[name]))
    boxes = [] if terrain is None or terrain.blocks is None else hanging_boxes(terrain.blocks)
    if ground is not None:
        solid, side = np.asarray(ground.solid), float(ground.side)
        boxes += _hanging(solid, side * np.arange(len(solid) + 1), 0.0, side)
    if boxes:
        parts.append(_boxes(boxes, moments, dimension))
    return _joined(parts) if parts else None


def touched_by_objects(trajectory: Trajectory) -> np.ndarray | None:
    """1 for voxels of the robot that objects touch, else 0, (moments, *cells); None if there are no objects."""
    seen = [part for part in (trajectory.systems or {}).values() if isinstance(part, ObjectsSeen)]
    return np.asarray(seen[0].touched[0]) if seen else None


def recorded_solids(solids: Solids, seen: ObjectsSeen) -> RecordedObjects:
    """Rigid objects as they were seen, over time."""
    shapes = solids.shapes
    place, turn = (np.asarray(part, np.float64) for part in (seen.position, seen.rotation))
    corner, outline = np.asarray(shapes.corner, np.float64), np.asarray(shapes.outline)
    is_round, fixed = np.array(shapes.round, bool), np.array(solids.fixed, bool)
    placed = place[:, :, None] + np.einsum("tsij,svj->tsvi", turn, corner)
    faces, still = [], []
    for number in np.flatnonzero(~is_round):
        rounds = [outline[number, :, 0]] if shapes.dimension == 2 else outline[number]
        real = np.asarray(shapes.offset)[number] < 1e8
        if shapes.dimension == 2:
            faces.append(placed[:, number][:, rounds[0][real]])
            still.append(fixed[number])
        else:
            for around in outline[number][real]:
                faces.append(placed[:, number][:, around])
                still.append(fixed[number])
    radius = np.asarray(shapes.radius, np.float64)[is_round]
    return RecordedObjects(
        face=_stacked(faces, len(place), shapes.dimension),
        ball=place[:, is_round],
        spoke=turn[..., 0][:, is_round],
        radius=radius,
        is_fixed=np.array(still, bool),
        ball_is_fixed=fixed[is_round],
    )


def _stacked(faces: list[np.ndarray], moments: int, dimension: int) -> np.ndarray:
    """As one array: faces with fewer corners have their last again."""
    if not faces:
        return np.zeros((moments, 0, 1, dimension))
    most = max(face.shape[1] for face in faces)
    filled = [np.concatenate([face, np.repeat(face[:, -1:], most - face.shape[1], 1)], 1) for face in faces]
    return np.stack(filled, 1)


def hanging_boxes(blocks: Blocks) -> list[tuple[float, float, float, float]]:
    """Of cells that do not stand on the floor: left, low, right, high [m]."""
    solid, level = np.asarray(blocks.solid), np.asarray(blocks.level, float)
    return _hanging(solid, level, float(blocks.start), float(blocks.width))


def _hanging(
    solid: np.ndarray, level: np.ndarray, start: float, width: float
) -> list[tuple[float, float, float, float]]:
    """The same, of rows of cells between levels."""
    found = []
    for row in range(len(solid)):
        loose = solid[row] & ~solid[: row + 1].all(0)
        ends = np.flatnonzero(np.diff(np.concatenate([[0], loose.astype(int), [0]])))
        for first, last in zip(ends[::2], ends[1::2], strict=True):
            found.append((start + width * first, level[row], start + width * last, level[row + 1]))
    return found


def _boxes(boxes: list[tuple[float, float, float, float]], moments: int, dimension: int) -> RecordedObjects:
    outlines = []
    for left, low, right, high in boxes:
        flat = np.array([[left, low], [right, low], [right, high], [left, high]])
        if dimension == 2:
            outlines.append(flat)
            continue
        near, far = (np.stack([flat[:, 0], np.full(4, y), flat[:, 1]], 1) for y in (-BREADTH / 2, BREADTH / 2))
        outlines += [near, far[::-1]]
        outlines += [np.stack([near[i], far[i], far[(i + 1) % 4], near[(i + 1) % 4]]) for i in range(4)]
    face = np.broadcast_to(np.stack(outlines), (moments, len(outlines), 4, dimension))
    none = np.zeros((moments, 0, dimension))
    return RecordedObjects(face, none, none, np.zeros(0), np.ones(len(outlines), bool), np.zeros(0, bool))


def _joined(parts: list[RecordedObjects]) -> RecordedObjects:
    moments, dimension = parts[0].ball.shape[0], parts[0].ball.shape[-1]
    faces = [part.face[:, number] for part in parts for number in range(part.face.shape[1])]
    return RecordedObjects(
        face=_stacked(faces, moments, dimension),
        ball=np.concatenate([part.ball for part in parts], 1),
        spoke=np.concatenate([part.spoke for part in parts], 1),
        radius=np.concatenate([part.radius for part in parts]),
        is_fixed=np.concatenate([part.is_fixed for part in parts]),
        ball_is_fixed=np.concatenate([part.ball_is_fixed for part in parts]),
    )
