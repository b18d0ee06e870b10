"""Lattices of any shape: built from the places of nodes and the pairs that springs join, and the forces in them.

Ends are gathered per spring, forces are gathered per node. Nothing is scattered.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import Vector, minus
from vsr.lattice.grid import directions, first_ends, second_ends, spring_shape
from vsr.lattice.law import pull, resistance
from vsr.lattice.model import GraphSprings, GridSprings, Lattice, Wave
from vsr.lattice.moduli import truss_stiffness


def gather_forces(
    springs: GraphSprings,
    stiffness: Array,
    rest_length: Array,
    damping: Array | None,
    position: Vector,
    velocity: Vector,
) -> Vector:
    """Force of all springs on every node [N]."""
    between = stretch(springs, position)
    return _sum_at_nodes(springs, pull(stiffness, rest_length, damping, between, stretch(springs, velocity)), between)


def resisting_forces(springs: GraphSprings, constants: Array, rest: Vector, shift: Vector) -> Vector:
    """Forces against small shifts about a pose at rest, linear; minus what the springs then do to the nodes."""
    between = stretch(springs, rest)
    pulls = resistance(constants, between, stretch(springs, shift))
    return tuple(-part for part in _sum_at_nodes(springs, pulls, between))


def _sum_at_nodes(springs: GraphSprings, strength: Array, between: Vector) -> Vector:
    """Force on every node from pulls along the springs."""
    if not strength.size:  # nodes without a single spring: there is nothing to gather from
        return tuple(jnp.zeros(springs.incidence.shape[:1], part.dtype) for part in between)
    there = springs.incidence >= 0
    spring = jnp.maximum(springs.incidence, 0) // 2
    sign = jnp.where(there, 1 - 2 * (springs.incidence % 2), 0).astype(strength.dtype)
    return tuple((sign * (strength * part)[spring]).sum(1) for part in between)


def stretch(springs: GraphSprings, field: Vector) -> Vector:
    """What the second ends have more than the first."""
    return minus(tuple(part[springs.second] for part in field), tuple(part[springs.first] for part in field))


def incidence_of(first: np.ndarray, second: np.ndarray, nodes: int, degree: int | None = None) -> np.ndarray:
    """The springs at every node (see GraphSprings), (nodes, degree); degree: room per node, or as much as needed."""
    ends = np.concatenate([np.asarray(first), np.asarray(second)])
    marks = np.concatenate([2 * np.arange(len(first)), 2 * np.arange(len(first)) + 1])
    order = np.argsort(ends, kind="stable")
    ends, marks = ends[order], marks[order]
    count = np.bincount(ends, minlength=nodes)
    room = max(1, int(count.max(initial=0))) if degree is None else degree
    if count.max(initial=0) > room:
        raise ValueError(f"a node has {count.max()} springs; there is room for {room}")
    table = np.full((nodes, room), -1, np.int32)
    table[ends, np.arange(len(ends)) - (np.cumsum(count) - count)[ends]] = marks
    return table


def of_graph(
    position: np.ndarray,
    pairs: np.ndarray,
    *,
    stiffness: float | np.ndarray | None = None,
    young_modulus: float | np.ndarray | None = None,
    area: float | np.ndarray | None = None,
    mass: float | np.ndarray | None = None,
    total_mass: float | None = None,
    density: float | None = None,
    rest_length: np.ndarray | None = None,
    damping_time: float = 0.0,
    damping: float = 0.0,
    yield_force: float | np.ndarray | None = None,
    anchored: np.ndarray | None = None,
    degree: int | None = None,
    dtype: jnp.dtype | type = jnp.float32,
) -> Lattice:
    """The lattice of some nodes and the springs between pairs of them.

    position: of the nodes [m], (nodes, dimension); pairs: nodes that a spring joins, (springs, 2).

    Springs have a stiffness [N/m], or are rods with a Young's modulus [Pa] and a cross section, area [m²], so that
    k = E A / L; each a number or (springs,). Nodes have a mass [kg], a number or (nodes,); or share a total mass [kg]
    equally; or bear half of the rods that meet there, of a density [kg/m³] and the area above.

    rest_length: [m], (springs,), as long as the pairs are apart if not given; damping_time: a spring's damping over its
    stiffness [s]; damping: decay rate of all velocities [1/s]; yield_force: a larger one breaks the spring [N];
    anchored: True for nodes fixed, (nodes,); degree: room for springs at a node, as many as needed if not
    given.
    """
    position, pairs = np.asarray(position, float), np.asarray(pairs, int).reshape(-1, 2)
    nodes, count = len(position), len(pairs)
    _check_pairs(pairs, nodes)
    length = np.linalg.norm(position[pairs[:, 1]] - position[pairs[:, 0]], axis=1)
    constant = _stiffness(length, stiffness, young_modulus, area)
    node_mass = _mass(pairs, length, nodes, area, mass, total_mass, density)
    free = (node_mass > 0) & (True if anchored is None else ~np.asarray(anchored, bool))
    return Lattice(
        springs=GraphSprings(
            first=jnp.asarray(pairs[:, 0], jnp.int32),
            second=jnp.asarray(pairs[:, 1], jnp.int32),
            stiffness=jnp.asarray(constant, dtype),
            rest_length=jnp.asarray(length if rest_length is None else rest_length, dtype),
            incidence=jnp.asarray(incidence_of(pairs[:, 0], pairs[:, 1], nodes, degree)),
            damping=jnp.asarray(damping_time * constant, dtype) if damping_time else None,
            yield_force=None if yield_force is None else jnp.asarray(np.broadcast_to(yield_force, count), dtype),
        ),
        rest_position=jnp.asarray(position, dtype),
        mass=jnp.asarray(node_mass, dtype),
        inverse_mass=jnp.asarray(np.divide(1, node_mass, out=np.zeros(nodes), where=free), dtype),
        damping=jnp.asarray(damping, dtype),
    )


def as_graph(lattice: Lattice) -> Lattice:
    """A grid lattice with its springs listed one by one; nodes in the order of the grid's, absent ones included."""
    springs = lattice.springs
    if isinstance(springs, GraphSprings):
        return lattice
    nodes = lattice.mass.shape
    index = np.arange(lattice.mass.size).reshape(nodes)
    steps = directions(lattice.dimension)
    first = np.concatenate([first_ends(index, step).ravel() for step in steps])  # pyright: ignore[reportArgumentType]
    second = np.concatenate([second_ends(index, step).ravel() for step in steps])  # pyright: ignore[reportArgumentType]
    there = _one_per_spring(springs.stiffness, nodes) > 0
    dtype = lattice.mass.dtype

    def listed(values: tuple) -> jnp.ndarray:
        return jnp.asarray(_one_per_spring(values, nodes)[there], dtype)

    wave = springs.wave
    return Lattice(
        springs=GraphSprings(
            first=jnp.asarray(first[there], jnp.int32),
            second=jnp.asarray(second[there], jnp.int32),
            stiffness=listed(springs.stiffness),
            rest_length=listed(springs.rest_length),
            incidence=jnp.asarray(incidence_of(first[there], second[there], index.size)),
            damping=None if springs.damping is None else listed(springs.damping),
            yield_force=None if springs.yield_force is None else listed(springs.yield_force),
            wave=None
            if wave is None
            else Wave(listed(wave.amplitude), wave.angular_frequency, listed(wave.delay), wave.period),  # pyright: ignore[reportArgumentType]
        ),
        rest_position=lattice.rest_position.reshape(index.size, -1),
        mass=lattice.mass.ravel(),
        inverse_mass=lattice.inverse_mass.ravel(),
        damping=lattice.damping,
        freedom=None
        if lattice.freedom is None
        else lattice.freedom.reshape(index.size, lattice.dimension, lattice.dimension),
    )


