"""`advance` as one GPU kernel: a robot stays on chip through all substeps and intervals.

Callers use `vmap`; its rule gathers all robots into one call. What the kernel reads of a robot
(vsr.physics.squares.gpu.numbers) may have been made before; here are its state, its control values and its ground.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from vsr.compute.gpu.ptx import WARP
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
from vsr.physics.squares.gpu.packed import PackedSquares, packed
from vsr.physics.squares.model import SquareModel, SquareState
from vsr.physics.telemetry import Telemetry
from vsr.terrain.surface import Terrain

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
    """Run the kernel: tables of packed states (vsr.physics.squares.gpu.packed), (robots, 9, cells + 1)."""
    robots = max(leaf.shape[0] for leaf in jax.tree.leaves((numbers, terrain, state, controls)))
    layout = choose_layout(*shape, robots)
    ground, shape_of_ground = _ground_tables(terrain)
    state = jnp.broadcast_to(state, (robots, *state.shape[1:]))
    kernel = Kernel(layout, *numbers.names, shape_of_ground, controls.shape[1], count, substep, sticking, interpret)

    def space(fields: int, slots: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((layout.programs, fields, slots), state.dtype)

    def exchange(fields: int, slots: int) -> jax.ShapeDtypeStruct:
        """Memory of the device for what lanes exchange, unless it is on chip."""
        return space(fields, slots) if kernel.exchanges_through_memory else jax.ShapeDtypeStruct((1, 1, 1), state.dtype)

    after, *_ = pl.pallas_call(
        kernel,
        grid=(layout.programs,),
        out_shape=(
            jax.ShapeDtypeStruct(state.shape, state.dtype),
            space(TELEMETRY_FIELDS, layout.cluster_width),
            space(ACTUATION_FIELDS, layout.voxel_width),
            exchange(MOTION_FIELDS, layout.cluster_width),
            exchange(FORCE_FIELDS, layout.force_slots),
        ),
        compiler_params=triton.CompilerParams(num_warps=layout.lanes // WARP, num_stages=1),
        # In place: what does not exist stays as it was, and loops need no copies.
        input_output_aliases={STATE: 0},
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
