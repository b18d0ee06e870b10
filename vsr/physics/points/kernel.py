"""Springs of voxels in the lanes of a GPU kernel (vsr.lattice.kernel): a lane per node, in every layer.

A node sees the voxels around it, up to 8 in 3-D, and in each the other corners. Two nodes may share several voxels,
each with a spring between them, which are one spring here: stiffness, damping and tension at length 0 add up.

Where there are several layers, the voxels that a node shares with a place beside it may lead to different nodes there,
of different parts of the body. Voxels with a common face belong together at all corners of that face; so only where
more than two meet, along an edge in 3-D, there can be two nodes, and no more: one that the first of the voxels has,
and one that the last has.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add, and_
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, join, minus, plus, split, times
from vsr.compute.xla import TOGETHER, repeat
from vsr.lattice.grid import kind
from vsr.lattice.integrators import NodeState
from vsr.lattice.kernel import (
    KernelInputs,
    LaneOrder,
    Launcher,
    Look,
    LookUp,
    are_in_grid,
    places_of,
    present_first,
    strides,
)
from vsr.lattice.law import joint_pull
from vsr.lattice.step import StepInputs
from vsr.physics.actuation import inward_forces
from vsr.physics.points.model import PointModel, PointState
from vsr.robot.corners import corner_steps

Steps = tuple[int, ...]
LAYER_BITS = 2
"""That hold the number of a layer: there are four at most."""


class VoxelNumbers(NamedTuple):
    """What is known of voxels; c stands for the axes of cells."""

    stiffness: Any
    """[N/m], (kinds, c)"""
    damping: Any
    """[N s/m], (kinds, c)"""
    tension: Any
    """stiffness times the spring's rest length [N], (kinds, c)"""
    strength: Any | None
    """of the actuation by force on every corner, towards the voxel's center [N], c"""
    layers: Any | None
    """in which layer the node of each corner is, LAYER_BITS each, -1 where no voxel is, c; None if there is but one"""


class _Voxel(NamedTuple):
    """What a lane knows of one of its voxels, as lanes; nothing of those it does not have."""

    exists: Array
    layers: Array | None
    """of its corners, as VoxelNumbers has them"""
    stiffness: list[Array]
    damping: list[Array]
    tension: list[Array]
    strength: Array | None

    def layer(self, corner: int) -> Array:
        """In which the node of a corner is."""
        assert self.layers is not None
        return self.layers >> corner * LAYER_BITS & (1 << LAYER_BITS) - 1


class _End(NamedTuple):
    """What a lane knows of the other end of one of its springs, as lanes."""

    position: Vector
    has: list[Array] | None
    """which of the voxels that may share the spring do; None if all"""


class Joints(NamedTuple):
    """How voxels hang together where there are several layers of nodes; stays as it is while a body moves."""

    layers: Array
    """see VoxelNumbers"""
    order: LaneOrder
    """of the lanes: most nodes of further layers are absent"""


def joints_of(model: PointModel) -> Joints | None:
    """None if there is one layer."""
    if model.layer.shape[0] == 1:
        return None
    layer = jnp.argmax(model.layer, 0).astype(jnp.int32)
    shift = LAYER_BITS * jnp.arange(layer.shape[0], dtype=jnp.int32)
    packed = (layer << shift.reshape(-1, *(1,) * model.dimension)).sum(0, dtype=jnp.int32)
    return Joints(jnp.where(model.present > 0, packed, -1), present_first(model.node_mass > 0))


