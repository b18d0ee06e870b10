"""Whether a robot's energy comes from somewhere: its ledger, kept from control call to control call.

Between two calls nothing feeds energy into a robot: rest lengths, forces and drives of pumps are held. So what its
energy grows by until the next call comes from nowhere. Dampers, friction and impacts only lower it; errors of steps may
raise it, those of impacts, and of springs between squares, whose forces are not quite those of an energy. Where
materials damp, such errors are lost again. Where they hardly do (`Material.hardly_damps`) they add up, and a robot may
come to leap higher than it ever fell: this counts as a failure, before selection makes a gait of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.environment import Environment
from vsr.physics.contract import Energies, Engine

FROM_NOWHERE = 0.5
"""Energy that may seem to come from nowhere, over the largest energy and all work of actuation. Semi-implicit Euler's
energy swings by up to the angular frequency times half the substep (0.4 at the bound of automatic substeps) while none
is gained; what blows up passes this by orders of magnitude."""
RAISED = 0.25
"""Energy of motion and weight that a robot without any control may gain over those at the start, over the same."""
LIFT = 0.02
"""Height by which a robot may be lifted by nothing, as it is when it is pushed out of the ground [sides of a voxel]."""
STILL = 0.02
"""Speed that rounding may give to a robot at rest [sides of a voxel per s]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Ledger:
    """What was seen so far, all () and in joules unless said otherwise."""

    now: Energies
    """at the last call, under the controls before it"""
    start: Energies
    """before the first step"""
    balance: Array
    """what came from nowhere, without what was lost"""
    lowest: Array
    """value of the balance so far"""
    growth: Array
    """most that the balance rose above its lowest value before"""
    largest: Array
    """energy of motion, or change of the other between two calls"""
    work: Array
    """sizes of what actuation did, added up"""
    raised: Array
    """largest energy of motion and weight, over those at the start"""
    driven: Array
    """largest size of a control value so far, without unit"""
    gained: Array
    """whether so much came from nowhere that what the robot does is not its own doing; not an energy"""


def begin_ledger(
    engine: Engine, model: Any, environment: Environment, state: Any, control: Array, substep: float
) -> Ledger | None:
    """Before the first step; None where not all that may move a robot is known: with obstacles, in a current, or for
    masses whose energy is not."""
    now = engine.energies(model, environment, state, control, substep)
    if now is None or environment.bodies or environment.drag is not None:
        return None
    zero = jnp.zeros_like(now.motion)
    return Ledger(now, now, zero, zero, zero, now.motion, zero, zero, jnp.abs(control).max(), jnp.zeros((), bool))


def follow_ledger(
    ledger: Ledger,
    engine: Engine,
    model: Any,
    environment: Environment,
    before: Any,
    after: Any,
    control: Array,
    substep: float,
) -> Ledger:
    """One control call later; control: in force meanwhile, c."""

    def energies(state: Any) -> Energies:
        found = engine.energies(model, environment, state, control, substep)
        assert found is not None
        return found

    # Mapped, so that the formulas are compiled once.
    both = jax.vmap(energies)(jax.tree.map(lambda *leaves: jnp.stack(leaves), before, after))
    began, now = (jax.tree.map(lambda values, place=place: values[place], both) for place in (0, 1))
    balance = ledger.balance + now.total - began.total
    moved = jnp.abs(now.weight + now.inner - began.weight - began.inner)
    later = Ledger(
        now=now,
        start=ledger.start,
        balance=balance,
        lowest=jnp.minimum(ledger.lowest, balance),
        growth=jnp.maximum(ledger.growth, balance - ledger.lowest),
        largest=jnp.maximum(ledger.largest, jnp.maximum(now.motion, moved)),
        work=ledger.work + jnp.abs(began.inner - ledger.now.inner),
        raised=jnp.maximum(ledger.raised, now.motion + now.weight - ledger.start.motion - ledger.start.weight),
        driven=jnp.maximum(ledger.driven, jnp.abs(control).max()),
        gained=ledger.gained,
    )
    return replace(later, gained=ledger.gained | _has_gained(later, negligible(engine, model, environment)))


def negligible(engine: Engine, model: Any, environment: Environment) -> Array:
    """Energy that is too little to tell [J], ()."""
    side = model.voxel_side
    return engine.total_mass(model) * side * (LIFT * environment.gravity + 0.5 * STILL**2 * side)


def _has_gained(ledger: Ledger, allowed: Array) -> Array:
    """By all that is known now; allowed: energy that is too little to tell [J]."""
    energy = ledger.largest + ledger.work
    grown = ledger.growth > FROM_NOWHERE * energy + allowed
    # What is pressed at the start, as fluid may be, can lift a robot that nothing drives.
    alone = (ledger.driven == 0) & (jnp.abs(ledger.start.inner) <= allowed)
    return grown | (alone & (ledger.raised > RAISED * energy + allowed))
