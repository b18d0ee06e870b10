"""Energy of a body of point masses: motion, springs, weight, chambers. Minus the potential's gradient are the forces.

Dampers and friction have none.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, split
from vsr.environment import Environment
from vsr.physics.actuation import inward_energy
from vsr.physics.contract import Energies
from vsr.physics.fluid import voxels
from vsr.physics.points.fluid import chamber_drive
from vsr.physics.points.geometry import corners_of_nodes
from vsr.physics.points.model import PointModel, PointState
from vsr.physics.points.reference import target_side
from vsr.physics.points.springs import by_class, rest_length, spring_lengths, turns


def energies(
    model: PointModel, environment: Environment, state: PointState, control: Array, substep: float
) -> Energies | None:
    """Of a state under control values, with forces of actuation as these are held; None if springs can break."""
    if state.intact is not None:
        return None
    control = jnp.clip(control, -1, 1)

    def stored(position: Array) -> Array:
        total = potential_energy(model, environment, position, control)
        if model.max_force is None:
            return total
        corner = corners_of_nodes(position, model.layer[..., None], model.dimension)
        return total + inward_energy(control * model.max_force, corner)

    kinetic = motion = 0.5 * (model.node_mass * (state.velocity**2).sum(-1)).sum()
    if model.integrator == "semi_implicit_euler":  # see vsr.physics.squares.energy
        potential, rate = jax.jvp(stored, (state.position,), (state.velocity,))
        motion = kinetic - 0.5 * substep * rate
    else:
        potential = stored(state.position)
    weight = environment.gravity * (model.node_mass * state.position[..., -1]).sum()
    corner = split(corners_of_nodes(state.position, model.layer[..., None], model.dimension), 1 + model.dimension)
    return Energies(motion, weight, potential - weight, kinetic + elastic_energy(model, control, corner))


def potential_energy(
    model: PointModel, environment: Environment, position: Array, control: Array, drive: Array | None = None
) -> Array:
    """[J], (); position: (layers, n, dimension) [m]; control: of voxels, c; drive: of chambers, as controls say if
    absent (vsr.physics.fluid.law), (m,)."""
    control = jnp.clip(control, -1, 1)
    dimension = model.dimension
    seen = corners_of_nodes(position, model.layer[..., None], dimension)
    corner = split(seen, 1 + dimension)
    total = elastic_energy(model, control, corner)
    own = model.node_mass if model.chambers is None else model.node_mass - model.chambers.fluid_mass
    total = total + environment.gravity * (own * position[..., -1]).sum()
    if environment.load is not None:
        total = total - (environment.load * position).sum()
    if model.chambers is not None:
        drive = chamber_drive(model, control) if drive is None else drive
        total = total + voxels.energy(model.chambers, corner, drive, environment.gravity).sum()
    return total


def elastic_energy(model: PointModel, control: Array, corner: Vector) -> Array:
    """Of all springs [J], (); corner: of voxels, by components [m], each (corners, c)."""
    dimension, side = model.dimension, target_side(model, control)
    folded = tuple(part.reshape(*(2,) * dimension, *part.shape[1:]) for part in corner)
    there = None if model.springs is None else by_class(model.springs, dimension)
    total = jnp.zeros((), control.dtype)
    for number, (axes, length) in enumerate(zip(turns(dimension), spring_lengths(folded), strict=True)):
        kind = len(axes) - 1
        stored = 0.5 * model.stiffness[kind] * (length - rest_length(side, axes)) ** 2
        total = total + (stored if there is None else stored * there[number]).sum()
    return total
