"""All springs of a lattice, grid or graph: their force on the nodes, their tension, the energy they hold.

Springs can break for good where the force in them, pull or push, exceeds a limit (`breakable`), and can be driven by a
wave (`driven`), as in Titan's worm and swarm.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from vsr.compute.vector import Vector, dot
from vsr.lattice import graph, grid
from vsr.lattice.grid import directions, first_ends, second_ends
from vsr.lattice.law import still_intact
from vsr.lattice.model import GraphSprings, Lattice, Springs, State, Wave

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
    wave, rest_length = springs.wave, springs.rest_length
    return stiffness, rest_length if wave is None else _driven_lengths(rest_length, wave, time), damping


def _driven_lengths(rest_length: PerSpring, wave: Wave, time: Array) -> PerSpring:
    def one(rest: Array, amplitude: Array, delay: Array) -> Array:
        phase = wave.angular_frequency * jnp.mod(time - delay, wave.period)
        return rest * (1 + amplitude * jnp.sin(phase))

    return jax.tree.map(one, rest_length, wave.amplitude, wave.delay)


def breakable(lattice: Lattice, yield_force: ArrayLike) -> Lattice:
    """The same lattice with springs that break above a force [N]: one number, or like the springs' stiffness.

    A state made before must be made again (`rest_state`), for it does not say which springs are whole.
    """
    springs = lattice.springs
    force = jax.tree.map(
        lambda stiffness: jnp.broadcast_to(jnp.asarray(yield_force, stiffness.dtype), stiffness.shape),
        springs.stiffness,
    )
    return replace(lattice, springs=replace(springs, yield_force=force))


def broken(lattice: Lattice, state: State) -> Array | tuple[Array, ...]:
    """True for springs that broke, shaped like `State.intact`; never where there was none."""
    if state.intact is None:
        return jax.tree.map(lambda stiffness: jnp.zeros(stiffness.shape, bool), lattice.springs.stiffness)
    return jax.tree.map(lambda whole, stiffness: ~whole & (stiffness > 0), state.intact, lattice.springs.stiffness)


def broken_count(lattice: Lattice, state: State) -> Array:
    """How many springs broke, ()."""
    return sum(part.sum() for part in jax.tree.leaves(broken(lattice, state)))  # pyright: ignore[reportReturnType]


def peristaltic_wave(
    lattice: Lattice, amplitude: float, angular_frequency: float, period: float, speed: float = 1.0
) -> Wave:
    """Titan's drive of a worm: rest lengths are sinusoids, later the further right a spring begins.

    amplitude: share of the rest length; angular_frequency: [rad/s]; period: [s] after which the sinusoid repeats. The
    delay of a spring is the smaller x of its ends, seen from the leftmost node, over the speed of the wave [m/s].
    """
    springs, dtype = lattice.springs, lattice.mass.dtype
    x = np.asarray(lattice.rest_position)[..., 0]
    leftmost = x[np.asarray(lattice.mass) > 0].min()
    if isinstance(springs, GraphSprings):
        delay = np.minimum(x[np.asarray(springs.first)], x[np.asarray(springs.second)])
        sinusoid = jnp.full(delay.shape, amplitude, dtype)
    else:
        steps = directions(lattice.dimension)
        delay = tuple(np.minimum(first_ends(x, step), second_ends(x, step)) for step in steps)  # pyright: ignore[reportArgumentType]
        sinusoid = tuple(jnp.full((1,) * lattice.dimension, amplitude, dtype) for _ in steps)
    return Wave(
        amplitude=sinusoid,
        angular_frequency=jnp.asarray(angular_frequency, dtype),
        delay=jax.tree.map(lambda value: jnp.asarray((value - leftmost) / speed, dtype), delay),
        period=jnp.asarray(period, dtype),
    )


def driven(lattice: Lattice, wave: Wave | None) -> Lattice:
    """The same lattice with springs driven by a wave, or (None) not driven."""
    return replace(lattice, springs=replace(lattice.springs, wave=wave))
