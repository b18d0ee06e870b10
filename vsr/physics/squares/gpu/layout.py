"""Layout of robots for the fused kernel: several in one program, voxels and clusters in lanes.

A program simulates a few robots. What exists of a robot has a *rank*, the lowest row first
(vsr.physics.squares.gpu.numbers). The voxels of a program, and likewise its clusters, are in *slots*: first those of
rank 0 of all its robots, then those of rank 1, so that what stands on the ground is close together and what does not
exist costs next to nothing. The program treats as many slots at once as it has *lanes*, a *tile*.

Layouts are estimated for an H200. Other GPUs differ, and so does the best layout, a little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vsr.compute.gpu.cuda import SHARED_BYTES
from vsr.compute.gpu.language import WARP, power_of_two

MULTIPROCESSORS = 132
REGISTERS = 65536
"""of a multiprocessor"""
SHARED_IN_ALL = 228 * 1024
"""shared memory of a multiprocessor [bytes]"""
SHARED_OVERHEAD = 1024
"""of it, what every program costs besides what it asks for [bytes]"""


CACHE = 50e6
"""of the device [bytes]"""
BYTES_A_CYCLE = 2300
"""from its memory, 4 TB/s at 1.75 GHz"""
FLOAT_BYTES = 4
MOST_LANES = 256
MOST_TOGETHER = 2
"""Robots packed into one program: 16,384 walkers of 5x5 take 1.8 times as long with five as with two on an H200."""


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
        return power_of_two(self.voxel_slots)

    @property
    def cluster_width(self) -> int:
        """Likewise of clusters."""
        return power_of_two(self.cluster_slots)

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


def choose_layout(rows: int, columns: int, layers: int, robots: int, numbers: tuple[int, int] = (0, 0)) -> Layout:
    """The layout that is estimated to be quickest.

    Few robots are spread over lanes, a program for each, all of whose numbers stay in registers. Many are packed, so
    that no lane is idle and contact is resolved only for what is near the ground. So many that their numbers no longer
    fit into the device's cache are spread again, because packed ones read them in every substep.

    numbers: that a voxel and a cluster of each robot have of their own, 0 if they are the same in all robots.
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
    return min(candidates, key=lambda layout: _cycles(layout, numbers))


def _cycles(layout: Layout, numbers: tuple[int, int] = (0, 0)) -> float:
    """Estimated time of a substep of all robots, in cycles of a multiprocessor.

    Counted from the kernel's instructions for an H200 (docs/develop/kernels.md) and held against what was measured
    there: a warp alone needs two cycles an instruction, and many share four schedulers at 0.65 instructions a
    cycle; warps that read their numbers again and again need five alone, but more of them fit, and reach 0.8. Other
    accelerators differ, and so then does the best layout, a little.
    """
    reading = 0.0
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
        voxels, clusters = layout.rows * layout.columns, (layout.rows + 1) * (layout.columns + 1)
        read = FLOAT_BYTES * layout.robots * filled * (numbers[0] * voxels + numbers[1] * clusters)
        reading = max(0.0, read - CACHE) / BYTES_A_CYCLE
    waiting = math.ceil(layout.programs / MULTIPROCESSORS)
    resident = min(
        waiting, REGISTERS // (registers * layout.lanes), SHARED_IN_ALL // (layout.exchanged_bytes + SHARED_OVERHEAD)
    )
    warps = resident * layout.lanes / WARP
    return max(reading, waiting / resident * instructions * max(alone, warps / (4 * together)))
