"""Ways to solve linear equations with second derivatives of an energy: dense, or by products with vectors alone.

Third, for bodies on grids: vsr.physics.statics.sections.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.physics.statics.newton import Energy, System, project


@lru_cache(maxsize=64)
def dense(energy: Energy) -> System:
    """By Cholesky's factors of the whole matrix: for a few hundred coordinates of any kind of energy."""

    def solve(position: Array, parameters: Any, free: Array, sides: Array, shift: Array) -> tuple[Array, Array]:
        count, mask = position.size, free.reshape(-1)
        matrix = jax.hessian(energy)(position, parameters).reshape(count, count) * mask * mask[:, None]
        scale = jnp.abs(jnp.diagonal(matrix)).sum() / jnp.maximum(mask.sum(), 1)
        factor = jnp.linalg.cholesky(matrix + jnp.diag(jnp.where(mask > 0, shift * scale, 1)))
        answers = jax.scipy.linalg.cho_solve((factor, True), (sides.reshape(-1, count) * mask).T)
        return answers.T.reshape(sides.shape), jnp.isfinite(factor).all()

    return System(energy, solve)


@lru_cache(maxsize=64)
def matrix_free(energy: Energy, *, tolerance: float = 1e-8, most_iterations: int = 10_000) -> System:
    """By conjugate gradients on products of second derivatives with vectors: for large bodies of any kind.

    tolerance: of the residual, over the right side. Slender bodies take many iterations.
    """

    def solve(position: Array, parameters: Any, free: Array, sides: Array, shift: Array) -> tuple[Array, Array]:
        gradient = jax.grad(energy)
        probe = project(free, jnp.ones_like(position))

        def product(vector: Array) -> Array:
            return project(free, jax.jvp(lambda place: gradient(place, parameters), (position,), (vector,))[1])

        scale = jnp.sqrt((product(probe) ** 2).sum() / jnp.maximum((probe**2).sum(), 1))

        def one(side: Array) -> tuple[Array, Array]:
            def shifted(vector: Array) -> Array:
                return product(vector) + shift * scale * vector

            return _conjugate_gradients(shifted, project(free, side), tolerance, most_iterations)

        answers, positive = jax.lax.map(one, sides)
        return answers, positive.all()

    return System(energy, solve)


def _conjugate_gradients(product: Any, side: Array, tolerance: float, most: int) -> tuple[Array, Array]:
    """The answer, and whether no direction of negative curvature was met."""
    goal = (side * side).sum() * max(tolerance, 4 * float(jnp.finfo(side.dtype).eps)) ** 2

    def go_on(now: tuple) -> Array:
        _, _, _, left, count, positive = now
        return (left > goal) & (count < most) & positive

    def step(now: tuple) -> tuple:
        answer, rest, along, left, count, _ = now
        turned = product(along)
        curvature = (along * turned).sum()
        positive = curvature > 0
        share = jnp.where(positive, left / jnp.where(positive, curvature, 1), 0)
        rest = rest - share * turned
        remains = (rest * rest).sum()
        return answer + share * along, rest, rest + remains / left * along, remains, count + 1, positive

    first = jnp.zeros_like(side), side, side, (side * side).sum(), jnp.zeros((), jnp.int32), jnp.ones((), bool)
    last = jax.lax.while_loop(go_on, step, first)
    return last[0], last[5]
