"""Quantities that tell where the ground is, how a voxel is turned in 3-D, and which of its sides are pressed.

A voxel's own axes in 3-D: x along the mean of its edges along x, up as near to the mean of its upright edges as goes at
right angles to x, and y at right angles to both. In 2-D they are those of `angle`.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array

from vsr.physics.voxel_motion import VoxelMotion

REACH = 10.0
"""How far a ray is followed if nothing is said [m]."""


def own_axes(voxels: VoxelMotion) -> Array:
    """Unit vectors along a voxel's own axes, (dimension, c, dimension)."""
    count, dimension = voxels.corner.shape[0], voxels.corner.shape[-1]
    along = _unit(voxels.corner[1::2] - voxels.corner[::2])
    x = _unit(along.sum(0))
    if dimension == 2:
        return jnp.stack([x, jnp.stack([-x[..., 1], x[..., 0]], -1)])
    upright = _unit((voxels.corner[count // 2 :] - voxels.corner[: count // 2]).sum(0))
    z = _unit(upright - (upright * x).sum(-1, keepdims=True) * x)
    return jnp.stack([x, jnp.cross(z, x), z])


def yaw(voxels: VoxelMotion) -> Array:
    """Direction of the voxel's x axis seen from above, from x towards y [rad], in (-π, π]."""
    x = own_axes(voxels)[0]
    return jnp.arctan2(x[..., 1], x[..., 0])


def own_velocity_x(voxels: VoxelMotion) -> Array:
    """Velocity along the voxel's own x axis, in 3-D [m/s]."""
    return _along(voxels, 0)


def own_velocity_y(voxels: VoxelMotion) -> Array:
    """Velocity along the voxel's own y axis, sideways, in 3-D [m/s]."""
    return _along(voxels, 1)


def own_velocity_z(voxels: VoxelMotion) -> Array:
    """Velocity along the voxel's own upward axis, in 3-D [m/s]."""
    return _along(voxels, 2)


def ground_height(voxels: VoxelMotion) -> Array:
    """Height of the voxel's center over the ground below it [m]; over 0 in free space."""
    center = voxels.corner.mean(0)
    return center[..., -1] if voxels.ground is None else voxels.ground.height_over(center)


def ground_distance(voxels: VoxelMotion, direction: Sequence[float] | None = None, reach: float | None = None) -> Array:
    """Distance of the ground from the voxel's center along a ray [m], the reach where it meets none.

    direction: along the voxel's own axes; downwards if absent.
    """
    center, reach = voxels.corner.mean(0), REACH if reach is None else reach
    dimension = center.shape[-1]
    own = jnp.asarray([0.0] * (dimension - 1) + [-1.0] if direction is None else direction, center.dtype)
    ray = (own.reshape(-1, *(1,) * center.ndim) * own_axes(voxels)).sum(0) / jnp.sqrt((own**2).sum())
    if voxels.ground is None:
        return jnp.full(center.shape[:-1], reach, center.dtype)
    return voxels.ground.distance_along(center, ray, reach)


def left_compression(voxels: VoxelMotion) -> Array:
    """By how much the left side is shorter than at rest, as a share; in 3-D by how much its area is smaller."""
    return _compression(voxels, 0, 0)


def right_compression(voxels: VoxelMotion) -> Array:
    """The same of the right side."""
    return _compression(voxels, 0, 1)


def near_compression(voxels: VoxelMotion) -> Array:
    """The same of the side towards smaller y, in 3-D."""
    return _compression(voxels, 1, 0)


def far_compression(voxels: VoxelMotion) -> Array:
    """The same of the side towards larger y, in 3-D."""
    return _compression(voxels, 1, 1)


def bottom_compression(voxels: VoxelMotion) -> Array:
    """The same of the lower side."""
    return _compression(voxels, voxels.corner.shape[-1] - 1, 0)


def top_compression(voxels: VoxelMotion) -> Array:
    """The same of the upper side."""
    return _compression(voxels, voxels.corner.shape[-1] - 1, 1)


def _compression(voxels: VoxelMotion, axis: int, end: int) -> Array:
    """Of the side at an end of an axis."""
    assert voxels.spacing is not None
    dimension = voxels.corner.shape[-1]
    corner = [voxels.corner[number] for number in range(2**dimension) if number >> axis & 1 == end]
    if dimension == 2:
        return 1 - _length(corner[1] - corner[0]) / voxels.spacing
    # Half the product of the diagonals is exact for a flat side, however skewed.
    area = 0.5 * _length(jnp.cross(corner[3] - corner[0], corner[2] - corner[1]))
    return 1 - area / voxels.spacing**2


def _along(voxels: VoxelMotion, axis: int) -> Array:
    return (voxels.velocity * own_axes(voxels)[axis]).sum(-1)


def _length(vector: Array) -> Array:
    return jnp.sqrt((vector**2).sum(-1) + 1e-12)


def _unit(vector: Array) -> Array:
    return vector / _length(vector)[..., None]
