"""One step in time of nodes that springs pull: everything that acts on them, however the springs are computed.

Written for whole grids and for the lanes of a GPU kernel alike: nothing here asks for the shape of its arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.compute.gradients import root
from vsr.compute.vector import Vector, dot, join, minus, plus, split, times
from vsr.compute.xla import materialize
from vsr.environment.model import Environment, as_exact, by_components
from vsr.lattice.contact import touch
from vsr.lattice.integrators import INTEGRATORS, LAG, ORDER_IN_VELOCITY, NodeState
from vsr.lattice.model import Lattice

Forces = Callable[[NodeState, Array], Vector]
"""Of the springs on every node [N], given its motion and the time [s]."""


class StepInputs(NamedTuple):
    """What acts on nodes besides springs, by components."""

    inverse_mass: Array
    """0 for what is absent or anchored [1/kg]"""
    decay: Array
    """of velocities in one step, ()"""
    load: Vector | None
    """[N]"""
    freedom: tuple[Vector, ...] | None
    """rows of the projections onto the directions in which nodes may move"""
    environment: Environment
    """without its load; points and normals of bodies are tuples of numbers"""
    friction: Array | None = None
    """the nodes' own friction coefficients; None if only the obstacles' matter"""
    restitution: Array | None = None
    """the nodes' own restitution coefficients"""
    bounce_speed: Array | float = 0.0
    """what comes more slowly does not bounce [m/s], ()"""


def step_inputs(lattice: Lattice, environment: Environment, step: Array | float) -> StepInputs:
    """Everything as exact as the lattice is."""
    axes, dtype = lattice.node_axes, lattice.mass.dtype
    environment = as_exact(environment, dtype)
    return StepInputs(
        inverse_mass=lattice.inverse_mass,
        decay=jnp.exp(-step * lattice.damping),
        load=None if environment.load is None else split(environment.load, axes),
        freedom=None if lattice.freedom is None else tuple(split(row, axes) for row in split(lattice.freedom, axes)),
        environment=by_components(environment),
        bounce_speed=jnp.zeros((), dtype),
    )


def move(
    inputs: StepInputs, forces: Forces, moving: NodeState, time: Array, step: Array | float, integrator: str
) -> NodeState:
    """The motion one step [s] later."""
    return obstacle_contacts(inputs, fly(inputs, forces, moving, time, step, integrator), moving, step, integrator)


def fly(
    inputs: StepInputs, forces: Forces, moving: NodeState, time: Array, step: Array | float, integrator: str
) -> NodeState:
    """The motion one step [s] later, as if there were nothing to touch."""
    acceleration = _acceleration(inputs, forces, step, ORDER_IN_VELOCITY[integrator])
    moved = INTEGRATORS[integrator](acceleration, moving, time, step)
    return moved._replace(velocity=times(inputs.decay, moved.velocity))


def obstacle_contacts(
    inputs: StepInputs, flown: NodeState, before: NodeState, step: Array | float, integrator: str
) -> NodeState:
    """The motion after a step, kept out of all obstacles; before: the motion at its start."""
    around = inputs.environment
    if not around.bodies and around.terrain is None:
        return flown
    flown = materialize(before.position[0], flown)
    return touch(
        around,
        flown,
        inputs.inverse_mass > 0,
        inputs.friction,
        inputs.restitution,
        before=before,
        bounce_speed=inputs.bounce_speed,
        freedom=inputs.freedom,
        acceleration=times(1 / step, minus(flown.velocity, before.velocity)),
        lag=LAG[integrator] * step,
    )


def _acceleration(
    inputs: StepInputs, forces: Forces, step: Array | float, order: int
) -> Callable[[NodeState, Array], Vector]:
    """Of all nodes [m/s²]; step and order: of the integrator, for drag."""
    around = inputs.environment
    fall = jnp.where(inputs.inverse_mass > 0, around.gravity, 0)

    def acceleration(moving: NodeState, time: Array) -> Vector:
        force = forces(moving, time)
        if inputs.load is not None:
            force = plus(force, inputs.load)
        if around.contents is not None:
            axis = moving.position[0].ndim
            force = plus(force, split(around.contents.load(join(moving.position, axis), around.gravity), axis))
        # Settled, because new velocities and positions, and the stages of Runge-Kutta, use it several times.
        change = times(inputs.inverse_mass, materialize(force[0], force))
        change = (*change[:-1], change[-1] - fall)
        if around.drag is not None:
            change = _dragged(change, moving.velocity, around.drag * inputs.inverse_mass, step, order)
        return change if inputs.freedom is None else tuple(dot(row, change) for row in inputs.freedom)

    return acceleration


def _dragged(change: Vector, velocity: Vector, drag: Array, step: Array | float, order: int) -> Vector:
    """The acceleration [m/s²] with drag over mass [1/m], made so that no drag is too strong for the step.

    With x the step times the rate at which drag takes velocity away, everything is divided by (1 + xᵖ)^(1/p), p being
    the integrator's order. For p = 1 this is the linearly implicit Euler step, exact where nothing else acts; in
    general it leaves the order and the terminal velocity as they are, and keeps drag from turning a velocity round.
    """
    rate = drag * root(dot(velocity, velocity))
    x = step * rate
    larger = jnp.maximum(x, 1)
    slower = larger * (1 + (jnp.minimum(x, 1) / larger) ** order) ** (1 / order)
    return tuple((a - rate * v) / slower for a, v in zip(change, velocity, strict=True))