def advance(
    model: PointModel,
    joints: Joints | None,
    inputs: StepInputs,
    state: PointState,
    control: Array,
    side: Array,
    substep: float,
    count: int,
    *,
    interpret: bool,
) -> PointState:
    """The state `count` substeps [s] later, one launch each; side: target of the voxels [m], c."""
    axis = 1 + model.dimension  # of the vectors' components, after layers and nodes
    neighborhood = VoxelNeighborhood(model.present.shape, model.layer.shape[0])
    launcher = Launcher(neighborhood, inputs, substep, model.integrator, by_velocity=True, interpret=interpret)
    numbers = voxel_numbers(model, side, control, None if joints is None else joints.layers)
    known = launcher.known(numbers, None if joints is None else joints.order)
    start = NodeState(split(state.position, axis), split(state.velocity, axis))
    together = 1 if interpret else TOGETHER
    if joints is None:
        moving = repeat(lambda _, now: launcher.move(known, now), 0, count, start, together)
    else:  # one motion and the one before it take turns, as do their places in memory
        turn = partial(_two_stage, launcher, known)
        moving, _ = repeat(turn, 0, count, (start, start), together)
    return replace(state, position=join(moving.position, axis), velocity=join(moving.velocity, axis))


def _two_stage(
    launcher: Launcher, known: KernelInputs, _: Any, both: tuple[NodeState, NodeState]
) -> tuple[NodeState, NodeState]:
    """Of the latest motion and the one before it, the next and the latest."""
    now, before = both
    return launcher.move(known, now, before), now


def voxel_numbers(model: PointModel, side: Array, control: Array, layers: Array | None) -> VoxelNumbers:
    """Of all voxels under control values, c; side: their target [m], c; layers: see VoxelNumbers."""
    kinds = model.stiffness.shape[0]
    root = jnp.sqrt(jnp.arange(1, kinds + 1, dtype=side.dtype)).reshape(-1, *(1,) * side.ndim)
    return VoxelNumbers(
        stiffness=model.stiffness,
        damping=model.damping,
        tension=model.stiffness * root * side,
        strength=None if model.max_force is None else control * model.max_force,
        layers=layers,
    )


