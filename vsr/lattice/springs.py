"""All springs of a lattice, grid or not: their force on the nodes, their tension, the energy they hold."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, dot
from vsr.lattice import graph, grid
from vsr.lattice.law import still_intact
from vsr.lattice.model import GraphSprings, GridSprings, Springs, Wave

PerSpring = Array | tuple[Array, ...]
"""One array, or one per direction of a grid."""


def forces_on_nodes(
    springs: Springs, position: Vector, velocity: Vector, time: Array, intact: PerSpring | None
) -> Vector:
    """Force of all springs on every node [N]."""
    stiffness, rest_length, damping = springs_at(springs, time, intact)
    if isinstance(springs, GraphSprings):
        return graph.gather_forces(springs, stiffness, rest_length, damping, position, velocity)  # pyright: ignore[reportArgumentType]
    return grid.gather_forces(stiffness, rest_length, damping, position, velocity)  # pyright: ignore[reportArgumentType]


def tensions(springs: Springs, position: Vector, time: Array, intact: PerSpring | None = None) -> PerSpring:
    """Elastic force of every spring [N], positive if it is stretched."""
    stiffness, rest_length, _ = springs_at(springs, time, intact)
    return jax.tree.map(
        lambda k, rest, length: k * (length - rest), stiffness, rest_length, spring_lengths(springs, position)
    )


def potential_energy(springs: Springs, position: Vector, time: Array, intact: PerSpring | None = None) -> Array:
    """Held by all springs [J], ()."""
    stiffness, rest_length, _ = springs_at(springs, time, intact)
    lengths = spring_lengths(springs, position)
    parts = jax.tree.map(
        lambda k, rest, length: (0.5 * k * (length - rest) ** 2).sum(), stiffness, rest_length, lengths
    )
    return sum(jax.tree.leaves(parts))  # pyright: ignore[reportReturnType]


def spring_lengths(springs: Springs, position: Vector) -> PerSpring:
    """Every spring's length [m]."""
    if isinstance(springs, GraphSprings):
        between = graph.stretch(springs, position)
        return jnp.sqrt(dot(between, between))
    return grid.lengths(position)


def break_overloaded(springs: Springs, position: Vector, time: Array, intact: PerSpring | None) -> PerSpring | None:
    """Which springs are still whole after their forces have acted; None if none can break."""
    if springs.yield_force is None:
        return None
    force = tensions(springs, position, time, intact)
    return jax.tree.map(still_intact, intact, force, springs.yield_force)


def all_intact(springs: Springs, position: Vector) -> PerSpring | None:
    """The state of springs of which none has broken."""
    if springs.yield_force is None:
        return None
    return jax.tree.map(lambda length: jnp.ones(length.shape, bool), spring_lengths(springs, position))


def springs_at(springs: Springs, time: Array, intact: PerSpring | None) -> tuple[Any, Any, Any]:
    """Stiffness, rest length and damping at a time [s]; nothing of springs that broke."""
    stiffness, damping = springs.stiffness, springs.damping
    if intact is not None:
        stiffness = jax.tree.map(lambda value, whole: value * whole, stiffness, intact)
        damping = None if damping is None else jax.tree.map(lambda value, whole: value * whole, damping, intact)
    return stiffness, _rest_lengths(springs, time), damping


def _rest_lengths(springs: GridSprings | GraphSprings, time: Array) -> PerSpring:
    return springs.rest_length if springs.wave is None else _swing(springs.rest_length, springs.wave, time)


def _swing(rest_length: PerSpring, wave: Wave, time: Array) -> PerSpring:
    def one(rest: Array, amplitude: Array, delay: Array) -> Array:
        phase = wave.angular_frequency * jnp.mod(time - delay, wave.period)
        return rest * (1 + amplitude * jnp.sin(phase))

    return jax.tree.map(one, rest_length, wave.amplitude, wave.delay)
