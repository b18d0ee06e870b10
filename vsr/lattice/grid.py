"""Springs of a regular grid of nodes: every spring's ends are found by shifting whole arrays, nothing is gathered.

Node arrays have one axis per dimension in reverse, (rows, columns) or (levels, rows, columns), so that row 0 is the
lowest; further axes at the end are robots. Springs lie in 4 directions in 2-D (2 edges, 2 diagonals) and 13 in
3-D (3 edges, 6 face diagonals, 4 space diagonals). A cell of its own is a grid of two nodes a side, so the same
functions serve one voxel and a block of millions.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, dot, minus
from vsr.compute.xla import materialize
from vsr.lattice.law import pull, resistance

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
    return _sum_at_nodes(materialize(position[0], pulls), position)


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
    """Force on every node from pulls along the springs.

    Around the grid a border of springs that do not pull is added once, so that the sum itself, the larger part of the
    work, need not ask at every node which springs it has.
    """
    steps = directions(len(position))
    edged = tuple(_with_border(strength, step) for strength, step in zip(pulls, steps, strict=True))
    around = tuple(_with_border(part, (1,) * len(position)) for part in position)
    edged, around = materialize(position[0], (edged, around))
    nodes = position[0].shape[: len(position)]

    def total(component: Array) -> Array:
        own = _window(component, (1,) * len(steps[0]), nodes)
        force = jnp.zeros_like(own)
        for strength, step in zip(edged, steps, strict=True):
            back = tuple(-part for part in step)
            for way in (step, back):
                # The border has moved all springs by one along the axes they step along.
                start = tuple(int(part > 0) for part in way)
                there = _window(component, tuple(1 + part for part in way), nodes)
                force = force + _window(strength, start, nodes) * (there - own)
        return force

    return tuple(total(component) for component in around)


def _with_border(values: Array, direction: Direction) -> Array:
    """Zeros before and after along every axis that a direction steps along."""
    widths = [(1, 1) if step else (0, 0) for step in reversed(direction)]
    return jnp.pad(values, widths + [(0, 0)] * (values.ndim - len(direction)))


def _window(values: Array, start: Direction, nodes: Sequence[int]) -> Array:
    """As many values as there are nodes; start: along x, y (and z)."""
    return values[tuple(slice(first, first + size) for first, size in zip(reversed(start), nodes, strict=True))]
