"""A lattice in time: many steps at once, until a time or a condition, and the energies on the way.

Nothing here waits for the device: arrays are returned at once while it computes, so the host is free to plan what
comes next, and no state leaves the device between two stages.

There are two implementations of one contract, as for robots: `xla` is plain JAX, runs everywhere and is the reference;
`fused` is one GPU kernel a step, for regular grids. `interpreted` is that kernel without a GPU.

Arguments are checked before anything is computed. Only values known without a device are checked: Python's and NumPy's
numbers, and the parts of a lattice and a state. Values that are traced, or lie on a device, pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.implementation import Implementation, chosen
from vsr.compute.vector import Vector, dot, join, split
from vsr.compute.xla import repeat
from vsr.environment.model import Environment
from vsr.lattice.integrators import FORCE_EVALUATION_OFFSET, NodeState, check_integrator
from vsr.lattice.model import GridSprings, Lattice, Springs, State
from vsr.lattice.springs import PerSpring, all_intact, break_overloaded, forces_on_nodes, potential_energy, springs_at
from vsr.lattice.step import StepInputs, move, step_inputs


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

    implementation: see vsr.lattice.motion; `auto` takes the GPU kernel where it can run. Raises ValueError for what
    cannot be done (see vsr.lattice.motion).
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
    `check_every` steps; pass the same function again to use the same program again. The time is exact to within half a
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


class Carry(NamedTuple):
    """A state by components: what loops carry."""

    moving: NodeState
    time: Array
    intact: PerSpring | None


@dataclass(frozen=True)
class Stepper:
    """Steps of one length."""

    one: Callable[[Carry], Carry]
    """a single step"""
    step: Array | float
    """[s]"""
    on_chip: bool
    """whether each is one launch of a kernel"""

    def repeat(self, count: Array | int, start: Carry, done: Array | int = 0, since: Array | None = None) -> Carry:
        """So many steps, of which some are done already.

        since: the time when none was done [s], the start's unless given. Time is computed from the number of steps:
        thousands of short steps added up would drift.
        """
        since = start.time if since is None else since

        def one(number: Array | int, now: Carry) -> Carry:
            return self.one(now)._replace(time=since + self.step * (number + 1))

        if self.on_chip:
            return repeat(one, done, count, start)
        return jax.lax.fori_loop(done, count, one, start)


def stepper(
    lattice: Lattice,
    environment: Environment,
    step: Array | float,
    integrator: str,
    implementation: Implementation,
) -> Stepper:
    """Steps of a lattice; raises ValueError for an unknown integrator or an implementation that cannot run."""
    check_integrator(integrator)
    implementation = chosen(implementation, lattice.mass.dtype, _beyond_kernel(lattice, environment, integrator))
    inputs = step_inputs(lattice, environment, step)
    if implementation == "xla":
        moved = _plainly(lattice.springs, inputs, step, integrator)
    else:
        moved = _on_chip(lattice.springs, inputs, step, integrator, interpret=implementation == "interpreted")

    def one(now: Carry) -> Carry:
        moving, time = moved(now), now.time + step
        return Carry(moving, time, break_overloaded(lattice.springs, moving.position, time, now.intact))

    return Stepper(one, step, on_chip=implementation == "fused")


def as_carry(lattice: Lattice, state: State) -> Carry:
    """A state by components."""
    position, velocity = (split(part, lattice.node_axes) for part in (state.position, state.velocity))
    return Carry(NodeState(position, velocity), state.time, state.intact)


def as_state(lattice: Lattice, carry: Carry) -> State:
    """A state as users know it."""
    axes = lattice.node_axes
    return State(join(carry.moving.position, axes), join(carry.moving.velocity, axes), carry.time, carry.intact)


def _beyond_kernel(lattice: Lattice, environment: Environment, integrator: str) -> str | None:
    """Why the kernel cannot move a lattice, if so."""
    if not isinstance(lattice.springs, GridSprings):
        return "the kernel moves regular grids, and these springs are a graph"
    if lattice.mass.ndim > lattice.node_axes:
        return "the kernel takes many lattices by vmap, and these have an axis of their own at the end"
    if integrator not in FORCE_EVALUATION_OFFSET:
        return f"the kernel knows the integrators {', '.join(FORCE_EVALUATION_OFFSET)}, and {integrator} was asked for"
    if environment.contents is not None:
        return "the kernel knows no chambers, and there is fluid in this lattice"
    return None


def _plainly(
    springs: Springs, inputs: StepInputs, step: Array | float, integrator: str
) -> Callable[[Carry], NodeState]:
    def moved(now: Carry) -> NodeState:
        def forces(moving: NodeState, time: Array) -> Vector:
            return forces_on_nodes(springs, moving.position, moving.velocity, time, now.intact)

        return move(inputs, forces, now.moving, now.time, step, integrator)

    return moved


def _on_chip(
    springs: Any, inputs: StepInputs, step: Array | float, integrator: str, *, interpret: bool
) -> Callable[[Carry], NodeState]:
    from vsr.lattice.kernel import GridNeighborhood, KernelInputs, Launcher, SpringNumbers

    launcher = Launcher(
        GridNeighborhood(inputs.inverse_mass.shape),
        inputs,
        step,
        integrator,
        by_velocity=springs.damping is not None,
        interpret=interpret,
    )

    def known_at(time: Array, intact: PerSpring | None) -> KernelInputs:
        return launcher.known(SpringNumbers(*springs_at(springs, time, intact)))

    # What never changes is gathered once, before any loop.
    steady = springs.wave is None and springs.yield_force is None
    always = known_at(jnp.zeros((), inputs.inverse_mass.dtype), None) if steady else None

    def moved(now: Carry) -> NodeState:
        return launcher.move(
            always or known_at(now.time + FORCE_EVALUATION_OFFSET[integrator] * step, now.intact), now.moving
        )

    return moved


def check_step(step: Any) -> None:
    """Raise ValueError for a step [s] in which time does not go on."""
    if _known(step) and not 0 < step < math.inf:
        raise ValueError(f"a step of {step} s: it must be above 0 and finite (choose_step gives one that is stable)")


def check_time(time: Any) -> None:
    """Raise ValueError for a time [s] that never comes; one that is past is reached at once."""
    if _known(time) and math.isnan(time):
        raise ValueError("a time of nan s never comes: give a number")


def check_count(name: str, count: Any, least: int = 0) -> None:
    """Raise ValueError for a number of steps or samples that is not whole, or too small."""
    if _known(count) and not (isinstance(count, int | np.integer) and count >= least):
        raise ValueError(f"{name}={count}: it must be a whole number, {least} or more")


def check_breaking(lattice: Lattice, state: State) -> None:
    """Raise ValueError if only one of a lattice and its state knows that springs can break."""
    if lattice.springs.yield_force is None and state.intact is not None:
        raise ValueError(
            "the state says which springs are whole, and those of the lattice cannot break: make them `breakable`, "
            "or use a state without `intact` (rest_state makes one)"
        )
    if lattice.springs.yield_force is not None and state.intact is None:
        raise ValueError(
            "the springs of the lattice can break, and the state does not say which are whole: make it by rest_state "
            "from the breakable lattice"
        )


def _known(value: Any) -> bool:
    return isinstance(value, int | float | np.number)
