"""From where things are to groups of contacts (vsr.physics.collision.solver)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import Vector, minus
from vsr.environment import Environment
from vsr.environment.surfaces import combined_friction, combined_restitution, ground
from vsr.physics.collision.convex import Manifold, Placed, ball_meets, points_in, polygons_meet
from vsr.physics.collision.lattices import Lattice
from vsr.physics.collision.sides import AmongNodes, Bodies, EveryBody, EveryNode, Nodes, OfBodies, Still
from vsr.physics.collision.solver import Contact
from vsr.physics.collision.voxels import point_in_voxel, weights_at


def nodes_in_bodies(nodes: Nodes, counts: Array, bodies: Bodies, placed: Placed, rounds: tuple[bool, ...]) -> Contact:
    """Vertices of robots in rigid bodies: a table of all pairs; counts: True for vertices that can touch, (p,)."""
    met = points_in(placed, rounds, nodes.position)
    return Contact(
        normal=met.normal,
        depth=-met.distance,
        touches=(met.distance < 0) & counts,
        friction=combined_friction(nodes.friction, bodies.friction[:, None]),
        restitution=combined_restitution(nodes.restitution, bodies.restitution[:, None]),
        first=EveryNode(nodes),
        second=EveryBody(bodies, met.lever),
    )


def corners_in_voxels(
    nodes: Nodes, lattice: Lattice, bodies: Bodies, placed: Placed, flat: np.ndarray
) -> Contact:
    """Corners of rigid bodies in voxels of robots, one voxel for each; flat: numbers of bodies that have corners."""
    point = tuple(part[flat].reshape(-1) for part in placed.corner)
    number = np.repeat(flat, placed.corner[0].shape[1])
    found = points_in_voxels(point, nodes, lattice)
    middle = tuple(part[number] for part in placed.center)
    return Contact(
        normal=found.normal,
        depth=found.depth,
        touches=found.touches,
        friction=combined_friction(bodies.friction[number], found.side_value(nodes.friction)),
        restitution=combined_restitution(bodies.restitution[number], found.side_value(nodes.restitution)),
        first=OfBodies(bodies, number, minus(point, middle)),
        second=found.side,
    )


class InVoxels:
    """Points in the voxels of robots: at most one for each point."""

    def __init__(self, point: Vector, nodes: Nodes, lattice: Lattice, cell: Array, touches: Array):
        """cell: that a point may be in, (m,); touches: whether it may, (m,)."""
        index = lattice.places[:, cell]
        corner = [tuple(part[place] for part in nodes.position) for place in index]
        found = point_in_voxel(point, corner, lattice.leads_out[:, cell])
        self.normal, self.depth = found.normal, -found.distance
        self.touches = touches & found.is_inside & lattice.present[cell]
        self.side = AmongNodes(nodes, index, weights_at(point, corner))

    def side_value(self, values: Array) -> Array:
        """A number of the nodes at the points: the largest of the voxel's."""
        return values[self.side.index].max(0)


def points_in_voxels(point: Vector, nodes: Nodes, lattice: Lattice) -> InVoxels:
    """Looked for in all voxels; point: each (m,)."""
    corner = [tuple(part[place][None] for part in nodes.position) for place in lattice.places]
    found = point_in_voxel(tuple(part[:, None] for part in point), corner, lattice.leads_out[:, None])
    inside = found.is_inside & lattice.present
    cell = jnp.where(inside, found.distance, -jnp.inf).argmax(1)
    return InVoxels(point, nodes, lattice, cell, inside.any(1))


def bodies_meet(bodies: Bodies, placed: Placed, rounds: tuple[bool, ...], fixed: tuple[bool, ...]) -> dict[str, Contact]:
    """Rigid bodies against each other: all pairs of which one moves."""
    count = len(rounds)
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count) if not (fixed[a] and fixed[b])]
    flat = np.array([pair for pair in pairs if not (rounds[pair[0]] or rounds[pair[1]])]).reshape(-1, 2)
    mixed = [pair if rounds[pair[0]] else pair[::-1] for pair in pairs if rounds[pair[0]] or rounds[pair[1]]]
    found = {}
    if len(flat):
        manifold = polygons_meet(placed.of(flat[:, 0]), placed.of(flat[:, 1]))
        found["flat pairs"] = _between(bodies, placed, flat, manifold)
    if mixed:
        pair = np.array(mixed)
        manifold = ball_meets(placed.of(pair[:, 0]), placed.of(pair[:, 1]), np.array(rounds)[pair[:, 1]])
        found["round pairs"] = _between(bodies, placed, pair, manifold)
    return found


def _between(bodies: Bodies, placed: Placed, pair: np.ndarray, manifold: Manifold) -> Contact:
    places = manifold.depth.shape[0]
    first, second = (np.tile(pair[:, side], places) for side in (0, 1))
    point = tuple(part.reshape(-1) for part in manifold.point)

    def side(number: np.ndarray) -> OfBodies:
        return OfBodies(bodies, number, minus(point, tuple(part[number] for part in placed.center)))

    return Contact(
        normal=tuple(part.reshape(-1) for part in manifold.normal),
        depth=manifold.depth.reshape(-1),
        touches=manifold.touches.reshape(-1),
        friction=combined_friction(bodies.friction[first], bodies.friction[second]),
        restitution=combined_restitution(bodies.restitution[first], bodies.restitution[second]),
        first=side(first),
        second=side(second),
    )


def bodies_on_ground(
    bodies: Bodies, placed: Placed, environment: Environment, free: np.ndarray, rounds: tuple[bool, ...]
) -> Contact:
    """Corners of rigid bodies, and the lowest places of round ones, on the ground; free: numbers of those that move."""
    assert environment.terrain is not None
    terrain = environment.terrain
    corners = placed.corner[0].shape[1]
    number = np.repeat(free, corners)
    first = np.tile(np.arange(corners) == 0, len(free))
    is_round = np.array(rounds)[number]
    point = tuple(part[free].reshape(-1) for part in placed.corner)
    met = ground(terrain, point)
    radius = placed.radius[number]
    distance = met.height - radius
    normal = tuple(jnp.broadcast_to(part, distance.shape) for part in met.normal)
    foot = tuple(part - radius * n for part, n in zip(point, normal, strict=True))
    return Contact(
        normal=normal,
        depth=-distance,
        touches=(distance < 0) & jnp.asarray(~is_round | first),
        friction=combined_friction(bodies.friction[number], terrain.friction),
        restitution=combined_restitution(bodies.restitution[number], terrain.restitution),
        first=OfBodies(bodies, number, minus(foot, tuple(part[number] for part in placed.center))),
        second=Still(),
    )
