"""A lattice in time: many steps at once, until a time or a condition, and the energies on the way.

Nothing here waits for the device: arrays are returned at once while it computes, so the host is free to plan what
comes next, and no state leaves the device between two stages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.lattice.contact import touch
from vsr.lattice.integrators import INTEGRATORS, LAG, ORDER_IN_VELOCITY, Moving, check_integrator
from vsr.lattice.model import Lattice, State, Surroundings
from vsr.lattice.springs import all_intact, break_overloaded, forces_on_nodes, potential_energy
from vsr.lattice.vector import Vector, dot, join, minus, split, times
from vsr.physics.settle import settle


def rest_state(lattice: Lattice, *, shift: Array | None = None, velocity: Array | None = None) -> State:
    """The lattice as it was built, not moving at time 0; shift [m] and velocity [m/s] of all nodes, (dimension,)."""
    position = lattice.rest_position if shift is None else lattice.rest_position + shift
    moves = (
        jnp.zeros_like(position)
        if velocity is None
        else jnp.broadcast_to(velocity, position.shape).astype(position.dtype)
    )
    there = jnp.expand_dims(lattice.inverse_mass > 0, lattice.node_axes)
    if lattice.freedom is not None:
        moves = (lattice.freedom * jnp.expand_dims(moves, lattice.node_axes)).sum(lattice.node_axes + 1)
    return State(
        position=position,
        velocity=jnp.where(there, moves, 0),
        time=jnp.zeros((), position.dtype),
        intact=all_intact(lattice.springs, split(position, lattice.node_axes)),
    )


@partial(jax.jit, static_argnames=("step", "count", "integrator"))
def advance(
    lattice: Lattice,
    surroundings: Surroundings,
    state: State,
    *,
    step: float,
    count: int,
    integrator: str = "semi_implicit_euler",
) -> State:
    """The state `count` steps [s] later."""
    one_step = stepper(lattice, surroundings, step, integrator)
    start = _carry(lattice, state)
    return _state(lattice, jax.lax.fori_loop(0, count, _timed(one_step, state.time, step), start))


@partial(jax.jit, static_argnames=("condition", "step", "check_every", "integrator"))
def advance_until(
    lattice: Lattice,
    surroundings: Surroundings,
    state: State,
    condition: Callable[[State], Array] | None = None,
    *,
    time: Array | float,
    step: float,
    check_every: int = 1,
    integrator: str = "semi_implicit_euler",
) -> State:
    """The state once a condition holds, or at a time [s] if that comes first: a breakpoint.

    condition: a function of the state that gives true or false, (), asked before the first step and after every
    `check_every` steps; pass the same function again to use the same program again. The time is met to within half a
    step, and never overstepped by more, however rarely the condition is asked. All of it runs on the device. Under
    `vmap` every robot stops on its own.
    """
    one_step = _timed(stepper(lattice, surroundings, step, integrator), state.time, step)
    # Steps are counted, not times compared: times are sums of steps, and sums are rounded.
    whole = jnp.ceil((jnp.asarray(time, state.time.dtype) - state.time) / step - 0.5).astype(jnp.int32)

    def go_on(now: tuple[Array, _Carry]) -> Array:
        early = now[0] < whole
        return early if condition is None else early & jnp.logical_not(condition(_state(lattice, now[1])))

    def several(now: tuple[Array, _Carry]) -> tuple[Array, _Carry]:
        stop = jnp.minimum(now[0] + check_every, whole)
        return stop, jax.lax.fori_loop(now[0], stop, one_step, now[1])

    start = jnp.zeros((), jnp.int32), _carry(lattice, state)
    return _state(lattice, jax.lax.while_loop(go_on, several, start)[1])


@partial(jax.jit, static_argnames=("measure", "samples", "integrator"))
def record(
    lattice: Lattice,
    surroundings: Surroundings,
    state: State,
    measure: Callable[[Lattice, Surroundings, State], Any],
    *,
    step: Array | float,
    every: Array | int,
    samples: int,
    integrator: str = "semi_implicit_euler",
) -> tuple[State, Any]:
    """The state `samples * every` steps [s] later, and a measure of it after every `every` steps, (samples, ...).

    Steps of any length and number share one compilation.
    """
    one_step = stepper(lattice, surroundings, step, integrator)

    def sample(now: _Carry, _: None) -> tuple[_Carry, Any]:
        now = jax.lax.fori_loop(0, every, _timed(one_step, now.time, step), now)
        return now, measure(lattice, surroundings, _state(lattice, now))

    start = _carry(lattice, state)
    end, measures = jax.lax.scan(sample, start, length=samples)
    return _state(lattice, end), measures


class Energy(NamedTuple):
    """[J], each ()."""

    kinetic: Array
    elastic: Array
    gravitational: Array
    """0 at height 0"""
    load: Array
    """of constant external forces, 0 at the origin"""

    @property
    def total(self) -> Array:
        """All together; constant where nothing is damped, driven or touched."""
        return self.kinetic + self.elastic + self.gravitational + self.load


def energy(lattice: Lattice, surroundings: Surroundings, state: State) -> Energy:
    """What a moving lattice holds."""
    position, velocity = (split(part, lattice.node_axes) for part in (state.position, state.velocity))
    pushed = jnp.zeros((), state.position.dtype)
    if surroundings.load is not None:
        pushed = -dot(split(surroundings.load, lattice.node_axes), position).sum()
    return Energy(
        kinetic=0.5 * (lattice.mass * dot(velocity, velocity)).sum(),
        elastic=potential_energy(lattice.springs, position, state.time, state.intact),
        gravitational=surroundings.gravity * (lattice.mass * position[-1]).sum(),
        load=pushed,
    )


class _Carry(NamedTuple):
    """A state by components."""

    moving: Moving
    time: Array
    intact: Array | tuple[Array, ...] | None


def stepper(
    lattice: Lattice, surroundings: Surroundings, step: Array | float, integrator: str
) -> Callable[[_Carry], _Carry]:
    """One step as a function; raises ValueError for an unknown integrator."""
    check_integrator(integrator)
    integrate = INTEGRATORS[integrator]
    dtype = lattice.mass.dtype
    surroundings = jax.tree.map(lambda value: _as_exact(value, dtype), surroundings)
    obstacles = surroundings.bodies or surroundings.terrain is not None
    decay = jnp.exp(-step * lattice.damping)

    def one_step(now: _Carry) -> _Carry:
        acceleration = _acceleration(lattice, surroundings, now.intact, step=step, order=ORDER_IN_VELOCITY[integrator])
        moving = integrate(acceleration, now.moving, now.time, step)
        moving = moving._replace(velocity=times(decay, moving.velocity))
        if obstacles:
            moving = settle(now.moving.position[0], moving)
            moving = touch(
                surroundings,
                moving,
                lattice.inverse_mass > 0,
                before=now.moving.position,
                freedom=_freedom(lattice),
                acceleration=times(1 / step, minus(moving.velocity, now.moving.velocity)),
                lag=LAG[integrator] * step,
            )
        time = now.time + step
        return _Carry(moving, time, break_overloaded(lattice.springs, moving.position, time, now.intact))

    return one_step


def _acceleration(
    lattice: Lattice,
    surroundings: Surroundings,
    intact: Array | tuple[Array, ...] | None,
    *,
    step: Array | float = 0.0,
    order: int = 1,
) -> Callable[[Moving, Array], Vector]:
    """Of all nodes [m/s²]; step and order: of the integrator, for drag."""
    axes = lattice.node_axes
    load = None if surroundings.load is None else split(surroundings.load, axes)
    fall = jnp.where(lattice.inverse_mass > 0, surroundings.gravity, 0)
    freedom = _freedom(lattice)

    def acceleration(moving: Moving, time: Array) -> Vector:
        force = forces_on_nodes(lattice.springs, moving.position, moving.velocity, time, intact)
        if load is not None:
            force = tuple(a + b for a, b in zip(force, load, strict=True))
        # Settled, because new velocities and positions, and the stages of Runge-Kutta, use it several times.
        change = times(lattice.inverse_mass, settle(force[0], force))
        change = (*change[:-1], change[-1] - fall)
        if surroundings.drag is not None:
            change = _dragged(change, moving.velocity, surroundings.drag * lattice.inverse_mass, step, order)
        return change if freedom is None else tuple(dot(row, change) for row in freedom)

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


def _timed(
    one_step: Callable[[_Carry], _Carry], start: Array, step: Array | float
) -> Callable[[Array | int, _Carry], _Carry]:
    """A step that tells the time from the number of steps: thousands of short steps added up would drift."""
    return lambda done, now: one_step(now)._replace(time=start + step * (done + 1))


def _as_exact(value: Array | float, dtype: jnp.dtype) -> Array:
    """Real numbers as exact as the lattice's, others as they are."""
    array = jnp.asarray(value)
    return array.astype(dtype) if jnp.issubdtype(array.dtype, jnp.floating) else array


def _freedom(lattice: Lattice) -> list[Vector] | None:
    """The rows of the projections onto the directions in which nodes may move."""
    axes = lattice.node_axes
    return None if lattice.freedom is None else [split(row, axes) for row in split(lattice.freedom, axes)]


def _carry(lattice: Lattice, state: State) -> _Carry:
    position, velocity = (split(part, lattice.node_axes) for part in (state.position, state.velocity))
    return _Carry(Moving(position, velocity), state.time, state.intact)


def _state(lattice: Lattice, carry: _Carry) -> State:
    axes = lattice.node_axes
    return State(join(carry.moving.position, axes), join(carry.moving.velocity, axes), carry.time, carry.intact)
