"""What is seen of the nodes of a body of point masses."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from vsr.physics.points.gather import corners_of_nodes, nodes_of_corners
from vsr.physics.points.geometry import size
from vsr.physics.points.model import PointModel, PointState
from vsr.physics.telemetry import Telemetry, failure_of


def telemetry(model: PointModel, state: PointState) -> Telemetry:
    """Of one state, (layers, n)."""
    corners = nodes_of_corners(jnp.broadcast_to(model.present, model.layer.shape[1:]), model.layer, model.dimension)
    return Telemetry(corners * state.position[..., -1], failure(model, state))


def failure(model: PointModel, state: PointState) -> Array:
    """What befell every node, (layers, n)."""
    dimension, layer = model.dimension, model.layer
    inverted = size(corners_of_nodes(state.position, layer[..., None], dimension), dimension) <= 0
    of_corners = jnp.broadcast_to(inverted * model.present, layer.shape[1:])
    return failure_of((state.position.sum(-1),), state.velocity, nodes_of_corners(of_corners, layer, dimension) > 0)
