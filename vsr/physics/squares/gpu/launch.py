"""`advance` as one GPU kernel: a robot stays on chip through all substeps and intervals.

Callers use `vmap`; its rule gathers all robots into one call. What the kernel reads of a robot
(vsr.physics.squares.gpu.numbers) may have been made before; here are its state, its control values and its ground.

Between two launches something may touch a robot (vsr.world.coupling). So its masses stay in the kernel's own table
(`PackedSquares`): values are read from it and impulses written into it when needed. A SquareState would be taken apart
and put together each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap

from vsr.compute.gpu.language import kernel_call
from vsr.environment import Environment
from vsr.environment.model import Sticking
from vsr.physics.squares.contact import ground_line
from vsr.physics.squares.gpu.kernel import (
    ACTUATION_FIELDS,
    FORCE_FIELDS,
    MOTION_FIELDS,
    TELEMETRY_FIELDS,
    Kernel,
)
from vsr.physics.squares.gpu.layout import choose_layout
from vsr.physics.squares.gpu.numbers import FusedNumbers, fused_numbers
from vsr.physics.squares.model import SquareModel, SquareState
from vsr.physics.telemetry import Telemetry
from vsr.terrain.surface import Terrain

PLACE, ROTATION, VELOCITY, SPIN, HEIGHT, FAILURE, FIELDS = slice(0, 2), slice(2, 4), slice(4, 6), 6, 7, 8, 9
"""Rows of the table, and how many."""
OUT_OF_THE_WAY = 1e6
"""Height of clusters that do not exist [m]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PackedSquares:
    """Has what a SquareState has."""

    table: Array
    """x, y, cosine, sine, velocity x and y, spin, and telemetry, of all clusters and, last, of none, (9, cells + 1)"""
    clusters: tuple[int, ...] = field(metadata={"static": True})
    """layers, rows+1, columns+1"""

    @property
    def position(self) -> Array:
        return self._vectors(PLACE)

    @property
    def rotation(self) -> Array:
        return self._vectors(ROTATION)

    @property
    def velocity(self) -> Array:
        return self._vectors(VELOCITY)

    @property
    def spin(self) -> Array:
        return self.table[SPIN, :-1].reshape(self.clusters)

    @property
    def seen(self) -> Telemetry:
        """At the end of the last launch."""
        height, failure = (self.table[row, :-1].reshape(self.clusters) for row in (HEIGHT, FAILURE))
        return Telemetry(height, failure.astype(jnp.int32))

    def moving(self, velocity: Array, spin: Array) -> PackedSquares:
        """In the same place, with another velocity and spin."""
        rows = [jnp.moveaxis(velocity, -1, 0).reshape(2, -1), spin.reshape(1, -1)]
        return replace(self, table=self.table.at[VELOCITY.start : SPIN + 1, :-1].set(jnp.concatenate(rows)))

    def shifted(self, position: Array, rotation: Array) -> PackedSquares:
        """In another place, with the same velocity and spin."""
        rows = [jnp.moveaxis(part, -1, 0).reshape(2, -1) for part in (position, rotation)]
        return replace(self, table=self.table.at[PLACE.start : ROTATION.stop, :-1].set(jnp.concatenate(rows)))

    def unpacked(self) -> SquareState:
        return SquareState(self.position, self.rotation, self.velocity, self.spin)

    def _vectors(self, rows: slice) -> Array:
        return jnp.moveaxis(self.table[rows, :-1].reshape(2, *self.clusters), 0, -1)


def packed(state: SquareState) -> PackedSquares:
    """A state as the kernel reads it; what does not exist keeps its place and is seen as nothing."""
    vectors = jnp.concatenate([state.position, state.rotation, state.velocity], -1)
    motion = jnp.concatenate([jnp.moveaxis(vectors, -1, 0), state.spin[None]]).reshape(HEIGHT, -1)
    none = jnp.asarray([0, OUT_OF_THE_WAY, 1, 0, 0, 0, 0], motion.dtype)
    motion = jnp.concatenate([motion, none[:, None]], 1)
    return PackedSquares(jnp.pad(motion, ((0, FIELDS - HEIGHT), (0, 0))), state.spin.shape)


STATE = 6
"""Which of the kernel's inputs it is."""


