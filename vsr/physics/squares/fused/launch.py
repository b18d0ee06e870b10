"""`advance` as one GPU kernel: a robot stays on chip through all substeps and intervals.

Callers use `vmap`; its rule gathers all robots into one call. This file turns the arrays of a model into the numbers
that the kernel reads (vsr.physics.squares.fused.kernel), in its layout (vsr.physics.squares.fused.layout).
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from vsr.body.springs import SQUARE_GROUPS
from vsr.compute.gpu.ptx import WARP
from vsr.environment import Environment
from vsr.physics.squares.contact import corners_on, ground_line, mobility_of, radius_of
from vsr.physics.squares.fused.kernel import (
    ACTUATION_FIELDS,
    FORCE_FIELDS,
    MOTION_FIELDS,
    TELEMETRY_FIELDS,
    Kernel,
    Names,
)
from vsr.physics.squares.fused.layout import (
    Layout,
    Slots,
    assign_slots,
    choose_layout,
    in_cluster_slots,
    in_voxel_slots,
    out_of_cluster_slots,
    pack_state,
    table,
    unpack_state,
)
from vsr.physics.squares.limits import DAMPING_RATIO, TINY, least_area, limit_rate
from vsr.physics.squares.model import SquareModel, SquareState
from vsr.physics.squares.telemetry import mass_sums
from vsr.physics.telemetry import Telemetry
from vsr.terrain.surface import Terrain

FEWEST_CORNERS = 4
"""That every cluster has (vsr.physics.squares.assembly)."""


def advance_through(
    model: SquareModel,
    environment: Environment,
    state: SquareState,
    controls: Array,
    substep: float,
    count: int,
    *,
    interpret: bool,
) -> tuple[SquareState, Telemetry]:
    """The contract of vsr.physics.squares.advance.advance_through."""
    robots = jax.tree.map(lambda leaf: leaf[None], (model, environment, state, controls))
    result = _batched(substep, count, interpret)(*robots)
    return jax.tree.map(lambda leaf: leaf[0], result)


@lru_cache(maxsize=64)
def _batched(substep: float, count: int, interpret: bool):
    """The function of many robots, all arrays with a leading axis of 1 or their number, and its batching rule."""

    function = custom_vmap(partial(_advance, substep=substep, count=count, interpret=interpret))

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

        def divide(leaf: Array) -> Array:
            full = jnp.broadcast_to(leaf, (axis_size * robots, *leaf.shape[1:]))
            return full.reshape(axis_size, robots, *leaf.shape[1:])

        return jax.tree.map(divide, result), jax.tree.map(lambda _: True, result)

    return jax.jit(function)


def _advance(
    model: SquareModel,
    environment: Environment,
    state: SquareState,
    controls: Array,
    substep: float,
    count: int,
    interpret: bool,
) -> tuple[SquareState, Telemetry]:
    robots = max(leaf.shape[0] for leaf in jax.tree.leaves((model, environment, state, controls)))
    (model,) = _same_robots(model)
    _, layers, *_ = model.cluster_mass.shape
    _, rows, columns = model.present.shape
    layout = choose_layout(rows, columns, layers, robots)
    slots = assign_slots(layout, model)
    voxels = _voxel_numbers(layout, slots, model, substep)
    clusters = _cluster_numbers(layout, slots, model, environment, substep)
    acting = in_voxel_slots(layout, slots, jnp.clip(controls, -1, 1))
    state = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (robots, *leaf.shape[1:])), state)
    packed, seen = _call(
        layout,
        (tuple(voxels), tuple(clusters)),
        ground_line(environment),
        (
            table(list(voxels.values())),
            slots.voxel_clusters,
            table(list(clusters.values())),
            slots.cluster_voxels,
            slots.cluster_robot,
            slots.counts,
            acting,
        ),
        pack_state(layout, slots, state),
        substep,
        count,
        interpret,
    )
    exists = model.cluster_mass > 0
    moved = unpack_state(layout, slots, packed)

    def there(now: Array, before: Array) -> Array:
        return jnp.where(exists[..., None] if now.ndim > exists.ndim else exists, now, before)

    height, failure = (out_of_cluster_slots(layout, slots, seen[:, i]) for i in (0, 1))
    return jax.tree.map(there, moved, state), Telemetry(
        jnp.where(exists, height, 0), jnp.where(exists, failure, 0).astype(jnp.int32)
    )


def _call(
    layout: Layout,
    names: tuple[Names, Names],
    terrain: Terrain | None,
    tables: tuple[Array, ...],
    state: Array,
    substep: float,
    count: int,
    interpret: bool,
) -> tuple[Array, Array]:
    """Run the kernel: the packed state afterwards, and the telemetry, (programs, 2, cluster width)."""
    intervals, dtype = tables[-1].shape[1], state.dtype
    ground, shape_of_ground = _ground_tables(layout, terrain)
    kernel = Kernel(layout, *names, shape_of_ground, intervals, count, substep, interpret)

    def space(fields: int, slots: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((layout.programs, fields, slots), dtype)

    state, seen, *_ = pl.pallas_call(
        kernel,
        grid=(layout.programs,),
        out_shape=(
            space(MOTION_FIELDS, layout.cluster_width),
            space(TELEMETRY_FIELDS, layout.cluster_width),
            space(ACTUATION_FIELDS, layout.voxel_width),
            space(FORCE_FIELDS, layout.force_slots),
        ),
        compiler_params=triton.CompilerParams(num_warps=layout.lanes // WARP, num_stages=1),
        interpret=interpret,
        name="advance",
    )(*tables, state, *ground)
    return state, seen


def _voxel_numbers(layout: Layout, slots: Slots, model: SquareModel, substep: float) -> dict[str, Array]:
    """What the kernel reads of each voxel."""
    put = partial(in_voxel_slots, layout, slots)
    stiffness = model.mass * model.angular_frequency**2 / 2
    lever_scale = jnp.sqrt(model.mass / (2 * model.inertia))
    has_springs = model.angular_frequency > 0
    lag = jnp.where(has_springs, 2 * model.damping_ratio / jnp.where(has_springs, model.angular_frequency, 1), 0)
    numbers = {
        "half_side": put(model.half_side * model.present),
        "lever_scale": put(lever_scale),
        "lag": put(lag),
        "lag_over_lever_scale": put(lag / lever_scale),
        **{f"stiffness_{group}": put(stiffness * model.groups[:, i]) for i, group in enumerate(SQUARE_GROUPS)},
    }
    for k in range(4):
        numbers |= {f"offset_{axis}{k}": put(model.mass_offset[:, k, :, :, i]) for i, axis in enumerate("xy")}
    for i, size in enumerate(("shrunk", "rest", "enlarged")):
        numbers |= {f"{size}{kind}": put(model.spring_length[:, i, kind]) for kind in range(3)}
    if model.max_force is not None:
        numbers["max_force"] = put(model.max_force)
    rate = limit_rate(model, substep)
    stiff = model.present * model.mass * rate**2
    if model.lower_limit is not None or model.upper_limit is not None:
        numbers["limit_lag"] = put(2 * DAMPING_RATIO / rate)
    for name, limit in (("lower", model.lower_limit), ("upper", model.upper_limit)):
        if limit is not None:
            limit_2 = jnp.maximum(limit * limit, TINY)
            numbers[name] = put(limit_2)
            numbers[f"{name}_stiffness"] = put(stiff / (4 * limit_2))
    if model.lower_limit is not None:
        numbers["least_area"] = put(least_area(model))
        numbers["area_stiffness"] = put(2 * stiff)
    return numbers


def _cluster_numbers(
    layout: Layout, slots: Slots, model: SquareModel, environment: Environment, substep: float
) -> dict[str, Array]:
    """What the kernel reads of each cluster."""
    put = partial(in_cluster_slots, layout, slots)
    sums = jax.vmap(mass_sums)(model)
    numbers = {
        "inverse_mass": put(model.inverse_mass),
        "inverse_inertia": put(model.inverse_inertia),
        "decay": put(jnp.exp(-substep * model.linear_damping)),
        "spin_decay": put(jnp.exp(-substep * model.angular_damping)),
        "fall": put(jnp.where(model.inverse_mass > 0, jnp.asarray(environment.gravity)[:, None, None, None], 0)),
        "masses": put(sums.count),
        "masses_x": put(sums.offset_x),
        "masses_y": put(sums.offset_y),
    }
    if environment.load is not None:
        numbers |= {f"load_{axis}": put(environment.load[..., i]) for i, axis in enumerate("xy")}
    if ground_line(environment) is not None:
        mobility = jax.vmap(mobility_of)(model)
        numbers |= {name: put(values) for name, values in mobility._asdict().items()}
        corners = jax.vmap(corners_on)(*_same_robots(model, ground_line(environment)))
        numbers["reach"] = put(jax.vmap(radius_of)(corners))
        for field, points in corners._asdict().items():
            # Every cluster has at least this many corners, and only what may be missing needs a lift.
            first = FEWEST_CORNERS if field == "lift" else 0
            numbers |= {f"{field}{i}": put(points[:, i]) for i in range(first, points.shape[1])}
    return numbers


def _same_robots(*trees: Any) -> tuple[Any, ...]:
    """Pytrees whose leaves have a leading axis of 1 or n, all with n."""
    robots = max(leaf.shape[0] for leaf in jax.tree.leaves(trees))
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (robots, *leaf.shape[1:])), trees)


def _ground_tables(layout: Layout, terrain: Terrain | None) -> tuple[tuple[Array, ...], Terrain | None]:
    """The terrain's arrays, (grounds, entries) each, and the terrain with their lengths in their place."""
    if terrain is None:
        return (), None
    terrain = cast(Terrain, _same_robots(terrain)[0])
    grounds = terrain.slope.shape[0]
    if grounds > 1:  # the last program is filled up with copies of the last robot
        missing = layout.programs * layout.together - grounds
        terrain = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf[-1:].repeat(missing, 0)]), terrain)
    tables = tuple(leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(terrain))
    return tables, jax.tree.unflatten(jax.tree.structure(terrain), [table.shape[1] for table in tables])
