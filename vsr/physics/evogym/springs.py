"""Springs of voxels: goals that controls set, forces, and the limits that lengths are pulled back to.

A voxel has six: bottom, right, top and left edge, then both diagonals. Corners are numbered by their bits
(vsr.robot.corners); arrays of corners are (4, c), of springs (6, c), and further axes may follow.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, minus, plus, times
from vsr.physics.evogym.law import (
    LARGEST_TARGET,
    LONGEST,
    PULLED_BACK,
    RELAXATION,
    RIGID_LONGEST,
    RIGID_PULLED_BACK,
    RIGID_SHORTEST,
    SHORTEST,
    SMALLEST_TARGET,
)
from vsr.physics.evogym.model import EvogymModel, Joint

ENDS = ((0, 1), (1, 3), (3, 2), (2, 0), (0, 3), (1, 2))
"""Corners at both ends of every spring; the edges go round counter-clockwise."""
BOTTOM, RIGHT, TOP, LEFT = range(4)


class Bodies(Protocol):
    """What is asked of bodies here; fields as of EvogymModel."""

    @property
    def stiffness(self) -> Array: ...
    @property
    def rigid(self) -> Array: ...
    @property
    def voxel_side(self) -> Any: ...


def target_of_control(control: Array) -> Array:
    """Length of driven edges over that at rest: 0.6 for control 1, 1 for 0, 1.6 for -1."""
    shrunk, enlarged = 1 - SMALLEST_TARGET, LARGEST_TARGET - 1
    return 1 - jnp.maximum(control, 0) * shrunk + jnp.maximum(-control, 0) * enlarged


def control_of_target(target: Array) -> Array:
    """The control value of a target length, which `target_of_control` undoes; targets are clipped to [0.6, 1.6]."""
    target = jnp.clip(target, SMALLEST_TARGET, LARGEST_TARGET)
    return jnp.where(target < 1, (1 - target) / (1 - SMALLEST_TARGET), (1 - target) / (LARGEST_TARGET - 1))


def lengths_at_rest(bodies: Bodies, ndim: int) -> Array:
    """Of all springs, (6, 1, 1, ...) with as many axes as asked for."""
    factors = jnp.array([1, 1, 1, 1, math.sqrt(2), math.sqrt(2)], bodies.voxel_side.dtype)
    return factors.reshape(6, *(1,) * (ndim - 1)) * bodies.voxel_side


def goals(bodies: Joint | EvogymModel, control: Array) -> Array:
    """Lengths that springs tend to under control values, (6, c); an edge that two voxels drive gets their mean."""
    target = target_of_control(control)

    def mean(driver: Array, neighbor: tuple[Array, Array]) -> Array:
        count = driver + neighbor[0]
        total = driver * target + neighbor[1]
        return jnp.where(count > 0, total / jnp.maximum(count, 1), 1)

    def of_neighbor(driver: Array, axis: int, step: int) -> tuple[Array, Array]:
        return tuple(_neighbor(values, axis, step) for values in (driver, driver * target))  # pyright: ignore

    along, up = bodies.horizontal, bodies.vertical
    ratios = [
        mean(along, of_neighbor(along, 0, -1)),
        mean(up, of_neighbor(up, 1, 1)),
        mean(along, of_neighbor(along, 0, 1)),
        mean(up, of_neighbor(up, 1, -1)),
    ]
    ratio = jnp.stack([*ratios, jnp.ones_like(ratios[0]), jnp.ones_like(ratios[0])])
    return ratio * lengths_at_rest(bodies, ratio.ndim)


def _neighbor(values: Array, axis: int, step: int) -> Array:
    """Of the next cell along an axis, or of the one before (step -1), 0 where there is none."""
    first, later = jnp.split(values, [1], axis)
    earlier, _ = jnp.split(values, [values.shape[axis] - 1], axis)
    nothing = jnp.zeros_like(first)
    return jnp.concatenate([later, nothing] if step > 0 else [nothing, earlier], axis)


def between(corner: Vector) -> Vector:
    """From the first to the second end of every spring, (6, c); corner: (4, c)."""
    return tuple(jnp.stack([part[b] - part[a] for a, b in ENDS]) for part in corner)


def length(vector: Vector) -> Array:
    """Of vectors."""
    return jnp.sqrt(squared_length(vector))


def squared_length(vector: Vector) -> Array:
    """Of vectors; those of empty cells are 0 and count as a little, so that they can be divided by."""
    return jnp.maximum(vector[0] ** 2 + vector[1] ** 2, 1e-20)


def relaxed(goal: Array, present_length: Array) -> Array:
    """Rest lengths of the next substep, (6, c)."""
    return present_length + RELAXATION * (goal - present_length)


def tensions(stiffness: Array, ratio: Array, along: Vector) -> Vector:
    """Pull of springs on their first end, (6, c); ratio: of their rest lengths to the present ones."""
    return times(stiffness * (1 - ratio), along)


def on_corners(pulls: Vector) -> Vector:
    """What springs do to the corners of voxels, (4, c): a pull at the first end, its opposite at the second."""
    return tuple(jnp.stack([_at_corner(part, corner) for corner in range(4)]) for part in pulls)


def _at_corner(pull: Array, corner: int) -> Array:
    signs = [(number, 1 if a == corner else -1) for number, (a, b) in enumerate(ENDS) if corner in (a, b)]
    return sum(sign * pull[number] for number, sign in signs)  # pyright: ignore[reportReturnType]


def beyond_limits(bodies: Bodies, corner: Vector) -> Vector:
    """How far corners move so that springs come back into their limits, (4, c); each spring on its own."""
    along = between(corner)
    counted = bodies.stiffness > 0
    pulls = _pulled_back(along, lengths_at_rest(bodies, along[0].ndim), SHORTEST, LONGEST, PULLED_BACK)
    return on_corners(tuple(part * counted for part in pulls))


def any_beyond_limits(bodies: Bodies, present_length: Array) -> Array:
    """Whether a spring of a voxel is beyond its limits, c, whoever counts it."""
    rest = lengths_at_rest(bodies, present_length.ndim)
    beyond = [
        (part.min(0) < SHORTEST * usual[0]) | (part.max(0) > LONGEST * usual[0])
        for part, usual in zip(jnp.split(present_length, [4]), jnp.split(rest, [4]), strict=True)
    ]
    return beyond[0] | beyond[1]


def within_rigid_limits(side: Array, movable: Array, corner: Vector) -> Vector:
    """Corners of rigid voxels after their edges were pulled back into their limits one after the other: top, right,
    bottom, left; (4, ...). side: length of edges at rest; movable: 1 for corners that give way, (4, ...)."""
    now = [tuple(part[number] for part in corner) for number in range(4)]
    for edge in (TOP, RIGHT, BOTTOM, LEFT):
        a, b = ENDS[edge]
        pull = _pulled_back(minus(now[b], now[a]), side, RIGID_SHORTEST, RIGID_LONGEST, RIGID_PULLED_BACK)
        now[a], now[b] = plus(now[a], times(movable[a], pull)), minus(now[b], times(movable[b], pull))
    return tuple(jnp.stack(list(parts)) for parts in zip(*now, strict=True))


def any_beyond_rigid_limits(bodies: Bodies, present_length: Array) -> Array:
    """Whether an edge of a rigid voxel is beyond its limits, c."""
    edges, side = present_length[:4], bodies.voxel_side
    beyond = (edges.min(0) < RIGID_SHORTEST * side) | (edges.max(0) > RIGID_LONGEST * side)
    return beyond & (bodies.rigid > 0)


def _pulled_back(along: Vector, rest: Array, shortest: float, longest: float, share: float) -> Vector:
    """Shift of the first end of springs, half of a share of what is beyond the limits."""
    now = length(along)
    excess = jnp.maximum(now - longest * rest, 0) + jnp.minimum(now - shortest * rest, 0)
    return times(0.5 * share * excess / now, along)