def advance_through(
    model: SquareModel,
    environment: Environment,
    state: SquareState | PackedSquares,
    controls: Array,
    substep: float,
    count: int,
    *,
    interpret: bool,
) -> tuple[Any, Telemetry]:
    """The contract of vsr.physics.squares.advance.advance_through; who gives a packed state gets one."""
    numbers = model.fused
    if numbers is None or numbers.substep != substep:
        numbers = fused_numbers(model, environment, substep)
    before = state if isinstance(state, PackedSquares) else packed(state)
    robot = numbers, ground_line(environment), before.table, controls.reshape(controls.shape[0], -1)
    one = jax.tree.map(lambda leaf: leaf[None], robot)
    (after,) = _batched(before.clusters, model.present.shape, substep, count, environment.sticking, interpret)(*one)
    later = replace(before, table=after)
    return later if isinstance(state, PackedSquares) else later.unpacked(), later.seen


@lru_cache(maxsize=64)
def _batched(
    clusters: tuple[int, int, int],
    voxels: tuple[int, int],
    substep: float,
    count: int,
    sticking: Sticking,
    interpret: bool,
) -> Any:
    """The function of many robots, all arrays with a leading axis of 1 or their number, and its batching rule.

    clusters, voxels: shapes of their grids.
    """
    shape = *voxels, clusters[0]
    function = custom_vmap(
        partial(_advance, shape, substep=substep, count=count, sticking=sticking, interpret=interpret)
    )

    @function.def_vmap
    def rule(axis_size, in_batched, *arguments):
        batched = tuple(in_batched)
        sizes = jax.tree.map(lambda leaf, is_batched: leaf.shape[1 if is_batched else 0], arguments, batched)
        robots = max(jax.tree.leaves(sizes))

        def merge(leaf: Array, is_batched: bool) -> Array:
            if not is_batched and leaf.shape[0] == 1:
                return leaf
            shape = leaf.shape[2:] if is_batched else leaf.shape[1:]
            full = jnp.broadcast_to(leaf if is_batched else leaf[None], (axis_size, robots, *shape))
            return full.reshape(axis_size * robots, *shape)

        result = function(*jax.tree.map(merge, arguments, batched))
        full = jnp.broadcast_to(result, (axis_size * robots, *result.shape[1:]))
        return full.reshape(axis_size, robots, *result.shape[1:]), True

    return jax.jit(function)


def _advance(
    shape: tuple[int, int, int],
    numbers: FusedNumbers,
    terrain: Terrain | None,
    state: Array,
    controls: Array,
    substep: float,
    count: int,
    sticking: Sticking,
    interpret: bool,
) -> Array:
    """Run the kernel: tables of packed states (vsr.physics.squares.gpu.launch), (robots, 9, cells + 1)."""
    robots = max(leaf.shape[0] for leaf in jax.tree.leaves((numbers, terrain, state, controls)))
    own = numbers.voxels.shape[0] > 1
    voxel, cluster = (len(names) + 4 if own else 0 for names in numbers.names)  # with their neighbors
    layout = choose_layout(*shape, robots, (voxel, cluster))
    ground, shape_of_ground = _ground_tables(terrain)
    state = jnp.broadcast_to(state, (robots, *state.shape[1:]))
    kernel = Kernel(layout, *numbers.names, shape_of_ground, controls.shape[1], count, substep, sticking)

    def space(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, state.dtype)

    after, *_ = kernel_call(
        kernel,
        programs=layout.programs,
        lanes=layout.lanes,
        results=(
            space(*state.shape),
            space(layout.programs, TELEMETRY_FIELDS, layout.cluster_width),
            space(layout.programs, ACTUATION_FIELDS, layout.voxel_width),
        ),
        scratch=(space(MOTION_FIELDS, layout.cluster_slots), space(FORCE_FIELDS, layout.force_slots)),
        # In place: what does not exist stays as it was, and loops need no copies.
        aliases={STATE: 0},
        interpret=interpret,
        name="advance",
    )(
        numbers.voxels,
        numbers.voxel_indices,
        numbers.clusters,
        numbers.cluster_indices,
        numbers.counts,
        controls,
        state,
        *ground,
    )
    return after


def _ground_tables(terrain: Terrain | None) -> tuple[tuple[Array, ...], Terrain | None]:
    """The terrain's arrays, (grounds, entries) each, and the terrain with their lengths in their place."""
    if terrain is None:
        return (), None
    terrain = cast(Terrain, _same_robots(terrain))
    tables = tuple(leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(terrain))
    return tables, jax.tree.unflatten(jax.tree.structure(terrain), [table.shape[1] for table in tables])


def _same_robots(tree: Any) -> Any:
    """A pytree whose leaves have a leading axis of 1 or n, all with n."""
    robots = max(leaf.shape[0] for leaf in jax.tree.leaves(tree))
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (robots, *leaf.shape[1:])), tree)
