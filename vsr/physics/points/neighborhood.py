"""Springs of voxels in the lanes of a GPU kernel: a lane per node, in every layer.

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, and_
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.compute.gpu.language import WARP
from vsr.compute.vector import Vector, minus, plus, times
from vsr.lattice.grid import kind
from vsr.lattice.integrators import NodeState
from vsr.lattice.kernel import Look, LookUp, are_in_grid, places_of, strides
from vsr.lattice.law import joint_pull
from vsr.physics.actuation import inward_forces
from vsr.physics.points.springs import spring_corners, turns
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
    """stiffness times the spring's rest length [N], (kinds, c), or (classes of `turns`, c) if axes differ"""
    strength: Any | None
    """of the actuation by force on every corner, towards the voxel's center [N], c"""
    layers: Any | None
    """in which layer the node of each corner is, LAYER_BITS each, -1 where no voxel is, c; None if there is but one"""
    springs: Any | None
    """bits of the springs that a voxel has, in the order of `spring_corners`, c; None if all"""
    chambers: ChamberNumbers | None


class ChamberNumbers(NamedTuple):
    """What is known of fluid; c stands for the axes of cells, m for chambers."""

    chamber: Any
    """of every voxel, -1 if it has no fluid, c"""
    count: Any
    """of chambers, ()"""
    walls: Any
    """see Chambers, (faces, c)"""
    depth: Any
    """[m], ()"""
    numbers: Any
    """FluidNumbers, each (m,)"""
    rest_volume: Any
    """[m³], (m,)"""
    drive: Any
    """[Pa] or [m³], (m,)"""
    level: Any
    """a height amid the body [m], ()"""
    gravity: Any
    """[m/s²], ()"""
    present: Any
    """1 where there is a voxel, c"""
    follows: Any
    """1 for nodes amid the fluid, (layers, n)"""


class Voxel(NamedTuple):
    """What a lane knows of one of its voxels, as lanes; nothing of those it does not have."""

    exists: Array
    cell: Array
    layers: Array | None
    """of its corners, as VoxelNumbers has them"""
    stiffness: list[Array]
    damping: list[Array]
    tension: list[Array]
    strength: Array | None
    springs: Array | None

    def layer(self, corner: int) -> Array:
        """In which the node of a corner is."""
        assert self.layers is not None
        return _layer_of(self.layers, corner)


class _End(NamedTuple):
    """What a lane knows of the other end of one of its springs, as lanes."""

    position: Vector
    has: list[Array] | None
    """which of the voxels that may share the spring do; None if all"""


class Spring(NamedTuple):
    """What stays as it is of a lane's springs between the same two nodes, as lanes."""

    end: Array
    """the other node"""
    stiffness: Array
    damping: Array
    tension: Array
    has: list[Array] | None
    """see _End"""


