"""What actions and observations can be: boxes of numbers, as gymnax has them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Box(NamedTuple):
    """Arrays of one shape, every number between the same bounds."""

    low: float
    high: float
    shape: tuple[int, ...]
    dtype: jnp.dtype = jnp.dtype("float32")

    def sample(self, key: Array) -> Array:
        """Drawn uniformly."""
        return jax.random.uniform(key, self.shape, self.dtype, self.low, self.high)

    def contains(self, values: Array) -> Array:
        """Whether all numbers are within bounds, ()."""
        return ((values >= self.low) & (values <= self.high)).all()
