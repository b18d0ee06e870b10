"""Robots last: a function of one robot whose `vmap` adds an axis at the END of every array.

Lattice neighbors are then far apart and robots lie side by side in memory, which is fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap


def batch_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, compiled; each `vmap` of it hands all arrays over with one more axis at their end."""
    batched = custom_vmap(function)

    @batched.def_vmap
    def rule(axis_size: int, in_batched: Any, *arguments: Any) -> tuple[Any, Any]:
        def to_end(value: Array, is_batched: bool) -> Array:
            return jnp.moveaxis(value, 0, -1) if is_batched else value[..., None]

        result = batched(*jax.tree.map(to_end, arguments, tuple(in_batched)))

        def to_front(value: Array) -> Array:
            full = jnp.broadcast_to(value, (*value.shape[:-1], axis_size))
            return jnp.moveaxis(full, -1, 0)

        return jax.tree.map(to_front, result), jax.tree.map(lambda _: True, result)

    return jax.jit(batched)
