"""What is seen of the nodes of a body of point masses."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from vsr.physics.points.gather import nodes_of_corners
from vsr.physics.points.model import PointModel, PointState
from vsr.physics.telemetry import Telemetry, failure_of


def telemetry(model: PointModel, state: PointState) -> Telemetry:
    """Of one state, (layers, n)."""
    corners = nodes_of_corners(jnp.broadcast_to(model.present, model.layer.shape[1:]), model.layer, model.dimension)
    return Telemetry(corners * state.position[..., -1], failure(state))


def failure(state: PointState) -> Array:
    """What befell every node, (layers, n)."""
    return failure_of((state.position.sum(-1),), state.velocity)
