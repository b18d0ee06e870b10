"""Bodies of point masses in time: the contract of vsr.physics.advance.advance_through."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.lattice.integrators import FELT_AHEAD, Moving
from vsr.lattice.model import Surroundings
from vsr.lattice.step import Acting, move
from vsr.lattice.vector import Vector, dot, join, minus, plus, split, times
from vsr.physics.advance.choice import Implementation, chosen
from vsr.physics.advance.watch import EXPLOSION_SPEED, Watch, through_intervals
from vsr.physics.batching import robots_last
from vsr.physics.model import Environment
from vsr.physics.points.breaking import break_overloaded, by_class, of_classes
from vsr.physics.points.exchange import corners_of_nodes, nodes_of_corners
from vsr.physics.points.model import PointModel, PointState
from vsr.physics.points.springs import voxel_forces
from vsr.physics.settle import settle


def advance_through(
    model: PointModel,
    environment: Environment,
    state: PointState,
    controls: Array,
    *,
    substep: float,
    count: int,
    implementation: Implementation = "auto",
) -> tuple[PointState, Watch]:
    """The state after several intervals of `count` substeps each, and what was seen at their ends."""
    obstacle = beyond_kernel(model.integrator, model.yield_force is not None)
    advance = _implementation(chosen(implementation, model.mass.dtype, obstacle), model, substep, count)

    def interval(state: PointState, control: Array) -> tuple[PointState, Watch]:
        state = advance(model, environment, state, control)
        return state, look(model, state)

    return through_intervals(interval, state, controls)


def look(model: PointModel, state: PointState) -> Watch:
    """Sum of the heights of every node's voxel corners [m], and what is broken, (layers, n)."""
    corners = nodes_of_corners(jnp.broadcast_to(model.present, model.layer.shape[1:]), model.layer, model.dimension)
    return Watch(corners * state.position[..., -1], broken(state))


def broken(state: PointState) -> Array:
    """True for nodes that are nowhere or have exploded, (layers, n)."""
    finite = jnp.isfinite(state.position.sum(-1))
    return ~(finite & ((state.velocity**2).sum(-1) < EXPLOSION_SPEED**2))


def beyond_kernel(integrator: str, breaks: bool) -> str | None:
    """Why the kernel cannot move a body, if so; breaks: whether springs can."""
    if integrator not in FELT_AHEAD:
        return f"the kernel knows the integrators {', '.join(FELT_AHEAD)}, and {integrator} was asked for"
    if breaks:
        return "springs do not break in the kernel, and a material has a yield_force"
    return None


def _implementation(name: Implementation, model: PointModel, substep: float, count: int) -> Callable[..., PointState]:
    if name == "xla":
        return _batched_advance(substep, count)
    # Only here, because importing Pallas takes time.
    from vsr.physics.points import kernel

    joints = kernel.joints_of(model)

    def advance(model: PointModel, environment: Environment, state: PointState, control: Array) -> PointState:
        control = jnp.clip(control, -1, 1)
        side, acting = _wanted_side(model, control), _acting(model, environment, substep)
        interpret = name == "interpreted"
        return kernel.advance(model, joints, acting, state, control, side, substep, count, interpret=interpret)

    return advance


@lru_cache(maxsize=64)
def _batched_advance(substep: float, count: int):
    def function(model: PointModel, environment: Environment, state: PointState, control: Array) -> PointState:
        return _advance(model, environment, state, control, substep, count)

    return robots_last(function)


