"""Quantities that sensors of voxels measure, in SI units, from one robot's state, in 2-D and 3-D.

Each quantity is a function of the voxels' motion and gives one value per voxel, (rows, columns) or
(levels, rows, columns).

A voxel's own axes in 3-D: x along the mean of its edges along x, up as near to the mean of its upright edges as goes at
right angles to x, and y at right angles to both. In 2-D they are those of `angle`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from vsr.compute.gradients import differentiable_sqrt
from vsr.physics.contract import VoxelMotion
from vsr.spec import Registry


def area_ratio(voxels: VoxelMotion) -> Array:
    """Area, or in 3-D volume, over that at rest."""
    return voxels.size_ratio


def volume_ratio(voxels: VoxelMotion) -> Array:
    """Volume over volume at rest."""
    return voxels.size_ratio


def velocity_magnitude(voxels: VoxelMotion) -> Array:
    """Speed of the voxel [m/s]."""
    return differentiable_sqrt((voxels.velocity**2).sum(-1))


def angle(voxels: VoxelMotion) -> Array:
    """Rotation of the voxel in 2-D of x and up, the mean direction of its edges along x [rad], in (-π, π]."""
    first, *others = (_unit(edge) for edge in _edges_along_x(voxels)[::-1])
    for other in others:
        first = first + other
    return _direction(first)


def legacy_angle(voxels: VoxelMotion) -> Array:
    """The original's angle in 2-D, wrong by ±π/2 with a jump at zero [rad]; for comparisons only.

    It averages the directions NW→NE and SE→SW, the second of which points backwards.
    """
    bottom, top = _edges_along_x(voxels)
    return (_direction(top) + _direction(-bottom)) / 2


def velocity_x(voxels: VoxelMotion) -> Array:
    """Velocity to the right [m/s]."""
    return voxels.velocity[..., 0]


def velocity_y(voxels: VoxelMotion) -> Array:
    """Velocity along y [m/s]: upwards in 2-D, sideways in 3-D."""
    return voxels.velocity[..., 1]


def velocity_z(voxels: VoxelMotion) -> Array:
    """Velocity upwards, in 3-D [m/s]."""
    return voxels.velocity[..., 2]


def rotated_velocity_x(voxels: VoxelMotion) -> Array:
    """Velocity along the voxel's own x axis [m/s]."""
    return _forward(voxels, angle(voxels))


def rotated_velocity_y(voxels: VoxelMotion) -> Array:
    """Velocity along the voxel's own upward axis [m/s]."""
    return _upward(voxels, angle(voxels))


def legacy_rotated_velocity_x(voxels: VoxelMotion) -> Array:
    """Velocity along the voxel's x axis by the original's wrong angle [m/s]; for comparisons only."""
    return _forward(voxels, legacy_angle(voxels))


def legacy_rotated_velocity_y(voxels: VoxelMotion) -> Array:
    """Velocity along the voxel's upward axis by the original's wrong angle [m/s]; for comparisons only."""
    return _upward(voxels, legacy_angle(voxels))


def contact(voxels: VoxelMotion) -> Array:
    """1 if any of the voxel's masses is in the ground, else 0."""
    return voxels.contact


REACH = 10.0
"""How far a ray is followed if nothing is said [m]."""


