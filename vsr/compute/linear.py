"""Linear algebra: matrix products in full precision, and equations with small positive definite matrices.

By default some GPUs round the factors of a product to ten bits; `product` and `exactly` do not.

Equations are solved by a library's routines or by plain array operations. The library's are the fastest for one matrix.
On processors they hang where several devices compute batches of them at the same time (seen with jaxlib 0.10.2: two
devices, 600 matrices each), so what is made for many bodies at once uses array operations, which batch like everything
else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

F = TypeVar("F", bound=Callable[..., Any])
product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
"""As `@`."""


def exactly(function: F) -> F:
    """The same function, every product in it with all digits."""

    @wraps(function)
    def exact(*arguments: Any, **options: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return function(*arguments, **options)

    return exact  # pyright: ignore[reportReturnType]


class Linear(NamedTuple):
    """Which way is taken."""

    plainly: bool
    """by array operations, for many matrices at once"""

    def cholesky(self, matrix: Array) -> Array:
        """The lower factor, (n, n); not a number where the matrix is not positive definite."""
        return _cholesky(matrix) if self.plainly else jnp.linalg.cholesky(matrix)

    def forward(self, lower: Array, sides: Array) -> Array:
        """Answers x of L x = sides, (n, sides)."""
        if self.plainly:
            return _substitute(lower, sides, jnp.arange(len(lower)))
        return jax.lax.linalg.triangular_solve(lower, sides, left_side=True, lower=True)

    def backward(self, lower: Array, sides: Array) -> Array:
        """Answers x of Lᵀ x = sides, (n, sides)."""
        if self.plainly:
            return _substitute(lower.T, sides, jnp.arange(len(lower))[::-1])
        return jax.lax.linalg.triangular_solve(lower, sides, left_side=True, lower=True, transpose_a=True)

    def solve(self, matrix: Array, sides: Array) -> Array:
        """Answers x of M x = sides, (n, sides); M need not be symmetric, but its leading minors must be above 0."""
        return _eliminated(matrix, sides) if self.plainly else jnp.linalg.solve(matrix, sides)


LIBRARY, PLAIN = Linear(False), Linear(True)


def _cholesky(matrix: Array) -> Array:
    rows = jnp.arange(len(matrix))

    def column(number: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, lower = carry
        values = jax.lax.dynamic_index_in_dim(left, number, 1, keepdims=False)
        pivot = jax.lax.dynamic_index_in_dim(values, number, 0, keepdims=False)
        below = jnp.where(rows >= number, values / jnp.sqrt(pivot), 0)
        lower = jnp.where(rows == number, below[:, None], lower)
        return left - below[:, None] * below, lower

    return jax.lax.fori_loop(0, len(matrix), column, (matrix, jnp.zeros_like(matrix)))[1]


def _substitute(triangle: Array, sides: Array, order: Array) -> Array:
    """Answers of a triangular system; order: of its rows, the one with a single unknown first."""
    rows = jnp.arange(len(triangle))[:, None]

    def row(step: Array, left: Array) -> Array:
        number = order[step]
        column = jax.lax.dynamic_index_in_dim(triangle, number, 1)
        pivot = jax.lax.dynamic_index_in_dim(column, number, 0)
        answer = jax.lax.dynamic_index_in_dim(left, number, 0) / pivot
        # Rows that are done keep their answers: the triangle has nothing there.
        return jnp.where(rows == number, answer, left - column * answer)

    return jax.lax.fori_loop(0, len(triangle), row, sides)


def _eliminated(matrix: Array, sides: Array) -> Array:
    """By Gauss and Jordan, without exchanging rows."""
    rows = jnp.arange(len(matrix))[:, None]

    def column(number: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, right = carry
        pivot_row, pivot_side = (jax.lax.dynamic_index_in_dim(part, number, 0) for part in (left, right))
        pivot = jax.lax.dynamic_index_in_dim(pivot_row, number, 1)
        factor = jax.lax.dynamic_index_in_dim(left, number, 1)
        unit_row, unit_side = pivot_row / pivot, pivot_side / pivot
        here = rows == number
        return jnp.where(here, unit_row, left - factor * unit_row), jnp.where(
            here, unit_side, right - factor * unit_side
        )

    return jax.lax.fori_loop(0, len(matrix), column, (matrix, sides))[1]
