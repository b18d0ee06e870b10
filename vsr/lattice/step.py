"""One step in time of nodes that springs pull: everything that acts on them, however the springs are computed.

Written for whole grids and for the lanes of a GPU kernel alike: nothing here asks for the shape of its arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.lattice.contact import touch
from vsr.lattice.integrators import INTEGRATORS, LAG, ORDER_IN_VELOCITY, Moving
from vsr.lattice.model import Lattice, Surroundings
from vsr.lattice.vector import Vector, dot, minus, split, times
from vsr.physics.settle import settle

Forces = Callable[[Moving, Array], Vector]
"""Of the springs on every node [N], given its motion and the time [s]."""


class Acting(NamedTuple):
    """What acts on nodes besides springs, by components."""

    inverse_mass: Array
    """0 for what is absent or anchored [1/kg]"""
    decay: Array
    """of velocities in one step, ()"""
    load: Vector | None
    """[N]"""
    freedom: tuple[Vector, ...] | None
    """rows of the projections onto the directions in which nodes may move"""
    surroundings: Surroundings
    """without its load; points and normals of bodies are tuples of numbers"""
    grip: Array | None = None
    """the nodes' own friction coefficients; None if only the obstacles' matter"""
    bounce: Array | None = None
    """the nodes' own restitution coefficients"""


def acting_on(lattice: Lattice, surroundings: Surroundings, step: Array | float) -> Acting:
    """Everything as exact as the lattice is."""
    axes, dtype = lattice.node_axes, lattice.mass.dtype
    surroundings = jax.tree.map(lambda value: _as_exact(value, dtype), surroundings)
    bodies = jax.tree.map(lambda value: tuple(value) if value.ndim else value, surroundings.bodies)
    return Acting(
        inverse_mass=lattice.inverse_mass,
        decay=jnp.exp(-step * lattice.damping),
        load=None if surroundings.load is None else split(surroundings.load, axes),
        freedom=None if lattice.freedom is None else tuple(split(row, axes) for row in split(lattice.freedom, axes)),
        surroundings=replace(surroundings, load=None, bodies=bodies),
    )


def move(acting: Acting, forces: Forces, moving: Moving, time: Array, step: Array | float, integrator: str) -> Moving:
    """The motion one step [s] later."""
    return meet_obstacles(acting, fly(acting, forces, moving, time, step, integrator), moving, step, integrator)


def fly(acting: Acting, forces: Forces, moving: Moving, time: Array, step: Array | float, integrator: str) -> Moving:
    """The motion one step [s] later, as if there were nothing to meet."""
    acceleration = _acceleration(acting, forces, step, ORDER_IN_VELOCITY[integrator])
    moved = INTEGRATORS[integrator](acceleration, moving, time, step)
    return moved._replace(velocity=times(acting.decay, moved.velocity))


def meet_obstacles(acting: Acting, flown: Moving, before: Moving, step: Array | float, integrator: str) -> Moving:
    """The motion after a step, kept out of all obstacles; before: the motion at its start."""
    around = acting.surroundings
    if not around.bodies and around.terrain is None:
        return flown
    flown = settle(before.position[0], flown)
    return touch(
        around,
        flown,
        acting.inverse_mass > 0,
        acting.grip,
        acting.bounce,
        before=before.position,
        freedom=acting.freedom,
        acceleration=times(1 / step, minus(flown.velocity, before.velocity)),
        lag=LAG[integrator] * step,
    )


def _acceleration(acting: Acting, forces: Forces, step: Array | float, order: int) -> Callable[[Moving, Array], Vector]:
    """Of all nodes [m/s²]; step and order: of the integrator, for drag."""
    around = acting.surroundings
    fall = jnp.where(acting.inverse_mass > 0, around.gravity, 0)

    def acceleration(moving: Moving, time: Array) -> Vector:
        force = forces(moving, time)
        if acting.load is not None:
            force = tuple(a + b for a, b in zip(force, acting.load, strict=True))
        # Settled, because new velocities and positions, and the stages of Runge-Kutta, use it several times.
        change = times(acting.inverse_mass, settle(force[0], force))
        change = (*change[:-1], change[-1] - fall)
        if around.drag is not None:
            change = _dragged(change, moving.velocity, around.drag * acting.inverse_mass, step, order)
        return change if acting.freedom is None else tuple(dot(row, change) for row in acting.freedom)

    return acceleration


def _dragged(change: Vector, velocity: Vector, drag: Array, step: Array | float, order: int) -> Vector:
    """The acceleration [m/s²] with drag over mass [1/m], made so that no drag is too strong for the step.

    With x the step times the rate at which drag takes velocity away, everything is divided by (1 + xᵖ)^(1/p), p being
    the integrator's order. For p = 1 this is the linearly implicit Euler step, exact where nothing else acts; in
    general it leaves the order and the terminal velocity as they are, and keeps drag from turning a velocity round.
    """
    rate = drag * jnp.sqrt(dot(velocity, velocity))
    x = step * rate
    larger = jnp.maximum(x, 1)
    slower = larger * (1 + (jnp.minimum(x, 1) / larger) ** order) ** (1 / order)
    return tuple((a - rate * v) / slower for a, v in zip(change, velocity, strict=True))


def _as_exact(value: Array | float, dtype: jnp.dtype) -> Array:
    """Real numbers as exact as the lattice's, others as they are."""
    array = jnp.asarray(value)
    return array.astype(dtype) if jnp.issubdtype(array.dtype, jnp.floating) else array
