"""Depth cameras, on the device: what machines see of grains, of each other and of level ground.

Grains are splatted: each into the few pixels that its outline can cover, the nearest kept. Bodies are found by sphere
tracing of their distance functions, ground by its formula. Depths have no noise; that is for others to add. Pictures
(`paint`) are depths shaded by the surface's gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.linear import product
from vsr.compute.vector import Vector, split
from vsr.physics.granular import Body, GrainState, Pose, at_rest
from vsr.physics.granular.model import GrainModel, each

TRACING = 64
"""Steps of a ray towards bodies, at most."""
NEAR_ENOUGH = 1e-4
"""From a body's surface, where a ray has arrived [m]."""


@dataclass(frozen=True)
class Sky:
    """Looks straight down; orthographic. Pixels are along x first, then along y. Static."""

    low: tuple[float, float]
    """of the region seen [m]"""
    high: tuple[float, float]
    top: float
    """height of the camera [m]"""
    pixels: tuple[int, int] = (72, 36)

    @property
    def sides(self) -> tuple[float, ...]:
        """Of a pixel along x and y [m]."""
        return tuple((b - a) / count for a, b, count in zip(self.low, self.high, self.pixels, strict=True))

    def middles(self) -> list[Array]:
        """Of pixels along x and along y [m]."""
        return [
            low + (jnp.arange(count) + 0.5) * side
            for low, count, side in zip(self.low, self.pixels, self.sides, strict=True)
        ]


@dataclass(frozen=True)
class Eye:
    """A perspective camera that looks along the x axis of its frame; z is up. Rows from the top, columns from left."""

    pixels: tuple[int, int] = (36, 36)
    """rows, columns"""
    half_angle: float = math.pi / 4
    """from the axis to the middle of the left side [rad]"""
    near: float = 0.3
    """grains with their centers nearer along the axis are not seen [m]"""
    far: float = 8.0
    """[m]; what is farther, or nothing, has this depth"""

    @property
    def focal(self) -> float:
        """Length in pixels."""
        return 0.5 * self.pixels[1] / math.tan(self.half_angle)

    def rays(self) -> tuple[Array, Array]:
        """How far left and up each pixel's middle is over how far ahead, both (rows, columns)."""
        rows, columns = self.pixels
        up = (0.5 * rows - 0.5 - jnp.arange(rows)) / self.focal
        left = (0.5 * columns - 0.5 - jnp.arange(columns)) / self.focal
        return jnp.broadcast_to(left, self.pixels), jnp.broadcast_to(up[:, None], self.pixels)


Solid = tuple[Body, Pose]
"""A body, and where it is."""


def sky_view(
    camera: Sky, grains: GrainModel, state: GrainState, solids: Sequence[Solid] = (), *, ground: float = 0.0
) -> Array:
    """Depth below the camera of the highest point in each pixel [m], (pixels along x, along y).

    Of grains, the highest point within the pixel's square counts, so that none is missed however small; of bodies that
    below its middle. ground: height of the ground [m].
    """
    radius = each(grains.radius, state)
    x, y, z = split(state.position, 0)
    cells, squared = [], 0.0
    for axis, (part, low, side) in enumerate(zip((x, y), camera.low, camera.sides, strict=True)):
        steps = jnp.arange(math.ceil(2 * grains.largest / side) + 1).reshape((1,) * axis + (-1,) + (1,) * (2 - axis))
        cell = _whole((part - radius - low) / side, camera.pixels[axis]) + steps
        away = jnp.maximum(jnp.maximum(low + cell * side - part, part - low - (cell + 1) * side), 0)
        cells.append(cell)
        squared = squared + away**2
    rise = radius**2 - squared
    height = jnp.where(rise > 0, z + jnp.sqrt(jnp.where(rise > 0, rise, 1)), -jnp.inf)
    highest = jnp.full(camera.pixels, ground, z.dtype).at[_inside(cells, camera.pixels)].max(height, mode="drop")
    depth = camera.top - highest
    if solids:
        zero = jnp.zeros((), z.dtype)
        above = jnp.meshgrid(*camera.middles(), indexing="ij")
        origin = (*above, jnp.full(camera.pixels, camera.top, z.dtype))
        depth = traced(_nearest(solids), origin, (zero, zero, zero - 1), depth)
    return jnp.maximum(depth, 0)


def eye_view(
    camera: Eye,
    pose: Pose,
    grains: GrainModel,
    state: GrainState,
    solids: Sequence[Solid] = (),
    *,
    ground: float | None = 0.0,
) -> Array:
    """Depth along the axis of what is nearest in the middle of each pixel [m], (rows, columns).

    pose: of the camera; ground: height of the ground [m], or None.
    """
    depth = grains_seen(camera, pose, grains, state)
    if ground is not None:
        depth = jnp.minimum(depth, ground_seen(camera, pose, ground))
    return bodies_seen(camera, pose, solids, depth) if solids else depth


