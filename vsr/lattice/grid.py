"""Springs of a regular grid of nodes: every spring's ends are found by shifting whole arrays, nothing is gathered.

Node arrays have one axis per dimension in reverse, (rows, columns) or (levels, rows, columns), so that row 0 is the
lowest; further axes at the end are robots. Springs lie in 4 directions in the plane (2 edges, 2 diagonals) and 13 in
space (3 edges, 6 face diagonals, 4 space diagonals). A cell of its own is a grid of two nodes a side, so the same
functions serve one voxel and a block of millions.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

import jax.numpy as jnp
from jax import Array

from vsr.lattice.law import pull, resistance
from vsr.lattice.vector import Vector, dot, minus
from vsr.physics.settle import settle

Direction = tuple[int, ...]


@lru_cache
def directions(dimension: int) -> tuple[Direction, ...]:
    """Steps along x, y (and z) from a spring's first end to its second: edges, then face, then space diagonals."""
    steps = itertools.product((-1, 0, 1), repeat=dimension)
    half = [step for step in steps if next((part for part in step if part), 0) > 0]
    return tuple(sorted(half, key=lambda step: (kind(step), [-part for part in step])))


def kind(direction: Direction) -> int:
    """0 for an edge, 1 for a face diagonal, 2 for a space diagonal."""
    return sum(map(abs, direction)) - 1


def first_ends(field: Array, direction: Direction) -> Array:
    """The values at the springs' first ends; an axis along which the direction steps is one shorter."""
    return field[tuple(slice(None, -1) if step > 0 else slice(-step, None) for step in reversed(direction))]


def second_ends(field: Array, direction: Direction) -> Array:
    """The values at the springs' second ends."""
    return first_ends(field, tuple(-step for step in direction))


def spring_shape(nodes: Sequence[int], direction: Direction) -> tuple[int, ...]:
    """How many springs of one direction a grid of nodes has along each axis."""
    return tuple(size - abs(step) for size, step in zip(nodes, reversed(direction), strict=True))


def gather_forces(
    stiffness: Sequence[Array],
    rest_length: Sequence[Array],
    damping: Sequence[Array] | None,
    position: Vector,
    velocity: Vector,
) -> Vector:
    """Force of all springs on every node [N]."""
    pulls = pulls_of(stiffness, rest_length, damping, position, velocity)
    return _sum_at_nodes(settle(position[0], pulls), position)


def resisting_forces(constants: Sequence[Array], rest: Vector, shift: Vector) -> Vector:
    """Forces against small shifts about a pose at rest, linear; minus what the springs then do to the nodes."""
    steps = directions(len(rest))
    parts = zip(constants, steps, strict=True)
    pulls = tuple(resistance(constant, stretch(rest, step), stretch(shift, step)) for constant, step in parts)
    return tuple(-part for part in _sum_at_nodes(pulls, rest))


def pulls_of(
    stiffness: Sequence[Array],
    rest_length: Sequence[Array],
    damping: Sequence[Array] | None,
    position: Vector,
    velocity: Vector,
) -> tuple[Array, ...]:
    """Every spring's force over its length [N/m], per direction."""
    return tuple(
        pull(
            stiffness[i],
            rest_length[i],
            None if damping is None else damping[i],
            stretch(position, step),
            stretch(velocity, step),
        )
        for i, step in enumerate(directions(len(position)))
    )


def stretch(field: Vector, direction: Direction) -> Vector:
    """What the second ends have more than the first."""
    return minus(
        tuple(second_ends(part, direction) for part in field), tuple(first_ends(part, direction) for part in field)
    )


def lengths(position: Vector) -> tuple[Array, ...]:
    """Every spring's length [m], per direction."""
    return tuple(
        jnp.sqrt(dot(between, between)) for between in (stretch(position, step) for step in directions(len(position)))
    )


def _sum_at_nodes(pulls: Sequence[Array], position: Vector) -> Vector:
    """Force on every node from pulls along the springs."""
    steps = directions(len(position))
    return tuple(
        sum(_on_both_ends(strength, component, step) for strength, step in zip(pulls, steps, strict=True))  # pyright: ignore[reportReturnType]
        for component in position
    )


def _on_both_ends(strength: Array, component: Array, direction: Direction) -> Array:
    """Force along one axis on every node from the springs of one direction."""
    force = strength * (second_ends(component, direction) - first_ends(component, direction))
    return _spread(force, direction, first=True) - _spread(force, direction, first=False)


def _spread(force: Array, direction: Direction, *, first: bool) -> Array:
    """A value per spring at the node of one end, 0 at nodes without."""
    widths = []
    for step in reversed(direction):
        after = (step > 0) == first
        widths.append((0, 0) if step == 0 else ((0, 1) if after else (1, 0)))
    return jnp.pad(force, widths + [(0, 0)] * (force.ndim - len(direction)))
