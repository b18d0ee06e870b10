"""How robots are laid out for the fused kernel: several in one program, voxels and clusters in lanes.

A program simulates a few robots. Its voxels, and likewise its clusters, are written one after the other into *slots*:
those that exist first, in the order row, layer, robot, column, so that what stands on the ground is close together and
what does not exist costs nothing. The program treats as many slots at once as it has *lanes*, a *tile*.

Outside the kernel every array has the robots first, 1 (the same for all) or all of them; inside, the programs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.compute.gpu.figures import MULTIPROCESSORS, REGISTERS, SHARED_IN_ALL, SHARED_OVERHEAD
from vsr.compute.gpu.ptx import WARP
from vsr.compute.gpu.shared_memory import FLOAT_BYTES, SHARED_BYTES
from vsr.physics.squares.model import SquareModel, SquareState
from vsr.physics.squares.scaffolding import CORNER_CELLS

MOST_LANES = 256
MOST_TOGETHER = 16
"""Robots packed into one program."""
OUT_OF_THE_WAY = 1e6
"""Height of what fills up the slots [m]."""


@dataclass(frozen=True)
class Layout:
    """Shapes of one kernel. Static."""

    rows: int
    columns: int
    layers: int
    robots: int
    """all of them"""
    together: int
    """robots in a program"""
    lanes: int
    """slots treated at once, a power of two"""

    @property
    def programs(self) -> int:
        return math.ceil(self.robots / self.together)

    @property
    def voxel_tiles(self) -> int:
        return math.ceil(self.together * self.rows * self.columns / self.lanes)

    @property
    def cluster_tiles(self) -> int:
        return math.ceil(self.together * self.layers * (self.rows + 1) * (self.columns + 1) / self.lanes)

    @property
    def voxel_slots(self) -> int:
        return self.voxel_tiles * self.lanes

    @property
    def cluster_slots(self) -> int:
        return self.cluster_tiles * self.lanes

    @property
    def voxel_width(self) -> int:
        """Slots in tables of voxels, a power of two so that addresses cost the kernel little."""
        return _power_of_two(self.voxel_slots)

    @property
    def cluster_width(self) -> int:
        """Likewise of clusters."""
        return _power_of_two(self.cluster_slots)

    @property
    def force_slots(self) -> int:
        """Voxels and, last, nothing: where there is no voxel, there is no force."""
        return self.voxel_slots + 1

    @property
    def exchanged_bytes(self) -> int:
        """Memory for what lanes exchange: 7 numbers of a cluster and 12 of a voxel."""
        return FLOAT_BYTES * (7 * self.cluster_slots + 12 * self.force_slots)

    @property
    def shares_memory(self) -> bool:
        return self.exchanged_bytes <= SHARED_BYTES


def choose_layout(rows: int, columns: int, layers: int, robots: int) -> Layout:
    """The layout that is estimated to be quickest.

    Few robots are spread over lanes, a program for each, all of whose numbers stay in registers. Many are packed, so
    that no lane is idle and contact is resolved only for what is near the ground.
    """
    clusters = (rows + 1) * (columns + 1) * layers
    spread = [
        Layout(rows, columns, layers, robots, max(1, lanes // clusters), lanes)
        for lanes in (WARP << i for i in range(4))
        if lanes >= clusters and lanes <= MOST_LANES
    ]
    packed = [Layout(rows, columns, layers, robots, together, WARP) for together in range(1, MOST_TOGETHER + 1)]
    candidates = [layout for layout in (*spread, *packed) if layout.shares_memory]
    if not candidates:
        return Layout(rows, columns, layers, robots, 1, MOST_LANES)
    return min(candidates, key=_cycles)


def _cycles(layout: Layout) -> float:
    """Estimated time of a substep of all robots, in cycles of a multiprocessor.

    Counted from the kernel's instructions for an H200 (docs/performance.md) and held against what was measured there: a
    warp alone needs two cycles an instruction, and many share four schedulers at 0.65 instructions a cycle; warps that
    read their numbers again and again need five alone, but more of them fit, and reach 0.8. Other accelerators differ,
    and so then does the best layout, a little.
    """
    if layout.cluster_tiles == 1 and layout.voxel_tiles == 1:
        instructions, registers, alone, together = 1200, 224, 2, 0.65
    else:
        # A grid with a second layer is for bodies that vary, and these leave about two fifths of it empty.
        filled = 0.6 if layout.layers > 1 else 1.0
        row = layout.together * (layout.columns + 1)
        voxel_tiles = math.ceil(filled * layout.together * layout.rows * layout.columns / layout.lanes)
        cluster_tiles = math.ceil(filled * row * (layout.rows + 1) / layout.lanes)
        near_ground = min(math.ceil(1.3 * filled * row / layout.lanes), cluster_tiles)
        instructions = 820 * voxel_tiles + 140 * cluster_tiles + 550 * near_ground
        registers, alone, together = 128, 5, 0.8
    waiting = math.ceil(layout.programs / MULTIPROCESSORS)
    resident = min(
        waiting, REGISTERS // (registers * layout.lanes), SHARED_IN_ALL // (layout.exchanged_bytes + SHARED_OVERHEAD)
    )
    warps = resident * layout.lanes / WARP
    return waiting / resident * instructions * max(alone, warps / (4 * together))


def table(numbers: list[Array]) -> Array:
    """Numbers in slots as one table, (programs, rows, slots); the rows are filled up to a power of two."""
    programs = max(array.shape[0] for array in numbers)
    full = [jnp.broadcast_to(array, (programs, array.shape[-1])) for array in numbers]
    full += full[:1] * (_power_of_two(len(full)) - len(full))
    return jnp.stack(full, 1)


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


class Slots(NamedTuple):
    """Which voxel and which cluster is in which slot; leading axis (programs,) or (1,)."""

    voxel_order: Array
    """voxel in each slot, counted as (row, robot, column), (programs, voxels)"""
    cluster_order: Array
    """cluster in each slot, counted as (row, layer, robot, column), (programs, clusters)"""
    cluster_place: Array
    """slot of each cluster, (programs, clusters)"""
    voxel_clusters: Array
    """slots of the clusters of a voxel's four masses, (programs, 4, voxel width)"""
    cluster_voxels: Array
    """slot of the voxel whose corner k is in the cluster, or of nothing, (programs, 4, cluster width)"""
    cluster_robot: Array
    """robot of the program that owns the cluster, (programs, 1, cluster width)"""
    counts: Array
    """voxels and clusters that exist, (programs, 2)"""


