"""Bodies made of voxels that are not the robot of an episode: soft objects, and further robots."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.linear import product
from vsr.environment import Environment
from vsr.physics.contract import ContactBody, Engine


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class VoxelBody:
    """A soft object, or another robot. It moves by its engine, as robots do."""

    model: Any
    start: Any
    """its first state"""
    controller: Any | None
    """that reads no sensors; None for what is passive"""
    name: str = field(metadata={"static": True})
    engine: Engine = field(metadata={"static": True})
    interval: float = field(default=1.0, metadata={"static": True})
    """from one control call to the next [s]"""

    def contact_body(self, state: Any) -> ContactBody:
        """As contacts see it."""
        return ContactBody(self.engine, self.model, state)

    def control(self, time: Array) -> Array:
        """Control values in force at a time [s], *cells; 0 before the first call."""
        if self.controller is None:
            return jnp.zeros_like(self.model.present)
        call = jnp.floor(time / self.interval + 1e-3)
        values = jnp.clip(self.controller.control(call * self.interval, None), -1, 1) * self.model.present
        return jnp.where(call > 0, values, 0)

    def moved(self, environment: Environment, state: Any, time: Array, duration: float, substeps: int) -> ContactBody:
        """A step [s] of so many substeps later, before it touches anything but the ground."""
        control = self.control(time)[None]
        options: dict[str, Any] = {"substep": duration / substeps, "count": substeps, "implementation": "xla"}
        return self.contact_body(self.engine.advance(self.model, environment, state, control, **options)[0])


class ObjectMotion(NamedTuple):
    """How one object moves as a whole."""

    position: Array
    """of its center [m], (dimension,)"""
    velocity: Array
    """of its center [m/s], (dimension,)"""
    rotation: Array
    """from its own axes to the world's; of a soft one the best fit to its deformed voxels, (dimension, dimension)"""
    spin: Array
    """[rad/s], (1,) in 2-D, (3,) in 3-D; of a soft one that of the rigid body with its angular momentum"""
    vertices: Array
    """its corners [m], those of voxels if it is soft, (v, dimension)"""
    exists: Array
    """False for places without a corner, (v,)"""

    @property
    def angle(self) -> Array:
        """By which it is turned, in 3-D from x to up [rad], from -pi to pi, ()."""
        return jnp.arctan2(self.rotation[-1, 0], self.rotation[0, 0])


def soft_motion(body: ContactBody) -> ObjectMotion:
    """Of a body made of voxels: its vertices, all of them alike, as one object."""
    vertices, rest = body.vertices, body._replace(state=body.engine.rest_state(body.model)).vertices
    dimension = vertices.position.shape[-1]
    exists = vertices.exists.reshape(-1)
    share = (exists / jnp.maximum(exists.sum(), 1)).astype(vertices.position.dtype)

    def about_mean(values: Array) -> tuple[Array, Array]:
        flat = values.reshape(-1, dimension)
        mean = (share[:, None] * flat).sum(0)
        return mean, jnp.where(exists[:, None], flat - mean, 0)

    position, here = about_mean(vertices.position)
    velocity, pace = about_mean(vertices.velocity)
    _, home = about_mean(rest.position)
    fit = _turned_plane if dimension == 2 else _turned_space
    rotation, spin = fit(home, here, pace)
    return ObjectMotion(position, velocity, rotation, spin, vertices.position.reshape(-1, dimension), exists)


def _turned_plane(home: Array, here: Array, pace: Array) -> tuple[Array, Array]:
    """Rotation and spin that fit best; places at rest and now, and velocities, about their means, (v, 2)."""
    spin = _moments(here, pace).sum() / jnp.maximum((here**2).sum(), 1e-12)
    sine, cosine = _moments(home, here).sum(), (home * here).sum()
    size = jax.lax.rsqrt(jnp.maximum(sine**2 + cosine**2, 1e-20))
    sine, cosine = size * sine, size * cosine
    return jnp.stack([jnp.stack([cosine, -sine]), jnp.stack([sine, cosine])]), spin[None]


def _moments(lever: Array, push: Array) -> Array:
    return lever[:, 0] * push[:, 1] - lever[:, 1] * push[:, 0]


def _turned_space(home: Array, here: Array, pace: Array) -> tuple[Array, Array]:
    """The same in 3-D, by the polar decomposition (Kabsch)."""
    same = jnp.eye(3, dtype=here.dtype)
    spread = (here**2).sum() * same - product(here.T, here)
    spin = jnp.linalg.solve(spread + 1e-9 * same, jnp.cross(here, pace).sum(0))
    left, _, right = jnp.linalg.svd(product(here.T, home))
    mirrored = jnp.linalg.det(product(left, right)) < 0
    left = jnp.where(mirrored & (jnp.arange(3) == 2), -left, left)
    return product(left, right), spin
