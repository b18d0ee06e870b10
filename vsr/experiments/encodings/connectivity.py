"""Bodies that hang together by sides: the largest part, or grown cell by cell; and where one lies in its grid. Pure."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.grid import label_components


def largest_component(present: Array, through: np.ndarray | None = None) -> Array:
    """True in the largest set of cells that is connected by sides (in 3-D: by faces), of any number of axes.

    Among sets of equal size the one with the first cell (row by row from the first, then by column) is taken.
    present: True where there is a voxel; through: cells of which it must have at least one, if that is asked for.
    """
    nobody = present.size
    label = label_components(jnp.where(present, 0, -1))
    size = jnp.zeros(nobody + 1, jnp.int32).at[label.ravel()].add(1).at[nobody].set(0)
    if through is not None:
        reached = jnp.zeros(nobody + 1, bool).at[label.ravel()].max(jnp.asarray(through).ravel())
        size = jnp.where(reached, size, 0)
    return present & (label == jnp.argmax(size)) & (size.max() > 0)


def strongest(scores: Array, threshold: float) -> Array:
    """Each cell's material: the one with the largest score if that is above the threshold, else -1 (empty).

    scores: (materials, *cells); a score that is not a number never wins. Returns (*cells,).
    """
    known = jnp.where(jnp.isnan(scores), -jnp.inf, scores)
    return jnp.where(known.max(0) > threshold, jnp.argmax(known, axis=0), -1).astype(jnp.int32)


def grown(scores: Array, count: int) -> Array:
    """Each cell's material: so many cells, from the one with the largest score on always the best that touches them.

    All others are empty, -1. scores: (materials, *cells); one that is not a number is worse than any other. Among
    equals the first is taken. Returns (*cells,).
    """
    lowest = float(jnp.finfo(scores.dtype).min)
    known = jnp.nan_to_num(scores, nan=lowest, neginf=lowest)
    best = known.max(0)

    def grow(_: Array, body: Array) -> Array:
        near = _neighbors(body) & ~body
        return body.at[jnp.unravel_index(jnp.argmax(jnp.where(near, best, -jnp.inf)), best.shape)].set(True)

    first = jnp.zeros(best.shape, bool).at[jnp.unravel_index(jnp.argmax(best), best.shape)].set(True)
    body = jax.lax.fori_loop(1, min(count, math.prod(best.shape)), grow, first)
    return jnp.where(body, jnp.argmax(known, axis=0), -1).astype(jnp.int32)


def _neighbors(body: Array) -> Array:
    """Cells that share a side with the body."""
    found = jnp.zeros_like(body)
    for axis in range(body.ndim):
        padded = jnp.pad(jnp.moveaxis(body, axis, 0), [(1, 1)] + [(0, 0)] * (body.ndim - 1))
        found = found | jnp.moveaxis(padded[:-2] | padded[2:], 0, axis)
    return found


def in_the_corner(cells: Array) -> Array:
    """The same body moved as far as it can be towards the first cell; cells: negative where empty, of any number of
    axes."""
    present = cells >= 0
    for axis in range(cells.ndim):
        others = tuple(other for other in range(cells.ndim) if other != axis)
        cells = jnp.roll(cells, -jnp.argmax(present.any(others)), axis)
    return cells
