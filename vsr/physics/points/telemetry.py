"""What is seen of the nodes of a body of point masses."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from vsr.physics.points.gather import corners_of_nodes, nodes_of_corners
from vsr.physics.points.geometry import PointBody, Points, size
from vsr.physics.telemetry import EXPLOSION_SPEED, Telemetry, failure_of, fastest_speed


def telemetry(model: PointBody, state: Points, substep: float) -> Telemetry:
    """Of one state, (layers, n); substep: that led there [s]."""
    corners = nodes_of_corners(jnp.broadcast_to(model.present, model.layer.shape[1:]), model.layer, model.dimension)
    return Telemetry(corners * state.position[..., -1], failure(model, state, fastest_speed(model.voxel_side, substep)))


def failure(model: PointBody, state: Points, fastest: Array | float = EXPLOSION_SPEED) -> Array:
    """What befell every node, (layers, n); fastest: see vsr.physics.telemetry.fastest_speed [m/s]."""
    dimension, layer = model.dimension, model.layer
    inverted = size(corners_of_nodes(state.position, layer[..., None], dimension), dimension) <= 0
    of_corners = jnp.broadcast_to(inverted * model.present, layer.shape[1:])
    turned = nodes_of_corners(of_corners, layer, dimension) > 0
    return failure_of((state.position.sum(-1),), state.velocity, turned, fastest)
