"""From one step to many: how a lattice is moved here, plainly or by the GPU kernel, and the loop around it.

There are two implementations of one contract, as for robots (vsr.physics.advance): `xla` is plain JAX, runs everywhere
and is the reference; `fused` is one GPU kernel a step, for regular grids. `interpreted` is that kernel without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.lattice.integrators import FELT_AHEAD, Moving, check_integrator
from vsr.lattice.loops import repeat
from vsr.lattice.model import GridSprings, Lattice, Springs, State, Surroundings
from vsr.lattice.springs import PerSpring, break_overloaded, forces_on_nodes, springs_at
from vsr.lattice.step import Acting, acting_on, move
from vsr.lattice.vector import Vector, join, split
from vsr.physics.advance.choice import Implementation, chosen


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
    on_chip: bool
    """whether each is one launch of a kernel"""

    def repeat(self, count: Array | int, start: Carry, done: Array | int = 0, since: Array | None = None) -> Carry:
        """So many steps, of which some are done already.

        since: the time when none was done [s], the start's unless given. Time is told from the number of steps:
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

    return Stepper(one, step, on_chip=implementation == "fused")


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
        return "the kernel moves regular grids, and these springs are a graph"
    if lattice.mass.ndim > lattice.node_axes:
        return "the kernel takes many lattices by vmap, and these have an axis of their own at the end"
    if integrator not in FELT_AHEAD:
        return f"the kernel knows the integrators {', '.join(FELT_AHEAD)}, and {integrator} was asked for"
    return None


def _plainly(springs: Springs, acting: Acting, step: Array | float, integrator: str) -> Callable[[Carry], Moving]:
    def moved(now: Carry) -> Moving:
        def forces(moving: Moving, time: Array) -> Vector:
            return forces_on_nodes(springs, moving.position, moving.velocity, time, now.intact)

        return move(acting, forces, now.moving, now.time, step, integrator)

    return moved


def _on_chip(
    springs: Any, acting: Acting, step: Array | float, integrator: str, *, interpret: bool
) -> Callable[[Carry], Moving]:
    # Only here, because importing Pallas takes time.
    from vsr.lattice.kernel import GridNeighbourhood, SpringNumbers
    from vsr.lattice.launch import Known, Launcher

    launcher = Launcher(
        GridNeighbourhood(acting.inverse_mass.shape),
        acting,
        step,
        integrator,
        by_velocity=springs.damping is not None,
        interpret=interpret,
    )

    def known_at(time: Array, intact: PerSpring | None) -> Known:
        return launcher.known(SpringNumbers(*springs_at(springs, time, intact)))

    # What never changes is gathered once, before any loop.
    steady = springs.wave is None and springs.yield_force is None
    always = known_at(jnp.zeros((), acting.inverse_mass.dtype), None) if steady else None

    def moved(now: Carry) -> Moving:
        return launcher.move(always or known_at(now.time + FELT_AHEAD[integrator] * step, now.intact), now.moving)

    return moved
