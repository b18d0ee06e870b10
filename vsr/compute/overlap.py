"""Values of the objects between borders, added up at the borders."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def overlap(starting: Array, ending: Array, axis: int) -> Array:
    """What starts and what ends at each of n + 1 borders, added up.

    starting, ending: of the n objects between the borders, along the axis. Padding both with a zero would say the
    same, but the CPU would then test at every element whether it is one.
    """
    first, later = jnp.split(starting, [1], axis)
    earlier, last = jnp.split(ending, [ending.shape[axis] - 1], axis)
    return jnp.concatenate([first, later + earlier, last], axis)
