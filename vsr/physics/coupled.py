"""Robots and other things that move, one substep at a time, with equal and opposite impulses between them.

In every substep all move on their own first: robots by their engine, with springs, gravity and ground, the others by
their own law. Then each of the others meets the robots' surface points as they are after the substep; what it does to a
point is done to it with the opposite sign. So momentum is kept to rounding, whoever meets whom.

Robots do not touch each other, and they are touched at their surface points only: things smaller than the distance
between these pass between them.
"""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from vsr.environment import Environment
from vsr.physics.contract import SurfacePoints
from vsr.physics.engine import engine_of
from vsr.physics.telemetry import Telemetry

States = tuple[Any, ...]
Others = dict[str, Any]


class Occupant(Protocol):
    """Something besides robots that moves in a world: its constants, as a pytree, and its law. Pure."""

    def rest_state(self) -> Any:
        """As it is at the start."""
        ...

    def advance(self, environment: Environment, state: Any, substep: float) -> Any:
        """The state a substep [s] later, as if there were no robots."""
        ...

    def meet(self, state: Any, points: SurfacePoints, substep: float) -> tuple[Any, Array]:
        """The state after meeting a robot, and the impulses on the robot's points [N s], like their positions."""
        ...

    def failure(self, state: Any) -> Array:
        """What befell it, 0 if nothing did (vsr.physics.failure), ()."""
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
) -> tuple[States, Others, tuple[Telemetry, ...]]:
    """Everything `count` substeps [s] later, and what is seen of the robots then; controls: one array a robot, *cells.

    In plain JAX: kernels keep a robot on chip through all substeps and so cannot ask others in between.
    """

    def move(model: Any, state: Any, control: Array) -> tuple[Any, Telemetry]:
        engine = engine_of(model)
        return engine.advance(model, environment, state, control[None], substep=substep, count=1, implementation="xla")

    def step(_: Any, carry: tuple[States, Others, Any]) -> tuple[States, Others, Any]:
        states, others, _ = carry
        moved, seen = zip(*map(move, models, states, controls), strict=True)
        others = {name: occupant.advance(environment, others[name], substep) for name, occupant in occupants.items()}
        moved, others = _meet(models, moved, occupants, others, substep)
        return moved, others, seen

    seen = jax.eval_shape(lambda: tuple(seen for _, seen in map(move, models, states, controls)))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), seen)
    states, others, seen = jax.lax.fori_loop(0, count, step, (states, others, nothing))
    return states, others, seen


def _meet(
    models: tuple[Any, ...], states: States, occupants: dict[str, Any], others: Others, substep: float
) -> tuple[States, Others]:
    """All encounters, one after the other."""
    met = []
    for model, state in zip(models, states, strict=True):
        engine = engine_of(model)
        for name, occupant in occupants.items():
            other, impulses = occupant.meet(others[name], engine.surface_points(model, state), substep)
            state, others = engine.push(model, state, impulses), {**others, name: other}
        met.append(state)
    return tuple(met), others
