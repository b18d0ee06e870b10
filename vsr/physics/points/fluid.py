"""Chambers of fluid in a body of point masses: what drives them, what they do to nodes, and nodes amid the fluid."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, split
from vsr.lattice.integrators import NodeState
from vsr.physics.contract import ChambersSeen
from vsr.physics.fluid import law, voxels
from vsr.physics.points.geometry import corners_of_nodes, nodes_of_corners
from vsr.physics.points.model import PointModel, PointState

ROUNDS = 2
"""For each voxel along the grid's longest axis: how often nodes amid the fluid go to the mean of their neighbors."""


def chamber_drive(model: PointModel, control: Array) -> Array:
    """Pressure or volume that each chamber is driven to (vsr.physics.fluid.law), (m, ...).

    control: of the voxels, in [-1, 1], (c, ...).
    """
    chambers = model.chambers
    assert chambers is not None
    mean = voxels.controls_of(chambers, control, model.dimension)
    return law.drive_of(chambers.numbers, chambers.rest_volume, mean)


def chambers_seen(model: PointModel, state: PointState, control: Array) -> ChambersSeen | None:
    """Pressures and volumes of one robot under control values, c; None without fluid."""
    chambers = model.chambers
    if chambers is None:
        return None
    corner = split(corners_of_nodes(state.position, model.layer[..., None], model.dimension), 1 + model.dimension)
    drive, volume = chamber_drive(model, jnp.clip(control, -1, 1)), voxels.volumes(chambers, corner)
    rest = chambers.rest_volume
    return ChambersSeen(
        pressure=law.pressure(chambers.numbers, rest, drive, volume),
        volume_ratio=jnp.where(rest > 0, volume / jnp.where(rest > 0, rest, 1), 1),
        rest_volume=rest,
        member=chambers.member,
    )


def fluid_forces(model: PointModel, drive: Array, gravity: Array | float, moving: NodeState) -> Vector:
    """Of the fluid on the nodes [N], each (layers, n, ...)."""
    chambers = model.chambers
    assert chambers is not None
    corner = tuple(corners_of_nodes(part, model.layer, model.dimension) for part in moving.position)
    force = tuple(
        nodes_of_corners(part, model.layer, model.dimension) for part in voxels.loads(chambers, corner, drive, gravity)
    )
    # All masses fall, and that of the fluid must not: its weight is in the load on the walls.
    return (*force[:-1], force[-1] + chambers.fluid_mass * gravity)


def followed(model: PointModel, moving: NodeState) -> NodeState:
    """The motion with nodes amid the fluid at the mean of their neighbors, where they neither pull nor press."""
    chambers = model.chambers
    if chambers is None:
        return moving
    rounds = follow_rounds(model)
    follows, neighbors = chambers.follows > 0, _neighbors(model)

    def round_of(_: int, now: NodeState) -> NodeState:
        return jax.tree.map(lambda part: jnp.where(follows, _sum_beside(model, part) / neighbors, part), now)

    return jax.lax.fori_loop(0, rounds, round_of, moving)


def follow_rounds(model: PointModel) -> int:
    """How often nodes amid the fluid go to the mean of their neighbors; 0 without fluid."""
    return 0 if model.chambers is None else ROUNDS * (max(model.present.shape[: model.dimension]) - 1)


def _neighbors(model: PointModel) -> Array:
    """How many voxel edges end at every node, 1 at least, (layers, n, ...)."""
    return jnp.maximum(_sum_beside(model, jnp.ones_like(model.node_mass)), 1)


def _sum_beside(model: PointModel, values: Array) -> Array:
    """Over all voxels of a node, values at the ends of the edges that begin there, (layers, n, ...)."""
    dimension = model.dimension
    corner = corners_of_nodes(values, model.layer, dimension)
    corner = corner * model.present
    folded = corner.reshape(*(2,) * dimension, *corner.shape[1:])
    beside = sum(jax.lax.rev(folded, (axis,)) for axis in range(dimension))
    return nodes_of_corners(beside.reshape(corner.shape), model.layer, dimension)  # pyright: ignore[reportAttributeAccessIssue]