def assign_slots(layout: Layout, model: SquareModel) -> Slots:
    """model: with the robots first."""
    present = by_voxel(layout, model.present) > 0
    exists = by_cluster(layout, model.cluster_mass) > 0
    second = jnp.stack([by_voxel(layout, model.in_second_layer[:, k]) for k in range(4)], 1) > 0
    voxel_place, cluster_place = _places(present), _places(exists)
    voxel_order, cluster_order = _order(voxel_place), _order(cluster_place)
    to_clusters = _gather(cluster_place[:, None], _clusters_of_voxels(layout, second))
    to_voxels = _voxels_of_clusters(layout, present, second)
    nothing = layout.force_slots - 1
    to_voxels = jnp.where(to_voxels >= 0, _gather(voxel_place[:, None], jnp.maximum(to_voxels, 0)), nothing)
    return Slots(
        voxel_order,
        cluster_order,
        cluster_place,
        _fill(_gather(to_clusters, voxel_order[:, None]), layout.voxel_width, 0).astype(jnp.int32),
        _fill(_gather(to_voxels, cluster_order[:, None]), layout.cluster_width, nothing).astype(jnp.int32),
        _fill(_owner(layout, cluster_order)[:, None], layout.cluster_width, 0).astype(jnp.int32),
        jnp.stack([present.sum(-1), exists.sum(-1)], -1).astype(jnp.int32),
    )


def _places(there: Array) -> Array:
    """Slot of each thing: first those that are there, in their order, then the others."""
    before = jnp.cumsum(there, -1, dtype=jnp.int32)
    absent_before = jnp.cumsum(~there, -1, dtype=jnp.int32)
    return jnp.where(there, before - 1, before[:, -1:] + absent_before - 1)


def _order(places: Array) -> Array:
    """The thing in each slot."""
    programs = jnp.arange(places.shape[0])[:, None]
    things = jnp.broadcast_to(jnp.arange(places.shape[1], dtype=jnp.int32), places.shape)
    return jnp.zeros_like(places).at[programs, places].set(things, unique_indices=True)


def by_voxel(layout: Layout, values: Array) -> Array:
    """(robots, ..., rows, columns) -> (programs, ..., rows x robots of a program x columns)."""
    grouped = jnp.moveaxis(_in_programs(layout, values), 1, -2)
    return grouped.reshape(*grouped.shape[:-3], -1)


def by_cluster(layout: Layout, values: Array) -> Array:
    """(robots, layers, rows+1, columns+1) -> (programs, rows+1 x layers x robots of a program x columns+1)."""
    grouped = jnp.transpose(_in_programs(layout, values), (0, 3, 2, 1, 4))
    return grouped.reshape(grouped.shape[0], -1)


def in_voxel_slots(layout: Layout, slots: Slots, values: Array) -> Array:
    """(robots, ..., rows, columns) -> (programs, ..., voxel width)."""
    there = by_voxel(layout, values)
    order = slots.voxel_order.reshape(-1, *(1,) * (there.ndim - 2), slots.voxel_order.shape[-1])
    return _fill(_gather(there, order), layout.voxel_width, 0)


def in_cluster_slots(layout: Layout, slots: Slots, values: Array, filler: float = 0) -> Array:
    """(robots, layers, rows+1, columns+1) -> (programs, cluster width)."""
    return _fill(_gather(by_cluster(layout, values), slots.cluster_order), layout.cluster_width, filler)


