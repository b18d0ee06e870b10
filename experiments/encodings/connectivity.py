"""The largest part of a body that hangs together by sides, and where it lies in its grid, inside `jit`."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.components import label_components


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


def in_the_corner(cells: Array) -> Array:
    """The same body moved as far as it can be towards the first cell; cells: negative where empty, of any number of
    axes."""
    present = cells >= 0
    for axis in range(cells.ndim):
        others = tuple(other for other in range(cells.ndim) if other != axis)
        cells = jnp.roll(cells, -jnp.argmax(present.any(others)), axis)
    return cells
