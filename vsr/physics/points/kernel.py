"""Springs of voxels in the lanes of a GPU kernel (vsr.lattice.launch): a lane per node, in every layer.

A node sees the voxels around it, up to 8 in space, and in each the other corners. Two nodes may share several voxels,
each with a spring between them; as long as there is one layer of nodes, these springs are one: stiffness, damping and
tension at length 0 add up. Where there are more layers, the voxels may be joined at one end and not at the other, and
each spring is computed on its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add, and_
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.experimental.pallas import triton

from vsr.lattice.integrators import Moving
from vsr.lattice.kernel import are_in_grid, places_of, strides
from vsr.lattice.launch import Launcher, LookUp
from vsr.lattice.law import joint_pull
from vsr.lattice.loops import TOGETHER, repeat
from vsr.lattice.step import Acting
from vsr.lattice.vector import Vector, dot, join, minus, plus, split, times
from vsr.physics.points.exchange import corner_steps
from vsr.physics.points.model import PointModel, PointState

Steps = tuple[int, ...]


class VoxelNumbers(NamedTuple):
    """What is known of voxels; c stands for the axes of cells."""

    stiffness: Any
    """[N/m], (kinds, c)"""
    damping: Any
    """[N s/m], (kinds, c)"""
    tension: Any
    """stiffness times the length that the spring wants to have [N], (kinds, c)"""
    strength: Any | None
    """of the actuation by force on every corner, towards the voxel's centre [N], c"""
    slot: Any | None
    """where among all layers' nodes each corner is, (corners, c); None if there is one layer"""


class _Voxel(NamedTuple):
    """What a lane knows of one of its voxels, as lanes; nothing of those it does not have."""

    stiffness: list[Array]
    damping: list[Array]
    tension: list[Array]
    strength: Array | None


def advance(
    model: PointModel,
    acting: Acting,
    state: PointState,
    control: Array,
    side: Array,
    substep: float,
    count: int,
    *,
    interpret: bool,
) -> PointState:
    """The state `count` substeps [s] later, one launch each; side: that voxels want to have under control [m], c."""
    axis = 1 + model.dimension  # of the vectors' components, after layers and nodes
    neighbourhood = VoxelNeighbourhood(model.present.shape, model.layer.shape[0])
    launcher = Launcher(neighbourhood, acting, substep, model.integrator, by_velocity=True, interpret=interpret)
    known = launcher.known(voxel_numbers(model, side, control))
    start = Moving(split(state.position, axis), split(state.velocity, axis))
    together = 1 if interpret else TOGETHER
    moving = repeat(lambda _, now: launcher.move(known, now), 0, count, start, together)
    return replace(state, position=join(moving.position, axis), velocity=join(moving.velocity, axis))


def voxel_numbers(model: PointModel, side: Array, control: Array) -> VoxelNumbers:
    """Of all voxels under control values, c; side: that they then want to have [m], c."""
    kinds, layers = model.stiffness.shape[0], model.layer.shape[0]
    slot = None
    if layers > 1:
        cells = model.present.shape
        vertices = tuple(size + 1 for size in cells)
        grids = jnp.meshgrid(*(jnp.arange(size) for size in cells), indexing="ij")
        vertex = jnp.stack(
            [
                sum((at + step) * by for at, step, by in zip(grids, steps, strides(vertices), strict=True))
                for steps in corner_steps(model.dimension)
            ]
        )
        slot = (jnp.argmax(model.layer, 0) * math.prod(vertices) + vertex).astype(jnp.int32)
    root = jnp.sqrt(jnp.arange(1, kinds + 1, dtype=side.dtype)).reshape(-1, *(1,) * side.ndim)
    return VoxelNumbers(
        stiffness=model.stiffness,
        damping=model.damping,
        tension=model.stiffness * root * side,
        strength=None if model.max_force is None else control * model.max_force,
        slot=slot,
    )


