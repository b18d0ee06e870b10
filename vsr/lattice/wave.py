"""Springs that swing: the drive of Titan's worm and swarm, for grids and graphs alike."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from vsr.lattice.grid import directions, first_ends, second_ends
from vsr.lattice.model import GraphSprings, Lattice, Wave


def peristaltic_wave(
    lattice: Lattice, amplitude: float, angular_frequency: float, period: float, speed: float = 1.0
) -> Wave:
    """Titan's drive of a worm: springs swing, later the further right they begin.

    amplitude: share of the rest length; angular_frequency: [rad/s]; period: [s] after which the swing repeats. The
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
    """The same lattice with springs that swing, or (None) do not."""
    return replace(lattice, springs=replace(lattice.springs, wave=wave))
