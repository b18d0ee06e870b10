"""`advance` in plain JAX: runs everywhere, in either precision. The reference for every other implementation.

Callers treat one robot and use `vmap`; each `vmap` becomes one more axis at the END of every array (see
vsr.compute.xla).

A substep is one of semi-implicit Euler: forces change the velocities, the new velocities move the pose. Angles are kept
as cosine and sine and turned by the Cayley map, so no substep needs a transcendental function. Every array may have
further axes at the end, or be the lanes of a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.gradients import differentiable_trace, gradients_needed
from vsr.compute.xla import batch_last, materialize
from vsr.environment import Environment
from vsr.environment.model import Sticking
from vsr.physics.squares.contact import (
    Corners,
    Ground,
    Mobility,
    Motion,
    Pose,
    corner_heights,
    corners_on,
    ground_line,
    mobility_of,
    radius_of,
    reach_ahead,
    resolve_contact,
)
from vsr.physics.squares.geometry import clusters_of_masses, masses_of_clusters, telemetry
from vsr.physics.squares.model import SquareModel, SquareState
from vsr.physics.squares.springs import Numbers, rest_lengths, spring_numbers, voxel_forces
from vsr.physics.telemetry import Telemetry, through_intervals
from vsr.terrain.surface import nearest_surface


def accelerate(
    motion: Motion,
    forces: tuple[Array, Array, Array],
    inverse_mass: Array,
    inverse_inertia: Array,
    fall: Array,
    decay: tuple[Array, Array],
    substep: float,
) -> Motion:
    """Velocities after a substep of forces.

    forces: x and y [N] and torque [N m]; fall: acceleration of gravity where it acts [m/s²]; decay: factors by which
    velocity and spin shrink in a substep.
    """
    force_x, force_y, torque = forces
    return Motion(
        motion.x * decay[0] + substep * force_x * inverse_mass,
        motion.y * decay[0] + substep * (force_y * inverse_mass - fall),
        motion.spin * decay[1] + substep * torque * inverse_inertia,
    )


def move(pose: Pose, motion: Motion, nudge: tuple[Array | float, Array | float], substep: float) -> Pose:
    """The pose after a substep at these velocities; nudge: moved besides, x and y [m]."""
    half_turn = 0.5 * substep * motion.spin
    scale = 1 / (1 + half_turn * half_turn)
    cosine_step, sine_step = (1 - half_turn * half_turn) * scale, 2 * half_turn * scale
    cosine = pose.cosine * cosine_step - pose.sine * sine_step
    sine = pose.sine * cosine_step + pose.cosine * sine_step
    keep_unit = 1.5 - 0.5 * (cosine * cosine + sine * sine)  # round-off must not shrink or stretch the masses
    return Pose(
        pose.x + substep * motion.x + nudge[0],
        pose.y + substep * motion.y + nudge[1],
        cosine * keep_unit,
        sine * keep_unit,
    )


ROWS_WORTH_A_CHOICE = 4
"""With fewer rows of clusters little is saved by treating the lowest alone, and a program takes longer to compile."""


def advance_through(
    model: SquareModel,
    environment: Environment,
    state: SquareState,
    controls: Array,
    substep: float,
    count: int,
    differentiable: bool = False,
) -> tuple[SquareState, Telemetry]:
    """The contract of vsr.physics.squares.advance.advance_through."""
    advance = (_plain_advance if differentiable else _batched_advance)(substep, count)

    def interval(state: SquareState, control: Array) -> tuple[SquareState, Telemetry]:
        state = advance(model, environment, state, control)
        return state, telemetry(model, state, substep)

    return through_intervals(interval, state, controls)


@lru_cache(maxsize=64)
def _batched_advance(substep: float, count: int):
    """The compiled function of arrays for one choice of substeps, with its batching rule."""
    return batch_last(partial(_advance, substep=substep, count=count))


def _plain_advance(substep: float, count: int) -> Callable[..., SquareState]:
    """The same function with gradients: an ordinary `vmap`, and no loop whose end is not known."""

    def function(model: SquareModel, environment: Environment, state: SquareState, control: Array) -> SquareState:
        with differentiable_trace():
            return _advance(model, environment, state, control, substep, count)

    return function


def _advance(
    model: SquareModel, environment: Environment, state: SquareState, control: Array, substep: float, count: int
) -> SquareState:
    control = jnp.clip(control, -1, 1)
    numbers, lengths = spring_numbers(model, substep), rest_lengths(model.spring_length, control)
    terrain = ground_line(environment)
    contact = None
    if terrain is not None:
        contact = partial(nearest_surface, terrain), mobility_of(model), corners_on(model, terrain)
    load = None if environment.load is None else (environment.load[:, :, :, 0], environment.load[:, :, :, 1])
    fall = jnp.where(model.inverse_mass > 0, environment.gravity, 0)
    decay = jnp.exp(-substep * model.linear_damping), jnp.exp(-substep * model.angular_damping)

    def body(_, carry: tuple[Pose, Motion]) -> tuple[Pose, Motion]:
        pose, motion = carry
        forces = _cluster_forces(model, numbers, pose, motion, lengths, control)
        if load is not None:
            forces = forces[0] + load[0], forces[1] + load[1], forces[2]
        after = accelerate(motion, forces, model.inverse_mass, model.inverse_inertia, fall, decay, substep)
        motion, nudge = _touch(contact, pose, motion, materialize(pose.x, after), substep, environment.sticking)
        return move(pose, motion, nudge, substep), motion

    axes = control.ndim - 2
    batch = np.broadcast_shapes(
        *(leaf.shape[leaf.ndim - axes :] for leaf in jax.tree.leaves((model, environment, state, control)))
    )
    pose, motion = jax.lax.fori_loop(0, count, body, _split(state, batch))
    return SquareState(
        position=jnp.stack([pose.x, pose.y], 3),
        rotation=jnp.stack([pose.cosine, pose.sine], 3),
        velocity=jnp.stack([motion.x, motion.y], 3),
        spin=motion.spin,
    )


def _split(state: SquareState, batch: tuple[int, ...]) -> tuple[Pose, Motion]:
    """Components of a state, each with all the batch axes of the result (a loop's carry keeps its shape)."""

    def component(array: Array, axis: int) -> Array:
        part = array[:, :, :, axis]
        return jnp.broadcast_to(part, (*part.shape[:3], *batch))

    spin = jnp.broadcast_to(state.spin, (*state.spin.shape[:3], *batch))
    pose = Pose(*(component(array, axis) for array in (state.position, state.rotation) for axis in (0, 1)))
    return pose, Motion(component(state.velocity, 0), component(state.velocity, 1), spin)


def _cluster_forces(
    model: SquareModel, numbers: Numbers, pose: Pose, motion: Motion, lengths: Array, control: Array
) -> tuple[Array, Array, Array]:
    """Force and torque on every cluster from springs, limits and force actuation."""

    def of_masses(fields: Any) -> Any:
        return jax.tree.map(lambda field: masses_of_clusters(field, model.in_second_layer), fields)

    forces = voxel_forces(numbers, of_masses(pose), of_masses(motion), lengths, control)
    layers = pose.x.shape[0]
    force_x, force_y, torque = (clusters_of_masses(part, model.in_second_layer, layers) for part in forces)
    return materialize(pose.x, (force_x, force_y, torque))


def _touch(
    contact: tuple[Ground, Mobility, Corners] | None,
    pose: Pose,
    before: Motion,
    motion: Motion,
    substep: float,
    sticking: Sticking,
) -> tuple[Motion, tuple[Array | float, Array | float]]:
    """Velocities and the nudge that the ground demands, if there is one.

    Most of the time robots touch the ground with the lowest row of their clusters at most. Resolving contact costs more
    than the springs, so the CPU then leaves out all other rows, for which it would change nothing.
    """
    if contact is None:
        return motion, (0.0, 0.0)
    ground, mobility, corners = contact
    heights = corner_heights(ground, corners.offset_x, corners.offset_y, corners.lift, pose)  # pyright: ignore[reportArgumentType]
    heights = materialize(pose.x, heights)

    def everywhere() -> tuple[Motion, tuple[Array, Array]]:
        return resolve_contact(ground, mobility, corners, heights, pose, before, motion, substep, sticking)

    def in_lowest_row() -> tuple[Motion, tuple[Array, Array]]:
        low_corners, low_heights = jax.tree.map(lambda values: values[:, :, :1], (corners, heights))
        low, *moving = jax.tree.map(lambda values: values[:, :1], (mobility, pose, before, motion))
        changed = resolve_contact(ground, low, low_corners, low_heights, *moving, substep=substep, sticking=sticking)
        still = motion, (jnp.zeros_like(pose.x), jnp.zeros_like(pose.x))
        return jax.tree.map(lambda part, whole: jnp.concatenate([part, whole[:, 1:]], 1), changed, still)

    if gradients_needed() or jax.default_backend() != "cpu" or pose.x.shape[1] < ROWS_WORTH_A_CHOICE:
        return everywhere()
    reach = reach_ahead(motion, radius_of(corners), substep)
    return jax.lax.cond((heights < reach)[:, :, 1:].any(), everywhere, in_lowest_row)
