"""All contacts of one step as in vsr.physics.objects.resolving; those with rigid bodies and blocks by the kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.batch_last import batch_last
from vsr.compute.gpu.ptx import WARP
from vsr.environment import Environment
from vsr.physics.collision.blocks import ground_corners
from vsr.physics.collision.convex import place
from vsr.physics.collision.lattices import Lattice, outward_of
from vsr.physics.collision.meetings import moving_pairs, together, vertices_in_blocks
from vsr.physics.collision.sides import Nodes, Rows, Speeds
from vsr.physics.collision.solver import Contact, Impulse
from vsr.physics.objects.fused import tables
from vsr.physics.objects.fused.kernel import launch
from vsr.physics.objects.resolving import (
    ITERATIONS,
    PASSES_OF_BODIES,
    Impulses,
    Lists,
    joint_impulse,
    kept_impulses,
    rigid_contacts,
    with_voxels,
)
from vsr.physics.objects.solids import Solids, SolidState
from vsr.terrain import Blocks, Terrain
from vsr.terrain.surface import by_numbers

MOST_BODIES = 8
MOST_CORNERS = 32
"""Of all rigid bodies together: the kernel's code has each of them once."""
MOST_VERTICES = 512
MOST_NUMBERS = 128
"""Of what a lane keeps: for each of its vertices one of every body and corner."""


def can_launch(solids: Solids | None, environment: Environment, vertices: int, dimension: int) -> bool:
    """Whether the kernel can do what is asked, and there is something to do for it."""
    if dimension != 2 or vertices > MOST_VERTICES:
        return False
    if solids is None:
        return isinstance(environment.terrain, Blocks)
    corners = solids.count * solids.shapes.corner.shape[1]
    few = solids.count <= MOST_BODIES and corners <= MOST_CORNERS
    return few and (solids.count + corners) * math.ceil(vertices / WARP) <= MOST_NUMBERS


@lru_cache(maxsize=64)
def launching(duration: float, interpret: bool) -> Callable[..., tuple[SolidState | None, Impulses, Array]]:
    """`resolve` of vsr.physics.objects.resolving for steps of one duration [s], with the kernel."""

    def resolve(
        solids: Solids | None,
        environment: Environment,
        state: SolidState | None,
        impulses: Impulses,
        lists: Lists,
        lattice: Lattice,
        nodes: Nodes,
        velocity: Array,
    ) -> tuple[SolidState | None, Impulses, Array]:
        names, known, plan = _known(solids, environment, state, impulses, lattice, nodes, velocity, duration, interpret)
        after = launch(known, plan)
        found = {name: Impulse(kept.press, kept.drag) for name, kept in after.kept.items()}
        given = after.given
        if lists.vertices is not None or lists.corners is not None:
            given = _among_voxels(environment, lists, lattice, nodes, after.velocity, given)
        moved = None if after.bodies is None else SolidState(*after.bodies)
        return moved, kept_impulses(impulses, found, names), given

    return resolve


@batch_last
def _among_voxels(
    environment: Environment, lists: Lists, lattice: Lattice, nodes: Nodes, velocity: Array, given: Array
) -> Array:
    """Impulses on vertices after contacts of voxels with each other and with corners of the ground."""
    now = Speeds(velocity, given, velocity[:, :0], velocity[:1, :0])
    return with_voxels(environment, lists, lattice, nodes, now).given


