"""From one step to many: how a lattice is moved here, plainly or by the GPU kernel, and the loop around it.

There are two implementations of one contract, as for robots (vsr.physics.advance): `xla` is plain JAX, runs everywhere
and is the reference; `fused` is one GPU kernel a step, for regular grids. `interpreted` is that kernel without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.lattice.integrators import FELT_AHEAD, Moving, check_integrator
from vsr.lattice.model import GridSprings, Lattice, Springs, State, Surroundings
from vsr.lattice.springs import PerSpring, break_overloaded, forces_on_nodes, springs_at
from vsr.lattice.step import Acting, acting_on, meet_obstacles, move
from vsr.lattice.vector import Vector, join, split
from vsr.physics.advance.choice import Implementation, chosen

LAUNCHES_PER_TURN = 8
"""Steps of the kernel in one turn of a loop: a turn costs the GPU about as much as a step of a small lattice."""


class Carry(NamedTuple):
    """A state by components: what loops carry."""

    moving: Moving
    time: Array
    intact: PerSpring | None


@dataclass(frozen=True)
class Stepper:
    """Steps of one length."""

    one: Callable[[Carry], Carry]
    """a single step"""
    step: Array | float
    """[s]"""
    together: int
    """in one turn of a loop"""

    def repeat(self, count: Array | int, start: Carry, done: Array | int = 0, since: Array | None = None) -> Carry:
        """So many steps, of which some are done already.

        since: the time when none was done [s], the start's unless given. Time is told from the number of steps:
        thousands of short steps added up would drift.
        """
        since = start.time if since is None else since

        def one(number: Array | int, now: Carry) -> Carry:
            return self.one(now)._replace(time=since + self.step * (number + 1))

        def turn(number: Array | int, now: Carry) -> Carry:
            for further in range(self.together):
                now = one(done + number * self.together + further, now)
            return now

        if self.together == 1:
            return jax.lax.fori_loop(done, count, one, start)
        turns = (count - done) // self.together
        return jax.lax.fori_loop(done + turns * self.together, count, one, jax.lax.fori_loop(0, turns, turn, start))


def stepper(
    lattice: Lattice,
    surroundings: Surroundings,
    step: Array | float,
    integrator: str,
    implementation: Implementation,
) -> Stepper:
    """Steps of a lattice; raises ValueError for an unknown integrator or an implementation that cannot run."""
    check_integrator(integrator)
    implementation = chosen(implementation, lattice.mass.dtype, _beyond_kernel(lattice, integrator))
    acting = acting_on(lattice, surroundings, step)
    if implementation == "xla":
        moved = _plainly(lattice.springs, acting, step, integrator)
    else:
        moved = _on_chip(lattice.springs, acting, step, integrator, interpret=implementation == "interpreted")

    def one(now: Carry) -> Carry:
        moving, time = moved(now), now.time + step
        return Carry(moving, time, break_overloaded(lattice.springs, moving.position, time, now.intact))

    return Stepper(one, step, LAUNCHES_PER_TURN if implementation == "fused" else 1)


def as_carry(lattice: Lattice, state: State) -> Carry:
    """A state by components."""
    position, velocity = (split(part, lattice.node_axes) for part in (state.position, state.velocity))
    return Carry(Moving(position, velocity), state.time, state.intact)


def as_state(lattice: Lattice, carry: Carry) -> State:
    """A state as users know it."""
    axes = lattice.node_axes
    return State(join(carry.moving.position, axes), join(carry.moving.velocity, axes), carry.time, carry.intact)


def _beyond_kernel(lattice: Lattice, integrator: str) -> str | None:
    """Why the kernel cannot move a lattice, if so."""
    if not isinstance(lattice.springs, GridSprings):
        return "it moves regular grids, and these springs are a graph"
    if integrator not in FELT_AHEAD:
        return f"it knows the integrators {', '.join(FELT_AHEAD)}, and {integrator} was asked for"
    return None


def _plainly(springs: Springs, acting: Acting, step: Array | float, integrator: str) -> Callable[[Carry], Moving]:
    def moved(now: Carry) -> Moving:
        def forces(moving: Moving, time: Array) -> Vector:
            return forces_on_nodes(springs, moving.position, moving.velocity, time, now.intact)

        return move(acting, forces, now.moving, now.time, step, integrator)

    return moved


def _on_chip(
    springs: Springs, acting: Acting, step: Array | float, integrator: str, *, interpret: bool
) -> Callable[[Carry], Moving]:
    from vsr.lattice.kernel import SpringNumbers, gather_known, move_on_chip

    # Lanes cannot look up the height of the ground; where there is some, obstacles are met after the kernel.
    grounded = acting.surroundings.terrain is not None
    in_kernel = (
        acting._replace(surroundings=replace(acting.surroundings, bodies=(), terrain=None)) if grounded else acting
    )

    def known_at(time: Array, intact: PerSpring | None) -> Any:
        return gather_known(SpringNumbers(*springs_at(springs, time, intact)), in_kernel, step)

    # What never changes is gathered once, before any loop.
    steady = springs.wave is None and springs.yield_force is None
    always = known_at(jnp.zeros((), acting.inverse_mass.dtype), None) if steady else None

    def moved(now: Carry) -> Moving:
        known = always or known_at(now.time + FELT_AHEAD[integrator] * step, now.intact)
        moving = move_on_chip(known, now.moving, integrator=integrator, interpret=interpret)
        return meet_obstacles(acting, moving, now.moving, step, integrator) if grounded else moving

    return moved
