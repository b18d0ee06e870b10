"""Who breeds and who stays: plain functions of fitness."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from vsr.evo.operators import flat_draw


def tournament(key: Array, fitness: Array, size: int, count: int) -> Array:
    """Places of the winners of `count` tournaments among `size` individuals drawn with replacement, (count,).

    The first drawn wins among equals.
    """
    drawn = flat_draw(partial(jax.random.randint, minval=0, maxval=fitness.shape[0]), key, (count, size))
    return jnp.take_along_axis(drawn, jnp.argmax(fitness[drawn], axis=1)[:, None], axis=1)[:, 0]


def truncation(fitness: Array, count: int) -> Array:
    """Places of the fittest, best first; among equals the earlier place comes first, (count,)."""
    return jnp.argsort(-fitness, stable=True)[:count]