def _known(
    solids: Solids | None,
    environment: Environment,
    state: SolidState | None,
    impulses: Impulses,
    lattice: Lattice,
    nodes: Nodes,
    velocity: Array,
    duration: float,
    interpret: bool,
) -> tuple[tuple[str, ...], tables.Known, tables.Plan]:
    """Names of the lists of contacts of rigid bodies, what the kernel reads, and what its program depends on."""
    terrain, surface = environment.terrain, lattice.at_surface & nodes.exists
    assert nodes.lever is not None
    assert nodes.inverse_inertia is not None
    names: tuple[str, ...] = ()
    listed = ground = cells = bodies = None
    kept: dict[str, tables.Pressed] = {}
    if solids is not None and state is not None:
        names, listed, ground = _list(solids, state, environment, nodes)
        cells, bodies = _cells(lattice, nodes), _bodies(solids, state)
        if names:
            kept["bodies"] = tables.Pressed(*joint_impulse(impulses, names))
        kept |= {name: tables.Pressed(*impulses[name]) for name in ("corners", "vertices") if impulses[name].press.size}
    blocks = None
    if isinstance(terrain, Blocks):
        blocks = _plain(vertices_in_blocks(nodes, surface, terrain), nodes.count)
    known = tables.Known(
        position=nodes.position,
        velocity=velocity,
        inverse_mass=nodes.inverse_mass,
        lever=nodes.lever,
        inverse_inertia=nodes.inverse_inertia,
        surface=surface.astype(jnp.int32),
        friction=nodes.friction,
        restitution=nodes.restitution,
        cells=cells,
        bodies=bodies,
        ground=ground,
        gravity=jnp.asarray(environment.gravity, velocity.dtype),
        listed=listed,
        blocks=blocks,
        kept=kept,
    )
    plan = tables.Plan(
        vertices=nodes.count,
        cells=lattice.present.size,
        fixed=() if solids is None else tuple(solids.fixed),
        round=() if solids is None else tuple(solids.shapes.round),
        corners=0 if solids is None else solids.shapes.corner.shape[1],
        faces=0 if solids is None else solids.shapes.offset.shape[1],
        finds_ground=ground is not None,
        listed=0 if listed is None else listed.numbers.shape[1],
        iterations=ITERATIONS,
        passes=PASSES_OF_BODIES[2],
        duration=duration,
        interpret=interpret,
    )
    return names, known, plan


def _cells(lattice: Lattice, nodes: Nodes) -> tables.Cells:
    flags = [part.astype(jnp.int32) << bit for bit, part in enumerate((*lattice.leads_out, lattice.present))]
    return tables.Cells(outward_of(nodes.position, lattice), lattice.places, sum(flags[1:], flags[0]), lattice.side)


def _bodies(solids: Solids, state: SolidState) -> tables.BodyTables:
    return tables.BodyTables(
        corner=solids.shapes.corner,
        normal=solids.shapes.normal,
        offset=solids.shapes.offset,
        radius=solids.shapes.radius,
        inverse_mass=1 / solids.mass,
        inverse_inertia=1 / solids.inertia[:, 0],
        friction=solids.friction,
        restitution=solids.restitution,
        position=state.position,
        rotation=state.rotation,
        velocity=state.velocity,
        spin=state.spin,
    )


def _list(
    solids: Solids, state: SolidState, environment: Environment, nodes: Nodes
) -> tuple[tuple[str, ...], tables.Listed | None, object]:
    """Contacts of rigid bodies with each other and with the ground, and the ground if these are left to the kernel."""
    terrain, free = environment.terrain, solids.free
    flat, mixed = moving_pairs(solids.shapes.round, solids.fixed)
    alone = not (len(flat) or len(mixed)) and ground_corners(terrain, 2) is None
    if alone and len(free) and isinstance(terrain, Terrain) and terrain.convex and not isinstance(terrain, Blocks):
        owner = np.repeat(free, solids.shapes.corner.shape[1])
        numbers = jnp.asarray(np.stack([owner, np.full_like(owner, -1)]), jnp.int32)
        return ("ground",), tables.Listed(numbers, None, None), by_numbers(terrain)
    placed = place(solids.shapes, state.position, state.rotation)
    lists = rigid_contacts(solids, state, environment, nodes, placed)
    if not lists:
        return (), None, None
    joint = together(list(lists.values()))
    assert isinstance(joint.sides, Rows)
    held = joint.sides.first, joint.sides.second
    count, still = joint.depth.shape[0], jnp.zeros_like(joint.normal)
    numbers = np.stack([np.full(count, -1) if one is None else np.array(one.numbers) for one in held])
    levers = tuple(still if one is None else one.lever for one in held)
    return tuple(lists), tables.Listed(jnp.asarray(numbers, jnp.int32), _plain(joint, count), levers), None


def _plain(contact: Contact, count: int) -> tables.Found:
    """A group of contacts as the kernel reads it."""
    return tables.Found(
        contact.normal,
        contact.depth,
        contact.touches.astype(jnp.int32),
        jnp.broadcast_to(contact.friction, (count,)),
        jnp.broadcast_to(contact.restitution, (count,)),
    )
