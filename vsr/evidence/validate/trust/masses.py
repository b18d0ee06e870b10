"""Where the masses of a robot are, whatever they are."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from vsr.physics.engine import AnyModel, AnyState
from vsr.physics.points.gather import corners_of_nodes
from vsr.physics.points.model import PointModel
from vsr.physics.squares.geometry import mass_motion
from vsr.physics.squares.model import SquareModel, SquareState


def masses_of(model: AnyModel) -> Array:
    """Of all clusters or nodes [kg], 0 where there is none."""
    return model.cluster_mass if isinstance(model, SquareModel) else model.node_mass


def corners_of(model: AnyModel, state: AnyState) -> Array:
    """Centres of the masses in the corners of all voxels [m], numbered by their bits, (corners, c, dimension)."""
    if isinstance(state, SquareState):
        assert isinstance(model, SquareModel)
        return mass_motion(model, state).center[jnp.array((0, 1, 3, 2))]
    assert isinstance(model, PointModel)
    return corners_of_nodes(state.position, model.layer[..., None], model.dimension)
