"""Placement: where a robot starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, TypeVar

import jax.numpy as jnp
from jax import Array
from pydantic import Field

from vsr.physics.engine import AnyModel, AnyState, engine_of
from vsr.spec import Real, Spec
from vsr.terrain import AnyTerrain

S = TypeVar("S", bound=AnyState)


class Placement(Spec):
    """The undeformed robot's first place and motion."""

    left: Real | None = None
    """left edge of its bounding box [m]; if absent, 1 m right of the left wall"""
    clearance: Annotated[Real, Field(ge=0)] = 1.0
    """from the highest ground below it to its lowest corner [m]; if absent, a third of a voxel's side"""
    corner: tuple[Real, Real] | None = None
    """x and height of the lowest left corner of its grid [m]; then left and clearance do not count"""
    tilt: Real = 0.0
    """turned about its center [degrees], counter-clockwise"""
    y: Annotated[Real, Field(ge=-10_000, le=10_000)] = 0.0
    """middle of its bounding box along y [m] (in 3-D only); farther out float32 is too coarse"""
    yaw: Real = 0.0
    """turned about the vertical through its center, after tilting [degrees], from x towards y (in 3-D only)"""
    velocity: tuple[Real, Real] = (0.0, 0.0)
    """[m/s], right and up"""

    def issue(self, dimension: int) -> tuple[str, str] | None:
        """If robots of this dimension cannot be placed so, the field to blame and why."""
        given = [name for name in ("y", "yaw") if getattr(self, name) != 0]
        if dimension == 3 or not given:
            return None
        return given[0], "it is for 3-D robots; a 2-D robot has x and a tilt: leave it out"


def place(model: AnyModel, terrain: AnyTerrain | None, placement: Placement, cover: float = 0.0) -> AnyState:
    """The robot at its start; cover: height of what lies on the ground, on which it is put [m].

    Without terrain the ground is at height 0.
    """
    engine = engine_of(model)
    turns = {"tilt": jnp.radians(placement.tilt), "yaw": jnp.radians(placement.yaw) if placement.yaw else None}
    state = move_rigidly(model, engine.rest_state(model), **turns)
    low, high = engine.bounding_box(model, state)
    if placement.left is not None:
        left = jnp.asarray(placement.left, low.dtype)
    else:
        left = jnp.zeros_like(low[0]) if terrain is None else terrain.left_end() + 1
    aside = placement.y - 0.5 * (high[1:-1] - low[1:-1])
    corner = jnp.concatenate([left[None], aside])
    ground = jnp.zeros_like(left) if terrain is None else terrain.highest(corner, corner + (high - low)[:-1])
    shift = jnp.concatenate([left[None], aside, (ground + cover + placement.clearance)[None]]) - low
    if placement.corner is not None:  # at rest it is at the origin
        right, up = (jnp.asarray(part, low.dtype) for part in placement.corner)
        shift = shift.at[0].set(right).at[-1].set(up + cover)
    # A body without voxels has no box; it stays where it is, and rollout reports it as failed.
    shift = jnp.where(jnp.isfinite(shift), shift, 0)
    right, up = placement.velocity
    velocity = jnp.asarray([right, *(0.0,) * (low.size - 2), up], low.dtype)
    return move_rigidly(model, state, shift=shift, velocity=velocity)


def has_left(terrain: AnyTerrain | None, center: Array, voxel_side: Array) -> Array:
    """Whether a center is more than a voxel below the lowest place of the ground, ()."""
    if terrain is None:
        return jnp.zeros((), bool)
    return center[-1] < terrain.lowest() - voxel_side


def move_rigidly(
    model: AnyModel,
    state: S,
    *,
    tilt: Array | float = 0.0,
    yaw: Array | float | None = None,
    shift: Array | None = None,
    velocity: Array | None = None,
) -> S:
    """Turn about the robot's center, from x to up and then, in 3-D, from x to y [rad].

    Then shift it [m], then add a velocity [m/s] to every mass.
    """
    engine = engine_of(model)
    pivot = engine.center(model, state)
    moved = engine.turned(state, pivot, tilt)
    if yaw is not None:
        moved = engine.turned(moved, pivot, yaw, (0, 1))
    if shift is not None:
        moved = replace(moved, position=moved.position + shift)
    if velocity is not None:
        exists = (model.inverse_mass > 0)[..., None]
        moved = replace(moved, velocity=moved.velocity + jnp.where(exists, velocity, 0))
    return moved
