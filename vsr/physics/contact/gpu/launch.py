"""All contacts of one step as in vsr.physics.contact.contact_step, by the kernel."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.gpu.language import WARP
from vsr.environment import Environment
from vsr.physics.contact.bodies import BodySide, Nodes, Rows
from vsr.physics.contact.contact_step import (
    COUNTS_OF_VOXELS,
    ITERATIONS,
    PASSES_OF_BODIES,
    SHIFTS,
    Impulses,
    Lists,
    Resolve,
    Resolved,
    joint_impulse,
    kept_impulses,
    places_in_voxels,
    rigid_contacts,
)
from vsr.physics.contact.convex import place
from vsr.physics.contact.gpu import tables
from vsr.physics.contact.gpu.kernel import launch
from vsr.physics.contact.gpu.voxels import BITS
from vsr.physics.contact.lattices import Lattice, nodes_of, pushed_by
from vsr.physics.contact.narrowphase import MARGIN, moving_pairs, together, vertices_in_blocks
from vsr.physics.contact.solids import Solids, SolidState, flown
from vsr.physics.contact.solver import Contact
from vsr.physics.contact.voxels import ground_corners
from vsr.physics.contract import Carriers, ContactBody, PointMotion
from vsr.terrain.surface import by_numbers

MOST_BODIES = {2: 8, 3: 3}
"""By dimension: the text of more in 3-D takes long to compile."""
MOST_CORNERS = 32
"""Of all rigid bodies together, with those that fill up smaller ones' tables, and four of a round one: more was not
tried."""
MOST_VERTICES = 512
MOST_PAIRS = 256
"""Capacity for what is near voxels."""
MOST_NUMBERS = 128
"""Bodies and corners times vertices in a lane, in 3-D half as many: more was not tried, and takes long to compile."""


def can_launch(solids: Solids | None, environment: Environment, lists: Lists, vertices: int) -> bool:
    """Whether the kernel can do what is asked, and there is something to do for it."""
    candidates = [pairs for pairs in lists if pairs is not None]
    if vertices > MOST_VERTICES or any(pairs.point.shape[0] > MOST_PAIRS for pairs in candidates):
        return False
    if solids is None:
        terrain = environment.terrain
        return (terrain is not None and terrain.blocks is not None) or bool(candidates)
    corners, dimension = (
        max(solids.count * solids.shapes.corner.shape[1], places_in_voxels(solids)),
        solids.shapes.dimension,
    )
    few = solids.count <= MOST_BODIES[dimension] and corners <= MOST_CORNERS
    return few and (solids.count + corners) * math.ceil(vertices / WARP) * (dimension - 1) <= MOST_NUMBERS


def launching(duration: float, allowed: np.ndarray | None, interpret: bool) -> Resolve:
    """By the kernel, for steps of one duration [s]; allowed: see vsr.physics.contact.broadphase.may_touch."""

    def resolve(
        solids: Solids | None,
        environment: Environment,
        state: SolidState | None,
        impulses: Impulses,
        lists: Lists,
        lattice: Lattice,
        robots: tuple[ContactBody, ...],
        vertices: Array,
    ) -> Resolved:
        nodes, velocity = nodes_of(robots)
        names, listed, ground = _listed(solids, environment, state, nodes, duration)
        known = _known(solids, environment, state, impulses, lattice, robots, nodes, velocity, vertices)
        known = known._replace(
            listed=listed, ground=ground, ground_corners=_ground_corners(environment, lists, len(velocity))
        )
        if names:
            known.kept["bodies"] = joint_impulse(impulses, names)
        if lists.vertices is not None and allowed is not None:
            known = known._replace(may_touch=jnp.asarray(_bits(allowed)), overflow=lists.vertices.overflow[None])
            known.kept["voxels"] = impulses["voxels"]
        after = launch(known, _plan(solids, known, lists, duration, interpret))
        if after.robots:
            (robot,) = robots
            robots = (robot._replace(state=robot.engine.kernel.with_carriers(robot.state, *after.robots)),)
        else:
            robots = pushed_by(robots, after.given, after.shift)
        if after.overflow is not None:
            lists = _counted(lists, after.overflow[0])
        return after.bodies, kept_impulses(impulses, after.kept, names), lists, after.given, after.vertices, robots

    return resolve


def _counted(lists: Lists, overflow: Array) -> Lists:
    assert lists.vertices is not None
    return lists._replace(vertices=lists.vertices._replace(overflow=overflow))


def _known(
    solids: Solids | None,
    environment: Environment,
    state: SolidState | None,
    impulses: Impulses,
    lattice: Lattice,
    robots: tuple[ContactBody, ...],
    nodes: Nodes,
    velocity: Array,
    vertices: Array,
) -> tables.Known:
    """What the kernel reads of robots, rigid bodies and blocks."""
    terrain, surface = environment.terrain, lattice.at_surface & nodes.exists
    bodies = blocks = None
    kept: Impulses = {}
    if solids is not None and state is not None:
        bodies = _bodies(solids, state)
        kept |= {name: impulses[name] for name in ("corners", "vertices") if impulses[name].press.size}
    if terrain is not None and terrain.blocks is not None:
        blocks = _plain(vertices_in_blocks(nodes, surface, terrain.blocks), nodes.count)
    moving = _robots(robots, nodes, velocity)
    return tables.Known(
        robots=moving,
        vertices=vertices,
        inverse_mass=nodes.inverse_mass,
        inverse_inertia=None if isinstance(moving, PointMotion) else nodes.inverse_inertia,
        flags=(surface.astype(jnp.int32) << tables.SURFACE) + (nodes.exists.astype(jnp.int32) << tables.EXISTS),
        friction=nodes.friction,
        restitution=nodes.restitution,
        cells=_cells(lattice),
        margin=MARGIN * lattice.side.max(),
        bodies=bodies,
        ground=None,
        gravity=jnp.asarray(environment.gravity, velocity.dtype),
        listed=None,
        blocks=blocks,
        may_touch=None,
        overflow=None,
        ground_corners=None,
        kept=kept,
    )


def _plan(solids: Solids | None, known: tables.Known, lists: Lists, duration: float, interpret: bool) -> tables.Plan:
    places = 0 if solids is None else places_in_voxels(solids)
    listed = [pairs.point.shape[0] for pairs in lists if pairs is not None]
    return tables.Plan(
        dimension=known.vertices.shape[0],
        vertices=known.inverse_mass.shape[0],
        cells=known.cells.side.shape[0],
        points=max([places, *listed]),
        neighbors=0 if lists.vertices is None else lists.vertices.point.shape[0],
        fixed=() if solids is None else tuple(solids.fixed),
        round=() if solids is None else tuple(solids.shapes.round),
        corners=0 if solids is None else solids.shapes.corner.shape[1],
        faces=0 if solids is None else solids.shapes.offset.shape[1],
        finds_ground=known.ground is not None,
        listed=0 if known.listed is None else known.listed.numbers.shape[1],
        iterations=ITERATIONS,
        shifts=SHIFTS,
        passes=PASSES_OF_BODIES[known.vertices.shape[0]],
        counts_of_voxels=COUNTS_OF_VOXELS[:2],
        duration=duration,
        interpret=interpret,
    )


def _robots(robots: tuple[ContactBody, ...], nodes: Nodes, velocity: Array) -> Carriers | PointMotion | tables.Plain:
    """Vertices, as the kernel of the only robot has them if there is one."""
    carriers = robots[0].engine.kernel.carriers(robots[0].model, robots[0].state) if len(robots) == 1 else None
    return tables.Plain(nodes.position, velocity, nodes.lever) if carriers is None else carriers


def _ground_corners(environment: Environment, lists: Lists, dimension: int) -> tables.GroundCorners | None:
    terrain, candidates = environment.terrain, lists.corners
    corners = ground_corners(terrain, dimension)
    if candidates is None or corners is None or terrain is None:
        return None
    surface = jnp.asarray(terrain.friction), jnp.asarray(terrain.restitution)
    return tables.GroundCorners(
        candidates.point, candidates.cell, candidates.counts.astype(jnp.int32), corners[0], *surface
    )


def _bits(allowed: np.ndarray) -> np.ndarray:
    """A table of vertices and cells (p, c) as numbers of 32 bits, (numbers, p)."""
    vertices, cells = allowed.shape
    padded = np.zeros((vertices, -(-cells // BITS), BITS), np.uint32)
    padded.reshape(vertices, -1)[:, :cells] = allowed
    return (padded << np.arange(BITS, dtype=np.uint32)).sum(-1, dtype=np.uint32).T.astype(np.int32)


def _cells(lattice: Lattice) -> tables.Cells:
    flags = lattice.present.astype(jnp.int32) << tables.PRESENT
    for first, parts in ((tables.LEADS_OUT, lattice.leads_out), (tables.OUTER, lattice.outer)):
        for bit, part in enumerate(parts, first):
            flags = flags + (part.astype(jnp.int32) << bit)
    return tables.Cells(lattice.corner_vertices, lattice.around, flags, lattice.side)


def _bodies(solids: Solids, state: SolidState) -> tables.BodyTables:
    return tables.BodyTables(
        corner=solids.shapes.corner,
        normal=solids.shapes.normal,
        offset=solids.shapes.offset,
        radius=solids.shapes.radius,
        mass=solids.mass,
        inertia=solids.inertia,
        friction=solids.friction,
        restitution=solids.restitution,
        state=state,
    )


def _listed(
    solids: Solids | None, environment: Environment, state: SolidState | None, nodes: Nodes, duration: float
) -> tuple[tuple[str, ...], tables.Listed | None, object]:
    """Contacts of rigid bodies with each other and with the ground: names of their lists, what is found before, and the
    ground if finding them is left to the kernel; state: before the step."""
    if solids is None or state is None:
        return (), None, None
    terrain, free = environment.terrain, solids.free
    flat, mixed = moving_pairs(solids.shapes.round, solids.fixed)
    alone = not (len(flat) or len(mixed)) and ground_corners(terrain, solids.shapes.dimension) is None
    line = None if terrain is None or terrain.blocks is not None else terrain.line
    if alone and len(free) and line is not None and line.convex:
        owner = np.repeat(free, solids.shapes.corner.shape[1])
        numbers = jnp.asarray(np.stack([owner, np.full_like(owner, -1)]), jnp.int32)
        return ("ground",), tables.Listed(numbers, None, None), by_numbers(line)
    state = flown(solids, state, environment, duration)
    placed = place(solids.shapes, state.position, state.rotation)
    lists = rigid_contacts(solids, state, environment, nodes, placed)
    if not lists:
        return (), None, None
    joint = together(list(lists.values()))
    assert isinstance(joint.sides, Rows)
    active = joint.sides.first, joint.sides.second
    count, still = joint.depth.shape[0], jnp.zeros_like(joint.normal)
    numbers = np.stack([np.array(one.numbers) if isinstance(one, BodySide) else np.full(count, -1) for one in active])
    levers = tuple(still if one is None else one.lever for one in active)
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
