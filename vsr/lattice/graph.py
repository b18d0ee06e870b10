"""Springs between any nodes: ends are gathered per spring, forces are gathered per node. Nothing is scattered."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import Vector, minus
from vsr.lattice.law import pull, resistance
from vsr.lattice.model import GraphSprings


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
