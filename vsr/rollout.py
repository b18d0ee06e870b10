"""One robot's life: advance, feel, decide, repeat. Pure arrays; `jit` and `vmap` it at will.

As in the original, the first control call comes after the first control interval; until then all control values are 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.controllers import Controller
from vsr.physics.advance import advance
from vsr.physics.geometry import bounding_box, center, mass_motion
from vsr.physics.model import Environment, Model, State
from vsr.sensors import empty_memory, read

EXPLOSION_SPEED = 300.0
"""No mass can get this fast [m/s]: with the usual damping of 1/s even endless fall ends at 9.8 m/s."""


@dataclass(frozen=True)
class Schedule:
    """How a life is cut into steps. Static: each schedule is compiled once."""

    duration: float
    """[s]; rounded up to whole time steps"""
    time_step: float = 1 / 60
    """[s]"""
    control_interval: int = 1
    """time steps without a control call between two calls (the paper's c)"""
    substeps: int = 4
    """integration steps in a time step"""

    @property
    def steps(self) -> int:
        """Time steps of the whole life."""
        return max(1, math.ceil(self.duration / self.time_step - 1e-6))

    @property
    def steps_per_call(self) -> int:
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
    return _live(model, controller, environment, state, schedule, record=False)[0]


def record(
    model: Model, controller: Controller, environment: Environment, state: State, schedule: Schedule
) -> tuple[Episode, Trajectory]:
    """The summary and all states on the way."""
    return _live(model, controller, environment, state, schedule, record=True)


class _Life(NamedTuple):
    state: State
    control: Array
    memory: Array
    height: Array
    effort: Array
    failed: Array


def _live(
    model: Model, controller: Controller, environment: Environment, state: State, schedule: Schedule, record: bool
):
    dtype = model.mass.dtype
    calls, remainder = divmod(schedule.steps, schedule.steps_per_call)
    interval = schedule.steps_per_call * schedule.time_step
    senses = controller.senses
    voxels = jnp.maximum(model.present.sum(), 1)

    def move(state: State, control: Array, steps: int) -> State:
        return advance(
            model, environment, state, control, substep=schedule.substep, count=steps * schedule.substeps
        )

    def call(life: _Life, index: Array):
        moved = move(life.state, life.control, schedule.steps_per_call)
        readings, memory = None, life.memory
        if senses:
            readings, memory = read(
                senses, model, environment, moved, memory, index == 0, legacy_angle=controller.legacy_angle
            )
        wanted = controller.control((index + 1).astype(dtype) * interval, readings)
        control = jnp.clip(wanted, -1, 1) * model.present
        following = _Life(
            state=moved,
            control=control,
            memory=memory,
            height=life.height + center(model, mass_motion(model, moved))[1],
            effort=life.effort + (control**2).sum() / voxels,
            failed=life.failed | _broken(moved),
        )
        return following, ((moved, life.control) if record else None)

    zero = jnp.zeros((), dtype)
    born = _Life(
        state=state,
        control=jnp.zeros(model.present.shape, dtype),
        memory=empty_memory(model, senses) if senses else zero,
        height=zero,
        effort=zero,
        failed=_broken(state) | (model.present.sum() == 0),
    )
    life, frames = jax.lax.scan(call, born, jnp.arange(calls))
    final = move(life.state, life.control, remainder) if remainder else life.state
    motion = mass_motion(model, state)
    low, high = bounding_box(model, motion)
    start = center(model, motion)
    episode = Episode(
        start=start,
        end=center(model, mass_motion(model, final)),
        box=high - low,
        total_time=jnp.asarray(schedule.total_time, dtype),
        mean_height=life.height / calls if calls else start[1],
        mean_squared_control=life.effort / max(calls, 1),
        failed=life.failed | _broken(final),
    )
    if not record:
        return episode, None
    states, controls = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), (state, born.control), frames)
    return episode, Trajectory(jnp.arange(calls + 1) * interval, states, controls)


def _broken(state: State) -> Array:
    finite = jnp.isfinite(state.position).all() & jnp.isfinite(state.rotation).all() & jnp.isfinite(state.spin).all()
    # A comparison with NaN is false, so this also catches velocities that are not numbers.
    return ~(finite & ((state.velocity**2).sum(-1) < EXPLOSION_SPEED**2).all())
