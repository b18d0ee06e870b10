"""Robots and other objects that move, with equal and opposite impulses between them.

In every substep robots move on their own first: by their engine, with springs, gravity and ground. Then each of the
others takes its step, in contact with the robots as they are after the substep; what it does to a robot is done to it
with the opposite sign. So momentum is kept to rounding. A system may take longer steps than robots:
`stride` substeps of theirs at once.

A system may keep neighbor lists (`listed`), which are rebuilt every few steps. If all systems read and push
robots at their vertices alone (`contact_at_vertices`), robots stay from one contact step to the next as their kernels
have them.
Robots touch each other and themselves where the system `objects` (vsr.physics.contact.system.Objects) lets them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.implementation import Implementation, chosen
from vsr.compute.loops import ready
from vsr.compute.xla import repeat
from vsr.environment import Environment
from vsr.physics.contract import ContactBody
from vsr.physics.energy_monitor import can_give, change_of_others, energy_given_in_contact
from vsr.physics.engine import engine_of
from vsr.physics.telemetry import Telemetry

States = tuple[Any, ...]
Others = dict[str, Any]
Carry = tuple[States, Others, Any, Array | None]
"""Robots, others, what is seen of robots, and what others gave them."""
TOGETHER = 4
"""Contact steps in one turn of a loop where they are launches; twice as many are no loop at all."""
STEPS_PER_LIST = 8
"""Steps of systems, at most, for which a list of what is near is kept."""


class System(Protocol):
    """Something besides robots that moves in a world: its constants, as a pytree, and its law. Pure."""

    stride: int
    """substeps of robots in one of its steps"""
    cover: float
    """how high it lies over the ground, where robots are put down [m]"""

    def rest_state(self, robots: tuple[ContactBody, ...]) -> Any:
        """As it is at the start, with these robots in its world."""
        ...

    def step(
        self, environment: Environment, state: Any, robots: tuple[ContactBody, ...], duration: float
    ) -> tuple[Any, tuple[ContactBody, ...]]:
        """The state a step [s] later, and the robots after contact with it."""
        ...

    def failure(self, state: Any) -> Array:
        """What befell it, 0 if nothing did (vsr.physics.failure), ()."""
        ...

    def seen(self, state: Any) -> Any:
        """What a recording keeps of it."""
        ...


def advance_coupled(
    models: tuple[Any, ...],
    environment: Environment,
    systems: dict[str, Any],
    states: States,
    others: Others,
    controls: tuple[Array, ...],
    *,
    substep: float,
    count: int,
    implementation: Implementation = "auto",
    given: Array | None = None,
) -> tuple[States, Others, tuple[Telemetry, ...], Array | None]:
    """Everything `count` substeps [s] later, what is seen of the robots then, and what others gave them meanwhile.

    controls: one array a robot, *cells; implementation: of the robots' substeps between two contact steps, and of
    systems that have a choice; with `auto` they keep their own; given: energy that others gave each robot before [J],
    (robots,); None if it is not to be counted (vsr.physics.energy_monitor).
    """
    own = own_ground(environment)
    if implementation != "auto":
        systems = {
            name: replace(system, implementation=implementation) if hasattr(system, "implementation") else system
            for name, system in systems.items()
        }
    stride = stride_of(systems, count)
    at_vertices = all(getattr(system, "contact_at_vertices", False) for system in systems.values())
    if at_vertices:
        states = tuple(
            robot.engine.kernel.packed(robot.model, robot.state, implementation)
            for robot in contact_bodies(models, states)
        )

    def move(robot: ContactBody, control: Array) -> tuple[ContactBody, Telemetry]:
        state, seen = robot.engine.advance(
            robot.model,
            own,
            robot.state,
            control[None],
            substep=substep,
            count=stride,
            implementation=implementation,
        )
        return robot._replace(state=state), seen

    def changes(before: tuple[ContactBody, ...], after: tuple[ContactBody, ...]) -> Array:
        """Of robots' energies in a contact step [J], (robots,)."""
        found = []
        for was, now, control in zip(before, after, controls, strict=True):

            def energy(state: Any, robot: ContactBody = was, control: Array = control) -> Array:
                energies = robot.engine.energies(robot.model, environment, state, control, substep)
                assert energies is not None  # else there is no monitor
                return energies.total

            # Mapped, so that the formulas are compiled once.
            both = jax.tree.map(
                lambda *leaves: jnp.stack(leaves), *(one.engine.kernel.unpacked(one.state) for one in (was, now))
            )
            found.append(jnp.diff(jax.vmap(energy)(both))[0])
        return jnp.stack(found)

    def step(carry: Carry) -> Carry:
        states, others, _, given = carry
        moved, seen = zip(*map(move, contact_bodies(models, states), controls), strict=True)
        for name, system in systems.items():
            other, pushed = system.step(environment, others[name], moved, stride * substep)
            if given is not None and can_give(system):
                change = change_of_others(system, environment, others[name], other, stride * substep)
                given = given + energy_given_in_contact(changes(moved, pushed), change)
            others, moved = {**others, name: other}, pushed
        return tuple(robot.state for robot in moved), others, seen, given

    steps = count // stride
    between = largest_divisor(steps, STEPS_PER_LIST)
    # Where a contact step is no launch it is a large program: several would take minutes to compile.
    launches = chosen(implementation, models[0].mass.dtype) == "fused" and all(
        hasattr(system, "launches") and system.launches(environment, others[name]) for name, system in systems.items()
    )
    together = TOGETHER if launches else 1

    def several(carry: Carry) -> Carry:
        states, others, seen, given = carry
        robots = contact_bodies(models, states)
        listed = {
            name: system.listed(environment, others[name], robots) if hasattr(system, "listed") else others[name]
            for name, system in systems.items()
        }
        return _repeated(step, between, (states, listed, seen, given), together)

    seen = jax.eval_shape(lambda: tuple(seen for _, seen in map(move, contact_bodies(models, states), controls)))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), seen)
    if any(hasattr(system, "listed") for system in systems.values()):
        states, others, seen, given = _repeated(several, steps // between, (states, others, nothing, given), 1)
    else:
        states, others, seen, given = _repeated(step, steps, (states, others, nothing, given), together)
    return (
        tuple(robot.engine.kernel.unpacked(robot.state) for robot in contact_bodies(models, states)),
        others,
        seen,
        given,
    )


def _repeated(step: Callable[[Any], Any], count: int, start: Any, together: int) -> Any:
    turn, start = ready(step, start)
    one = lambda _, now: turn(now)  # noqa: E731
    return jax.lax.fori_loop(0, count, one, start) if together == 1 else repeat(one, 0, count, start, together)


def own_ground(environment: Environment) -> Environment:
    """What robots feel by themselves; blocks of ground are felt by contact, but for the floor under them."""
    terrain = environment.terrain
    return environment if terrain is None else replace(environment, terrain=terrain.floor)


def contact_bodies(models: tuple[Any, ...], states: States) -> tuple[ContactBody, ...]:
    """Robots as contact bodies."""
    return tuple(ContactBody(engine_of(model), model, state) for model, state in zip(models, states, strict=True))


def stride_of(systems: dict[str, Any], count: int) -> int:
    """Substeps of robots between two contact steps: as many as all systems allow and `count` can be divided by."""
    return largest_divisor(count, min((system.stride for system in systems.values()), default=1))


def largest_divisor(count: int, most: int) -> int:
    """Of a number, not above another."""
    return max(part for part in range(1, most + 1) if count % part == 0)