def count_springs(lattice: Lattice) -> int:
    """Springs that are there (those of some stiffness)."""
    springs = lattice.springs
    if isinstance(springs, GridSprings):
        return int((_one_per_spring(springs.stiffness, lattice.mass.shape) > 0).sum())
    return int((np.asarray(springs.stiffness) > 0).sum())


def _one_per_spring(values: tuple, nodes: tuple[int, ...]) -> np.ndarray:
    steps = directions(len(nodes))
    return np.concatenate(
        [
            np.broadcast_to(np.asarray(value), spring_shape(nodes, step)).ravel()
            for value, step in zip(values, steps, strict=True)
        ]
    )


def _check_pairs(pairs: np.ndarray, nodes: int) -> None:
    if pairs.size and (pairs.min() < 0 or pairs.max() >= nodes):
        raise ValueError(f"pairs must name nodes 0 to {nodes - 1}; found {pairs.min()} to {pairs.max()}")
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(loops):
        raise ValueError(f"pair {loops[0]} joins node {pairs[loops[0], 0]} to itself")
    if len(np.unique(np.sort(pairs, 1), axis=0)) < len(pairs):
        raise ValueError("some pair is given twice; give one spring the sum of their stiffness")


def _stiffness(length: np.ndarray, stiffness, young_modulus, area) -> np.ndarray:
    if (stiffness is None) == (young_modulus is None):
        raise ValueError("give either stiffness, or young_modulus and area")
    if stiffness is not None:
        return np.broadcast_to(np.asarray(stiffness, float), length.shape)
    if area is None:
        raise ValueError("young_modulus needs the area of the rods too: k = E A / L")
    if length.min(initial=np.inf) <= 0:
        raise ValueError("two nodes of a pair are at the same place: a rod without length has no stiffness")
    return np.broadcast_to(truss_stiffness(young_modulus, area, length), length.shape)  # pyright: ignore[reportArgumentType]


def _mass(pairs: np.ndarray, length: np.ndarray, nodes: int, area, mass, total_mass, density) -> np.ndarray:
    if sum(value is not None for value in (mass, total_mass, density)) != 1:
        raise ValueError("give exactly one of mass, total_mass and density")
    if mass is not None:
        return np.array(np.broadcast_to(np.asarray(mass, float), nodes))
    if total_mass is not None:
        return np.full(nodes, total_mass / nodes)
    if area is None:
        raise ValueError("density needs the area of the rods too")
    rods = np.broadcast_to(density * area * length, len(pairs))
    return 0.5 * (np.bincount(pairs[:, 0], rods, nodes) + np.bincount(pairs[:, 1], rods, nodes))
