"""Tables of a robot that the fused kernel reads: of its voxels and of its clusters, in the order of their ranks.

What exists comes first, the lowest row first. Nothing here knows of other robots, so that the tables may be made once
for many calls, and batched, permuted and chosen from like any other arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.gpu.language import WARP, power_of_two
from vsr.environment import Environment
from vsr.physics.squares.contact import corners_on, ground_line, mobility_of, radius_of
from vsr.physics.squares.geometry import mass_sums
from vsr.physics.squares.model import CORNER_CELLS, SquareModel
from vsr.physics.squares.springs import spring_numbers
from vsr.physics.telemetry import fastest_speed

FEWEST_CORNERS = 4
"""That every cluster has (vsr.physics.squares.assembly)."""
NOTHING = 1 << 20
"""Rank of the voxel of a corner that has none."""
Names = tuple[str, ...]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FusedNumbers:
    """Of one robot; tables have a row for each number and a column for each rank."""

    voxels: Array
    """numbers of voxels, (names, width)"""
    voxel_indices: Array
    """cell, then ranks of the clusters of its four masses, whole numbers, (5 and more, width)"""
    clusters: Array
    """numbers of clusters, (names, width)"""
    cluster_indices: Array
    """cell, then ranks of the voxels whose corners 0 to 3 are in it, or NOTHING; a cell beyond the last one is none"""
    counts: Array
    """voxels and clusters that exist, (2,)"""
    names: tuple[Names, Names] = field(metadata={"static": True})
    """of the rows of `voxels` and of `clusters`"""
    substep: float = field(metadata={"static": True})
    """that the numbers are for [s]"""


def fused_numbers(model: SquareModel, environment: Environment, substep: float) -> FusedNumbers:
    """All that stays as it is of a robot, whatever its state and its control values."""
    model = jax.lax.optimization_barrier(model)  # or XLA makes one kernel of it all, and takes long to compile it
    present, exists = model.present > 0, model.cluster_mass > 0
    layers, rows, columns = exists.shape
    # Ranks go by row, then by layer, as everything near the ground is looked at together.
    by_row = jnp.asarray(np.arange(exists.size).reshape(layers, rows, columns).transpose(1, 0, 2).reshape(-1))
    voxel_cell = jnp.argsort(~present.reshape(-1), stable=True)
    cluster_cell = by_row[jnp.argsort(~exists.reshape(-1)[by_row], stable=True)]
    voxel_rank, cluster_rank = _inverse(voxel_cell), _inverse(cluster_cell)
    counts = jnp.stack([present.sum(), exists.sum()]).astype(jnp.int32)
    voxels, clusters = _voxel_numbers(model, substep), _cluster_numbers(model, environment, substep)
    to_clusters = [cluster_rank[cluster] for cluster in _clusters_of_voxels(model)]
    to_voxels = [jnp.where(cell >= 0, voxel_rank[jnp.maximum(cell, 0)], NOTHING) for cell in _voxels_of_clusters(model)]
    own = jnp.where(exists, jnp.arange(exists.size).reshape(exists.shape), exists.size)
    return FusedNumbers(
        voxels=_table(voxels.values(), voxel_cell),
        voxel_indices=_table([jnp.arange(present.size), *to_clusters], voxel_cell).astype(jnp.int32),
        clusters=_table(clusters.values(), cluster_cell),
        cluster_indices=_table([own, *to_voxels], cluster_cell, [exists.size, *[NOTHING] * 4]).astype(jnp.int32),
        counts=counts,
        names=(tuple(voxels), tuple(clusters)),
        substep=substep,
    )


def _inverse(order: Array) -> Array:
    """Where each number is in an order of all of them."""
    return jnp.zeros_like(order).at[order].set(jnp.arange(order.size, dtype=order.dtype), unique_indices=True)


def _clusters_of_voxels(model: SquareModel) -> list[Array]:
    """The cell of the cluster of each voxel's mass k, (rows, columns)."""
    _, rows, columns = model.cluster_mass.shape
    row, column = np.indices(model.present.shape)
    return [
        (row + up) * columns + column + right + rows * columns * (model.in_second_layer[k] > 0)
        for k, (up, right) in enumerate(CORNER_CELLS)
    ]


