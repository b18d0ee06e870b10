"""EvoGym's observations: V, O, R, F and C, padded to the points of the robot's grid, with a mask."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.tasks.evogym.seen import VOXEL, Part, Seen, orientation, relative
from vsr.tasks.evogym.terms import Goals

SIGHT = 5
"""Farther than this up or down nothing is seen [voxels]."""


def pieces(
    sees: tuple[str, ...], now: Seen, first: Array, first_object: Array | None, goals: Goals | None, corners: np.ndarray
) -> tuple[Array, Array]:
    """An observation and its mask, True for numbers that are there, both (numbers,).

    first: points of the robot seen from their center at the start, (p, dimension), and of the object; corners: True for
    corners of the ground's voxels, (rows, columns) of their lattice.
    """
    found = [_piece(name, now, first, first_object, goals, corners) for name in sees]
    values, masks = (jnp.concatenate(parts) for parts in zip(*found, strict=True))
    return jnp.where(masks, values, 0), masks


def _piece(
    name: str, now: Seen, first: Array, first_object: Array | None, goals: Goals | None, corners: np.ndarray
) -> tuple[Array, Array]:
    robot, item = now.robot, now.item
    if name == "R":
        return relative_positions(robot)
    if name[0] in "FC" and name[1:].isdigit():
        reach = int(name[1:])
        values = floor(robot, corners, reach) if name[0] == "F" else ceiling(robot, corners, reach)
    elif name == "V":
        values = robot.velocity
    elif name == "O":
        values = orientation(first, robot)[None]
    elif name == "goal":
        assert goals is not None
        goal = goals.place[jnp.minimum(goals.observed, goals.count - 1)]
        values = jnp.stack([goals.observed.astype(goal.dtype), goal, goal - robot.x])
    else:
        assert item is not None
        assert first_object is not None
        chosen = {
            "thing from robot": lambda: item.center - robot.center,
            "V of thing": lambda: item.velocity,
            "O of thing": lambda: orientation(first_object, item)[None],
        }
        values = chosen[name]()
    return values, jnp.ones(values.shape, bool)


def relative_positions(part: Part) -> tuple[Array, Array]:
    """R: all points seen from their center, all x, then all y (in 3-D all y and all z), and which are there."""
    dimension = part.point.shape[1]
    return relative(part).T.reshape(-1), jnp.tile(part.exists, dimension)


def floor(part: Part, corners: np.ndarray, reach: int) -> Array:
    """F: how far below the center the ground is, in 2 reach + 1 columns of a voxel's width around it, (columns,).

    Only corners of the ground's voxels are seen, and no farther than five voxels. corners: (rows, columns).
    """
    rows, below = _columns(part, corners, reach)
    high = jnp.where(below & (rows < part.up / VOXEL), rows, -jnp.inf).max(0)
    return VOXEL * jnp.clip(part.up / VOXEL - high, 0, SIGHT)


def ceiling(part: Part, corners: np.ndarray, reach: int) -> Array:
    """C: the same upwards."""
    rows, above = _columns(part, corners, reach)
    low = jnp.where(above & (rows > part.up / VOXEL), rows, jnp.inf).min(0)
    return VOXEL * jnp.clip(low - part.up / VOXEL, 0, SIGHT)


def _columns(part: Part, corners: np.ndarray, reach: int) -> tuple[Array, Array]:
    """Heights of the lattice's rows, (rows, 1), and the corners in every column that is seen, (rows, columns)."""
    rows, width = corners.shape
    place = part.x / VOXEL + jnp.arange(-reach, reach + 1)
    nearest = jnp.where(jnp.isfinite(place), jnp.round(place), -1)
    inside = (nearest >= 0) & (nearest < width)
    number = jnp.where(inside, nearest, 0).astype(jnp.int32)
    return jnp.arange(rows, dtype=place.dtype)[:, None], jnp.asarray(corners)[:, number] & inside