def own_axes(voxels: VoxelMotion) -> Array:
    """Unit vectors along a voxel's own axes, (dimension, c, dimension)."""
    count, dimension = voxels.corner.shape[0], voxels.corner.shape[-1]
    along = _normalized(voxels.corner[1::2] - voxels.corner[::2])
    x = _normalized(along.sum(0))
    if dimension == 2:
        return jnp.stack([x, jnp.stack([-x[..., 1], x[..., 0]], -1)])
    upright = _normalized((voxels.corner[count // 2 :] - voxels.corner[: count // 2]).sum(0))
    z = _normalized(upright - (upright * x).sum(-1, keepdims=True) * x)
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
    """Distance of the ground from the voxel's center along a ray [m], the reach where it hits none.

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


def _normalized(vector: Array) -> Array:
    return vector / _length(vector)[..., None]


@dataclass(frozen=True)
class Quantity:
    """A quantity that a sensor can measure: its function, and what others need to know of its values."""

    function: Callable[..., Array]
    """from a VoxelMotion, and the parameters in their order, to one value per voxel, *cells"""
    unit: str = ""
    """of the values, SI; empty for plain numbers"""
    at_rest: float = 0.0
    """value of a robot that lies still in its rest shape"""
    dimensions: tuple[int, ...] = (2, 3)
    """of the bodies that can have it"""
    parameters: tuple[str, ...] = ()
    """fields of a `Sensor` that the function takes: direction, range"""
    legacy: str = ""
    """name of the same quantity with the original's wrong angle, if it depends on the angle"""

    @property
    def name(self) -> str:
        """Of the function, under which a shipped quantity is registered."""
        return self.function.__name__

    @property
    def __wrapped__(self) -> Callable[..., Array]:
        """Where `inspect` looks for the documentation and the source."""
        return self.function

    def __call__(self, voxels: VoxelMotion, *parameters: Any) -> Array:
        """The value of every voxel, *cells."""
        return self.function(voxels, *parameters)


QUANTITIES: Registry[Quantity] = Registry(
    "sensor",
    {
        quantity.name: quantity
        for quantity in (
            Quantity(area_ratio, at_rest=1.0),
            Quantity(volume_ratio, at_rest=1.0, dimensions=(3,)),
            Quantity(velocity_magnitude, unit="m/s"),
            Quantity(angle, unit="rad", legacy="legacy_angle"),
            Quantity(velocity_x, unit="m/s"),
            Quantity(velocity_y, unit="m/s"),
            Quantity(velocity_z, unit="m/s", dimensions=(3,)),
            Quantity(rotated_velocity_x, unit="m/s", legacy="legacy_rotated_velocity_x"),
            Quantity(rotated_velocity_y, unit="m/s", legacy="legacy_rotated_velocity_y"),
            Quantity(contact),
            Quantity(legacy_angle, unit="rad", dimensions=(2,)),
            Quantity(legacy_rotated_velocity_x, unit="m/s", dimensions=(2,)),
            Quantity(legacy_rotated_velocity_y, unit="m/s", dimensions=(2,)),
            Quantity(ground_height, unit="m"),
            Quantity(ground_distance, unit="m", parameters=("direction", "range")),
            Quantity(left_compression),
            Quantity(right_compression),
            Quantity(bottom_compression),
            Quantity(top_compression),
            Quantity(yaw, unit="rad", dimensions=(3,)),
            Quantity(own_velocity_x, unit="m/s", dimensions=(3,)),
            Quantity(own_velocity_y, unit="m/s", dimensions=(3,)),
            Quantity(own_velocity_z, unit="m/s", dimensions=(3,)),
            Quantity(near_compression, dimensions=(3,)),
            Quantity(far_compression, dimensions=(3,)),
        )
    },
)
"""Every quantity by its name."""


def _edges_along_x(voxels: VoxelMotion) -> Array:
    """From their first to their second corners [m], the lowest first, (edges, c, dimension)."""
    return voxels.corner[1::2] - voxels.corner[::2]


def _forward(voxels: VoxelMotion, alpha: Array) -> Array:
    return voxels.velocity[..., 0] * jnp.cos(alpha) + voxels.velocity[..., -1] * jnp.sin(alpha)


def _upward(voxels: VoxelMotion, alpha: Array) -> Array:
    return voxels.velocity[..., -1] * jnp.cos(alpha) - voxels.velocity[..., 0] * jnp.sin(alpha)


def _direction(vector: Array) -> Array:
    right, up = vector[..., 0], vector[..., -1]
    there = (right != 0) | (up != 0)  # what has no length has no gradient, either
    return jnp.arctan2(jnp.where(there, up, 0), jnp.where(there, right, 1))


def _unit(vector: Array) -> Array:
    return vector / jnp.sqrt((vector**2).sum(-1, keepdims=True) + 1e-12)