@dataclass(frozen=True)
class VoxelNeighborhood:
    """The voxels around every node."""

    cells: tuple[int, ...]
    """along each axis, x last"""
    layers: int
    directed: bool
    """whether springs along different axes have different tensions"""

    @property
    def nodes(self) -> int:
        """In all layers."""
        return self.layers * math.prod(self.vertices)

    @property
    def vertices(self) -> tuple[int, ...]:
        """Nodes of one layer along each axis."""
        return tuple(size + 1 for size in self.cells)

    @property
    def lanes(self) -> int:
        """For the nodes of one layer, which are as many as bodies without loose contacts have."""
        return -(-self._vertices // WARP) * WARP

    @property
    def margin(self) -> int | None:
        """See `springs`; None if there are several layers, whose nodes are looked for."""
        return sum(strides(self.vertices)) if self.layers == 1 else None

    @property
    def far_springs(self) -> int:
        """Of a node: those that only the last voxel has."""
        return sum(far for _, far in self._springs)

    @property
    def corners(self) -> int:
        """Of a voxel."""
        return len(self._corners)

    def force(self, node: Array, moving: NodeState, springs: VoxelNumbers, look_up: LookUp, look: Look) -> Vector:
        """See vsr.lattice.kernel.Neighborhood."""
        voxels = self.voxels_around(node, springs, look_up)
        force: Vector = tuple(jnp.zeros_like(part) for part in moving.position)
        ends: list[_End] = []
        for spring in self.springs(node, voxels):
            other = look(spring.end)
            force = pulled(force, moving, other, spring)
            ends.append(_End(other.position, spring.has))
        for number, voxel in enumerate(voxels):
            if voxel.strength is not None:
                force = plus(force, self._inward(number, voxel.strength, ends, moving.position))
        return force

    def voxels_around(self, node: Array, springs: VoxelNumbers, look_up: LookUp) -> list[Voxel]:
        """Numbered by the corner of them that the node is."""
        layer, place = node // self._vertices, self._place(node)
        return [self._voxel(layer, place, number, springs, look_up) for number in range(self.corners)]

    def springs(
        self,
        node: Array,
        voxels: list[Voxel],
        margin: int | None = None,
        far: bool | None = None,
    ) -> Iterator[Spring]:
        """Of the nodes of lanes, by the voxels around them, one after the other.

        margin: None, or where the first node is in a table that goes on before it and behind the last: then ends are
        places in that table, any if a spring is not there; far: if given, only those of the last voxel, or the others.
        """
        for steps, is_far in self._springs:
            if far in (None, is_far):
                end, has = self._other_end(node, voxels, steps, is_far, margin)
                stiffness = self._total("stiffness", kind(steps), steps, voxels, has)
                damping = self._total("damping", kind(steps), steps, voxels, has)
                tension = self._total("tension", self._tension_row(steps), steps, voxels, has)
                yield Spring(end, stiffness, damping, tension, has)

    def edges(
        self, node: Array, voxels: list[Voxel], present: list[Array], margin: int | None
    ) -> Iterator[tuple[Array, Array]]:
        """The ends of all voxel edges at a node, and how many voxels have each; present: 1 or 0 for each voxel."""
        for steps, far in self._springs:
            if kind(steps) == 0:
                end, has = self._other_end(node, voxels, steps, far, margin)
                there = [present[number] for number in self._sharing(steps)]
                if has is not None:
                    there = [jnp.where(one, value, 0) for one, value in zip(has, there, strict=True)]
                yield end, reduce(add, there)

    def _tension_row(self, steps: Steps) -> int:
        if not self.directed:
            return kind(steps)
        return turns(len(steps)).index(tuple(axis for axis, step in enumerate(steps) if step))

    def _total(self, name: str, row: int, steps: Steps, voxels: list[Voxel], has: list[Array] | None) -> Array:
        """Of the voxels that have a spring."""
        values = []
        for place, number in enumerate(self._sharing(steps)):
            voxel = voxels[number]
            value = getattr(voxel, name)[row]
            if has is not None:
                value = jnp.where(has[place], value, 0)
            if voxel.springs is not None:
                value = jnp.where(voxel.springs >> self._spring_of_voxel(number, steps) & 1 > 0, value, 0)
            values.append(value)
        return reduce(add, values)

    def _spring_of_voxel(self, number: int, steps: Steps) -> int:
        """The place among `spring_corners` of a voxel's spring that leads from its corner of this number."""
        ends = {number, self._beyond(number, steps)}
        return [{first, second} for _, first, second in spring_corners(len(steps))].index(ends)

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
        self, node: Array, voxels: list[Voxel], steps: Steps, far: bool, margin: int | None
    ) -> tuple[Array, list[Array] | None]:
        """The node that a spring leads to, and which of the voxels that may share it do; any node if there are none.

        far: see `_springs`; margin: see `springs`.
        """
        away = sum(step * by for step, by in zip(steps, strides(self.vertices), strict=True))
        if self.layers == 1 and margin is not None:
            return node + (margin + away), None
        if self.layers == 1:
            return jnp.where(are_in_grid(self._place(node), steps, self.vertices), node + away, node), None
        beside = node % self._vertices + away
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

    def _place(self, node: Array) -> list[Array]:
        """Of a node in its layer, along each axis."""
        return places_of(node % self._vertices, self.vertices)

    def _beyond(self, number: int, steps: Steps) -> int:
        """The corner of a voxel to which steps from the node lead."""
        return self._corners.index(tuple(at + step for at, step in zip(self._corners[number], steps, strict=True)))

    def _voxel(self, layer: Array, place: list[Array], number: int, springs: VoxelNumbers, look_up: LookUp) -> Voxel:
        """The voxel of which the node is a certain corner; layer and place: of the node."""
        exists, cell = self._cell(place, number)
        layers = None
        if springs.layers is not None:
            layers = look_up(springs.layers, cell)
            exists = exists & (layers >= 0) & (_layer_of(layers, number) == layer)

        def there(table: Any, row: int = 0) -> Array:
            return jnp.where(exists, look_up(table, row * math.prod(self.cells) + cell), 0)

        kinds = range(len(self.cells))
        classes = range(len(turns(len(self.cells)))) if self.directed else kinds
        stiffness, damping = ([there(table, kind) for kind in kinds] for table in (springs.stiffness, springs.damping))
        tension = [there(springs.tension, row) for row in classes]
        strength = None if springs.strength is None else there(springs.strength)
        has = None if springs.springs is None else look_up(springs.springs, cell)
        return Voxel(exists, cell, layers, stiffness, damping, tension, strength, has)

    def _cell(self, place: list[Array], number: int) -> tuple[Array, Array]:
        """Whether the grid has the cell of which a vertex is a certain corner, and its number, 0 if not."""
        own = self._corners[number]
        inside = [at < size if step == 0 else at > 0 for at, step, size in zip(place, own, self.cells, strict=True)]
        exists, by = reduce(and_, inside), strides(self.cells)
        return exists, jnp.where(exists, sum((at - step) * s for at, step, s in zip(place, own, by, strict=True)), 0)

    def corner_nodes(self, cell: Array, springs: VoxelNumbers, look_up: LookUp) -> list[Array]:
        """Of the cells of lanes."""
        place = places_of(cell, self.cells)
        vertex = sum(at * by for at, by in zip(place, strides(self.vertices), strict=True))
        layers = None if springs.layers is None else look_up(springs.layers, cell)
        nodes = []
        for number, steps in enumerate(self._corners):
            node = vertex + sum(step * by for step, by in zip(steps, strides(self.vertices), strict=True))
            if layers is not None:
                node = node + jnp.where(layers < 0, 0, _layer_of(layers, number)) * self._vertices
            nodes.append(node)
        return nodes

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


def pulled(force: Vector, moving: NodeState, other: NodeState, spring: Spring) -> Vector:
    """The force with that of one spring more [N]; other: the motion of its other end."""
    between = minus(other.position, moving.position)
    parting = minus(other.velocity, moving.velocity)
    return plus(force, times(joint_pull(spring.stiffness, spring.tension, spring.damping, between, parting), between))


def _layer_of(layers: Array, corner: int) -> Array:
    """In which the node of a corner is; layers: see VoxelNumbers."""
    return layers >> corner * LAYER_BITS & (1 << LAYER_BITS) - 1


def _leads_to_corner(own: Steps, steps: Steps) -> bool:
    """Whether steps from a voxel's corner lead to another one of it."""
    return all(0 <= at + step <= 1 for at, step in zip(own, steps, strict=True))
