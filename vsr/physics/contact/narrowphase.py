"""Groups of contacts (vsr.physics.contact.solver) of objects. Arrays: vsr.physics.contact.vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import split
from vsr.compute.xla import materialize
from vsr.environment.surfaces import combined_friction, combined_restitution, ground
from vsr.physics.contact.bodies import Bodies, BodySide, Nodes, OnNodes, Rows, Table, Weights
from vsr.physics.contact.broadphase import CandidatePairs
from vsr.physics.contact.convex import FAR, Distance, Placed, points_in
from vsr.physics.contact.lattices import Lattice, outward_of
from vsr.physics.contact.pairs import Manifold, flat_pairs, round_pairs
from vsr.physics.contact.solver import Contact
from vsr.physics.contact.vectors import beside, largest, look_up, one_hot
from vsr.physics.contact.voxels import point_in_voxel, points_in_blocks, points_on_faces, weights_at
from vsr.terrain import Blocks
from vsr.terrain.base import AnyTerrain

MARGIN = 0.02
"""By which a face that looks the same way as what touches it reaches beyond itself, in sides of voxels."""


def vertices_in_bodies(
    nodes: Nodes, lattice: Lattice, bodies: Bodies, placed: Placed, rounds: tuple[bool, ...]
) -> Contact:
    """Vertices of robots in rigid bodies: a table of all pairs."""
    outward = materialize(nodes.position, outward_of(nodes.position, lattice))
    closest = points_in(placed, rounds, nodes.position, outward, MARGIN * lattice.side.max(0))
    return touching_bodies(nodes, lattice.at_surface & nodes.exists, bodies, closest)


def touching_bodies(nodes: Nodes, surface: Array, bodies: Bodies, closest: Distance) -> Contact:
    """Vertices whose places in rigid bodies are known; surface: True for those that can touch, (p,)."""
    inside = (closest.distance < 0) & (closest.distance > -FAR / 2)
    return Contact(
        normal=closest.normal,
        depth=jnp.where(inside, -closest.distance, 0),
        touches=inside & surface,
        friction=combined_friction(nodes.friction, bodies.friction[:, None]),
        restitution=combined_restitution(nodes.restitution, bodies.restitution[:, None]),
        sides=Table(nodes, bodies, closest.lever),
    )


class _InVoxels(NamedTuple):
    """Points in voxels, one voxel each; m points."""

    normal: Array
    """out of the voxel, (dimension, m)"""
    depth: Array
    """[m], (m,)"""
    touches: Array
    """(m,)"""
    index: Array
    """of the voxel's corners among vertices, (corners, m)"""
    weight: Array
    """of these corners, (corners, m)"""

    def of(self, values: Array) -> Array:
        """A number of the vertices at the points: the largest of the voxel's."""
        return largest(look_up(values, self.index), 0)[0]

    def among(self, vertices: int) -> Array:
        """Weights as rows over all vertices, (m, p)."""
        rows: list[Array] = [
            one_hot(index, vertices) * weight[:, None] for index, weight in zip(self.index, self.weight, strict=True)
        ]
        return sum(rows[1:], rows[0])


def _in_voxels(
    point: Array, nodes: Nodes, lattice: Lattice, cell: Array, may: Array, outward: Array | None = None
) -> _InVoxels:
    """cell: the voxel that each point may be in, (m,); may: whether it may at all, (m,); outward: of what has the
    point, (dimension, m)."""
    index = look_up(lattice.corner_vertices, cell, 1)
    index, corner = materialize(point, (index, look_up(nodes.position, index, 1)))
    margin = MARGIN * look_up(lattice.side, cell)
    found = point_in_voxel(point, corner, look_up(lattice.leads_out, cell, 1), outward, margin)
    touches = may & found.is_inside & look_up(lattice.present, cell)
    weight = weights_at(point, corner)
    # In the rows over all vertices each weight is used as often as there are vertices.
    return materialize(point, _InVoxels(found.normal, -found.distance, touches, index, weight))


