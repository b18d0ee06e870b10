"""Programs to differentiate: without loops whose end is not known, and with roots that have gradients at 0.

The numbers are the same; only what the compiler or the hardware would like better is left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import jax
import jax.numpy as jnp
from jax import Array

_WANTED = ContextVar("gradients", default=False)


@contextlib.contextmanager
def differentiable_trace() -> Iterator[None]:
    """What is traced inside can be differentiated."""
    token = _WANTED.set(True)
    try:
        yield
    finally:
        _WANTED.reset(token)


def gradients_needed() -> bool:
    """Whether what is traced now is to be differentiated."""
    return _WANTED.get()


def root(square: Array) -> Array:
    """The square root of what is not negative; where gradients are wanted, with one at 0."""
    return differentiable_sqrt(square) if gradients_needed() else jnp.sqrt(square)


def differentiable_sqrt(square: Array) -> Array:
    """The square root of what is not negative; at 0 its gradient is 0 instead of infinite."""
    there = square > 0
    return jnp.where(there, jnp.sqrt(jnp.where(there, square, 1)), 0)


def inverse_root(square: Array) -> Array:
    """One over the square root, for 0 that of the least number there is, with gradient 0."""
    least = jnp.finfo(square.dtype).tiny
    if not gradients_needed():
        return jax.lax.rsqrt(jnp.maximum(square, least))
    there = square > least
    return jnp.where(there, jax.lax.rsqrt(jnp.where(there, square, 1)), least**-0.5)


def share_of(part: Array, whole: Array) -> Array:
    """A part over the whole, 1 at most, and 0 for nothing of nothing; neither is negative."""
    if not gradients_needed():
        return jnp.minimum(part / jnp.maximum(whole, jnp.finfo(whole.dtype).tiny), 1)
    less = part < whole
    return jnp.where(less, part / jnp.where(less, whole, 1), jnp.where(part > 0, 1.0, 0.0))
