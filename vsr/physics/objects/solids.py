"""Rigid bodies of a world: what stays as it is, how they move."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.physics.collision.convex import Shapes
from vsr.environment import Environment
from vsr.physics.collision.rows import beside, cross, dot, unit
from vsr.physics.collision.sides import Bodies


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Solids:
    """What stays as it is. SI units; s of them. In contact every array may have further axes at the end."""

    shapes: Shapes
    position: Array
    """of the centres of mass at the start [m], (s, dimension)"""
    rotation: Array
    """at the start, from own axes to the world's, (s, dimension, dimension)"""
    velocity: Array
    """at the start [m/s], (s, dimension)"""
    mass: Array
    """infinite for what is fixed [kg], (s,)"""
    inertia: Array
    """about the axes of the shapes, likewise [kg m²], (s, 1) in 2-D, (s, 3) in 3-D"""
    friction: Array
    """coefficient, (s,)"""
    restitution: Array
    """coefficient, (s,)"""
    names: tuple[str, ...] = field(metadata={"static": True})
    fixed: tuple[bool, ...] = field(metadata={"static": True})

    @property
    def count(self) -> int:
        return len(self.names)

    @property
    def free(self) -> np.ndarray:
        """Numbers of those that move."""
        return np.flatnonzero(~np.array(self.fixed, bool))

    @property
    def flat(self) -> np.ndarray:
        """Numbers of those that have corners."""
        return np.flatnonzero(~np.array(self.shapes.round, bool))

    def rest_state(self) -> SolidState:
        dimension = self.position.shape[-1]
        spin = jnp.zeros((self.count, 2 * dimension - 3), self.position.dtype)
        return SolidState(self.position, self.rotation, self.velocity, spin)

    def bodies(self, state: SolidState) -> Bodies:
        """As contacts see them."""
        return Bodies(
            inverse_mass=1 / self.mass,
            inverse_inertia=self._inverse_inertia(state),
            friction=self.friction,
            restitution=self.restitution,
        )

    def _inverse_inertia(self, state: SolidState) -> Array:
        """In the world's axes, (k, k, s)."""
        own = jnp.swapaxes(1 / self.inertia, 0, 1)
        if own.shape[0] == 1:
            return own[None]
        turn = jnp.moveaxis(state.rotation, 0, 2)
        return ((turn * own)[:, None] * turn[None]).sum(2)

    def momentum(self, state: SolidState) -> Array:
        """Linear momentum of those that move [kg m/s], (dimension,)."""
        return (self.mass[self.free, None] * state.velocity[self.free]).sum(0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SolidState:
    """How rigid bodies move."""

    position: Array
    """of the centres of mass [m], (s, dimension)"""
    rotation: Array
    """from own axes to the world's, (s, dimension, dimension)"""
    velocity: Array
    """[m/s], (s, dimension)"""
    spin: Array
    """[rad/s], (s, 1) in 2-D, (s, 3) in 3-D"""


def flown(solids: Solids, state: SolidState, environment: Environment, duration: float) -> SolidState:
    """A step [s] later, if nothing is touched: parabolas."""
    falls = beside(~np.array(solids.fixed, bool), state.velocity[:, 0], 1)
    fall = duration * environment.gravity * falls
    velocity = state.velocity.at[:, -1].add(-fall)
    return SolidState(
        position=state.position + 0.5 * duration * (state.velocity + velocity),
        rotation=_turned(state.rotation, duration * state.spin),
        velocity=velocity,
        spin=state.spin,
    )


def pushed(solids, state: SolidState, velocity: Array, spin: Array, shift: Array, turn: Array) -> SolidState:
    """With other velocities [m/s, rad/s], shifted [m] and turned [rad] a little."""
    return SolidState(state.position + shift, _turned(state.rotation, turn), velocity, spin)


def _turned(rotation: Array, angle: Array) -> Array:
    """Rotations, turned further by small angles [rad] and made orthonormal again."""
    if angle.shape[1] == 1:
        cosine, sine = jnp.cos(angle[:, 0]), jnp.sin(angle[:, 0])
        x, y = rotation[:, 0, 0], rotation[:, 1, 0]
        x, y = cosine * x - sine * y, sine * x + cosine * y
        size = jax.lax.rsqrt(x * x + y * y)
        x, y = size * x, size * y
        return jnp.stack([jnp.stack([x, -y], 1), jnp.stack([y, x], 1)], 1)
    # Rodrigues' rotation of the first two axes; the third follows from them.
    way, columns = jnp.swapaxes(angle, 0, 1), jnp.moveaxis(rotation, 0, 2)
    size = jnp.sqrt(dot(way, way) + jnp.finfo(angle.dtype).tiny)
    way, sine, versine = way / size, jnp.sin(size), 1 - jnp.cos(size)

    def about(vector: Array) -> Array:
        across = cross(way, vector)
        return vector + sine * across + versine * cross(way, across)

    first = unit(about(columns[:, 0]))
    second = about(columns[:, 1])
    second = unit(second - dot(first, second) * first)
    return jnp.moveaxis(jnp.stack([first, second, cross(first, second)], 1), 2, 0)
