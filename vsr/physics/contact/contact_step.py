"""All contacts of one step: found, solved, and given to rigid bodies and to the vertices of voxels.

Every array may have further axes at the end (vsr.compute.xla): robots lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.xla import batch_last, materialize
from vsr.environment import Environment
from vsr.physics.contact.bodies import Nodes, Speeds
from vsr.physics.contact.broadphase import CandidatePairs
from vsr.physics.contact.convex import Placed, place
from vsr.physics.contact.lattices import Lattice, nodes_of, pushed_by
from vsr.physics.contact.narrowphase import (
    bodies_in_blocks,
    bodies_in_voxels,
    bodies_on_ground,
    corners_of_ground_in_bodies,
    corners_of_ground_in_voxels,
    has_body_contacts,
    moving_pairs,
    together,
    vertices_in_blocks,
    vertices_in_bodies,
    vertices_in_voxels,
)
from vsr.physics.contact.solids import Masses, Solids, SolidState, bodies_of, flown, pushed
from vsr.physics.contact.solver import Contact, Counts, Impulse, no_impulse, solve
from vsr.physics.contact.vectors import look_up, one_hot, summed, widened
from vsr.physics.contact.voxels import faces, ground_corners
from vsr.physics.contract import ContactBody

ITERATIONS = 3
"""Of all contacts with rigid bodies and blocks in a step."""
PASSES = {"corners": 1, "vertices": 1, "blocks": 1}
"""In each iteration: of rigid bodies in voxels, of vertices in rigid bodies, of vertices in blocks of
ground."""
PASSES_OF_BODIES = {2: 3, 3: 6}
"""In each iteration, of rigid bodies with each other and the ground, by dimension: four places of a face share an
impulse in 3-D, which takes longer than for two."""
SHIFTS = 4
"""Likewise, of what they shift."""
COUNTS_OF_VOXELS = Counts(iterations=2, shifts=16, passes=(1,))
"""Of contacts of voxels with voxels, and with corners of the ground."""

Impulses = dict[str, Impulse]
Moves = tuple[Speeds, Speeds]
"""How everything moves, and by how much it has moved in the step."""


class Lists(NamedTuple):
    """What may touch voxels; None for what does not."""

    vertices: CandidatePairs | None
    """of robots"""
    corners: CandidatePairs | None
    """of the ground"""


Resolved = tuple[SolidState | None, Impulses, Lists, Array, Array, tuple[ContactBody, ...]]
"""Rigid bodies after a step, the impulses of contacts that are kept, lists, impulses that vertices got [N s], where
vertices are then [m], (dimension, p) both, and the robots."""
Resolve = Callable[..., Resolved]
"""From (solids, environment, state, impulses, lists, lattice, robots, vertices after the last step)."""


@lru_cache(maxsize=64)
def resolving(duration: float) -> Resolve:
    """In plain JAX, for steps of one duration [s]."""
    batched = batch_last(partial(resolve, duration=duration))

    def resolved(*arguments: Any) -> Resolved:
        *others, lists, lattice, robots, vertices = arguments
        state, kept, given, shift, vertices = batched(*others, lists, lattice, *nodes_of(robots), vertices)
        return state, kept, lists, given, vertices, pushed_by(robots, given, shift)

    return resolved


def resolve(
    solids: Solids | None,
    environment: Environment,
    state: SolidState | None,
    impulses: Impulses,
    lists: Lists,
    lattice: Lattice,
    nodes: Nodes,
    velocity: Array,
    vertices: Array,
    *,
    duration: float,
) -> tuple[SolidState | None, Impulses, Array, Array, Array]:
    """Rigid bodies after a step [s], the impulses of contacts that are kept, and those that vertices got [N s].

    Then the shifts of vertices [kg m] (vsr.physics.contract.Engine.push_vertices), and where they are after them [m].
    velocity: of the vertices [m/s], vertices: where they were after the last step [m], (dimension, p) each.
    """
    moving = nodes.position, velocity, vertices, state, impulses
    position, velocity, vertices, before, impulses = widened(moving, velocity.ndim - 2)
    nodes, velocity = materialize(velocity, (nodes._replace(position=position), velocity))
    state = None if before is None or solids is None else flown(solids, before, environment, duration)
    now, drift = moves_before(velocity, position - vertices, before, state, duration)
    moves, kept = _with_bodies(solids, environment, state, impulses, lattice, nodes, (now, drift), duration)
    (after, drifted), kept = _with_voxels(environment, lists, lattice, nodes, kept, moves, duration)
    shift = jax.tree.map(jnp.subtract, drifted, drift)
    if state is not None and solids is not None:
        state = pushed_by_contacts(solids, state, after, shift)
    return state, kept, after.given, shift.given, position + shift.nodes


def moves_before(
    velocity: Array, way: Array, before: SolidState | None, after: SolidState | None, duration: float
) -> Moves:
    """How everything moves before contacts, and by how much it has in the step [s].

    velocity, way: of the vertices [m/s, m], (dimension, p); before, after: rigid bodies before the step, and after it
    if they touch nothing; None if there are none.
    """
    still = jnp.zeros_like(velocity)
    if before is None or after is None:
        (dimension, _, *further), kind = velocity.shape, velocity.dtype
        none = jnp.zeros((dimension, 0, *further), kind), jnp.zeros((2 * dimension - 3, 0, *further), kind)
        return Speeds(velocity, still, *none), Speeds(way, still, *none)
    gone = 0.5 * duration * (before.velocity + after.velocity), duration * before.spin
    return (
        Speeds(velocity, still, jnp.swapaxes(after.velocity, 0, 1), jnp.swapaxes(after.spin, 0, 1)),
        Speeds(way, still, *(jnp.swapaxes(part, 0, 1) for part in gone)),
    )


def pushed_by_contacts(solids: Masses, state: SolidState, after: Speeds, shift: Speeds) -> SolidState:
    """Rigid bodies as they move after contacts, and shifted by them."""
    parts = after.bodies, after.spin, shift.bodies, shift.spin
    return pushed(solids, state, *(jnp.swapaxes(part, 0, 1) for part in parts))


def _with_bodies(
    solids: Solids | None,
    environment: Environment,
    state: SolidState | None,
    impulses: Impulses,
    lattice: Lattice,
    nodes: Nodes,
    moves: Moves,
    duration: float,
) -> tuple[Moves, Impulses]:
    """After contacts with rigid bodies and with blocks of ground, and the impulses that are kept."""
    lists: dict[str, Contact] = {}
    contacts: dict[str, Contact] = {}
    surface = lattice.at_surface & nodes.exists
    if solids is not None and state is not None:
        placed = materialize(state.position, place(solids.shapes, state.position, state.rotation))
        lists = rigid_contacts(solids, state, environment, nodes, placed)
        bodies, rounds = bodies_of(solids, state), solids.shapes.round
        if lists:
            contacts["bodies"] = together(list(lists.values()))
        contacts["corners"] = bodies_in_voxels(nodes, lattice, bodies, placed, rounds)
        contacts["vertices"] = vertices_in_bodies(nodes, lattice, bodies, placed, rounds)
    terrain = environment.terrain
    if terrain is not None and terrain.blocks is not None:
        contacts["blocks"] = vertices_in_blocks(nodes, surface, terrain.blocks)
    if not contacts:
        return moves, impulses
    now, drift = moves
    contacts = materialize(now.nodes, contacts)
    start = {name: impulses[name] if name in impulses else no_impulse(contact) for name, contact in contacts.items()}
    if lists:
        start["bodies"] = joint_impulse(impulses, tuple(lists))
    often = {**PASSES, "bodies": PASSES_OF_BODIES[now.nodes.shape[0]]}
    counts = Counts(ITERATIONS, SHIFTS, tuple(often[name] for name in contacts))
    begin = [start[name] for name in contacts]
    now, drift, found = solve(now, drift, list(contacts.values()), begin, counts, duration)
    return (now, drift), kept_impulses(impulses, dict(zip(contacts, found, strict=True)), tuple(lists))


def joint_impulse(impulses: Impulses, lists: tuple[str, ...]) -> Impulse:
    """Of the joint list of rigid bodies."""
    kept = [impulses[name] for name in lists]
    press, drag = (jnp.concatenate(parts, axis) for axis, parts in enumerate(zip(*kept, strict=True)))
    return Impulse(press, drag)


def kept_impulses(impulses: Impulses, found: Impulses, lists: tuple[str, ...]) -> Impulses:
    """Those of the next step's start: of tables as they are, of the joint list of rigid bodies part by part."""
    kept = {name: found.get(name, before) for name, before in impulses.items()}
    begin = 0
    for name in lists:
        end = begin + impulses[name].press.shape[0]
        joint = found["bodies"]
        kept[name] = Impulse(joint.press[begin:end], joint.drag[:, begin:end])
        begin = end
    return kept


