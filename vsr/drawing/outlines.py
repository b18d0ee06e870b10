"""What is drawn of a robot: polygons, how they are filled, and how brightly; squares, points, cubes in space."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from vsr.physics.geometry import area_ratio, mass_corners, mass_motion, voxel_corners
from vsr.physics.mechanics import AnyModel, mechanics_of
from vsr.physics.model import Environment, Model
from vsr.rollout import Trajectory

ROUND_A_SQUARE = (0, 1, 3, 2)
"""Corners counted by their bits, in the order of an outline."""
FACES = {
    (0, -1): (0, 2, 6, 4),
    (0, 1): (1, 3, 7, 5),
    (1, -1): (0, 1, 5, 4),
    (1, 1): (2, 3, 7, 6),
    (2, -1): (0, 1, 3, 2),
    (2, 1): (4, 5, 7, 6),
}
"""Corners of a cube's faces; a face looks along an axis, one way or the other."""
RECEDES = np.array([0.45, 0.35])
"""Where a metre away from the viewer appears on paper: to the right and upwards [m]."""
BRIGHTNESS = {0: 0.72, 1: 0.88, 2: 1.0}
"""Of faces that look along x, y and z."""


class Outlines(NamedTuple):
    """For every moment."""

    voxels: np.ndarray
    """(moments, polygons, 4, 2), the furthest first"""
    masses: np.ndarray
    """(moments, masses, 4, 2)"""
    area: np.ndarray
    """area or volume of the polygon's voxel over that at rest, (moments, polygons)"""
    shade: np.ndarray
    """brightness, (moments, polygons)"""


def outlines(model: AnyModel, trajectory: Trajectory) -> Outlines:
    """All polygons of a recorded life."""
    if isinstance(model, Model):
        return _squares(model, trajectory)
    present = np.asarray(model.present) > 0

    def seen(state):
        voxels = mechanics_of(model).voxel_motion(model, Environment(gravity=model.voxel_side), state)
        return voxels.corner, voxels.size_ratio

    corner, area = (np.asarray(part) for part in jax.jit(jax.vmap(seen))(trajectory.state))
    if present.ndim == 3:
        return _cubes(corner, area, present)
    polygons = np.moveaxis(corner[:, :, present], 1, 2)[:, :, list(ROUND_A_SQUARE)]
    return Outlines(polygons, polygons[:, :0], area[:, present], np.ones_like(area[:, present]))


def _squares(model: Model, trajectory: Trajectory) -> Outlines:
    def polygons(state):
        motion = mass_motion(model, state)
        return voxel_corners(model, motion), mass_corners(model, motion), area_ratio(model, motion)

    outline, masses, area = (np.asarray(part) for part in jax.jit(jax.vmap(polygons))(trajectory.state))
    present = np.asarray(model.present) > 0
    return Outlines(
        voxels=np.moveaxis(outline[:, :, present], 1, 2),
        masses=np.moveaxis(masses[:, :, :, present], 1, 3).reshape(len(area), -1, 4, 2),
        area=area[:, present],
        shade=np.ones_like(area[:, present]),
    )


def _cubes(corner: np.ndarray, area: np.ndarray, present: np.ndarray) -> Outlines:
    """Outer faces, projected, the furthest first; corner: (moments, 8, levels, rows, columns, 3)."""
    faces, ratios, shades = [], [], []
    for (axis, side), corners in FACES.items():
        outer = present & ~np.roll(np.pad(present, 1), -side, 2 - axis)[1:-1, 1:-1, 1:-1]
        faces.append(np.moveaxis(corner[:, list(corners)][:, :, outer], 1, 2))
        ratios.append(area[:, outer])
        shades.append(np.full(ratios[-1].shape, BRIGHTNESS[axis]))
    polygon, ratio, shade = (np.concatenate(parts, 1) for parts in (faces, ratios, shades))
    middle = polygon.mean(2)
    nearness = 0.5 * middle[..., 0] - middle[..., 1] + 0.5 * middle[..., 2]
    order = np.argsort(nearness, 1)
    moments = np.arange(len(order))[:, None]
    polygon, ratio, shade = (part[moments, order] for part in (polygon, ratio, shade))
    flat = polygon[..., [0, 2]] + RECEDES * polygon[..., 1:2]
    return Outlines(flat, flat[:, :0], ratio, shade)
