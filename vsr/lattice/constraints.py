"""Nodes that may not move everywhere: anchored, on a line, in a plane.

Constraints are projections of what a node would do (its acceleration, the blows of obstacles), so they hold exactly,
whatever the step. A node with several constraints moves only as all of them allow.
"""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from vsr.lattice.model import Lattice


def anchor(lattice: Lattice, nodes: ArrayLike) -> Lattice:
    """The same lattice with some nodes fixed; nodes: True for those, (*nodes,)."""
    chosen = _chosen(lattice, nodes)
    return replace(lattice, inverse_mass=jnp.where(chosen, 0, lattice.inverse_mass))


def release(lattice: Lattice, nodes: ArrayLike) -> Lattice:
    """The same lattice without any constraint on some nodes; nodes: True for those, (*nodes,)."""
    chosen = _chosen(lattice, nodes)
    there = jnp.where(lattice.mass > 0, 1 / jnp.where(lattice.mass > 0, lattice.mass, 1), 0)
    freed = replace(lattice, inverse_mass=jnp.where(chosen, there, lattice.inverse_mass))
    if lattice.freedom is None:
        return freed
    whole = jnp.eye(lattice.dimension, dtype=lattice.mass.dtype)
    return replace(freed, freedom=jnp.where(jnp.asarray(chosen)[..., None, None], whole, lattice.freedom))


def keep_on_line(lattice: Lattice, nodes: ArrayLike, direction: ArrayLike) -> Lattice:
    """The same lattice with some nodes that move only along a direction, (dimension,), of any length."""
    along = _unit(lattice, direction)
    return _allow(lattice, nodes, np.outer(along, along))


def keep_in_plane(lattice: Lattice, nodes: ArrayLike, normal: ArrayLike) -> Lattice:
    """The same lattice with some nodes that move only across a normal, (dimension,), of any length."""
    across = _unit(lattice, normal)
    return _allow(lattice, nodes, np.eye(lattice.dimension) - np.outer(across, across))


def loads(lattice: Lattice, nodes: ArrayLike, force: ArrayLike) -> Array:
    """External forces for `Environment.load`, (*nodes, dimension).

    nodes: True for those pushed, (*nodes,); force: in all [N], shared equally, (dimension,).
    """
    chosen = _chosen(lattice, nodes)
    share = np.asarray(force, float) / chosen.sum()
    return jnp.asarray(chosen[..., None] * share, lattice.mass.dtype)


def _allow(lattice: Lattice, nodes: ArrayLike, projection: np.ndarray) -> Lattice:
    chosen = _chosen(lattice, nodes)
    whole = np.eye(lattice.dimension)
    freedom = np.array(np.broadcast_to(whole, (*chosen.shape, *whole.shape)))
    if lattice.freedom is not None:
        freedom[...] = np.asarray(lattice.freedom)
    # What both projections leave alone is what neither takes anything from.
    taken = (whole - freedom[chosen]) + (whole - projection)
    size, axes = np.linalg.eigh(taken)
    kept = axes * (size < 1e-5)[..., None, :]
    freedom[chosen] = kept @ np.swapaxes(kept, -1, -2)
    return replace(lattice, freedom=jnp.asarray(freedom, lattice.mass.dtype))


def _chosen(lattice: Lattice, nodes: ArrayLike) -> np.ndarray:
    chosen = np.asarray(nodes)
    if chosen.dtype != bool or chosen.shape != lattice.mass.shape:
        raise ValueError(
            f"nodes must be True or False for each of {lattice.mass.shape}; got {chosen.dtype} {chosen.shape}"
        )
    if not chosen.any():
        raise ValueError("no node is chosen: the mask is False everywhere")
    return chosen


def _unit(lattice: Lattice, direction: ArrayLike) -> np.ndarray:
    vector = np.asarray(direction, float)
    size = np.linalg.norm(vector)
    if vector.shape != (lattice.dimension,) or size == 0:
        raise ValueError(f"a direction has {lattice.dimension} parts, not all 0; got {direction}")
    return vector / size
