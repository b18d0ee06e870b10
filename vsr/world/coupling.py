"""Robots and other things that move, with equal and opposite impulses between them.

In every substep robots move on their own first: by their engine, with springs, gravity and ground. Then each of the
others takes its step and meets the robots as they are after the substep; what it does to a robot is done to it with the
opposite sign. So momentum is kept to rounding, whoever meets whom. An occupant may take longer steps than robots:
`stride` substeps of theirs at once.

An occupant may keep neighbour lists (`listed`), which are rebuilt every few steps. If all occupants read and push
robots at their vertices alone (`meets_vertices`), robots stay from one meeting to the next as their kernels have them.
Robots touch each other and themselves where the occupant `objects` (vsr.physics.objects.Objects) lets them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.implementation import Implementation, chosen
from vsr.compute.unrolled import repeat
from vsr.environment import Environment
from vsr.physics.contract import Met
from vsr.physics.energy_monitor import can_give, change_of_others, given_in_meeting
from vsr.physics.engine import engine_of
from vsr.physics.telemetry import Telemetry

States = tuple[Any, ...]
Others = dict[str, Any]
Carry = tuple[States, Others, Any, Array | None]
"""Robots, others, what is seen of robots, and what others gave them."""
TOGETHER = 4
"""Meetings in one turn of a loop where they are launches; twice as many are no loop at all."""
STEPS_PER_LIST = 8
"""Steps of occupants, at most, for which a list of what is near is kept."""


class Occupant(Protocol):
    """Something besides robots that moves in a world: its constants, as a pytree, and its law. Pure."""

    stride: int
    """substeps of robots in one of its steps"""
    cover: float
    """how high it lies over the ground, where robots are put down [m]"""

    def rest_state(self, robots: tuple[Met, ...]) -> Any:
        """As it is at the start, with these robots in its world."""
        ...

    def step(
        self, environment: Environment, state: Any, robots: tuple[Met, ...], duration: float
    ) -> tuple[Any, tuple[Met, ...]]:
        """The state a step [s] later, and the robots after meeting it."""
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
    occupants: dict[str, Any],
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

    controls: one array a robot, *cells; implementation: of the robots' substeps between two meetings, and of occupants
    that have a choice; with `auto` they keep their own; given: energy that others gave each robot before [J],
    (robots,); None if it is not to be counted (vsr.physics.energy_monitor).
    """
    own = own_ground(environment)
    if implementation != "auto":
        occupants = {
            name: replace(occupant, implementation=implementation) if hasattr(occupant, "implementation") else occupant
            for name, occupant in occupants.items()
        }
    stride = stride_of(occupants, count)
    at_vertices = all(getattr(occupant, "meets_vertices", False) for occupant in occupants.values())
    if at_vertices:
        states = tuple(
            robot.engine.kernel.packed(robot.model, robot.state, implementation) for robot in met(models, states)
        )

    def move(robot: Met, control: Array) -> tuple[Met, Telemetry]:
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

    def changes(before: tuple[Met, ...], after: tuple[Met, ...]) -> Array:
        """Of robots' energies in a meeting [J], (robots,)."""
        found = []
        for was, now, control in zip(before, after, controls, strict=True):

            def energy(state: Any, robot: Met = was, control: Array = control) -> Array:
                energies = robot.engine.energies(robot.model, environment, state, control, substep)
                assert energies is not None  # else there is no monitor
                return energies.total

            # Mapped, so that the formulas are compiled once.
            both = jax.tree.map(
                lambda *leaves: jnp.stack(leaves), *(one.engine.kernel.unpacked(one.state) for one in (was, now))
            )
            found.append(jnp.diff(jax.vmap(energy)(both))[0])
        return jnp.stack(found)

    def step(_: Any, carry: Carry) -> Carry:
        states, others, _, given = carry
        moved, seen = zip(*map(move, met(models, states), controls), strict=True)
        for name, occupant in occupants.items():
            other, pushed = occupant.step(environment, others[name], moved, stride * substep)
            if given is not None and can_give(occupant):
                change = change_of_others(occupant, environment, others[name], other, stride * substep)
                given = given + given_in_meeting(changes(moved, pushed), change)
            others, moved = {**others, name: other}, pushed
        return tuple(robot.state for robot in moved), others, seen, given

    steps = count // stride
    between = largest_divisor(steps, STEPS_PER_LIST)
    launches = chosen(implementation, models[0].mass.dtype) == "fused"
    # In 3-D, and with sand, a meeting is a large program: several would take minutes to compile.
    together = TOGETHER if launches and at_vertices and models[0].present.ndim == 2 else 1

    def several(_: Any, carry: Carry) -> Carry:
        states, others, seen, given = carry
        robots = met(models, states)
        listed = {
            name: occupant.listed(environment, others[name], robots) if hasattr(occupant, "listed") else others[name]
            for name, occupant in occupants.items()
        }
        return _repeated(step, between, (states, listed, seen, given), together)

    seen = jax.eval_shape(lambda: tuple(seen for _, seen in map(move, met(models, states), controls)))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), seen)
    if any(hasattr(occupant, "listed") for occupant in occupants.values()):
        states, others, seen, given = jax.lax.fori_loop(0, steps // between, several, (states, others, nothing, given))
    else:
        states, others, seen, given = _repeated(step, steps, (states, others, nothing, given), together)
    return tuple(robot.engine.kernel.unpacked(robot.state) for robot in met(models, states)), others, seen, given


def _repeated(step: Callable[[Any, Any], Any], count: int, start: Any, together: int) -> Any:
    return jax.lax.fori_loop(0, count, step, start) if together == 1 else repeat(step, 0, count, start, together)


def own_ground(environment: Environment) -> Environment:
    """What robots feel by themselves; blocks of ground are felt by contact, but for the floor under them."""
    terrain = environment.terrain
    return environment if terrain is None else replace(environment, terrain=terrain.floor)


def met(models: tuple[Any, ...], states: States) -> tuple[Met, ...]:
    """Robots as occupants meet them."""
    return tuple(Met(engine_of(model), model, state) for model, state in zip(models, states, strict=True))


def stride_of(occupants: dict[str, Any], count: int) -> int:
    """Substeps of robots between two meetings: as many as all occupants allow and `count` can be divided by."""
    return largest_divisor(count, min((occupant.stride for occupant in occupants.values()), default=1))


def largest_divisor(count: int, most: int) -> int:
    """Of a number, not above another."""
    return max(part for part in range(1, most + 1) if count % part == 0)
