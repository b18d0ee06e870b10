"""Bodies of point masses in plain JAX: runs everywhere, in either precision. The reference for the kernel.

Callers treat one robot and use `vmap`; each `vmap` becomes one more axis at the END of every array (see
vsr.compute.xla).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.gradients import differentiable_trace
from vsr.compute.vector import Vector, join, plus, split
from vsr.compute.xla import batch_last, materialize
from vsr.environment.model import Environment, by_components
from vsr.environment.surfaces import BOUNCE_SPEED
from vsr.lattice.integrators import NodeState
from vsr.lattice.step import StepInputs, move
from vsr.physics.actuation import inward_force
from vsr.physics.points.fluid import chamber_drive, fluid_forces, followed
from vsr.physics.points.geometry import corners_of_nodes, nodes_of_corners
from vsr.physics.points.model import PointModel, PointState
from vsr.physics.points.springs import Sides, break_overloaded, by_class, of_classes, voxel_forces


@lru_cache(maxsize=64)
def batched_advance(substep: float, count: int):
    """The compiled function of arrays for one choice of substeps, with its batching rule."""

    def function(model: PointModel, environment: Environment, state: PointState, control: Array) -> PointState:
        return _advance(model, environment, state, control, substep, count)

    return batch_last(function)


def plain_advance(substep: float, count: int) -> Callable[..., PointState]:
    """The same function with gradients: an ordinary `vmap`, and no loop whose end is not known."""

    def function(model: PointModel, environment: Environment, state: PointState, control: Array) -> PointState:
        with differentiable_trace():
            return _advance(model, environment, state, control, substep, count)

    return function


def _advance(
    model: PointModel, environment: Environment, state: PointState, control: Array, substep: float, count: int
) -> PointState:
    axis = 1 + model.dimension  # of the vectors' components, after layers and nodes
    control = jnp.clip(control, -1, 1)
    side = target_side(model, control)
    drive = None if model.chambers is None else chamber_drive(model, control)
    inputs = step_inputs(model, environment, substep)

    def body(_, now: _Carry) -> _Carry:
        def forces(moving: NodeState, time: Array) -> Vector:
            force = _forces(model, control, side, now.intact, moving)
            return force if drive is None else plus(force, fluid_forces(model, drive, environment.gravity, moving))

        # Time plays no part between two control calls.
        moving = move(inputs, forces, now.moving, jnp.zeros(()), substep, model.integrator)
        return _Carry(moving, _still_intact(model, side, moving, now.intact))

    batch_axes = control.ndim - model.dimension
    batch = np.broadcast_shapes(
        *(leaf.shape[leaf.ndim - batch_axes :] for leaf in jax.tree.leaves((model, environment, state, control)))
    )

    def whole(value: Array) -> Array:
        """With all axes of the result, because a loop's carry keeps its shape."""
        return jnp.broadcast_to(value, (*value.shape[:axis], *batch))

    moving = NodeState(*(tuple(map(whole, split(part, axis))) for part in (state.position, state.velocity)))
    intact = None if state.intact is None else by_class(whole(state.intact), model.dimension)
    end = jax.lax.fori_loop(0, count, body, _Carry(moving, intact))
    moving = followed(model, end.moving)
    return PointState(
        position=join(moving.position, axis),
        velocity=join(moving.velocity, axis),
        intact=None if end.intact is None else of_classes(end.intact, model.dimension),
    )


class _Carry(NamedTuple):
    """What goes from one substep to the next."""

    moving: NodeState
    intact: tuple[Array, ...] | None
    """by classes of springs; None if none can break"""


def target_side(model: PointModel, control: Array) -> Sides:
    """The side that springs pull every voxel towards under control values [m], c, or one for each axis of cells."""
    size = 1 - jnp.maximum(control, 0) * (1 - model.stretch[0]) + jnp.maximum(-control, 0) * (model.stretch[1] - 1)
    if model.driven is None:
        return size * model.voxel_side
    return tuple((1 + along * (size - 1)) * model.voxel_side for along in model.driven)


def _corners(model: PointModel, vector: Vector) -> Vector:
    """Each voxel's view of its corners, (2, ..., 2, c)."""
    dimension = model.dimension
    seen = (corners_of_nodes(part, model.layer, dimension) for part in vector)
    return tuple(part.reshape(*(2,) * dimension, *part.shape[1:]) for part in seen)


def _still_intact(
    model: PointModel, side: Sides, moving: NodeState, intact: tuple[Array, ...] | None
) -> tuple[Array, ...] | None:
    if model.yield_force is None or intact is None:
        return None
    return break_overloaded(model, model.yield_force, side, _corners(model, moving.position), intact)


def step_inputs(model: PointModel, environment: Environment, substep: float) -> StepInputs:
    """What acts on the nodes besides springs."""
    return StepInputs(
        inverse_mass=model.inverse_mass,
        decay=jnp.exp(-substep * model.linear_damping),
        load=None if environment.load is None else split(environment.load, 1 + model.dimension),
        freedom=None,
        environment=by_components(environment),
        friction=model.friction,
        restitution=model.restitution,
        bounce_speed=jnp.asarray(BOUNCE_SPEED, model.mass.dtype),
    )


def _forces(
    model: PointModel, control: Array, side: Sides, intact: tuple[Array, ...] | None, moving: NodeState
) -> Vector:
    """Of all voxels on the nodes [N]; side: that springs pull them towards [m], c."""
    dimension = model.dimension
    position, velocity = materialize(
        moving.position[0], (_corners(model, moving.position), _corners(model, moving.velocity))
    )
    if model.springs is not None:
        there = by_class(model.springs, dimension)
        intact = there if intact is None else tuple(a * b for a, b in zip(intact, there, strict=True))
    force = voxel_forces(model.stiffness, model.damping, side, position, velocity, intact)
    if model.max_force is not None:
        force = plus(force, inward_force(control * model.max_force, position, tuple(range(dimension))))
    force = materialize(moving.position[0], force)
    return tuple(
        nodes_of_corners(part.reshape(2**dimension, *part.shape[dimension:]), model.layer, dimension) for part in force
    )
