"""Where a robot starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import jax.numpy as jnp
from jax import Array
from pydantic import Field

from vsr.physics.geometry import bounding_box, center, mass_motion, rest_state, turn
from vsr.physics.model import Model, State
from vsr.spec import Real, Spec
from vsr.terrain import Terrain, highest_between


class Placement(Spec):
    """The undeformed robot's first place and motion."""

    left: Real | None = None
    """left edge of its bounding box [m]; if absent, 1 m right of the left wall"""
    clearance: Annotated[Real, Field(ge=0)] = 1.0
    """from the highest ground below it to its lowest corner [m]"""
    tilt: Real = 0.0
    """turned about its centre [degrees], counter-clockwise"""
    velocity: tuple[Real, Real] = (0.0, 0.0)
    """[m/s], right and up"""


def place(model: Model, terrain: Terrain | None, placement: Placement) -> State:
    """The robot at its start; without terrain the ground is y = 0."""
    state = move_rigidly(model, rest_state(model), tilt=jnp.radians(placement.tilt))
    low, high = bounding_box(model, mass_motion(model, state))
    if placement.left is not None:
        left = jnp.asarray(placement.left, low.dtype)
    else:
        left = jnp.zeros_like(low[0]) if terrain is None else terrain.vertex_x[1] + 1
    ground = jnp.zeros_like(left) if terrain is None else highest_between(terrain, left, left + high[0] - low[0])
    shift = jnp.stack([left, ground + placement.clearance]) - low
    # A body without voxels has no box; it stays where it is, and rollout reports it as failed.
    shift = jnp.where(jnp.isfinite(shift), shift, 0)
    return move_rigidly(model, state, shift=shift, velocity=jnp.asarray(placement.velocity, low.dtype))


def move_rigidly(
    model: Model, state: State, *, tilt: Array | float = 0.0, shift: Array | None = None, velocity: Array | None = None
) -> State:
    """Turn about the robot's centre [rad], then shift [m], then add a velocity [m/s] to every cluster."""
    pivot = center(model, mass_motion(model, state))
    rotation = jnp.stack([jnp.cos(tilt), jnp.sin(tilt)]).astype(state.position.dtype)
    moved = replace(
        state,
        position=pivot + turn(rotation, state.position - pivot),
        rotation=turn(rotation, state.rotation),
        velocity=turn(rotation, state.velocity),
    )
    if shift is not None:
        moved = replace(moved, position=moved.position + shift)
    if velocity is not None:
        exists = (model.inverse_mass > 0)[..., None]
        moved = replace(moved, velocity=moved.velocity + jnp.where(exists, velocity, 0))
    return moved
