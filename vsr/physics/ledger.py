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

from vsr.body.material import LITTLE_DAMPING
from vsr.environment import Environment
from vsr.physics.contract import Energies, Engine

FROM_NOWHERE = 0.5
"""Energy that may seem to come from nowhere, over the largest energy and the work of actuation meanwhile. While none is
gained it swings by up to a third; what blows up passes this by orders of magnitude."""
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
    largest: Array
    """energy of motion, or change of the other between two calls"""
    work: Array
    """sizes of what actuation did since the balance was at its lowest, added up"""
    raised: Array
    """most that motion and weight had over those at the start, without what springs and fluid have given them"""
    driven: Array
    """largest size of a control value so far, without unit"""
    gained: Array
    """whether so much came from nowhere that what the robot does is not its own doing; not an energy"""


def begin_ledger(
    engine: Engine, model: Any, environment: Environment, state: Any, control: Array, substep: float
) -> Ledger | None:
    """Before the first step; None with obstacles, whose contact may hold energy, with drag, which takes it anyway, and
    for masses whose energy is not known."""
    now = engine.energies(model, environment, state, control, substep)
    if now is None or environment.bodies or environment.drag is not None:
        return None
    zero = jnp.zeros_like(now.motion)
    return Ledger(now, now, zero, zero, now.motion, zero, zero, jnp.abs(control).max(), jnp.zeros((), bool))


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
    given = jnp.maximum(ledger.start.inner - now.inner, 0)
    raised = now.motion + now.weight - ledger.start.motion - ledger.start.weight - given
    later = Ledger(
        now=now,
        start=ledger.start,
        balance=balance,
        lowest=jnp.minimum(ledger.lowest, balance),
        largest=jnp.maximum(ledger.largest, jnp.maximum(now.motion, moved)),
        work=jnp.where(balance <= ledger.lowest, 0, ledger.work + jnp.abs(began.inner - ledger.now.inner)),
        raised=jnp.maximum(ledger.raised, raised),
        driven=jnp.maximum(ledger.driven, jnp.abs(control).max()),
        gained=ledger.gained,
    )
    gained = _has_gained(later, negligible(engine, model, environment)) & (engine.least_damping(model) < LITTLE_DAMPING)
    return replace(later, gained=ledger.gained | gained)


def negligible(engine: Engine, model: Any, environment: Environment) -> Array:
    """Energy that is too little to tell [J], ()."""
    side = model.voxel_side
    return engine.total_mass(model) * side * (LIFT * environment.gravity + 0.5 * STILL**2 * side)


def _has_gained(ledger: Ledger, allowed: Array) -> Array:
    """By all that is known now; allowed: energy that is too little to tell [J]."""
    energy = ledger.largest + ledger.work
    grown = ledger.balance - ledger.lowest > FROM_NOWHERE * energy + allowed
    return grown | ((ledger.driven == 0) & (ledger.raised > RAISED * energy + allowed))