def bodies_in_voxels(
    nodes: Nodes, lattice: Lattice, bodies: Bodies, placed: Placed, rounds: tuple[bool, ...]
) -> Contact:
    """Corners of rigid bodies in voxels of robots, one voxel for each, and round ones on faces of voxels."""
    groups, is_round = [], np.array(rounds, bool)
    if not is_round.all():
        groups.append(_corners_in_voxels(nodes, lattice, placed, np.flatnonzero(~is_round)))
    if is_round.any():
        groups.append(_rounds_on_voxels(nodes, lattice, placed, np.flatnonzero(is_round)))
    levers, numbers, parts = zip(*groups, strict=True)
    number = np.concatenate(numbers)
    found = _InVoxels(
        *(jnp.concatenate(each, axis) for each, axis in zip(zip(*parts, strict=True), (1, 0, 0, 1, 1), strict=True))
    )
    return Contact(
        normal=found.normal,
        depth=found.depth,
        touches=found.touches,
        friction=combined_friction(bodies.friction[number], found.of(nodes.friction)),
        restitution=combined_restitution(bodies.restitution[number], found.of(nodes.restitution)),
        sides=Rows(
            nodes,
            bodies,
            places=Weights(-found.among(nodes.count)),
            first=BodySide(jnp.concatenate(levers, 1), tuple(number.tolist())),
        ),
    )


def _corners_in_voxels(
    nodes: Nodes, lattice: Lattice, placed: Placed, flat: np.ndarray
) -> tuple[Array, np.ndarray, _InVoxels]:
    """Levers (dimension, m), numbers of the bodies (m,), and places; flat: numbers of bodies that have corners."""
    point, number = _corners(placed, flat)
    everywhere = look_up(nodes.position, lattice.corner_vertices, 1)[:, :, None]
    outward = point - placed.center[:, number]
    point, everywhere, outward = materialize(point, (point, everywhere, outward))
    inside = point_in_voxel(
        point[:, :, None], everywhere, lattice.leads_out[:, None], outward[:, :, None], MARGIN * lattice.side
    )
    nearest = jnp.where(inside.is_inside & lattice.present, inside.distance, -jnp.inf)
    depth, cell = largest(materialize(point, nearest), 1)
    return outward, number, _in_voxels(point, nodes, lattice, cell, depth > -jnp.inf, outward)


def _rounds_on_voxels(
    nodes: Nodes, lattice: Lattice, placed: Placed, rounds: np.ndarray
) -> tuple[Array, np.ndarray, _InVoxels]:
    """The same of round bodies, by their numbers: the nearest of all left sides of voxels, of all right ones, and so
    on, so that a body that lies in a notch or between two robots touches both."""
    center, everywhere = placed.center[:, rounds], look_up(nodes.position, lattice.corner_vertices, 1)[:, :, None]
    center, everywhere = materialize(center, (center, everywhere))
    near = points_on_faces(center[:, :, None], everywhere, lattice.leads_out[:, None], lattice.outer[:, None])
    gaps, ways, places, cells = [], [], [], []
    for face in near:
        closest, cell = largest(materialize(center, jnp.where(lattice.present, -face.distance, -jnp.inf)), 1)
        gaps.append(-closest)
        ways.append(jnp.take_along_axis(face.normal, cell[None, :, None], 2)[:, :, 0])
        places.append(jnp.take_along_axis(face.place, cell[None, :, None], 2)[:, :, 0])
        cells.append(cell)
    number = np.tile(rounds, len(near))
    depth, cell = placed.radius[number] - jnp.concatenate(gaps), jnp.concatenate(cells)
    place, index = jnp.concatenate(places, 1), look_up(lattice.corner_vertices, cell, 1)
    place, index, corner = materialize(center, (place, index, look_up(nodes.position, index, 1)))
    touches = depth > 0
    found = _InVoxels(jnp.concatenate(ways, 1), jnp.where(touches, depth, 0), touches, index, weights_at(place, corner))
    return place - placed.center[:, number], number, materialize(center, found)


def _corners(placed: Placed, chosen: np.ndarray) -> tuple[Array, np.ndarray]:
    """All corners of some bodies [m], (dimension, m), and the bodies' numbers, (m,)."""
    corner = placed.corner[:, chosen]
    return corner.reshape(corner.shape[0], -1, *corner.shape[3:]), np.repeat(chosen, corner.shape[2])


def vertices_in_voxels(nodes: Nodes, lattice: Lattice, pairs: CandidatePairs) -> Contact:
    """Vertices in voxels of other robots or of their own, as far as they are listed."""
    point = look_up(nodes.position, pairs.point, 1)
    outward = look_up(outward_of(nodes.position, lattice), pairs.point, 1)
    found = _in_voxels(point, nodes, lattice, pairs.cell, pairs.counts, outward)
    own = one_hot(pairs.point, nodes.count)
    return Contact(
        normal=found.normal,
        depth=found.depth,
        touches=found.touches,
        friction=combined_friction(look_up(nodes.friction, pairs.point), found.of(nodes.friction)),
        restitution=combined_restitution(look_up(nodes.restitution, pairs.point), found.of(nodes.restitution)),
        sides=Rows(nodes, None, places=Weights(own - found.among(nodes.count))),
    )