def out_of_cluster_slots(layout: Layout, slots: Slots, values: Array) -> Array:
    """(programs, cluster width) -> (robots, layers, rows+1, columns+1)."""
    there = _gather(values, slots.cluster_place)
    shape = layout.rows + 1, layout.layers, layout.together, layout.columns + 1
    grouped = jnp.transpose(there.reshape(-1, *shape), (0, 3, 2, 1, 4))
    return grouped.reshape(-1, *grouped.shape[2:])[: layout.robots]


def pack_state(layout: Layout, slots: Slots, state: SquareState) -> Array:
    """x, y, cosine, sine, velocity x and y, spin, (programs, 7, cluster width)."""
    position, rotation, velocity = state.position, state.rotation, state.velocity
    return jnp.stack(
        [
            in_cluster_slots(layout, slots, position[..., 0]),
            in_cluster_slots(layout, slots, position[..., 1], OUT_OF_THE_WAY),
            in_cluster_slots(layout, slots, rotation[..., 0], 1),
            in_cluster_slots(layout, slots, rotation[..., 1]),
            in_cluster_slots(layout, slots, velocity[..., 0]),
            in_cluster_slots(layout, slots, velocity[..., 1]),
            in_cluster_slots(layout, slots, state.spin),
        ],
        1,
    )


def unpack_state(layout: Layout, slots: Slots, packed: Array) -> SquareState:
    """The reverse of `pack_state`, for all robots."""
    x, y, cosine, sine, velocity_x, velocity_y, spin = (
        out_of_cluster_slots(layout, slots, packed[:, i]) for i in range(7)
    )
    return SquareState(
        position=jnp.stack([x, y], -1),
        rotation=jnp.stack([cosine, sine], -1),
        velocity=jnp.stack([velocity_x, velocity_y], -1),
        spin=spin,
    )


def _in_programs(layout: Layout, values: Array) -> Array:
    """(robots, ...) -> (programs, robots of a program, ...); one for all becomes (1, robots of a program, ...)."""
    robots, *rest = values.shape
    if robots == 1:
        return jnp.broadcast_to(values[None], (1, layout.together, *rest))
    missing = layout.programs * layout.together - robots
    if missing:
        values = jnp.concatenate([values, jnp.broadcast_to(values[-1:], (missing, *rest))])
    return values.reshape(layout.programs, layout.together, *rest)


def _gather(values: Array, order: Array) -> Array:
    """values[..., order] for every program; leading axes of size 1 fit any."""
    lead = jnp.broadcast_shapes(values.shape[:-1], order.shape[:-1])
    full = jnp.broadcast_to(values, (*lead, values.shape[-1]))
    return jnp.take_along_axis(full, jnp.broadcast_to(order, (*lead, order.shape[-1])), -1)


def _fill(values: Array, size: int, filler: float) -> Array:
    missing = size - values.shape[-1]
    return jnp.pad(values, ((0, 0),) * (values.ndim - 1) + ((0, missing),), constant_values=filler)


def _clusters_of_voxels(layout: Layout, second: Array) -> Array:
    """The cluster of each voxel's masses, (programs, 4, voxels); second: whether in the second layer, likewise."""
    row, robot, column = _coordinates(layout.rows, layout.together, layout.columns)
    corners = []
    for k, (up, right) in enumerate(CORNER_CELLS):
        layer = second[:, k].astype(jnp.int32)
        corners.append(_cluster_number(layout, row + up, layer, robot, column + right))
    return jnp.stack(corners, 1)


def _voxels_of_clusters(layout: Layout, present: Array, second: Array) -> Array:
    """The voxel whose corner k is in each cluster, -1 if there is none, (programs, 4, clusters)."""
    row, layer, robot, column = _coordinates(layout.rows + 1, layout.layers, layout.together, layout.columns + 1)
    voxels = []
    for k, (up, right) in enumerate(CORNER_CELLS):
        voxel_row, voxel_column = row - up, column - right
        inside = (voxel_row >= 0) & (voxel_row < layout.rows) & (voxel_column >= 0) & (voxel_column < layout.columns)
        number = (voxel_row * layout.together + robot) * layout.columns + voxel_column
        safe = jnp.where(inside, number, 0)
        belongs = inside & present[:, safe] & (second[:, k][:, safe] == (layer > 0))
        voxels.append(jnp.where(belongs, number, -1))
    return jnp.stack(voxels, 1)


def _cluster_number(layout: Layout, row: Array, layer: Array, robot: Array, column: Array) -> Array:
    return ((row * layout.layers + layer) * layout.together + robot) * (layout.columns + 1) + column


def _owner(layout: Layout, cluster: Array) -> Array:
    return cluster // (layout.columns + 1) % layout.together


def _coordinates(*sizes: int) -> tuple[Array, ...]:
    """Of every element of an array of these sizes, counted along its last axis first."""
    return tuple(axis.reshape(-1) for axis in jnp.indices(sizes))