@dataclass(frozen=True)
class VoxelNeighbourhood:
    """The voxels around every node."""

    cells: tuple[int, ...]
    """along each axis, x last"""
    layers: int

    @property
    def nodes(self) -> int:
        """In all layers."""
        return self.layers * math.prod(self.vertices)

    @property
    def vertices(self) -> tuple[int, ...]:
        """Nodes of one layer along each axis."""
        return tuple(size + 1 for size in self.cells)

    def read(
        self, node: Array, motion: Sequence[Any], springs: VoxelNumbers, look_up: LookUp
    ) -> tuple[list[_Voxel], list[list[Array]]]:
        """See vsr.lattice.launch.Neighbourhood: the voxels, and the motion of the other end of all `_springs`."""
        place = places_of(node % math.prod(self.vertices), self.vertices)
        around = [self._voxel(node, place, own, springs, look_up) for own in self._corners]
        there = self._other_ends(node, place, [cell for _, cell, _ in around], springs, look_up)
        return [voxel for voxel, _, _ in around], [[triton.load(part.at[end]) for part in motion] for end in there]

    def forces(
        self,
        read: tuple[list[_Voxel], list[list[Array]]],
        seen: Callable[[Sequence[Array]], tuple[Vector, Vector]],
        moving: Moving,
    ) -> Vector:
        """See vsr.lattice.launch.Neighbourhood."""
        voxels, ends = read
        others = [Moving(*seen(end)) for end in ends]
        force: Vector = tuple(jnp.zeros_like(part) for part in moving.position)
        for (shared, kind), other in zip(self._springs, others, strict=True):
            between = minus(other.position, moving.position)
            stiffness, damping, tension = (
                reduce(add, [getattr(voxels[number], name)[kind] for number in shared])
                for name in ("stiffness", "damping", "tension")
            )
            strength = joint_pull(stiffness, tension, damping, between, minus(other.velocity, moving.velocity))
            force = plus(force, times(strength, between))
        for number, voxel in enumerate(voxels):
            if voxel.strength is not None:
                force = plus(force, self._inward(number, voxel.strength, others, moving.position))
        return force

    @property
    def _corners(self) -> list[Steps]:
        """What a node may be in the voxels around it; so many voxels are numbered by it."""
        return corner_steps(len(self.cells))

    @property
    def _springs(self) -> list[tuple[list[int], int]]:
        """Of every spring of a node the voxels that share it and its kind; in the order of `_other_ends`."""
        if self.layers == 1:
            return [
                ([number for number, own in enumerate(self._corners) if _leads_to_corner(own, steps)], _kind(steps))
                for steps in self._ways
            ]
        return [
            ([number], _kind(tuple(b - a for a, b in zip(own, other, strict=True))))
            for number, own in enumerate(self._corners)
            for other in self._corners
            if other != own
        ]

    @property
    def _ways(self) -> list[Steps]:
        """From a node to all its neighbours."""
        return [steps for steps in itertools.product((-1, 0, 1), repeat=len(self.cells)) if any(steps)]

    def _voxel(
        self, node: Array, place: list[Array], own: Steps, springs: VoxelNumbers, look_up: LookUp
    ) -> tuple[_Voxel, Array, Array]:
        """The voxel of which the node is a certain corner, its cell, and whether there is one."""
        inside = [at < size if step == 0 else at > 0 for at, step, size in zip(place, own, self.cells, strict=True)]
        exists = reduce(and_, inside)
        by = strides(self.cells)
        cell = jnp.where(exists, sum((at - step) * s for at, step, s in zip(place, own, by, strict=True)), 0)
        if springs.slot is not None:
            exists = exists & (look_up(springs.slot, self._corners.index(own) * self._size + cell) == node)

        def there(table: Any, row: int = 0) -> Array:
            return jnp.where(exists, look_up(table, row * self._size + cell), 0)

        kinds = range(len(self.cells))
        stiffness, damping, tension = (
            [there(table, kind) for kind in kinds] for table in (springs.stiffness, springs.damping, springs.tension)
        )
        return (
            _Voxel(stiffness, damping, tension, None if springs.strength is None else there(springs.strength)),
            cell,
            exists,
        )

    @property
    def _size(self) -> int:
        return math.prod(self.cells)

    def _other_ends(
        self, node: Array, place: list[Array], cells: list[Array], springs: VoxelNumbers, look_up: LookUp
    ) -> list[Array]:
        """The nodes that springs lead to; where there is none any will do."""
        if springs.slot is None:
            by = strides(self.vertices)
            return [
                jnp.where(
                    are_in_grid(place, steps, self.vertices),
                    node + sum(step * s for step, s in zip(steps, by, strict=True)),
                    node,
                )
                for steps in self._ways
            ]
        return [
            look_up(springs.slot, corner * self._size + cell)
            for number, cell in enumerate(cells)
            for corner in range(len(self._corners))
            if corner != number
        ]

    def _inward(self, number: int, strength: Array, others: list[Moving], position: Vector) -> Vector:
        """Force of a voxel's actuation [N]: towards the mean of its corners."""
        own = self._corners[number]
        if self.layers == 1:
            ways = [tuple(b - a for a, b in zip(own, other, strict=True)) for other in self._corners if other != own]
            corners = [others[self._ways.index(steps)] for steps in ways]
        else:
            each = len(self._corners) - 1
            corners = others[number * each : (number + 1) * each]
        total = reduce(plus, [corner.position for corner in corners], position)
        inward = minus(times(1 / len(self._corners), total), position)
        return times(strength / jnp.sqrt(dot(inward, inward) + 1e-12), inward)


def _leads_to_corner(own: Steps, steps: Steps) -> bool:
    """Whether steps from a voxel's corner lead to another one of it."""
    return all(0 <= at + step <= 1 for at, step in zip(own, steps, strict=True))


def _kind(steps: Steps) -> int:
    """0 for an edge, 1 for a face diagonal, 2 for a space diagonal."""
    return sum(map(abs, steps)) - 1