def corners_of_ground_in_voxels(
    nodes: Nodes, lattice: Lattice, corner: Array, terrain: AnyTerrain, pairs: CandidatePairs
) -> Contact:
    """Convex corners of the ground (first), (dimension, q), in voxels, as far as they are listed."""
    found = _in_voxels(look_up(corner, pairs.point, 1), nodes, lattice, pairs.cell, pairs.counts)
    return Contact(
        normal=found.normal,
        depth=found.depth,
        touches=found.touches,
        friction=combined_friction(terrain.friction, found.of(nodes.friction)),
        restitution=combined_restitution(terrain.restitution, found.of(nodes.restitution)),
        sides=Rows(nodes, None, places=Weights(-found.among(nodes.count))),
    )


def vertices_in_blocks(nodes: Nodes, counts: Array, blocks: Blocks) -> Contact:
    """Vertices of robots in solid cells of the ground; counts: True for vertices that can touch, (p,)."""
    found = points_in_blocks(blocks, nodes.position)
    return Contact(
        normal=found.normal,
        depth=found.depth,
        touches=found.is_inside & counts,
        friction=combined_friction(nodes.friction, blocks.friction),
        restitution=combined_restitution(nodes.restitution, blocks.restitution),
        sides=OnNodes(nodes),
    )


def bodies_in_blocks(
    nodes: Nodes, bodies: Bodies, placed: Placed, blocks: Blocks, free: np.ndarray, rounds: tuple[bool, ...]
) -> dict[str, Contact]:
    """Corners of rigid bodies, outermost places of round ones, in solid cells, by list; free: those that move."""
    is_round = np.array(rounds)[free]
    found = {}
    if not is_round.all():
        point, number = _corners(placed, free[~is_round])
        found["flat in blocks"] = _body_in_blocks(nodes, bodies, placed, blocks, point, number)
    if is_round.any():
        dimension = placed.center.shape[0]
        ways = np.zeros((dimension, 4))
        ways[0, :2], ways[-1, 2:] = (-1, 1), (-1, 1)
        number = np.repeat(free[is_round], 4)
        center = placed.center[:, number]
        way = beside(np.tile(ways, (1, int(is_round.sum()))), center, 2)
        point = center + placed.radius[number] * way
        found["round in blocks"] = _body_in_blocks(nodes, bodies, placed, blocks, point, number)
    return found


def _body_in_blocks(
    nodes: Nodes, bodies: Bodies, placed: Placed, blocks: Blocks, point: Array, number: np.ndarray
) -> Contact:
    found = points_in_blocks(blocks, point)
    return Contact(
        normal=found.normal,
        depth=found.depth,
        touches=found.is_inside,
        friction=combined_friction(bodies.friction[number], blocks.friction),
        restitution=combined_restitution(bodies.restitution[number], blocks.restitution),
        sides=Rows(nodes, bodies, None, BodySide(point - placed.center[:, number], tuple(number.tolist()))),
    )


def corners_of_ground_in_bodies(
    nodes: Nodes,
    bodies: Bodies,
    placed: Placed,
    corners: tuple[Array, Array],
    terrain: AnyTerrain,
    free: np.ndarray,
    rounds: tuple[bool, ...],
) -> Contact:
    """The two convex corners of the ground that are deepest in each rigid body; corners: see `ground_corners`."""
    place, exists = corners
    closest = points_in(placed.of(free), tuple(np.array(rounds)[free].tolist()), place)
    depth = jnp.where(exists, -closest.distance, -jnp.inf)
    first = largest(depth, 1)
    again = jnp.where(one_hot(first[1], depth.shape[1]), -jnp.inf, depth)
    found = (first, largest(again, 1))
    number = np.tile(free, 2)

    def at(values: Array) -> Array:
        """Of (dimension, s, q) those of both, (dimension, 2 s)."""
        picked = [jnp.take_along_axis(values, index[None, :, None], 2)[:, :, 0] for _, index in found]
        return jnp.concatenate(picked, 1)

    deepest = jnp.concatenate([value for value, _ in found])
    touches = deepest > 0
    return Contact(
        normal=-at(closest.normal),
        depth=jnp.where(touches, deepest, 0),
        touches=touches,
        friction=combined_friction(bodies.friction[number], terrain.friction),
        restitution=combined_restitution(bodies.restitution[number], terrain.restitution),
        sides=Rows(nodes, bodies, None, BodySide(at(closest.lever), tuple(number.tolist()))),
    )


