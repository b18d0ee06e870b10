"""Rigid bodies of a world: what stays as it is, how they move."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.environment import Environment
from vsr.physics.contact.bodies import Bodies
from vsr.physics.contact.convex import Shapes
from vsr.physics.contact.vectors import beside, cross, dot, unit


class Masses(Protocol):
    """What is asked of rigid bodies here; fields as of Solids."""

    @property
    def mass(self) -> Array: ...
    @property
    def inertia(self) -> Array: ...
    @property
    def friction(self) -> Array: ...
    @property
    def restitution(self) -> Array: ...
    @property
    def fixed(self) -> tuple[bool, ...]: ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Solids:
    """What stays as it is. SI units; s of them. In contact every array may have further axes at the end."""

    shapes: Shapes
    position: Array
    """of the centers of mass at the start [m], (s, dimension)"""
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

    def momentum(self, state: SolidState) -> Array:
        """Linear momentum of those that move [kg m/s], (dimension,)."""
        return (self.mass[self.free, None] * state.velocity[self.free]).sum(0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SolidState:
    """How rigid bodies move."""

    position: Array
    """of the centers of mass [m], (s, dimension)"""
    rotation: Array
    """from own axes to the world's, (s, dimension, dimension)"""
    velocity: Array
    """[m/s], (s, dimension)"""
    spin: Array
    """[rad/s], (s, 1) in 2-D, (s, 3) in 3-D"""


def bodies_of(solids: Masses, state: SolidState) -> Bodies:
    """As contacts see them."""
    return Bodies(
        inverse_mass=1 / solids.mass,
        inverse_inertia=_inverse_inertia(solids, state),
        friction=solids.friction,
        restitution=solids.restitution,
    )


def _inverse_inertia(solids: Masses, state: SolidState) -> Array:
    """In the world's axes, (k, k, s)."""
    own = jnp.swapaxes(1 / solids.inertia, 0, 1)
    if own.shape[0] == 1:
        return own[None]
    turn = jnp.moveaxis(state.rotation, 0, 2)
    return ((turn * own)[:, None] * turn[None]).sum(2)


def flown(solids: Masses, state: SolidState, environment: Environment, duration: float) -> SolidState:
    """A step [s] later, if nothing is touched: centers on parabolas, and turning with its angular momentum kept."""
    falls = np.zeros((len(solids.fixed), state.velocity.shape[1]))
    falls[:, -1] = ~np.array(solids.fixed, bool)
    falls = beside(falls.astype(state.velocity.dtype), state.velocity, 2)
    velocity = state.velocity - duration * environment.gravity * falls
    position = state.position + 0.5 * duration * (state.velocity + velocity)
    if state.spin.shape[1] == 1:
        return SolidState(position, _turned(state.rotation, duration * state.spin), velocity, state.spin)
    rotation, spin = _spun(solids, state, duration)
    return SolidState(position, rotation, velocity, spin)


def pushed(solids: Masses, state: SolidState, velocity: Array, spin: Array, shift: Array, turn: Array) -> SolidState:
    """With other velocities [m/s] and spins [rad/s], shifted [m] and turned [rad] a little; each (s, ...).

    The angular momentum is that of the spin before the turn.
    """
    rotation = _turned(state.rotation, turn)
    if spin.shape[1] == 3:
        spin = _spin_of(solids, rotation, _momentum(solids, state.rotation, spin))
    return SolidState(state.position + shift, rotation, velocity, spin)


def _spun(solids: Masses, state: SolidState, duration: float) -> tuple[Array, Array]:
    """Rotations and spins in 3-D after a step [s] without torque.

    The free rigid body, split into turns about its own axes, each with the part of the angular momentum along that axis
    (Strang's order). Every turn keeps the angular momentum, and the whole is symplectic: energy stays.
    """
    whole, inertia = _momentum(solids, state.rotation, state.spin), solids.inertia
    own = _own(state.rotation, whole)
    momentum, columns = [own[:, axis] for axis in range(3)], [state.rotation[:, :, axis] for axis in range(3)]
    for axis, share in ((0, 0.5), (1, 0.5), (2, 1.0), (1, 0.5), (0, 0.5)):
        first, second = (axis + 1) % 3, (axis + 2) % 3
        angle = share * duration * momentum[axis] / inertia[:, axis]
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
        one, other = momentum[first], momentum[second]
        # The body turns; in its own axes the angular momentum turns the other way.
        momentum[first], momentum[second] = cosine * one + sine * other, cosine * other - sine * one
        one, other, cosine, sine = columns[first], columns[second], cosine[:, None], sine[:, None]
        columns[first], columns[second] = cosine * one + sine * other, cosine * other - sine * one
    rotation = _orthonormal(columns[0], columns[1])
    return rotation, _spin_of(solids, rotation, whole)


def _momentum(solids: Masses, rotation: Array, spin: Array) -> Array:
    """Angular momentum in the world's axes [kg m²/s], 0 of what is fixed, (s, 3)."""
    moves = beside(~np.array(solids.fixed, bool), spin[:, 0], 1)[:, None]
    return _along(rotation, jnp.where(moves, solids.inertia * _own(rotation, spin), 0))


def _spin_of(solids: Masses, rotation: Array, momentum: Array) -> Array:
    """The spin that has an angular momentum, (s, 3)."""

    def spin(momentum: Array) -> Array:
        return _along(rotation, _own(rotation, momentum) / solids.inertia)

    first = spin(momentum)
    # Rotations are orthonormal but for rounding, always to the same side: over many steps it would be seen.
    return first + spin(momentum - _momentum(solids, rotation, first))


def _own(rotation: Array, vector: Array) -> Array:
    """Vectors of the world in the bodies' own axes, (s, 3)."""
    return (rotation * vector[:, :, None]).sum(1)


def _along(rotation: Array, vector: Array) -> Array:
    """The other way round."""
    return (rotation * vector[:, None]).sum(2)


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

    return _orthonormal(*(jnp.moveaxis(about(columns[:, axis]), 0, 1) for axis in range(2)))


def _orthonormal(first: Array, second: Array) -> Array:
    """Rotations whose first columns are as given but for rounding, (s, 3) each; the third follows from them."""
    first, second = (jnp.swapaxes(column, 0, 1) for column in (first, second))
    first = unit(first)
    second = unit(second - dot(first, second) * first)
    return jnp.moveaxis(jnp.stack([first, second, cross(first, second)], 1), 2, 0)