def rigid_contacts(
    solids: Solids, state: SolidState, environment: Environment, nodes: Nodes, placed: Placed
) -> dict[str, Contact]:
    """Contacts of rigid bodies with each other and with the ground, by list."""
    bodies, rounds, free, terrain = bodies_of(solids, state), solids.shapes.round, solids.free, environment.terrain
    found = has_body_contacts(nodes, bodies, placed, rounds, solids.fixed)
    if len(free) and terrain is not None:
        found["ground"] = bodies_on_ground(nodes, bodies, placed, terrain, free, rounds)
        if terrain.blocks is not None:
            found |= bodies_in_blocks(nodes, bodies, placed, terrain.blocks, free, rounds)
        corners = ground_corners(terrain, solids.shapes.dimension)
        if corners is not None:
            found["ground corners"] = corners_of_ground_in_bodies(nodes, bodies, placed, corners, terrain, free, rounds)
    return found


def places_in_voxels(solids: Solids) -> int:
    """Corners of rigid bodies that may be in voxels, and faces that round ones may touch."""
    shapes = solids.shapes
    return len(solids.flat) * shapes.corner.shape[1] + sum(shapes.round) * len(faces(shapes.dimension))


def slots(solids: Solids, vertices: int) -> dict[str, tuple[int, ...]]:
    """How many contacts each list and table has whose impulses are kept; vertices: of all robots."""
    shapes, free = solids.shapes, solids.free
    corners, dimension = shapes.corner.shape[1], shapes.dimension
    flat, mixed = moving_pairs(shapes.round, solids.fixed)
    rounds = int(np.array(shapes.round)[free].sum())
    places = 2 if dimension == 2 else 3 * shapes.outline.shape[2] + 1
    return {
        "flat pairs": (places * len(flat),),
        "round pairs": (len(mixed),),
        "ground": (len(free) * corners,),
        "flat in blocks": ((len(free) - rounds) * corners,),
        "round in blocks": (4 * rounds,),
        "ground corners": (2 * len(free),),
        "corners": (places_in_voxels(solids),),
        "vertices": (solids.count, vertices),
    }