def _advance(
    model: PointModel, environment: Environment, state: PointState, control: Array, substep: float, count: int
) -> PointState:
    axis = 1 + model.dimension  # of the vectors' components, after layers and nodes
    control = jnp.clip(control, -1, 1)
    side = _wanted_side(model, control)
    acting = _acting(model, environment, substep)

    def body(_, now: _Carry) -> _Carry:
        def forces(moving: Moving, time: Array) -> Vector:
            return _forces(model, control, side, now.intact, moving)

        # Time plays no part between two control calls.
        moving = move(acting, forces, now.moving, jnp.zeros(()), substep, model.integrator)
        return _Carry(moving, _still_intact(model, side, moving, now.intact))

    batch_axes = control.ndim - model.dimension
    batch = np.broadcast_shapes(
        *(leaf.shape[leaf.ndim - batch_axes :] for leaf in jax.tree.leaves((model, environment, state, control)))
    )

    def whole(value: Array) -> Array:
        """With all axes of the result, because a loop's carry keeps its shape."""
        return jnp.broadcast_to(value, (*value.shape[:axis], *batch))

    moving = Moving(*(tuple(map(whole, split(part, axis))) for part in (state.position, state.velocity)))
    intact = None if state.intact is None else by_class(whole(state.intact), model.dimension)
    end = jax.lax.fori_loop(0, count, body, _Carry(moving, intact))
    return PointState(
        position=join(end.moving.position, axis),
        velocity=join(end.moving.velocity, axis),
        intact=None if end.intact is None else of_classes(end.intact, model.dimension),
    )


class _Carry(NamedTuple):
    """What goes from one substep to the next."""

    moving: Moving
    intact: tuple[Array, ...] | None
    """by classes of springs; None if none can break"""


def _wanted_side(model: PointModel, control: Array) -> Array:
    """Of every voxel under control values [m], c."""
    size = 1 - jnp.maximum(control, 0) * (1 - model.stretch[0]) + jnp.maximum(-control, 0) * (model.stretch[1] - 1)
    return size * model.voxel_side


def _corners(model: PointModel, vector: Vector) -> Vector:
    """Each voxel's view of its corners, (2, ..., 2, c)."""
    dimension = model.dimension
    seen = (corners_of_nodes(part, model.layer, dimension) for part in vector)
    return tuple(part.reshape(*(2,) * dimension, *part.shape[1:]) for part in seen)


def _still_intact(
    model: PointModel, side: Array, moving: Moving, intact: tuple[Array, ...] | None
) -> tuple[Array, ...] | None:
    if model.yield_force is None or intact is None:
        return None
    return break_overloaded(model, model.yield_force, side, _corners(model, moving.position), intact)


def _acting(model: PointModel, environment: Environment, substep: float) -> Acting:
    """What acts on the nodes besides springs."""
    return Acting(
        inverse_mass=model.inverse_mass,
        decay=jnp.exp(-substep * model.linear_damping),
        load=None if environment.load is None else split(environment.load, 1 + model.dimension),
        freedom=None,
        surroundings=Surroundings(gravity=environment.gravity, terrain=environment.terrain),
        grip=model.friction,
        bounce=model.restitution,
    )


def _forces(model: PointModel, control: Array, side: Array, intact: tuple[Array, ...] | None, moving: Moving) -> Vector:
    """Of all voxels on the nodes [N]; side: that they want to have [m], c."""
    dimension = model.dimension
    position, velocity = settle(
        moving.position[0], (_corners(model, moving.position), _corners(model, moving.velocity))
    )
    force = voxel_forces(model.stiffness, model.damping, side, position, velocity, intact)
    if model.max_force is not None:
        force = plus(force, _actuation(control * model.max_force, position, dimension))
    force = settle(moving.position[0], force)
    return tuple(
        nodes_of_corners(part.reshape(2**dimension, *part.shape[dimension:]), model.layer, dimension) for part in force
    )


def _actuation(strength: Array, position: Vector, dimension: int) -> Vector:
    """Forces on a voxel's corners towards its centre [N]; strength: per voxel [N]."""
    corner_axes = tuple(range(dimension))
    middle = tuple(part.mean(corner_axes, keepdims=True) for part in position)
    inward = minus(tuple(jnp.broadcast_to(part, position[0].shape) for part in middle), position)
    distance = jnp.sqrt(dot(inward, inward) + 1e-12)
    return times(strength / distance, inward)
