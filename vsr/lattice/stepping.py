"""From one step to many: how a lattice is moved here, plainly or by the GPU kernel, and the loop around it.

There are two implementations of one contract, as for robots: `xla` is plain JAX, runs everywhere and is the reference;
`fused` is one GPU kernel a step, for regular grids. `interpreted` is that kernel without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.implementation import Implementation, chosen
from vsr.compute.vector import Vector, join, split
from vsr.compute.xla import repeat
from vsr.environment.model import Environment
from vsr.lattice.integrators import FORCE_EVALUATION_OFFSET, NodeState, check_integrator
from vsr.lattice.model import GridSprings, Lattice, Springs, State
from vsr.lattice.springs import PerSpring, break_overloaded, forces_on_nodes, springs_at
from vsr.lattice.step import StepInputs, move, step_inputs


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
    # Only here, because importing Pallas takes time.
    from vsr.lattice.kernel import GridNeighborhood, SpringNumbers
    from vsr.lattice.launch import KernelInputs, Launcher

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
