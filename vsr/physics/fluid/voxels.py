"""Fluid in voxels: volumes and loads from the corners of all voxels at once, as simulation loops carry them.

The same integrals over walls as in vsr.physics.fluid.surface, for arrays whose last axes may be those of robots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import Vector, plus, times
from vsr.physics.fluid import law
from vsr.physics.fluid.law import Chambers
from vsr.physics.fluid.surface import RULES, SIDES

Corners = tuple[Array | Sequence[Array], ...]
"""Of every voxel, by components [m], each (corners, c)."""


class Walls(Protocol):
    """Those of Chambers, or the same in the lanes of a kernel."""

    @property
    def walls(self) -> Any: ...
    @property
    def depth(self) -> Array: ...


class _Point(NamedTuple):
    """Where an integrand is taken."""

    corners: np.ndarray
    """of the face, by their bits"""
    shares: np.ndarray
    """of those corners at the point"""
    height: Array
    """[m], c"""
    area: Vector
    """of wall that it stands for, along the normal out of the fluid [m²], c; 0 where there is no wall"""


def side_steps(dimension: int) -> list[tuple[int, int]]:
    """Axis of cells and step, -1 or 1, to the voxel beyond each of `SIDES`."""
    found = []
    for side in SIDES[2**dimension]:
        for bit in range(dimension):
            ends = {corner >> bit & 1 for corner in side.tolist()}
            if len(ends) == 1:
                found.append((dimension - 1 - bit, 2 * ends.pop() - 1))
    return found


def volumes(chambers: Chambers, corner: Vector) -> Array:
    """Of the chambers [m³], (m, ...); corner: of every voxel, by components [m], each (corners, c, ...)."""
    dimension = len(corner)
    # Heights from the middle of everything, so that a high place costs no digits.
    level = corner[-1].mean(tuple(range(1 + dimension)))
    return _of_chambers(chambers, volume_shares(chambers, corner, level), dimension)


def volume_shares(walls: Walls, corner: Corners, level: Array) -> Array:
    """What the walls of every voxel add to its chamber's volume [m³], c; level: any height amid the body [m], ()."""
    return reduce(add, [(point.height - level) * point.area[-1] for point in _points(walls, corner)])


def energy(chambers: Chambers, corner: Vector, drive: Array, gravity: Array | float) -> Array:
    """Of fluid and pumps [J], (m,); drive: see vsr.physics.fluid.law, (m,)."""
    dimension, numbers = len(corner), chambers.numbers
    port = _to_voxels(chambers, numbers.port, dimension)
    lifted = sum((point.height - port) ** 2 / 2 * point.area[-1] for point in _points(chambers, corner))
    weight = numbers.density * gravity * _of_chambers(chambers, lifted, dimension)  # pyright: ignore[reportArgumentType]
    return weight + law.energy(numbers, chambers.rest_volume, drive, volumes(chambers, corner))


def pressures(chambers: Chambers, corner: Vector, drive: Array) -> Array:
    """At the ports of the chambers, above that outside [Pa], (m, ...)."""
    return law.pressure(chambers.numbers, chambers.rest_volume, drive, volumes(chambers, corner))


def loads(chambers: Chambers, corner: Vector, drive: Array, gravity: Array | float) -> Vector:
    """Force of the fluid on the corners of its voxels [N], each (corners, c, ...): minus the gradient of the energy."""
    dimension, numbers = len(corner), chambers.numbers
    at_port = _to_voxels(chambers, pressures(chambers, corner, drive), dimension)
    weight = _to_voxels(chambers, numbers.density * gravity, dimension)
    # The pressure at height 0, so that a voxel needs two numbers.
    at_zero = at_port + _to_voxels(chambers, numbers.density * gravity * numbers.port, dimension)
    return tuple(map(jnp.stack, zip(*wall_loads(chambers, corner, at_zero, weight), strict=True)))


def wall_loads(walls: Walls, corner: Corners, at_zero: Array, weight: Array) -> list[Vector]:
    """Force on each corner of every voxel [N], c.

    at_zero: pressure in it at height 0 [Pa], weight: its decrease with height [Pa/m], both c.
    """
    total: list[Vector | None] = [None] * 2 ** len(corner)
    for point in _points(walls, corner):
        push = times(at_zero - weight * point.height, point.area)
        for which, share in zip(point.corners, point.shares, strict=True):
            part = times(float(share), push)
            before = total[which]
            total[which] = part if before is None else plus(before, part)
    return [force for force in total if force is not None]


def controls_of(chambers: Chambers, control: Array, dimension: int) -> Array:
    """The mean of the control values of each chamber's voxels, (m, ...); control: (c, ...)."""
    count = chambers.member.sum(tuple(range(1, 1 + dimension)))
    return _of_chambers(chambers, control, dimension) / jnp.maximum(count, 1)


def _points(walls: Walls, corner: Corners) -> Iterator[_Point]:
    """All that walls are integrated at."""
    dimension = len(corner)
    rule = RULES[2 ** (dimension - 1)]
    for number, corners in enumerate(SIDES[2**dimension]):
        weight = walls.walls[number] * (walls.depth * rule.share)
        place = [tuple(part[which] for part in corner) for which in corners]
        tangents = [[_mixed(gradient, place) for gradient in along] for along in rule.gradient]
        for index, shares in enumerate(rule.shape):
            across = _normal([along[index] for along in tangents])
            height = _mixed(shares, [(one[-1],) for one in place])[0]
            yield _Point(corners, shares, height, times(weight, across))


def _mixed(shares: np.ndarray, place: list[Vector]) -> Vector:
    """Shares of vectors, added up."""
    used = [times(float(share), one) for share, one in zip(shares, place, strict=True) if share != 0]
    return reduce(plus, used)


def _normal(tangents: list[Vector]) -> Vector:
    """To the right of one tangent, or across both."""
    if len(tangents) == 1:
        (along,) = tangents
        return along[1], -along[0]
    (a, b, c), (d, e, f) = tangents
    return b * f - c * e, c * d - a * f, a * e - b * d


def _of_chambers(chambers: Chambers, values: Array, dimension: int) -> Array:
    """Values of voxels added up, (c, ...) -> (m, ...)."""
    return (chambers.member * values[None]).sum(tuple(range(1, 1 + dimension)))


def _to_voxels(chambers: Chambers, values: Array, dimension: int) -> Array:
    """What each voxel's chamber has, 0 where there is none, (m, ...) -> (c, ...)."""
    wide = jnp.expand_dims(values, tuple(range(1, 1 + dimension)))
    return (chambers.member * wide).sum(0)
