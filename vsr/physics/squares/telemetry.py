"""What is seen of clusters of square masses."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.physics.squares.gather import clusters_of_masses
from vsr.physics.squares.geometry import is_inside_out, mass_motion
from vsr.physics.squares.model import SquareModel, SquareState
from vsr.physics.telemetry import EXPLOSION_SPEED, Telemetry, failure_of, fastest_speed


class MassSums(NamedTuple):
    """Of every cluster's masses; each (layers, rows+1, columns+1)."""

    count: Array
    offset_x: Array
    """sum of their centers seen from the cluster's at rest [m]"""
    offset_y: Array


def mass_sums(model: SquareModel) -> MassSums:
    """How many masses a cluster has, and where."""
    layers = model.cluster_mass.shape[0]
    present = jnp.broadcast_to(model.present, model.in_second_layer.shape)
    parts = present, model.mass_offset[:, :, :, 0], model.mass_offset[:, :, :, 1]
    return MassSums(*(clusters_of_masses(part, model.in_second_layer, layers) for part in parts))


def telemetry(model: SquareModel, state: SquareState, substep: float) -> Telemetry:
    """Of one state, (layers, rows+1, columns+1); substep: that led there [s]."""
    sums = mass_sums(model)
    cosine, sine = state.rotation[..., 0], state.rotation[..., 1]
    return Telemetry(
        sums.count * state.position[..., 1] + sine * sums.offset_x + cosine * sums.offset_y,
        failure(model, state, fastest_speed(model.voxel_side, substep)),
    )


def failure(model: SquareModel, state: SquareState, fastest: Array | float = EXPLOSION_SPEED) -> Array:
    """What befell every cluster, (layers, rows+1, columns+1); fastest: see vsr.physics.telemetry [m/s]."""
    whereabouts = (*jnp.moveaxis(state.position, -1, 0), *jnp.moveaxis(state.rotation, -1, 0), state.spin)
    turned = is_inside_out(tuple(tuple(jnp.moveaxis(mass, -1, 0)) for mass in mass_motion(model, state).center))
    of_masses = jnp.broadcast_to(turned * model.present, model.in_second_layer.shape)
    layers = state.spin.shape[0]
    inverted = clusters_of_masses(of_masses, model.in_second_layer, layers) > 0
    return failure_of(whereabouts, state.velocity, inverted, fastest)
