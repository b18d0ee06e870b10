"""Pictures of machines among grains: the depth camera of `vsr.envs.machines.cameras`, shaded by gradients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.linear import product
from vsr.envs.machines.cameras import Eye, Solid, bodies_seen, grains_seen, ground_seen
from vsr.physics.granular import GrainState, Pose, at_rest
from vsr.physics.granular.model import GrainModel

SAND = (150, 92, 40), (236, 200, 132)
"""Colors of grains on the ground and high up."""
STEEL, GROUND, SKY = (96, 124, 164), (208, 206, 198), (250, 250, 252)
LIGHT = (0.33, -0.47, 0.82)
"""Towards the light, in the world's axes; a unit vector."""
SHADOW = 0.4
"""Brightness of what is turned away from the light."""


def looking(at: Sequence[float], target: Sequence[float]) -> Pose:
    """A camera at a place that looks at another [m], upright."""
    forward = np.subtract(target, at)
    forward = forward / np.linalg.norm(forward)
    left = np.cross([0.0, 0.0, 1.0], forward)
    left = left / np.linalg.norm(left)
    axes = np.stack([forward, left, np.cross(forward, left)], 1)
    return at_rest(jnp.asarray(at, float), jnp.asarray(axes, float))


@partial(jax.jit, static_argnames=("camera", "tall", "ground"))
def paint(
    camera: Eye,
    pose: Pose,
    grains: GrainModel,
    state: GrainState,
    solids: Sequence[Solid],
    *,
    tall: float,
    ground: float | None = 0.0,
) -> Array:
    """Red, green and blue from 0 to 255, (rows, columns, 3); tall: height of the brightest grains [m]."""
    far = jnp.full(camera.pixels, camera.far, state.position.dtype)
    level = far if ground is None else ground_seen(camera, pose, ground)
    sand = grains_seen(camera, pose, grains, state)
    steel = bodies_seen(camera, pose, solids, far) if solids else far
    depth = jnp.minimum(jnp.minimum(sand, steel), level)
    place = _places(camera, pose, depth)
    rising = jnp.clip(place[..., 2:] / tall, 0, 1)
    low, high = (jnp.array(color, depth.dtype) for color in SAND)
    color = jnp.where((sand <= depth)[..., None], low + rising * (high - low), jnp.array(GROUND, depth.dtype))
    color = jnp.where((steel <= depth)[..., None], jnp.array(STEEL, depth.dtype), color)
    bright = SHADOW + (1 - SHADOW) * jnp.clip(_normals(place) @ jnp.array(LIGHT, depth.dtype), 0, 1)
    color = jnp.where((depth < camera.far)[..., None], color * bright[..., None], jnp.array(SKY, depth.dtype))
    return jnp.round(color).astype(jnp.uint8)


def _places(camera: Eye, pose: Pose, depth: Array) -> Array:
    """Of what is seen [m], (rows, columns, 3)."""
    left, up = camera.rays()
    own = jnp.stack([jnp.ones_like(left), left, up], -1) * depth[..., None]
    return pose.position + product(own, pose.rotation.T)


def _normals(place: Array) -> Array:
    """Unit vectors out of the surface, from neighboring pixels: the nearer of the two at each side."""

    def slope(axis: int) -> Array:
        ahead = jnp.roll(place, -1, axis) - place
        behind = place - jnp.roll(place, 1, axis)
        shorter = (ahead**2).sum(-1, keepdims=True) < (behind**2).sum(-1, keepdims=True)
        return jnp.where(shorter, ahead, behind)

    normal = jnp.cross(slope(0), slope(1))
    return normal / jnp.sqrt(jnp.maximum((normal**2).sum(-1, keepdims=True), 1e-20))
