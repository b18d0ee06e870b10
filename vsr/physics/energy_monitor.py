"""Spurious energy gain: whether all of a robot's energy comes from somewhere, watched from call to call.

A robot's energy grows by the work of its actuators and by what other moving bodies give it, and by nothing else.
Between two calls rest lengths, forces and drives of pumps are held; when they change, energy changes by just the work
done. Dampers, friction and impacts only lower it. Errors may raise it: of impacts, of steps that are too long, and of
springs between squares, whose forces are not quite those of an energy. Where materials damp, such errors are lost
again. Where they hardly do (`Material.hardly_damps`) they add up, and a robot may come to leap higher than it ever
fell: this counts as a failure, before selection makes a gait of it.

Ground, blocks of ground, fixed objects and the robot itself can give it nothing. Of free objects and other robots it
gets at most what they lose in the same contact (`energy_given_in_contact`). Of grains, which hold energy while they are
pressed, it may get anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.environment import Environment
from vsr.physics.contact.solids import Solids, SolidState
from vsr.physics.contact.system import Objects
from vsr.physics.contract import Energies, Engine
from vsr.robot.material import LITTLE_DAMPING

MOST_RISE = 0.4
"""Spurious energy since there was the least of it, over the largest energy of motion and springs. While none is
gained it varies by up to 0.25, in crushed bodies of squares; what blows up comes near 1."""
MOST_RAISED = 0.15
"""Energy of motion and weight above those at the start and all that was received, over the same. Of robots that are
right it is at most 0.05."""
SHARE_OF_WORK = 0.05
"""Part of the work that actuators put in which counts like the largest energy: errors go with what goes through."""
LIFT = 0.02
"""Height by which a robot may be lifted by nothing, as it is when it is pushed out of the ground [sides of a voxel]."""
STILL = 0.02
"""Speed that rounding may give to a robot at rest [sides of a voxel per s]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EnergyMonitor:
    """What was seen so far, all () and in joules unless said otherwise."""

    total: Array
    """energy at the last call, under the controls before it"""
    start: Energies
    """before the first step"""
    rise: Array
    """spurious energy since there was the least of it"""
    received: Array
    """work of actuators, less what they took, and what others gave, since the start"""
    work: Array
    """of actuators where they put energy in, since the start"""
    recent: Array
    """the same since spurious energy was the least"""
    scale: Array
    """largest energy of motion and springs so far"""
    raised: Array
    """most that motion and weight had above those at the start, what was received, and what springs and fluid have
    given them"""
    gained: Array
    """whether so much is spurious that what the robot does is not its own doing; not an energy"""


def begin_monitor(
    engine: Engine, model: Any, environment: Environment, state: Any, control: Array, substep: float
) -> EnergyMonitor | None:
    """Before the first step; None for robots whose energy is not known, as where springs can break."""
    now = engine.energies(model, environment, state, control, substep)
    if now is None:
        return None
    zero = jnp.zeros_like(now.motion)
    return EnergyMonitor(now.total, now, zero, zero, zero, zero, now.scale, zero, jnp.zeros((), bool))


def follow_monitor(
    monitor: EnergyMonitor,
    engine: Engine,
    model: Any,
    environment: Environment,
    before: Any,
    after: Any,
    control: Array,
    substep: float,
    given: Array | float = 0.0,
) -> EnergyMonitor:
    """One control call later; control: in force meanwhile, c; given: what others gave meanwhile [J], ()."""

    def energies(state: Any) -> Energies:
        found = engine.energies(model, environment, state, control, substep)
        assert found is not None
        return found

    # Mapped, so that the formulas are compiled once.
    both = jax.vmap(energies)(jax.tree.map(lambda *leaves: jnp.stack(leaves), before, after))
    began, now = (jax.tree.map(lambda values, place=place: values[place], both) for place in (0, 1))
    work = began.total - monitor.total  # the change of controls, at an instant
    rise = jnp.maximum(monitor.rise + now.total - began.total - given, 0)
    received = monitor.received + work + given
    start = monitor.start
    released = jnp.maximum(start.inner - now.inner, 0)
    raised = now.motion + now.weight - start.motion - start.weight - received - released
    later = EnergyMonitor(
        total=now.total,
        start=start,
        rise=rise,
        received=received,
        work=monitor.work + jnp.maximum(work, 0),
        recent=jnp.where(rise > 0, monitor.recent + jnp.maximum(work, 0), 0),
        scale=jnp.maximum(monitor.scale, now.scale),
        raised=jnp.maximum(monitor.raised, raised),
        gained=monitor.gained,
    )
    gained = _has_gained(later, negligible(engine, model, environment)) & (engine.least_damping(model) < LITTLE_DAMPING)
    return replace(later, gained=monitor.gained | gained)