def ground_seen(camera: Eye, pose: Pose, height: float) -> Array:
    """Depth of level ground alone [m], `far` where it is not seen, (rows, columns)."""
    down = -_directions(camera, pose)[2]
    reached = (pose.position[2] - height) / jnp.where(down > 0, down, 1)
    return jnp.where(down > 0, jnp.clip(reached, 0, camera.far), camera.far)


def bodies_seen(camera: Eye, pose: Pose, solids: Sequence[Solid], beyond: Array) -> Array:
    """Depth of the nearest body [m], `beyond` where there is none before that; both (rows, columns)."""
    origin = tuple(jnp.broadcast_to(part, camera.pixels) for part in pose.position)
    return traced(_nearest(solids), origin, _directions(camera, pose), beyond)


def traced(distance: Callable[[Vector], Array], origin: Vector, direction: Vector, far: Array) -> Array:
    """How far rays get, in lengths of their direction, before they hit a surface; `far` if they get so far."""
    length = jnp.sqrt(sum(part**2 for part in direction))

    def at(way: Array) -> Array:
        return distance(tuple(start + way * along for start, along in zip(origin, direction, strict=True)))

    def on_their_way(now: tuple[Array, Array, Array]) -> Array:
        count, way, left = now
        return (count < TRACING) & ((left >= NEAR_ENOUGH) & (way < far)).any()

    def further(now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, way, left = now
        way = jnp.where(left >= NEAR_ENOUGH, jnp.minimum(way + left / length, far), way)
        return count + 1, way, at(way)

    begin = jnp.zeros_like(far)
    _, way, left = jax.lax.while_loop(on_their_way, further, (jnp.zeros((), jnp.int32), begin, at(begin)))
    return jnp.where(left < NEAR_ENOUGH, way, far)


def footprint(camera: Eye, radius: float) -> tuple[int, int]:
    """Rows and columns that no grain's outline exceeds [pixels]."""
    aside = np.linspace(0, math.pi / 2, 2000)  # angle between the axis and the grain's center in one plane
    turn = np.arcsin(np.minimum(radius * np.cos(aside) / camera.near, 1))
    first, last = (np.tan(np.clip(aside + way * turn, -1.57, 1.57)) for way in (-1, 1))
    sizes = []
    for count in camera.pixels:
        edge = 0.5 * count / camera.focal
        widest = (np.minimum(last, edge) - np.maximum(first, -edge)).max()
        sizes.append(min(math.ceil(camera.focal * float(widest) + 0.01) + 1, count))
    return sizes[0], sizes[1]


def grains_seen(camera: Eye, pose: Pose, grains: GrainModel, state: GrainState) -> Array:
    """Depth of grains alone [m], `far` where there are none, (rows, columns)."""
    radius = each(grains.radius, state)
    forward, left, up = split(product(pose.rotation.T, state.position - pose.position[:, None]), 0)
    shown = (forward > camera.near) & (forward - radius < camera.far)
    forward = jnp.where(shown, forward, camera.far)  # so that no number is spoilt by what is behind
    rows, columns = (jnp.arange(size) for size in footprint(camera, grains.largest))
    row = _first(camera.pixels[0], camera.focal, forward, up, radius) + rows[:, None, None]
    column = _first(camera.pixels[1], camera.focal, forward, left, radius) + columns[:, None]
    ray_up = (0.5 * camera.pixels[0] - 0.5 - row) / camera.focal
    ray_left = (0.5 * camera.pixels[1] - 0.5 - column) / camera.focal
    depth = jnp.where(shown, _met(forward, left, up, radius, ray_left, ray_up), jnp.inf)
    seen = jnp.full(camera.pixels, camera.far, forward.dtype)
    return jnp.maximum(seen.at[_inside((row, column), camera.pixels)].min(depth, mode="drop"), 0)


def _first(count: int, focal: float, forward: Array, aside: Array, radius: Array) -> Array:
    """The first pixel that a grain's outline can cover along rows or columns; aside: to the left or up [m]."""
    turn = jnp.arcsin(jnp.minimum(radius / jnp.sqrt(forward**2 + aside**2), 1))
    edge = jnp.clip(jnp.arctan2(aside, forward) + turn, -1.5, 1.5)
    return jnp.maximum(_whole(0.5 * count - focal * jnp.tan(edge), count), 0)


def _met(forward: Array, left: Array, up: Array, radius: Array, ray_left: Array, ray_up: Array) -> Array:
    """Depth at which rays (1, ray_left, ray_up) meet spheres [m], infinite where they miss."""
    squared = 1 + ray_left**2 + ray_up**2
    nearest = (forward + ray_left * left + ray_up * up) / squared
    # By the way from the axis to the ray, not by a difference of large squares.
    miss = (forward - nearest) ** 2 + (left - nearest * ray_left) ** 2 + (up - nearest * ray_up) ** 2
    within = (radius**2 - miss) / squared
    return jnp.where(within > 0, nearest - jnp.sqrt(jnp.where(within > 0, within, 1)), jnp.inf)


def _directions(camera: Eye, pose: Pose) -> Vector:
    """Of rays through the middles of pixels, one ahead along the axis; in the world's axes."""
    left, up = camera.rays()
    axes = pose.rotation
    return tuple(axes[row, 0] + left * axes[row, 1] + up * axes[row, 2] for row in range(3))


def _whole(place: Array, count: int) -> Array:
    """The pixel of a place along one side; what is far outside, or no number, stays outside."""
    place = jnp.where(jnp.isfinite(place), jnp.clip(place, -2 * count, 2 * count), 2 * count)
    return jnp.floor(place).astype(jnp.int32)


def _inside(cell: Sequence[Array], pixels: tuple[int, int]) -> tuple[Array, ...]:
    """Indices, beyond the picture (and so dropped) where a cell is not in it: -1 would count from the end."""
    return tuple(jnp.where(part < 0, count, part) for part, count in zip(cell, pixels, strict=True))


def _nearest(solids: Sequence[Solid]) -> Callable[[Vector], Array]:
    """Distance to the nearest of bodies."""

    def distance(point: Vector) -> Array:
        found = []
        for body, pose in solids:
            way = [part - at for part, at in zip(point, pose.position, strict=True)]
            own = tuple(sum(pose.rotation[row, axis] * way[row] for row in range(3)) for axis in range(3))
            found.append(body.shape.distance(own))
        return jnp.stack(found).min(0) if len(found) > 1 else found[0]

    return distance


SAND = (150, 92, 40), (236, 200, 132)
"""Colors of grains on the ground and high up."""
STEEL, GROUND, SKY = (96, 124, 164), (208, 206, 198), (250, 250, 252)
LIGHT = (0.33, -0.47, 0.82)
"""Towards the light, in the world's axes; a unit vector."""
SHADOW = 0.4
"""Brightness of what is turned away from the light."""


def looking(at: Sequence[float], target: Sequence[float]) -> Pose:
    """A camera at a place that looks at another [m], upright."""
    forward = np.subtract(target, at)
    forward = forward / np.linalg.norm(forward)
    left = np.cross([0.0, 0.0, 1.0], forward)
    left = left / np.linalg.norm(left)
    axes = np.stack([forward, left, np.cross(forward, left)], 1)
    return at_rest(jnp.asarray(at, float), jnp.asarray(axes, float))


@partial(jax.jit, static_argnames=("camera", "tall", "ground"))
def paint(
    camera: Eye,
    pose: Pose,
    grains: GrainModel,
    state: GrainState,
    solids: Sequence[Solid],
    *,
    tall: float,
    ground: float | None = 0.0,
) -> Array:
    """Red, green and blue from 0 to 255, (rows, columns, 3); tall: height of the brightest grains [m]."""
    far = jnp.full(camera.pixels, camera.far, state.position.dtype)
    level = far if ground is None else ground_seen(camera, pose, ground)
    sand = grains_seen(camera, pose, grains, state)
    steel = bodies_seen(camera, pose, solids, far) if solids else far
    depth = jnp.minimum(jnp.minimum(sand, steel), level)
    place = _places(camera, pose, depth)
    rising = jnp.clip(place[..., 2:] / tall, 0, 1)
    low, high = (jnp.array(color, depth.dtype) for color in SAND)
    color = jnp.where((sand <= depth)[..., None], low + rising * (high - low), jnp.array(GROUND, depth.dtype))
    color = jnp.where((steel <= depth)[..., None], jnp.array(STEEL, depth.dtype), color)
    bright = SHADOW + (1 - SHADOW) * jnp.clip(_normals(place) @ jnp.array(LIGHT, depth.dtype), 0, 1)
    color = jnp.where((depth < camera.far)[..., None], color * bright[..., None], jnp.array(SKY, depth.dtype))
    return jnp.round(color).astype(jnp.uint8)


def _places(camera: Eye, pose: Pose, depth: Array) -> Array:
    """Of what is seen [m], (rows, columns, 3)."""
    left, up = camera.rays()
    own = jnp.stack([jnp.ones_like(left), left, up], -1) * depth[..., None]
    return pose.position + product(own, pose.rotation.T)


def _normals(place: Array) -> Array:
    """Unit vectors out of the surface, from neighboring pixels: the nearer of the two at each side."""

    def slope(axis: int) -> Array:
        ahead = jnp.roll(place, -1, axis) - place
        behind = place - jnp.roll(place, 1, axis)
        shorter = (ahead**2).sum(-1, keepdims=True) < (behind**2).sum(-1, keepdims=True)
        return jnp.where(shorter, ahead, behind)

    normal = jnp.cross(slope(0), slope(1))
    return normal / jnp.sqrt(jnp.maximum((normal**2).sum(-1, keepdims=True), 1e-20))