def moving_pairs(rounds: tuple[bool, ...], fixed: tuple[bool, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of bodies of which one moves: those with faces, (m, 2), and those of which the first is round, (m, 2)."""
    count = len(rounds)
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count) if not (fixed[a] and fixed[b])]
    flat = [pair for pair in pairs if not (rounds[pair[0]] or rounds[pair[1]])]
    mixed = [pair if rounds[pair[0]] else pair[::-1] for pair in pairs if rounds[pair[0]] or rounds[pair[1]]]
    return np.array(flat, int).reshape(-1, 2), np.array(mixed, int).reshape(-1, 2)


def has_body_contacts(
    nodes: Nodes, bodies: Bodies, placed: Placed, rounds: tuple[bool, ...], fixed: tuple[bool, ...]
) -> dict[str, Contact]:
    """Rigid bodies against each other, by list."""
    flat, mixed = moving_pairs(rounds, fixed)
    found = {}
    if len(flat):
        manifold = flat_pairs(placed.of(flat[:, 0]), placed.of(flat[:, 1]))
        found["flat pairs"] = _between(nodes, bodies, placed, flat, manifold)
    if len(mixed):
        manifold = round_pairs(placed.of(mixed[:, 0]), placed.of(mixed[:, 1]), np.array(rounds)[mixed[:, 1]])
        found["round pairs"] = _between(nodes, bodies, placed, mixed, manifold)
    return found


def _between(nodes: Nodes, bodies: Bodies, placed: Placed, pair: np.ndarray, manifold: Manifold) -> Contact:
    corner_vertices, count, *further = manifold.depth.shape
    first, second = (np.tile(pair[:, side], corner_vertices) for side in (0, 1))
    point, normal = (
        part.reshape(part.shape[0], corner_vertices * count, *further) for part in (manifold.point, manifold.normal)
    )
    sides = (BodySide(point - placed.center[:, number], tuple(number.tolist())) for number in (first, second))
    return Contact(
        normal=normal,
        depth=manifold.depth.reshape(-1, *further),
        touches=manifold.touches.reshape(-1, *further),
        friction=combined_friction(bodies.friction[first], bodies.friction[second]),
        restitution=combined_restitution(bodies.restitution[first], bodies.restitution[second]),
        sides=Rows(nodes, bodies, None, *sides),
    )


def bodies_on_ground(
    nodes: Nodes,
    bodies: Bodies,
    placed: Placed,
    terrain: AnyTerrain,
    free: np.ndarray,
    rounds: tuple[bool, ...],
) -> Contact:
    """Corners of rigid bodies, and the lowest places of round ones, on the ground; free: numbers of those that move."""
    point, number = _corners(placed, free)
    once = ~np.array(rounds)[number] | np.tile(np.arange(placed.corner.shape[2]) == 0, len(free))
    radius = placed.radius[number]
    closest = ground(terrain, split(point, 0))
    distance = closest.height - radius
    normal = jnp.stack([jnp.broadcast_to(part, distance.shape) for part in closest.normal])
    lever = point - radius * normal - placed.center[:, number]
    return Contact(
        normal=normal,
        depth=-distance,
        touches=(distance < 0) & beside(once, distance, 1),
        friction=combined_friction(bodies.friction[number], closest.friction),
        restitution=combined_restitution(bodies.restitution[number], closest.restitution),
        sides=Rows(nodes, bodies, None, BodySide(lever, tuple(number.tolist()))),
    )


def together(contacts: Sequence[Contact]) -> Contact:
    """Lists of contacts between rigid bodies, and of them with the ground, as one list."""
    if len(contacts) == 1:
        return contacts[0]
    rows = [contact.sides for contact in contacts if isinstance(contact.sides, Rows)]
    normals = [contact.normal for contact in contacts]
    held = (BodySide.joined([getattr(row, side) for row in rows], normals) for side in ("first", "second"))
    widest = jnp.broadcast_shapes(*(contact.depth.shape[1:] for contact in contacts))

    def joined(parts: Sequence[Array], axis: int) -> Array:
        full = [jnp.broadcast_to(part, (*part.shape[: axis + 1], *widest)) for part in parts]
        return jnp.concatenate(full, axis)

    def numbers(name: str) -> Array:
        return joined([getattr(contact, name) for contact in contacts], 0)

    return Contact(
        normal=joined(normals, 1),
        depth=numbers("depth"),
        touches=numbers("touches"),
        friction=numbers("friction"),
        restitution=numbers("restitution"),
        sides=Rows(rows[0].nodes, rows[0].bodies, None, *held),
    )
