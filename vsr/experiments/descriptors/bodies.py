"""Descriptors of bodies. Pure functions of the grid of materials, negative where empty, any number of axes, x last."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def voxels(cells: Array) -> Array:
    """How many voxels the body has."""
    return _present(cells).sum()


def width_over_height(cells: Array) -> Array:
    """Of the smallest box around the body: cells along x over cells upwards."""
    return _extent(cells, cells.ndim - 1) / jnp.maximum(_extent(cells, 0), 1)


def filled_share(cells: Array) -> Array:
    """Voxels over cells of the smallest box around the body."""
    box = jnp.ones(())
    for axis in range(cells.ndim):
        box = box * _extent(cells, axis)
    return _present(cells).sum() / jnp.maximum(box, 1)


def elongation(cells: Array) -> Array:
    """From 0 for a round body to 1 for a line: 1 - sqrt(λmin/λmax), λ the moments of its voxels along main axes."""
    here = _present(cells).astype(jnp.float32)
    count = jnp.maximum(here.sum(), 1)
    places = jnp.stack(jnp.meshgrid(*map(jnp.arange, cells.shape), indexing="ij"), -1).astype(jnp.float32)
    middle = (here[..., None] * places).sum(tuple(range(cells.ndim))) / count
    apart = (places - middle).reshape(-1, cells.ndim)
    moments = (here.reshape(-1, 1, 1) * apart[:, :, None] * apart[:, None]).sum(0) / count
    # A square of side 1 has a moment of its own, 1/12, so that a single voxel is round.
    least, most = _extremes(moments + jnp.eye(cells.ndim) / 12)
    return 1 - jnp.sqrt(jnp.clip(least / most, 0, 1))


def symmetry(cells: Array) -> Array:
    """Share of voxels whose mirror image, left to right in the body's own box, is of the same material."""
    columns = cells.shape[-1]
    filled = _present(cells).any(tuple(range(cells.ndim - 1)))
    first, last = jnp.argmax(filled), columns - 1 - jnp.argmax(filled[::-1])
    image = jnp.clip(first + last - jnp.arange(columns), 0, columns - 1)
    same = (cells == cells[..., image]) & _present(cells)
    return same.sum() / jnp.maximum(_present(cells).sum(), 1)


def share_of(material: int, cells: Array) -> Array:
    """Voxels of one material, by its index, over all voxels."""
    return (cells == material).sum() / jnp.maximum(_present(cells).sum(), 1)


def _present(cells: Array) -> Array:
    return cells >= 0


def _extent(cells: Array, axis: int) -> Array:
    """Cells from the first to the last that is filled along an axis, 0 for an empty body, ()."""
    filled = _present(cells).any(tuple(other for other in range(cells.ndim) if other != axis))
    size = len(filled)
    span = size - jnp.argmax(filled[::-1]) - jnp.argmax(filled)
    return jnp.where(filled.any(), span, 0)


def _extremes(matrix: Array) -> tuple[Array, Array]:
    """The smallest and the largest eigenvalue of a symmetric matrix of two or three rows, in closed form."""
    mean = jnp.trace(matrix) / len(matrix)
    rest = matrix - mean * jnp.eye(len(matrix))
    spread = jnp.sqrt((rest**2).sum() / (2 if len(matrix) == 2 else 6))
    if len(matrix) == 2:
        return mean - spread, mean + spread
    safe = jnp.where(spread > 1e-12, spread, 1)
    scaled = rest / safe
    determinant = (
        scaled[0, 0] * (scaled[1, 1] * scaled[2, 2] - scaled[1, 2] ** 2)
        - scaled[0, 1] * (scaled[0, 1] * scaled[2, 2] - scaled[1, 2] * scaled[0, 2])
        + scaled[0, 2] * (scaled[0, 1] * scaled[1, 2] - scaled[1, 1] * scaled[0, 2])
    )
    angle = jnp.arccos(jnp.clip(determinant / 2, -1, 1)) / 3
    most = mean + 2 * spread * jnp.cos(angle)
    least = mean + 2 * spread * jnp.cos(angle + 2 * jnp.pi / 3)
    return least, most
