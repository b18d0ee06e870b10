"""Linear equations of bodies on grids: a body is a row of sections, and each meets only the next.

Sections lie across the axis with most nodes. The matrix of second derivatives then has blocks on its diagonal and
beside it, and Cholesky's factors keep that shape: the work grows with the length of a body and the cube of a section.
What couples a whole body, such as the volume of a chamber, comes on top as a few vectors (Woodbury).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.linear import LIBRARY, Linear, product
from vsr.physics.statics.newton import Energy, System

AT_ONCE = 16
"""Coordinates of a section whose second derivatives are found at once."""


class Blocks(NamedTuple):
    """A symmetric matrix, section by section."""

    own: Array
    """of every section with itself, (sections, m, m)"""
    next: Array
    """of every section but the last (rows) with the next (columns), (sections - 1, m, m)"""


class Factors(NamedTuple):
    """Cholesky's factors: of every section, lower, and what it leaves to the next."""

    own: Array
    next: Array


def factorize(blocks: Blocks, linear: Linear = LIBRARY) -> tuple[Factors, Array]:
    """And whether the matrix is positive definite, ()."""

    def step(taken: Array, block: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        lower = linear.cholesky(block[0] - taken)
        beside = linear.forward(lower, block[1])
        return product(beside.T, beside), (lower, beside)

    none = jnp.zeros_like(blocks.own[:1])
    following = jnp.concatenate([blocks.next, none])
    _, (own, beside) = jax.lax.scan(step, none[0], (blocks.own, following))
    return Factors(own, beside), jnp.isfinite(own).all()


def back_substitute(factors: Factors, sides: Array, linear: Linear = LIBRARY) -> Array:
    """Answers to right sides, (sections, m, sides)."""

    def forward(taken: Array, part: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        lower, beside, side = part
        answer = linear.forward(lower, side - taken)
        return product(beside.T, answer), answer

    def backward(later: Array, part: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        lower, beside, side = part
        answer = linear.backward(lower, side - product(beside, later))
        return answer, answer

    none = jnp.zeros_like(sides[0])
    half = jax.lax.scan(forward, none, (factors.own, factors.next, sides))[1]
    return jax.lax.scan(backward, none, (factors.own, factors.next, half), reverse=True)[1]


def solve_blocks(blocks: Blocks, free: Array, sides: Array, shift: Array) -> tuple[Array, Array]:
    """Answers on free coordinates and whether the matrix is positive definite there.

    free: (sections, m); sides: (sections, m, sides); shift: over the mean size of the diagonal.
    """
    factors, positive = factorize(clamped(blocks, free, shift))
    return back_substitute(factors, sides * free[..., None]), positive


def clamped(blocks: Blocks, free: Array, shift: Array) -> Blocks:
    """The matrix with 1 on the diagonal for what is not free, and a shift for what is."""
    own = blocks.own * free[:, :, None] * free[:, None]
    diagonal = jnp.diagonal(own, axis1=1, axis2=2)
    scale = jnp.abs(diagonal).sum() / jnp.maximum(free.sum(), 1)
    added = jnp.where(free > 0, shift * scale, 1)
    own = own + added[:, :, None] * jnp.eye(own.shape[-1], dtype=own.dtype)
    return Blocks(own, blocks.next * free[:-1, :, None] * free[1:, None])


def longest_axis(nodes: tuple[int, ...]) -> int:
    """Along which sections are counted."""
    return max(range(len(nodes)), key=lambda axis: nodes[axis])


def to_sections(vector: Array, axis: int) -> Array:
    """Coordinates section by section, (..., sections, m); axis: along which sections are counted."""
    return jnp.moveaxis(vector, axis, 0).reshape(vector.shape[axis], -1)


def from_sections(values: Array, shape: tuple[int, ...], axis: int) -> Array:
    """What `to_sections` undoes."""
    moved = (shape[axis], *shape[:axis], *shape[axis + 1 :])
    return jnp.moveaxis(values.reshape(moved), 0, axis)


@lru_cache(maxsize=64)
def by_sections(energy: Energy, axis: int) -> System:
    """Of any energy of nodes on a grid that couples nodes of one section, or of two that follow each other, only.

    axis: of coordinates, along which sections are counted. Blocks are read off products with vectors that are 1 in one
    coordinate of every third section.
    """

    def blocks_at(position: Array, parameters: Any) -> Blocks:
        shape = position.shape
        start = to_sections(position, axis)
        count, size = start.shape

        def gradient(values: Array) -> Array:
            return to_sections(jax.grad(energy)(from_sections(values, shape, axis), parameters), axis)

        third = (jnp.arange(count)[:, None] % 3 == jnp.arange(3)).astype(position.dtype)

        def product(color: Array, coordinate: Array) -> Array:
            probe = third[:, color][:, None] * (jnp.arange(size) == coordinate)
            return jax.jvp(gradient, (start,), (probe.astype(position.dtype),))[1]

        def products(coordinate: Array) -> Array:
            return jax.vmap(product, (0, None))(jnp.arange(3), coordinate)

        # In turns, or else large bodies would not fit into memory.
        every = jnp.swapaxes(jax.lax.map(products, jnp.arange(size), batch_size=AT_ONCE), 0, 1)
        place = jnp.arange(count)
        own = every[place % 3, :, place]
        following = every[(place[:-1] + 1) % 3, :, place[:-1]]
        return Blocks(own, jnp.swapaxes(following, 1, 2))

    def solve(position: Array, parameters: Any, free: Array, sides: Array, shift: Array) -> tuple[Array, Array]:
        columns = jnp.stack([to_sections(side, axis) for side in sides], -1)
        answers, positive = solve_blocks(blocks_at(position, parameters), to_sections(free, axis), columns, shift)
        whole = jnp.stack([from_sections(answers[..., k], position.shape, axis) for k in range(len(sides))])
        return whole, positive

    return System(energy, solve)
