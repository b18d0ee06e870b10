"""One step of grains: all contacts answer together, again and again, and what they answered is kept for the next step.

The velocity at the end of a step is the one that the impulses of the step give, and grains move with it
(semi-implicit). Contacts answer in plain JAX (vsr.physics.granular.solver) or in a GPU kernel
(vsr.physics.granular.kernel).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp

from vsr.compute.implementation import chosen
from vsr.compute.vector import split
from vsr.environment import Environment
from vsr.physics.contract import ContactBody, Engine
from vsr.physics.granular.bodies import Reaction, moved
from vsr.physics.granular.cells import allowed, has_moved, listed, where_needed
from vsr.physics.granular.encounter import Encounter, encounter
from vsr.physics.granular.model import GrainModel, GrainState
from vsr.physics.granular.robots import list_contacts, robot_has_moved
from vsr.physics.granular.solver import Solved, solve


def step(
    grains: GrainModel, environment: Environment, state: GrainState, robots: tuple[ContactBody, ...], duration: float
) -> tuple[GrainState, tuple[ContactBody, ...], tuple[Reaction, ...]]:
    """Grains and robots a step [s] later, and what grains did to each body; robots have moved on their own before."""
    state = _listed(grains, state, robots, duration)
    contact = encounter(grains, environment, state, robots, duration)
    implementation = chosen(grains.implementation, state.position.dtype)
    solved = solve(contact) if implementation == "xla" else _solved_by_kernel(contact, implementation == "interpreted")
    bodies = split(solved.body_impulse, 1)
    free = tuple(
        moved(pose, duration)
        for body, pose in zip(contact.solids, contact.poses_after(bodies), strict=True)
        if body.is_free
    )
    return _after(contact, solved, free), solved.pushed, contact.reactions(bodies)


def _solved_by_kernel(contact: Encounter, interpret: bool) -> Solved:
    from vsr.physics.granular import kernel  # commands that use no GPU do without it

    return kernel.solve(contact, interpret=interpret)


def _after(contact: Encounter, solved: Solved, free: tuple[Any, ...]) -> GrainState:
    """The state at the end of a step; free: the bodies that move freely."""
    state = contact.state
    return replace(
        state,
        position=solved.position,
        velocity=solved.velocity,
        spin=solved.spin,
        received=solved.received,
        received_turning=solved.received_turning,
        impulse=solved.impulse,
        rolling=solved.rolling,
        body_impulse=solved.body_impulse,
        bodies=free,
        robots=tuple(
            replace(contacts, impulse=part) for contacts, part in zip(state.robots, solved.robots, strict=True)
        ),
        time=state.time + contact.duration,
        lasted=jnp.full_like(state.lasted, contact.duration),
    )


def _listed(grains: GrainModel, state: GrainState, robots: tuple[ContactBody, ...], duration: float) -> GrainState:
    """With lists that hold for this step."""
    share = allowed(state, duration)
    grains_moved = has_moved(grains, state, share)
    # Without what the list does not change, for what goes in and out of there is copied.
    others = {name: getattr(state, name) for name in ("bodies", "robots", "time", "lasted")}
    bare = replace(state, bodies=(), robots=(), time=None, lasted=None)
    state = replace(where_needed(listed, grains_moved, grains, bare), **others)
    found, overflow = [], state.overflow
    for robot, contacts in zip(robots, state.robots, strict=True):

        def again(constants: Any, changing: Any, engine: Engine = robot.engine) -> Any:
            grains, state, model, robot_state = constants
            robot = ContactBody(engine, model, robot_state)
            contacts, overflow = changing
            contacts, missed = list_contacts(grains, state, robot, contacts)
            return contacts, jnp.maximum(overflow, missed.astype(overflow.dtype))

        needed = grains_moved | robot_has_moved(grains, robot, contacts, share)
        # Grains as they are, without their own contacts with robots: those are what changes here.
        constants = grains, replace(state, robots=(), bodies=(), time=None, lasted=None), robot.model, robot.state
        contacts, overflow = where_needed(again, needed, constants, (contacts, overflow))
        found.append(contacts)
    return replace(state, robots=tuple(found), overflow=overflow)
