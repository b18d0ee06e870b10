"""The area of a convex hull, inside `jit`: Andrew's monotone chain with arrays of fixed size."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array


def hull_area(points: Array, exists: Array) -> Array:
    """Of the points that exist, (), in squared units of theirs; points: (p, 2); exists: (p,); at least one exists."""
    # What does not exist lies upon a point that does, and changes nothing.
    first = points[jnp.argmax(exists)]
    points = jnp.where(exists[:, None], points, first)
    order = jnp.lexsort((points[:, 1], points[:, 0]))
    lower, upper = _chain(points[order]), _chain(points[order[::-1]])
    return 0.5 * (lower + upper)


def _chain(points: Array) -> Array:
    """Twice the signed area between the origin and the hull's lower side, for points sorted by x; or its upper side."""
    count = points.shape[0]

    def add(number: int, now: tuple[Array, Array]) -> tuple[Array, Array]:
        point = points[number]

        def turns_right(now: tuple[Array, Array]) -> Array:
            stack, size = now
            return (size >= 2) & (_turn(stack[size - 2], stack[size - 1], point) <= 0)

        stack, size = jax.lax.while_loop(turns_right, lambda now: (now[0], now[1] - 1), now)
        return stack.at[size].set(point), size + 1

    start = jnp.zeros_like(points), jnp.zeros((), jnp.int32)
    stack, size = jax.lax.fori_loop(0, count, add, start)
    following = jnp.roll(stack, -1, 0)
    inside = jnp.arange(count) < size - 1
    cross = stack[:, 0] * following[:, 1] - stack[:, 1] * following[:, 0]
    return jnp.where(inside, cross, 0).sum()


def _turn(a: Array, b: Array, c: Array) -> Array:
    """Positive if the way from a over b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
