"""What actions and observations can be: boxes of numbers, as gymnax has them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


@dataclass(frozen=True)
class Box:
    """Arrays of one shape, every number between the same bounds."""

    low: float
    high: float
    shape: tuple[int, ...]
    dtype: jnp.dtype

    def sample(self, key: Array) -> Array:
        """Drawn uniformly."""
        return jax.random.uniform(key, self.shape, self.dtype, self.low, self.high)

    def contains(self, values: Array) -> Array:
        """Whether all numbers are within bounds, ()."""
        return ((values >= self.low) & (values <= self.high)).all()

    def __reduce__(self) -> tuple[Any, ...]:
        return box, (self.low, self.high, self.shape, self.dtype)


def box(low: float, high: float, shape: tuple[int, ...], dtype: jnp.dtype) -> Box:
    """A Box. In a program that has imported gymnax, whose wrappers ask for its own class, it is one of that too."""
    gymnax = sys.modules.get("gymnax.environments.spaces")
    return (Box if gymnax is None else _also(gymnax.Box))(low, high, shape, dtype)


@cache
def _also(theirs: type) -> type[Box]:
    """Box as a class of somebody else's too."""
    return type("Box", (Box, theirs), {"__doc__": Box.__doc__, "__module__": Box.__module__})