@dataclass(frozen=True)
class VoxelNeighborhood:
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

    def force(self, node: Array, moving: NodeState, springs: VoxelNumbers, look_up: LookUp, look: Look) -> Vector:
        """See vsr.lattice.kernel.Neighborhood."""
        vertex, layer = node % self._vertices, node // self._vertices
        place = places_of(vertex, self.vertices)
        voxels = [self._voxel(layer, place, number, springs, look_up) for number in range(len(self._corners))]
        force: Vector = tuple(jnp.zeros_like(part) for part in moving.position)
        ends: list[_End] = []
        for steps, far in self._springs:
            end, has = self._other_end(node, vertex, place, voxels, steps, far)
            other = look(end)
            force = self._pulled(steps, force, moving, other, has, voxels)
            ends.append(_End(other.position, has))
        for number, voxel in enumerate(voxels):
            if voxel.strength is not None:
                force = plus(force, self._inward(number, voxel.strength, ends, moving.position))
        return force

    def _pulled(
        self,
        steps: Steps,
        force: Vector,
        moving: NodeState,
        other: NodeState,
        has: list[Array] | None,
        voxels: list[_Voxel],
    ) -> Vector:
        """The force with that of one spring more [N]; other: the motion of its other end; has: see _End."""
        stiffness, damping, tension = (
            _total([getattr(voxels[number], name)[kind(steps)] for number in self._sharing(steps)], has)
            for name in ("stiffness", "damping", "tension")
        )
        between = minus(other.position, moving.position)
        strength = joint_pull(stiffness, tension, damping, between, minus(other.velocity, moving.velocity))
        return plus(force, times(strength, between))

    @property
    def _corners(self) -> list[Steps]:
        """What a node may be in the voxels around it; these are numbered by it."""
        return corner_steps(len(self.cells))

    @property
    def _springs(self) -> list[tuple[Steps, bool]]:
        """Where every spring of a node leads, and whether it is that of the last voxel rather than of the first."""
        ways = [steps for steps in itertools.product((-1, 0, 1), repeat=len(self.cells)) if any(steps)]
        return [(steps, far) for steps in ways for far in ((False, True) if self._may_part(steps) else (False,))]

    def _may_part(self, steps: Steps) -> bool:
        """Whether voxels that share two places may have different nodes in the second."""
        return self.layers > 1 and len(self._sharing(steps)) > 2

    def _sharing(self, steps: Steps) -> list[int]:
        """Voxels of a node that also have a corner some steps away."""
        return [number for number, own in enumerate(self._corners) if _leads_to_corner(own, steps)]

    def _other_end(
        self, node: Array, vertex: Array, place: list[Array], voxels: list[_Voxel], steps: Steps, far: bool
    ) -> tuple[Array, list[Array] | None]:
        """The node that a spring leads to, and which of the voxels that may share it do; any node if there are none.

        vertex and place: of the node in its layer; far: see `_springs`.
        """
        beside = vertex + sum(step * by for step, by in zip(steps, strides(self.vertices), strict=True))
        if self.layers == 1:
            return jnp.where(are_in_grid(place, steps, self.vertices), beside, node), None
        shared = self._sharing(steps)
        layers = {number: voxels[number].layer(self._beyond(number, steps)) for number in shared}

        def of_first(numbers: Sequence[int]) -> Array:
            found = jnp.full_like(node, -1)
            for number in reversed(numbers):
                found = jnp.where(voxels[number].exists, layers[number], found)
            return found

        first = of_first(shared)
        chosen = of_first(shared[::-1]) if far else first
        has = None
        if self._may_part(steps):
            has = [(layers[number] != first) if far else (layers[number] == first) for number in shared]
        return jnp.where(chosen < 0, node, chosen * self._vertices + beside), has

    def _beyond(self, number: int, steps: Steps) -> int:
        """The corner of a voxel to which steps from the node lead."""
        return self._corners.index(tuple(at + step for at, step in zip(self._corners[number], steps, strict=True)))

    def _voxel(self, layer: Array, place: list[Array], number: int, springs: VoxelNumbers, look_up: LookUp) -> _Voxel:
        """The voxel of which the node is a certain corner; layer and place: of the node."""
        own = self._corners[number]
        inside = [at < size if step == 0 else at > 0 for at, step, size in zip(place, own, self.cells, strict=True)]
        exists, layers = reduce(and_, inside), None
        by = strides(self.cells)
        cell = jnp.where(exists, sum((at - step) * s for at, step, s in zip(place, own, by, strict=True)), 0)
        if springs.layers is not None:
            layers = look_up(springs.layers, cell)
            at_node = layers >> number * LAYER_BITS & (1 << LAYER_BITS) - 1
            exists = exists & (layers >= 0) & (at_node == layer)

        def there(table: Any, row: int = 0) -> Array:
            return jnp.where(exists, look_up(table, row * math.prod(self.cells) + cell), 0)

        kinds = range(len(self.cells))
        stiffness, damping, tension = (
            [there(table, kind) for kind in kinds] for table in (springs.stiffness, springs.damping, springs.tension)
        )
        strength = None if springs.strength is None else there(springs.strength)
        return _Voxel(exists, layers, stiffness, damping, tension, strength)

    @property
    def _vertices(self) -> int:
        return math.prod(self.vertices)

    def _inward(self, number: int, strength: Array, ends: list[_End], position: Vector) -> Vector:
        """Force of a voxel's actuation on its corner of this number [N]; ends: of all `_springs`."""
        corners = [position]
        for other in (other for index, other in enumerate(self._corners) if index != number):
            steps = tuple(b - a for a, b in zip(self._corners[number], other, strict=True))
            spring = self._springs.index((steps, False))
            there, has = ends[spring]
            if has is not None:
                mine = has[self._sharing(steps).index(number)]
                parts = zip(there, ends[spring + 1].position, strict=True)
                there = tuple(jnp.where(mine, near, far) for near, far in parts)
            corners.append(there)
        return inward_forces(strength, corners)[0]


def _total(values: list[Array], has: list[Array] | None) -> Array:
    """Of the voxels that have a spring."""
    if has is not None:
        values = [jnp.where(one, value, 0) for one, value in zip(has, values, strict=True)]
    return reduce(add, values)


def _leads_to_corner(own: Steps, steps: Steps) -> bool:
    """Whether steps from a voxel's corner lead to another one of it."""
    return all(0 <= at + step <= 1 for at, step in zip(own, steps, strict=True))
