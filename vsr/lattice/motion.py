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

from vsr.compute.implementation import Implementation
from vsr.compute.vector import dot, split
from vsr.environment.model import Environment
from vsr.lattice.model import Lattice, State
from vsr.lattice.refusals import check_breaking, check_count, check_step, check_time
from vsr.lattice.springs import all_intact, potential_energy
from vsr.lattice.stepping import Carry, as_carry, as_state, stepper


def rest_state(lattice: Lattice, *, shift: Array | None = None, velocity: Array | None = None) -> State:
    """The lattice as it was built, not moving at time 0; shift [m] and velocity [m/s] of all nodes, (dimension,)."""
    position = lattice.rest_position
    if shift is not None:
        position = (position + shift).astype(position.dtype)
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


@partial(jax.jit, static_argnames=("step", "count", "integrator", "implementation"))
def advance(
    lattice: Lattice,
    environment: Environment,
    state: State,
    *,
    step: float,
    count: int,
    integrator: str = "semi_implicit_euler",
    implementation: Implementation = "auto",
) -> State:
    """The state `count` steps [s] later.

    implementation: see vsr.lattice.stepping; `auto` takes the GPU kernel where it can run. Raises ValueError for what
    cannot be done (see vsr.lattice.refusals).
    """
    check_step(step)
    check_count("count", count)
    check_breaking(lattice, state)
    steps = stepper(lattice, environment, step, integrator, implementation)
    return as_state(lattice, steps.repeat(count, as_carry(lattice, state)))


def advance_until(
    lattice: Lattice,
    environment: Environment,
    state: State,
    condition: Callable[[State], Array] | None = None,
    *,
    time: Array | float,
    step: float,
    check_every: int = 1,
    integrator: str = "semi_implicit_euler",
    implementation: Implementation = "auto",
) -> State:
    """The state once a condition holds, or at a time [s] if that comes first: a breakpoint.

    condition: a function of the state that gives true or false, (), asked before the first step and after every
    `check_every` steps; pass the same function again to use the same program again. The time is met to within half a
    step, and never overstepped by more, however rarely the condition is asked. All of it runs on the device. Under
    `vmap` every robot stops on its own. Raises ValueError as `advance` does.
    """
    check_step(step)
    check_time(time)
    check_count("check_every", check_every, 1)
    check_breaking(lattice, state)
    return _advance_until(lattice, environment, state, condition, time, step, check_every, integrator, implementation)


@partial(jax.jit, static_argnames=("condition", "step", "check_every", "integrator", "implementation"))
def _advance_until(
    lattice: Lattice,
    environment: Environment,
    state: State,
    condition: Callable[[State], Array] | None,
    time: Array | float,
    step: float,
    check_every: int,
    integrator: str,
    implementation: Implementation,
) -> State:
    steps = stepper(lattice, environment, step, integrator, implementation)
    # Steps are counted, not times compared: times are sums of steps, and sums are rounded.
    whole = jnp.ceil((jnp.asarray(time, state.time.dtype) - state.time) / step - 0.5).astype(jnp.int32)

    def go_on(now: tuple[Array, Carry]) -> Array:
        early = now[0] < whole
        return early if condition is None else early & jnp.logical_not(condition(as_state(lattice, now[1])))

    def several(now: tuple[Array, Carry]) -> tuple[Array, Carry]:
        stop = jnp.minimum(now[0] + check_every, whole)
        return stop, steps.repeat(stop, now[1], done=now[0], since=state.time)

    start = jnp.zeros((), jnp.int32), as_carry(lattice, state)
    return as_state(lattice, jax.lax.while_loop(go_on, several, start)[1])


def record(
    lattice: Lattice,
    environment: Environment,
    state: State,
    measure: Callable[[Lattice, Environment, State], Any],
    *,
    step: Array | float,
    every: Array | int,
    samples: int,
    integrator: str = "semi_implicit_euler",
    implementation: Implementation = "auto",
) -> tuple[State, Any]:
    """The state `samples * every` steps [s] later, and a measure of it after every `every` steps, (samples, ...).

    Steps of any length and number share one compilation. Raises ValueError as `advance` does.
    """
    check_step(step)
    check_count("every", every)
    check_count("samples", samples)
    check_breaking(lattice, state)
    return _record(lattice, environment, state, measure, step, every, samples, integrator, implementation)


@partial(jax.jit, static_argnames=("measure", "samples", "integrator", "implementation"))
def _record(
    lattice: Lattice,
    environment: Environment,
    state: State,
    measure: Callable[[Lattice, Environment, State], Any],
    step: Array | float,
    every: Array | int,
    samples: int,
    integrator: str,
    implementation: Implementation,
) -> tuple[State, Any]:
    steps = stepper(lattice, environment, step, integrator, implementation)

    def sample(now: Carry, _: None) -> tuple[Carry, Any]:
        now = steps.repeat(every, now)
        return now, measure(lattice, environment, as_state(lattice, now))

    end, measures = jax.lax.scan(sample, as_carry(lattice, state), length=samples)
    return as_state(lattice, end), measures


class Energy(NamedTuple):
    """[J], each ()."""

    kinetic: Array
    elastic: Array
    gravitational: Array
    """0 at height 0"""
    load: Array
    """of constant external forces, 0 at the origin"""
    contents: Array | float = 0.0
    """of fluid in chambers and of what keeps up its pressure"""

    @property
    def total(self) -> Array:
        """All together; constant where nothing is damped, driven or touched."""
        return self.kinetic + self.elastic + self.gravitational + self.load + self.contents


def energy(lattice: Lattice, environment: Environment, state: State) -> Energy:
    """What a moving lattice holds."""
    position, velocity = (split(part, lattice.node_axes) for part in (state.position, state.velocity))
    pushed = jnp.zeros((), state.position.dtype)
    if environment.load is not None:
        pushed = -dot(split(environment.load, lattice.node_axes), position).sum()
    return Energy(
        kinetic=0.5 * (lattice.mass * dot(velocity, velocity)).sum(),
        elastic=potential_energy(lattice.springs, position, state.time, state.intact),
        gravitational=environment.gravity * (lattice.mass * position[-1]).sum(),
        load=pushed,
        contents=(
            jnp.zeros_like(pushed)
            if environment.contents is None
            else environment.contents.energy(state.position, environment.gravity)
        ),
    )