def _voxels_of_clusters(model: SquareModel) -> list[Array]:
    """The cell of the voxel whose corner k is in each cluster, -1 if there is none, (layers, rows + 1, columns + 1)."""
    rows, columns = model.present.shape
    layer, row, column = np.indices(model.cluster_mass.shape)
    voxels = []
    for k, (up, right) in enumerate(CORNER_CELLS):
        above, beside = row - up, column - right
        inside = (above >= 0) & (above < rows) & (beside >= 0) & (beside < columns)
        cell = np.where(inside, above * columns + beside, 0)
        there = (model.present > 0).reshape(-1)[cell]
        second = (model.in_second_layer[k] > 0).reshape(-1)[cell]
        voxels.append(jnp.where(inside & there & (second == (layer > 0)), cell, -1))
    return voxels


def _table(numbers: Iterable[Array], cells: Array, fillers: Sequence[int] = ()) -> Array:
    """Numbers of all cells as one table by rank; cells: by rank; fillers: of each row, in ranks beyond the last one.

    Rows and columns are filled up to powers of two: so addresses cost little. All rows are put in order at once: XLA
    compiles that in a fraction of the time that it takes for a row after the other.
    """
    rows = [values.reshape(-1) for values in numbers]
    height, width = power_of_two(len(rows)), max(WARP, power_of_two(cells.size))
    table = jnp.stack(rows + rows[:1] * (height - len(rows)))
    ranked = table.at[:, jnp.pad(cells, (0, width - cells.size))].get(mode="promise_in_bounds")
    nothing = np.zeros((height, 1), table.dtype)
    nothing[: len(fillers), 0] = fillers
    return jnp.where(np.arange(width) < cells.size, ranked, nothing)


def _voxel_numbers(model: SquareModel, substep: float) -> dict[str, Array]:
    """What the kernel reads of each voxel, (rows, columns)."""
    numbers = spring_numbers(model, substep)
    numbers |= dict(zip(("shrunk", "rest", "enlarged"), model.spring_length, strict=True))
    rows = {}
    for name, values in numbers.items():
        several = values.ndim > model.present.ndim
        rows |= {f"{name}{i}": part for i, part in enumerate(values)} if several else {name: values}
    return {name: jnp.broadcast_to(values, model.present.shape) for name, values in rows.items()}


def _cluster_numbers(model: SquareModel, environment: Environment, substep: float) -> dict[str, Array]:
    """What the kernel reads of each cluster, (layers, rows + 1, columns + 1)."""
    sums = mass_sums(model)
    numbers: dict[str, Any] = {
        "inverse_mass": model.inverse_mass,
        "inverse_inertia": model.inverse_inertia,
        "decay": jnp.exp(-substep * model.linear_damping),
        "spin_decay": jnp.exp(-substep * model.angular_damping),
        "fall": jnp.where(model.inverse_mass > 0, jnp.asarray(environment.gravity), 0),
        "masses": sums.count,
        "masses_x": sums.offset_x,
        "masses_y": sums.offset_y,
        "masses_fastest": fastest_speed(model.voxel_side, substep),
    }
    if environment.load is not None:
        numbers |= {f"load_{axis}": environment.load[..., i] for i, axis in enumerate("xy")}
    line = ground_line(environment)
    if line is not None:
        numbers |= mobility_of(model)._asdict()
        corners = corners_on(model, line)
        numbers["reach"] = radius_of(corners)
        for name, points in corners._asdict().items():
            # Every cluster has at least this many corners, and only what may be missing needs a lift.
            first = FEWEST_CORNERS if name == "lift" else 0
            numbers |= {f"{name}{i}": points[i] for i in range(first, points.shape[0])}
    return {name: jnp.broadcast_to(values, model.cluster_mass.shape) for name, values in numbers.items()}
