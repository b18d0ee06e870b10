"""One robot's life: advance, feel, decide, repeat. Pure arrays; `jit` and `vmap` it at will.

As in the original, the first control call comes after the first control interval; until then all control values are 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.controllers import Controller
from vsr.physics.advance import advance
from vsr.physics.geometry import bounding_box, center, mass_motion
from vsr.physics.model import Environment, Model, State
from vsr.sensors import empty_memory, read

EXPLOSION_SPEED = 1e4
"""A mass faster than this [m/s] has exploded: nothing a robot can do gets it there, and instability soon does."""


@dataclass(frozen=True)
class Schedule:
    """How a life is cut into steps. Static: each schedule is compiled once."""

    duration: float
    """[s]; rounded up to whole time steps"""
    time_step: float = 1 / 60
    """[s]"""
    control_interval: int = 1
    """time steps without a control call between two calls (the paper's c)"""
    substeps: int = 6
    """integration steps in a time step"""

    @property
    def steps(self) -> int:
        """Time steps of the whole life."""
        return max(1, math.ceil(self.duration / self.time_step - 1e-6))

    @property
    def steps_per_call(self) -> int:
        """Time steps from one control call to the next."""
        return self.control_interval + 1

    @property
    def substep(self) -> float:
        """[s]"""
        return self.time_step / self.substeps

    @property
    def total_time(self) -> float:
        """[s], a whole number of time steps."""
        return self.steps * self.time_step


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Episode:
    """What measures are made of."""

    start: Array
    """centre at the start [m], (2,)"""
    end: Array
    """centre at the end [m], (2,)"""
    box: Array
    """width and height of the initial bounding box [m], (2,)"""
    total_time: Array
    """[s], ()"""
    mean_height: Array
    """mean over control calls of the centre's height [m], ()"""
    mean_squared_control: Array
    """mean over control calls and voxels of the squared control value, ()"""
    failed: Array
    """True if the state ever was not finite or exploded, or there is no voxel, ()"""


class Trajectory(NamedTuple):
    """States after every control interval, the initial one first; leading axis (calls + 1,)."""

    time: Array
    """[s]"""
    state: State
    control: Array
    """values in force during the interval that ends here, (calls + 1, rows, columns)"""


def rollout(
    model: Model, controller: Controller, environment: Environment, state: State, schedule: Schedule
) -> Episode:
    """The summary of a life that starts in the given state."""
    return _live(model, controller, environment, state, schedule, keep_frames=False)[0]


def record(
    model: Model, controller: Controller, environment: Environment, state: State, schedule: Schedule
) -> tuple[Episode, Trajectory]:
    """The summary and all states on the way."""
    episode, frames = _live(model, controller, environment, state, schedule, keep_frames=True)
    first = state, jnp.zeros(model.present.shape, model.mass.dtype)
    states, controls = jax.tree.map(lambda now, later: jnp.concatenate([now[None], later]), first, frames)
    interval = schedule.steps_per_call * schedule.time_step
    return episode, Trajectory(jnp.arange(controls.shape[0]) * interval, states, controls)


class _Life(NamedTuple):
    """What goes from one control call to the next."""

    state: State
    control: Array
    memory: Array
    """of the sensors"""
    height: Array
    """sum over calls of the centre's height"""
    effort: Array
    """sum over calls of the mean squared control"""
    failed: Array


def _live(
    model: Model, controller: Controller, environment: Environment, state: State, schedule: Schedule, keep_frames: bool
) -> tuple[Episode, Any]:
    """The summary, and the states and controls of all intervals if they are to be kept."""
    calls, remainder = divmod(schedule.steps, schedule.steps_per_call)

    def interval(life: _Life, index: Array) -> tuple[_Life, Any]:
        moved = _move(model, environment, life.state, life.control, schedule, schedule.steps_per_call)
        time = (index + 1).astype(model.mass.dtype) * (schedule.steps_per_call * schedule.time_step)
        following = _call(model, controller, environment, life._replace(state=moved), time, index == 0)
        return following, ((moved, life.control) if keep_frames else None)

    life, frames = jax.lax.scan(interval, _birth(model, controller, state), jnp.arange(calls))
    if remainder:
        final = _move(model, environment, life.state, life.control, schedule, remainder)
        life = life._replace(state=final, failed=life.failed | _broken(final))
    return _summarise(model, state, life, schedule.total_time, calls), frames


def _birth(model: Model, controller: Controller, state: State) -> _Life:
    zero = jnp.zeros((), model.mass.dtype)
    return _Life(
        state=state,
        control=jnp.zeros(model.present.shape, model.mass.dtype),
        memory=empty_memory(model, controller.senses) if controller.senses else zero,
        height=zero,
        effort=zero,
        failed=_broken(state) | (model.present.sum() == 0),
    )


def _move(
    model: Model, environment: Environment, state: State, control: Array, schedule: Schedule, steps: int
) -> State:
    count = steps * schedule.substeps
    return advance(model, environment, state, control, substep=schedule.substep, count=count)


def _call(
    model: Model, controller: Controller, environment: Environment, life: _Life, time: Array, first_call: Array
) -> _Life:
    """Feel, decide, and keep account."""
    readings, memory = None, life.memory
    if controller.senses:
        readings, memory = read(
            controller.senses,
            model,
            environment,
            life.state,
            memory,
            first_call,
            legacy_angle=controller.legacy_angle,
        )
    control = jnp.clip(controller.control(time, readings), -1, 1) * model.present
    return life._replace(
        control=control,
        memory=memory,
        height=life.height + center(model, mass_motion(model, life.state))[1],
        effort=life.effort + (control**2).sum() / jnp.maximum(model.present.sum(), 1),
        failed=life.failed | _broken(life.state),
    )


def _summarise(model: Model, start: State, life: _Life, total_time: float, calls: int) -> Episode:
    motion = mass_motion(model, start)
    low, high = bounding_box(model, motion)
    return Episode(
        start=center(model, motion),
        end=center(model, mass_motion(model, life.state)),
        box=high - low,
        total_time=jnp.asarray(total_time, model.mass.dtype),
        mean_height=life.height / calls if calls else center(model, motion)[1],
        mean_squared_control=life.effort / max(calls, 1),
        failed=life.failed,
    )


def _broken(state: State) -> Array:
    finite = jnp.isfinite(state.position).all() & jnp.isfinite(state.rotation).all() & jnp.isfinite(state.spin).all()
    # A comparison with NaN is false, so this also catches velocities that are not numbers.
    return ~(finite & ((state.velocity**2).sum(-1) < EXPLOSION_SPEED**2).all())
