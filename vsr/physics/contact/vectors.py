"""Arrays of contact: vectors have their components on the FIRST axis, and every array may have further axes at the END.

Then robots lie side by side in memory (vsr.compute.xla), which is fast, and sums run over leading axes. In the kernel
of contacts (vsr.physics.contact.gpu) there are no further axes, and the last one may be that of lanes.
"""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.xla import in_kernel

Tree = TypeVar("Tree")


FEW = 64
"""Up to so many terms are added one by one: XLA's sums on a CPU take one number at a time, these a whole vector."""


def dot(one: Array, other: Array) -> Array:
    """The scalar product."""
    parts = [one[axis] * other[axis] for axis in range(max(one.shape[0], other.shape[0]))]
    return sum(parts[1:], parts[0])


def summed(values: Array, axis: int) -> Array:
    """The sum along an axis."""
    if in_kernel() or not 0 < values.shape[axis] <= FEW:
        return values.sum(axis)
    parts = parts_of(values, axis)
    return sum(parts[1:], parts[0])


def parts_of(values: Array, axis: int) -> list[Array]:
    """All that lies along an axis."""
    return [jax.lax.index_in_dim(values, place, axis, keepdims=False) for place in range(values.shape[axis])]


def largest(values: Array, axis: int) -> tuple[Array, Array]:
    """The largest along an axis, and its place, the first of equals."""
    if values.shape[axis] > FEW:
        return values.max(axis), values.argmax(axis)
    first, *others = parts_of(values, axis)
    best, place = first, jnp.zeros(first.shape, jnp.int32)
    for number, value in enumerate(others, 1):
        place = jnp.where(value > best, number, place)
        best = jnp.maximum(value, best)
    return best, place


def cross(one: Array, other: Array) -> Array:
    """The vector product in 3-D."""
    (a, b, c), (x, y, z) = one, other
    return jnp.stack([b * z - c * y, c * x - a * z, a * y - b * x])


def moment(lever: Array, push: Array) -> Array:
    """Of pushes at levers: one component in 2-D, three in 3-D."""
    if lever.shape[0] == 2:
        return (lever[0] * push[1] - lever[1] * push[0])[None]
    return cross(lever, push)


def carried(spin: Array, lever: Array) -> Array:
    """Velocity of points that a spin carries round."""
    if lever.shape[0] == 2:
        return jnp.stack([-spin[0] * lever[1], spin[0] * lever[0]])
    return cross(spin, lever)


def unit(vector: Array) -> Array:
    """Of length 1; 0 for what has no length."""
    squared = dot(vector, vector)
    return jnp.where(squared > 0, 1 / jnp.sqrt(jnp.where(squared > 0, squared, 1)), 0) * vector


def looks_along(normal: Array, outward: Array) -> Array:
    """Whether unit normals of faces lead the same way as a point's own surface does: they cannot press on each other.

    A point of a body that lies flush with such a face is neither in it nor is it put out through it.
    """
    along = dot(normal, outward)
    return (along > 0) & (along * along > 0.1 * dot(outward, outward))


def beside(constant: np.ndarray, like: Array, axes: int) -> Array:
    """A table known before tracing, with as many further axes as an array has behind its own first ones."""
    return jnp.asarray(constant.reshape(*constant.shape, *(1,) * (like.ndim - axes)))


def look_up(values: Array, index: Array, axis: int = 0) -> Array:
    """values[index] along an axis, for an index of some axes and the further ones: (..., n, ...) -> (..., i, j, ...).

    The index has its own axes in front, then the further axes of the values.
    """
    further = values.ndim - axis - 1
    own = index.shape[: index.ndim - further]
    flat = index.reshape(*(1,) * axis, -1, *index.shape[len(own) :])
    found = jnp.take_along_axis(values, flat, axis)
    return found.reshape(*found.shape[:axis], *own, *found.shape[axis + 1 :])


def one_hot(index: Array, count: int) -> Array:
    """True at the place of the index, (m, count); index: (m,)."""
    return index[:, None] == beside(np.arange(count)[None], index[:, None], 2)


def widened(values: Tree, further: int) -> Tree:
    """Arrays with as many further axes, of which some may be 1 long, all of the greatest length."""
    if further == 0:
        return values
    widest = jnp.broadcast_shapes(*(leaf.shape[leaf.ndim - further :] for leaf in jax.tree.leaves(values)))
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*leaf.shape[: leaf.ndim - further], *widest)), values)