def _with_voxels(
    environment: Environment,
    lists: Lists,
    lattice: Lattice,
    nodes: Nodes,
    impulses: Impulses,
    moves: Moves,
    duration: float,
) -> tuple[Moves, Impulses]:
    """After what touches voxels: other voxels, and corners of the ground. If nothing is near, nothing is computed."""
    terrain, pairs = environment.terrain, lists.vertices
    if pairs is not None:

        def among(state: tuple[Moves, Impulse]) -> tuple[Moves, Impulse]:
            moves, kept = state
            contact = materialize(moves[0].nodes, vertices_in_voxels(nodes, lattice, pairs))
            own = one_hot(pairs.point, nodes.count)
            moves, found = _solved_alone(contact, shared_out(kept, own, contact, pairs.point), moves, duration)
            return moves, Impulse(summed(own * found.press[:, None], 0), summed(own[None] * found.drag[:, :, None], 1))

        kept = impulses["voxels"]
        nothing = jax.tree.map(jnp.zeros_like, kept)
        candidates = pairs.counts.any()
        moves, kept = jax.lax.cond(candidates, among, lambda state: (state[0], nothing), (moves, kept))
        impulses = {**impulses, "voxels": kept}
    corners = ground_corners(terrain, nodes.position.shape[0])
    listed = lists.corners
    if listed is not None and corners is not None and terrain is not None:

        def on_corners(moves: Moves) -> Moves:
            contact = corners_of_ground_in_voxels(nodes, lattice, corners[0], terrain, listed)
            contact = materialize(moves[0].nodes, contact)
            return _solved_alone(contact, no_impulse(contact), moves, duration)[0]

        moves = jax.lax.cond(listed.counts.any(), on_corners, lambda moves: moves, moves)
    return moves, impulses


def shared_out(kept: Impulse, own: Array, contact: Contact, vertex: Array) -> Impulse:
    """Impulses of vertices (p) in the step before, for their pairs (m) that touch now in equal shares.

    own: True for the vertex of each pair, (m, p); vertex: its number, (m,).
    """
    many = jnp.maximum(summed(own * contact.touches[:, None], 0), 1)
    return Impulse(look_up(kept.press / many, vertex), look_up(kept.drag / many, vertex, 1))


def _solved_alone(contact: Contact, start: Impulse, moves: Moves, duration: float) -> tuple[Moves, Impulse]:
    """After one group of contacts."""
    now, drift, (found,) = solve(*moves, [contact], [start], COUNTS_OF_VOXELS, duration)
    return (now, drift), found