def negligible(engine: Engine, model: Any, environment: Environment) -> Array:
    """Energy that is too little to tell [J], ()."""
    side = model.voxel_side
    return engine.total_mass(model) * side * (LIFT * environment.gravity + 0.5 * STILL**2 * side)


def _has_gained(monitor: EnergyMonitor, allowed: Array) -> Array:
    """By all that is known now; allowed: energy that is too little to tell [J]."""
    risen = monitor.rise > MOST_RISE * (monitor.scale + SHARE_OF_WORK * monitor.recent) + allowed
    too_high = monitor.raised > MOST_RAISED * (monitor.scale + SHARE_OF_WORK * monitor.work) + allowed
    return risen | too_high


# What others give


def can_give(system: Any) -> bool:
    """Whether something besides robots can give them energy: not if all of it is fixed."""
    if not isinstance(system, Objects):
        return True
    moving = system.solids is not None and len(system.solids.free) > 0
    return moving or bool(system.voxel_bodies)


def energy_given_in_contact(robots: Array, others: Array | None) -> Array:
    """Energy that each robot got in a contact and that somebody lost, negative if somebody else got it [J], (robots,).

    robots: by how much the energy of each changed in the contact [J], (robots,); others: the same of the system that
    they touched, (); None if it is not known, and all that robots got was given.

    Without a contact nothing changes, so nothing is given, whatever becomes of the others. In a contact the sum of all
    changes is not positive; a positive one is nobody's gift. A negative one may be others' own loss, which is no excuse
    for more than what this contact did to the robot.
    """
    if others is None:
        return jnp.maximum(robots, 0)
    sum_of_all = others + robots.sum()
    return robots - jnp.where(robots != 0, jnp.maximum(sum_of_all, -jnp.abs(robots)), 0)


def change_of_others(system: Any, environment: Environment, before: Any, after: Any, step: float) -> Array | None:
    """By how much the energy of all that moves in a system changed in a step [s] of it [J], (); None if not known.

    Velocities are those of the middle of a step, as robots have theirs.
    """
    if not isinstance(system, Objects):
        return None
    change = jnp.zeros((), before.given.dtype)
    if system.solids is not None and before.solids is not None:
        now, was = (_of_solids(system.solids, environment, state.solids) for state in (after, before))
        change = change + now - was
    for place, one in enumerate(system.voxel_bodies):
        control = one.control(before.time)
        found = [
            one.engine.energies(one.model, environment, state.voxel_bodies[place], control, step / system.stride)
            for state in (after, before)
        ]
        if found[0] is None or found[1] is None:
            return None
        change = change + found[0].total - found[1].total
    return change


def _of_solids(solids: Solids, environment: Environment, state: SolidState) -> Array:
    """Of rigid bodies that move [J], (): they fly on exact parabolas."""
    free = solids.free
    mass, velocity = solids.mass[free], state.velocity[free]
    own = state.spin[free]
    if own.shape[1] == 3:
        own = (state.rotation[free] * own[:, :, None]).sum(1)
    moving = 0.5 * (mass * (velocity**2).sum(-1)).sum() + 0.5 * (solids.inertia[free] * own**2).sum()
    return moving + environment.gravity * (mass * state.position[free, -1]).sum()
