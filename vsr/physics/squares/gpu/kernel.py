"""The fused kernel: what one program does with its robots.

In each substep every lane first treats a voxel: it reads the motion of the voxel's four clusters and writes the forces
on them. Then every lane treats a cluster: it adds up the forces on it, and moves it. Between the two halves the lanes
exchange what they found. Resolving contact costs much, so a tile of clusters leaves it out when
none of them has anything in the ground.

Springs, contact and integration are the same code as elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import getitem
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.gpu.language import Table, load, program_id, store
from vsr.environment.model import Sticking
from vsr.physics.failure import first_of
from vsr.physics.squares.contact import (
    Corners,
    Ground,
    Mobility,
    Motion,
    Pose,
    corner_heights,
    reach_ahead,
    resolve_contact,
)
from vsr.physics.squares.geometry import is_inside_out
from vsr.physics.squares.gpu.layout import Layout
from vsr.physics.squares.gpu.numbers import Names
from vsr.physics.squares.reference import accelerate, move
from vsr.physics.squares.springs import Numbers, mass_centers, rest_lengths, voxel_forces
from vsr.physics.telemetry import failure_code
from vsr.terrain.surface import Terrain, least_height, nearest_surface

MOTION_FIELDS, FORCE_FIELDS, ACTUATION_FIELDS, TELEMETRY_FIELDS = 7, 12, 4, 2
ONLY_FOR_ACTUATION = "shrunk", "rest", "enlarged"
ONLY_IN_CONTACT = "offset", "lift", "friction", "restitution", "free", "turning", "gyration"
ONLY_FOR_TELEMETRY = ("masses",)


@dataclass(frozen=True)
class Kernel:
    """The kernel for one layout; called with references to its inputs and outputs."""

    layout: Layout
    voxel_names: Names
    """of the numbers of a voxel"""
    cluster_names: Names
    ground: Terrain | None
    """with the lengths of its tables in their place"""
    intervals: int
    count: int
    """substeps in an interval"""
    substep: float
    """[s]"""
    sticking: Sticking

    def __call__(self, *references: Any) -> None:
        _Program(self, *references).run()


@dataclass(frozen=True)
class _Items:
    """What is known of the voxels or clusters of a tile."""

    numbers: Numbers
    neighbors: list[Array]
    """slots of a voxel's clusters or of a cluster's voxels"""


class _Program:
    """One program at work."""

    def __init__(self, kernel: Kernel, *references: Any) -> None:
        self.kernel, self.layout = kernel, kernel.layout
        (
            self.voxel_numbers,
            self.voxel_indices,
            self.cluster_numbers,
            self.cluster_indices,
            self.counts,
            self.controls,
            self.start,
            *self.ground_tables,
        ) = references[:-5]
        self.final, self.telemetry, self.actuation, self.motion, self.forces = references[-5:]
        self.number = program_id()
        self.lanes = jnp.arange(self.layout.lanes, dtype=jnp.int32)
        # What a single tile of lanes needs again and again stays in registers.
        self.shared_ground = self.ground_tables[:1] and self.ground_tables[0].shape[0] == 1
        self.terrain_for_all = self.read_terrain(self.lanes) if self.shared_ground else None
        self.voxels = self.load_voxels(self.lanes) if self.layout.voxel_tiles == 1 else None
        self.clusters = self.load_clusters(self.lanes) if self.layout.cluster_tiles == 1 else None

    def run(self) -> None:
        self.for_cluster_tiles(self.begin)
        own = () if self.clusters is None else tuple(self.first_motion(self.lanes))
        jax.lax.fori_loop(0, self.kernel.intervals, self.interval, own)
        self.for_cluster_tiles(self.end)

    def interval(self, index: Array, own: Any) -> Any:
        """Substeps under one actuation; own: motion of the clusters in the lanes, if they are one tile."""
        if self.voxels is None:
            self.for_voxel_tiles(partial(self.actuate, index))
            springs = None
        else:
            springs = self.springs(index, self.lanes, self.voxels.numbers)

        def substep(_: Array, own: Any) -> Any:
            self.for_voxel_tiles(partial(self.push, springs))
            if self.clusters is None:
                self.for_cluster_tiles(self.pull)
            else:
                own = self.step(self.lanes, self.clusters, own)
                put(self.motion, self.lanes, own)
            return own

        own = jax.lax.fori_loop(0, self.kernel.count, substep, own)
        self.for_voxel_tiles(self.look)
        self.for_cluster_tiles(self.see)
        return own

    # Tables

    def robots(self, slots: Array) -> Any:
        """Of which robot the objects in these slots are."""
        together, robots = self.layout.together, self.layout.robots
        if together == 1:
            return self.number
        own = self.number * together + slots % together
        # The last program is filled up with copies of the last robot.
        return jnp.minimum(own, robots - 1) if robots % together else own

    def ranks(self, slots: Array) -> Array:
        return slots if self.layout.together == 1 else slots // self.layout.together

    def read(self, table: Any, row: int | Array, slots: Array) -> Array:
        """From a table of all robots, or of one for all, with a column for each rank.

        Slots beyond the last rank repeat it: they exist where a program has more lanes than voxels or clusters.
        """
        ranks = self.ranks(slots)
        if max(self.layout.voxel_slots, self.layout.cluster_slots) > table.shape[-1] * self.layout.together:
            ranks = jnp.minimum(ranks, table.shape[-1] - 1)
        return load(table.at[self.own(table, slots), row, ranks])

    def own(self, table: Any, slots: Array) -> Any:
        """The part of a table that is about the robots in these slots."""
        return self.robots(slots) if table.shape[0] > 1 else 0

    def load(self, table: Any, row: int, slots: Array) -> Array:
        """From a table of the program's own."""
        return load(table.at[self.number, row, slots])

    def store(self, table: Any, slots: Array, values: Any) -> None:
        for field, value in enumerate(values):
            store(table.at[self.number, field, slots], value)

    def read_numbers(self, table: Any, names: Names, slots: Array, wanted: Callable[[str], bool]) -> Numbers:
        return {name: self.read(table, row, slots) for row, name in enumerate(names) if wanted(name)}

    def load_voxels(self, slots: Array, without: Names = ()) -> _Items:
        """All that is known of the voxels in these slots, without what is named so."""
        names = self.kernel.voxel_names
        numbers = self.read_numbers(self.voxel_numbers, names, slots, lambda name: not name.startswith(without))
        return _Items(_stacked(numbers), self.neighbors(self.voxel_indices, slots))

    def load_clusters(self, slots: Array, without: Names = ONLY_FOR_TELEMETRY) -> _Items:
        names = self.kernel.cluster_names
        numbers = self.read_numbers(self.cluster_numbers, names, slots, lambda name: not name.startswith(without))
        return _Items(numbers, self.voxels_around(slots))

    def neighbors(self, places: Any, slots: Array) -> list[Array]:
        """Slots of a voxel's clusters or of a cluster's voxels."""
        together = self.layout.together
        ranks = [self.read(places, 1 + k, slots) for k in range(4)]
        return ranks if together == 1 else [rank * together + slots % together for rank in ranks]

    def voxels_around(self, slots: Array) -> list[Array]:
        """Slots of a cluster's voxels, or of nothing."""
        nothing = self.layout.force_slots - 1
        return [jnp.minimum(voxel, nothing) for voxel in self.neighbors(self.cluster_indices, slots)]

    def cells(self, slots: Array) -> Array:
        """Of the clusters in these slots; that of none for those that do not exist."""
        return self.read(self.cluster_indices, 0, slots)

    def first_motion(self, slots: Array) -> list[Array]:
        own, cells = self.own(self.start, slots), self.cells(slots)
        return [load(self.start.at[own, field, cells]) for field in range(MOTION_FIELDS)]

    def for_voxel_tiles(self, work: Callable[[Array], None]) -> None:
        self._for_tiles(work, self.layout.voxel_tiles, 0)

    def for_cluster_tiles(self, work: Callable[[Array], None]) -> None:
        self._for_tiles(work, self.layout.cluster_tiles, 1)

    def _for_tiles(self, work: Callable[[Array], None], most: int, which: int) -> None:
        """Work on the slots of all tiles in which something exists."""
        if most == 1:
            return work(self.lanes)
        tiles = (self.most(which) * self.layout.together + self.layout.lanes - 1) // self.layout.lanes
        return jax.lax.fori_loop(0, tiles, lambda tile, _: work(self.lanes + tile * self.layout.lanes), None)

    def most(self, which: int) -> Array:
        """Voxels or clusters of the robot of this program that has most."""
        first, together = self.number * self.layout.together, self.layout.together
        if self.counts.shape[0] == 1:
            first, together = 0, 1
        last = self.counts.shape[0] - 1
        found = [load(self.counts.at[jnp.minimum(first + i, last), which]) for i in range(together)]
        return reduce(jnp.maximum, found)

    def begin(self, slots: Array) -> None:
        zero = jnp.zeros(slots.shape, self.start.dtype)
        self.store(self.telemetry, slots, [zero, zero])
        nothing = jnp.full(slots.shape, self.layout.force_slots - 1, jnp.int32)
        put(self.forces, nothing, [zero] * FORCE_FIELDS)
        put(self.motion, slots, self.first_motion(slots))

    def end(self, slots: Array) -> None:
        """Write down where clusters are, and what was seen of them; those that do not exist go to the last cell.

        What is there then, of whichever lane was last, matters to nobody: nothing can push it, and it pushes nothing.
        """
        robots, cells = self.robots(slots), self.cells(slots)
        if self.layout.robots % self.layout.together:  # copies of the last robot are nobody
            own = self.number * self.layout.together + slots % self.layout.together
            cells = jnp.where(own < self.layout.robots, cells, self.final.shape[-1] - 1)
        motion = get(self.motion, range(MOTION_FIELDS), slots)
        seen = [self.load(self.telemetry, i, slots) for i in range(TELEMETRY_FIELDS)]
        for field, value in enumerate((*motion, *seen)):
            store(self.final.at[robots, field, cells], value)

    # Voxels

    def actuate(self, interval: Array, slots: Array) -> None:
        """Write down what an interval's control values do."""
        self.store(self.actuation, slots, self.springs(interval, slots, self.load_voxels(slots).numbers))

    def springs(self, interval: Array, slots: Array, numbers: Numbers) -> list[Array]:
        """Rest lengths of the three kinds of spring during an interval, and the control value."""
        cells = self.read(self.voxel_indices, 0, slots)
        control = jnp.clip(load(self.controls.at[self.own(self.controls, slots), interval, cells]), -1, 1)
        return [*rest_lengths([numbers[size] for size in ONLY_FOR_ACTUATION], control), control]

    def push(self, springs: list[Array] | None, slots: Array) -> None:
        """Write the forces of voxels on their clusters."""
        voxels = self.voxels or self.load_voxels(slots, ONLY_FOR_ACTUATION)
        *lengths, control = springs or [self.load(self.actuation, i, slots) for i in range(4)]
        fields = self.of_masses(range(MOTION_FIELDS), voxels)
        forces = voxel_forces(voxels.numbers, Pose(*fields[:4]), Motion(*fields[4:]), jnp.stack(lengths), control)
        put(self.forces, slots, [part[k] for k in range(4) for part in forces])

    def look(self, slots: Array) -> None:
        """Write in place of forces which voxels are inside out."""
        voxels = self.voxels or self.load_voxels(slots, ONLY_FOR_ACTUATION)
        _, centers = mass_centers(voxels.numbers, Pose(*self.of_masses(range(4), voxels)))
        inverted = is_inside_out(list(zip(*centers, strict=True))) & (voxels.numbers["half_side"] > 0)
        put(self.forces, slots, [inverted.astype(self.start.dtype)])

    def of_masses(self, fields: Iterable[int], voxels: _Items) -> list[Array]:
        """Motion of the clusters of voxels' four masses, (4, lanes) each."""
        return [jnp.stack([load(self.motion.at[field, cluster]) for cluster in voxels.neighbors]) for field in fields]

    # Clusters

    def pull(self, slots: Array) -> None:
        """Move clusters and write down where."""
        own = get(self.motion, range(MOTION_FIELDS), slots)
        clusters = self.load_clusters(slots, ONLY_FOR_TELEMETRY + ONLY_IN_CONTACT)
        put(self.motion, slots, self.step(slots, clusters, own))

    def step(self, slots: Array, clusters: _Items, own: Any) -> tuple[Array, ...]:
        """Motion of clusters after the substep; the forces on them are written."""
        numbers = clusters.numbers
        pose, motion = Pose(*own[:4]), Motion(*own[4:])
        parts = [get(self.forces, range(3 * k, 3 * k + 3), voxel) for k, voxel in enumerate(clusters.neighbors)]
        force_x, force_y, torque = ((a + b) + (c + d) for a, b, c, d in zip(*parts, strict=True))
        if "load_x" in numbers:
            force_x, force_y = force_x + numbers["load_x"], force_y + numbers["load_y"]
        after = accelerate(
            motion,
            (force_x, force_y, torque),
            numbers["inverse_mass"],
            numbers["inverse_inertia"],
            numbers["fall"],
            (numbers["decay"], numbers["spin_decay"]),
            substep=self.kernel.substep,
        )
        motion, nudge = self.touch(slots, numbers, pose, motion, after)
        pose = move(pose, motion, nudge, substep=self.kernel.substep)
        return (*pose, *motion)

    def touch(
        self, slots: Array, numbers: Numbers, pose: Pose, before: Motion, motion: Motion
    ) -> tuple[Motion, tuple[Any, Any]]:
        """Velocities and the nudge that the ground demands."""
        if self.kernel.ground is None:
            return motion, (0.0, 0.0)
        terrain = self.terrain_for_all or self.read_terrain(slots)
        ground: Ground = partial(nearest_surface, terrain, look_up=getitem)

        def resolve() -> tuple[Motion, tuple[Array, Array]]:
            known = numbers if self.clusters else numbers | self.load_contact(slots)
            offsets = zip(_by_corner(known, "offset_x"), _by_corner(known, "offset_y"), strict=True)
            heights = tuple(
                corner_heights(ground, x, y, known.get(f"lift{i}"), pose) for i, (x, y) in enumerate(offsets)
            )
            fields = {name: _by_corner(known, name) for name in Corners._fields if name != "lift"}
            mobility = Mobility(*(known[name] for name in Mobility._fields))
            corners = Corners(lift=(), **fields)
            how = {"substep": self.kernel.substep, "sticking": self.kernel.sticking}
            return resolve_contact(ground, mobility, corners, heights, pose, before, motion, **how)

        def fly() -> tuple[Motion, tuple[Array, Array]]:
            return motion, (jnp.zeros_like(pose.x), jnp.zeros_like(pose.x))

        if self.clusters or not self.kernel.ground.convex:  # a robot has something in the ground most of the time
            return resolve()
        height = least_height(terrain, pose.x, pose.y)
        reach = numbers["reach"] + reach_ahead(motion, numbers["reach"], self.kernel.substep)
        return jax.lax.cond(jnp.min(height - reach) < 0, resolve, fly)

    def load_contact(self, slots: Array) -> Numbers:
        names = self.kernel.cluster_names
        return self.read_numbers(self.cluster_numbers, names, slots, lambda name: name.startswith(ONLY_IN_CONTACT))

    def read_terrain(self, slots: Array) -> Terrain:
        """The ground under each lane's robot: lines of a convex one are read, those of others when they are needed."""
        lengths = self.kernel.ground
        assert lengths is not None
        own = 0 if self.shared_ground else self.robots(slots)
        tables = jax.tree.unflatten(jax.tree.structure(lengths), self.ground_tables)
        rows = jax.tree.map(partial(_Row, own), tables, lengths)
        if lengths.convex:
            lines = ("vertex_x", "vertex_y", "slope", "normal_x", "normal_y")
            return replace(rows, **{name: getattr(rows, name).entries() for name in lines})
        return replace(rows, cell_start=rows.cell_start[0], cell_width=rows.cell_width[0], deep=rows.deep[0])

    def see(self, slots: Array) -> None:
        """Add up what is seen at the end of an interval."""
        x, y, cosine, sine, velocity_x, velocity_y, spin = get(self.motion, range(MOTION_FIELDS), slots)
        names = self.kernel.cluster_names
        rows = [names.index(name) for name in ("masses", "masses_x", "masses_y", "masses_fastest")]
        masses, offset_x, offset_y, fastest = (self.read(self.cluster_numbers, row, slots) for row in rows)
        height, failure = (self.load(self.telemetry, i, slots) for i in (0, 1))
        height = height + masses * y + sine * offset_x + cosine * offset_y
        squared = velocity_x * velocity_x + velocity_y * velocity_y
        inverted = sum(load(self.forces.at[0, voxel]) for voxel in self.voxels_around(slots))
        finite = jnp.isfinite(x + y + cosine + sine + spin + squared)
        now = failure_code(finite, squared, inverted > 0, fastest).astype(failure.dtype)
        self.store(self.telemetry, slots, [height, first_of(failure, now)])


class _Row:
    """A row, in each lane its own, of a table: entries are read when they are asked for."""

    def __init__(self, row: Any, table: Any, length: int) -> None:
        self.row, self.table, self.length = row, table, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Array:
        return load(self.table.at[self.row, index])

    def entries(self) -> tuple[Array, ...]:
        return tuple(self[i] for i in range(self.length))


def _stacked(rows: Numbers) -> Numbers:
    """Rows by name; name0, name1, ... are one number with an axis before."""
    names = dict.fromkeys(name.rstrip("0123456789") for name in rows)
    return {name: rows[name] if name in rows else jnp.stack(_by_corner(rows, name)) for name in names}


def _by_corner(numbers: Numbers, name: str) -> tuple[Array, ...]:
    """The numbers name0, name1, ... in this order."""
    count = sum(other.rstrip("0123456789") == name for other in numbers)
    return tuple(numbers[f"{name}{i}"] for i in range(count))


def get(table: Table, fields: Iterable[int], slots: Array) -> list[Array]:
    """From a table through which lanes exchange what they found."""
    return [load(table.at[field, slots]) for field in fields]


def put(table: Table, slots: Array, values: Iterable[Array]) -> None:
    for field, value in enumerate(values):
        store(table.at[field, slots], value)
