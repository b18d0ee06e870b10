"""Small convex quadratic programs: min ½ v·Q v + c·v where A v ≤ b, by an interior-point method.

S. Mehrotra's predictor and corrector. For a handful of unknowns; batches run together.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.linear import LIBRARY, Linear, product

MOST_ITERATIONS = 30


class _Point(NamedTuple):
    unknown: Array
    slack: Array
    price: Array
    gap: Array
    count: Array


def minimize(matrix: Array, gradient: Array, sides: Array, bound: Array, linear: Linear = LIBRARY) -> Array:
    """The minimum, (n,). matrix: positive definite, (n, n); slope: (n,); sides: (m, n); bound: 0 or more, (m,)."""
    # In units in which curvatures and bounds are near 1.
    size = jnp.maximum(jnp.trace(matrix) / len(gradient), jnp.finfo(gradient.dtype).tiny)
    matrix, gradient = matrix / size, gradient / size
    goal = 4 * jnp.finfo(gradient.dtype).eps
    goal = goal if gradient.dtype == jnp.float32 else goal * 1e-2

    def go_on(now: _Point) -> Array:
        return (now.gap > goal) & (now.count < MOST_ITERATIONS)

    def step(now: _Point) -> _Point:
        off = product(matrix, now.unknown) + gradient + product(sides.T, now.price)
        gone = product(sides, now.unknown) + now.slack - bound
        ratio = now.price / now.slack
        lower = linear.cholesky(matrix + product(sides.T * ratio, sides))

        def direction(aim: Array) -> tuple[Array, Array, Array]:
            """Towards a product of slack and price."""
            push = (aim - now.price * gone) / now.slack
            # Of s z + ds z + s dz = aim, A dv + ds = -gone, Q dv + Aᵀ dz = -off.
            right = -off + product(sides.T, now.price - push)
            move = linear.backward(lower, linear.forward(lower, right[:, None]))[:, 0]
            slack = -gone - product(sides, move)
            return move, slack, (aim - now.price * slack) / now.slack - now.price

        _, slack, price = direction(jnp.zeros_like(bound))
        share = _longest(now.slack, slack), _longest(now.price, price)
        left = ((now.slack + share[0] * slack) * (now.price + share[1] * price)).mean()
        middle = (left / now.gap) ** 3 * now.gap
        move, slack, price = direction(middle - slack * price)
        share = 0.995 * jnp.minimum(_longest(now.slack, slack), _longest(now.price, price))
        there = now.slack + share * slack, now.price + share * price
        good = jnp.isfinite(move).all()
        taken = _Point(now.unknown + share * move, *there, (there[0] * there[1]).mean(), now.count + 1)
        # Rounding ends it: what was found is kept.
        return jax.tree.map(lambda new, old: jnp.where(good, new, old), taken, now._replace(gap=0 * now.gap))

    first = jnp.maximum(bound, 0.1)
    start = _Point(
        jnp.zeros_like(gradient), first, jnp.full_like(bound, 0.1), 0.1 * first.mean(), jnp.zeros((), jnp.int32)
    )
    return jax.lax.while_loop(go_on, step, start).unknown


def _longest(value: Array, move: Array) -> Array:
    """Share of a move, at most 1, that leaves all values above 0."""
    return jnp.minimum(1, jnp.where(move < 0, -value / jnp.where(move < 0, move, -1), jnp.inf).min())
