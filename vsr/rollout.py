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
from vsr.physics.advance import Implementation, Watch
from vsr.physics.mechanics import AnyModel, AnyState, mechanics_of
from vsr.physics.model import Environment
from vsr.sensors import empty_memory, read

MOST_CALLS_AT_ONCE = 128
"""Control values of so many calls are made at once for a kernel that takes them all (a controller without senses)."""


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
    implementation: Implementation = "auto"
    """of `advance`"""

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
    """centre at the start [m], (dimension,)"""
    end: Array
    """centre at the end [m], (dimension,)"""
    box: Array
    """sides of the initial bounding box [m], (dimension,)"""
    total_time: Array
    """[s], ()"""
    mean_height: Array
    """mean over control calls of the centre's height [m], ()"""
    mean_squared_control: Array
    """mean over control calls and voxels of the squared control value, ()"""
    failed: Array
    """True if the state ever was not finite or exploded, or there is no voxel, ()"""
    broken_springs: Array | None = None
    """how many springs broke, (); None if none can"""


class Trajectory(NamedTuple):
    """States after every control interval, the initial one first; leading axis (calls + 1,)."""

    time: Array
    """[s]"""
    state: AnyState
    control: Array
    """values in force during the interval that ends here, (calls + 1, *cells)"""


def rollout(
    model: AnyModel, controller: Controller, environment: Environment, state: AnyState, schedule: Schedule
) -> Episode:
    """The summary of a life that starts in the given state."""
    return _live(model, controller, environment, state, schedule, keep_frames=False)[0]


def record(
    model: AnyModel, controller: Controller, environment: Environment, state: AnyState, schedule: Schedule
) -> tuple[Episode, Trajectory]:
    """The summary and all states on the way."""
    episode, frames = _live(model, controller, environment, state, schedule, keep_frames=True)
    first = state, jnp.zeros(model.present.shape, model.mass.dtype)
    states, controls = jax.tree.map(lambda now, later: jnp.concatenate([now[None], later]), first, frames)
    interval = schedule.steps_per_call * schedule.time_step
    return episode, Trajectory(jnp.arange(controls.shape[0]) * interval, states, controls)


class _Life(NamedTuple):
    """What goes from one control call to the next."""

    state: AnyState
    control: Array
    memory: Array
    """of the sensors"""
    height: Array
    """sum over calls and masses of their centres' heights"""
    effort: Array
    """sum over calls of the mean squared control"""
    failed: Array


def _live(
    model: AnyModel,
    controller: Controller,
    environment: Environment,
    state: AnyState,
    schedule: Schedule,
    keep_frames: bool,
) -> tuple[Episode, Any]:
    """The summary, and the states and controls of all intervals if they are to be kept."""
    calls, remainder = divmod(schedule.steps, schedule.steps_per_call)
    life = _birth(model, controller, state)
    fused = mechanics_of(model).fuses(schedule.implementation, model.mass.dtype)
    if fused and calls and not controller.senses and not keep_frames:
        life, frames = _live_by_the_clock(model, controller, environment, life, schedule, calls), None
    else:

        def interval(life: _Life, index: Array) -> tuple[_Life, Any]:
            moved, seen = _move(model, environment, life.state, life.control[None], schedule, schedule.steps_per_call)
            time = (index + 1).astype(model.mass.dtype) * (schedule.steps_per_call * schedule.time_step)
            following = _call(model, controller, environment, life._replace(state=moved), seen, time, index == 0)
            return following, ((moved, life.control) if keep_frames else None)

        life, frames = jax.lax.scan(interval, life, jnp.arange(calls))
    if remainder:
        final, seen = _move(model, environment, life.state, life.control[None], schedule, remainder)
        life = life._replace(state=final, failed=life.failed | seen.broken.any())
    return _summarise(model, state, life, schedule.total_time, calls), frames


def _live_by_the_clock(
    model: AnyModel, controller: Controller, environment: Environment, life: _Life, schedule: Schedule, calls: int
) -> _Life:
    """All calls of a life whose controller feels nothing, so that control values of many calls can be made at once."""
    at_once = _calls_at_once(calls)

    def several(life: _Life, first: Array, count: int) -> _Life:
        """`count` intervals and the calls at their ends."""
        times = (first + 1 + jnp.arange(count)).astype(model.mass.dtype) * (
            schedule.steps_per_call * schedule.time_step
        )
        controls = jax.vmap(lambda time: _decide(model, controller, time, None))(times)
        acting = jnp.concatenate([life.control[None], controls[:-1]])
        state, seen = _move(model, environment, life.state, acting, schedule, schedule.steps_per_call)
        return life._replace(
            state=state,
            control=controls[-1],
            height=life.height + seen.height.sum(),
            effort=life.effort + jax.vmap(lambda control: _effort(model, control))(controls).sum(),
            failed=life.failed | seen.broken.any(),
        )

    whole, rest = divmod(calls, at_once)
    life, _ = jax.lax.scan(lambda now, index: (several(now, index * at_once, at_once), None), life, jnp.arange(whole))
    return several(life, jnp.asarray(whole * at_once), rest) if rest else life


def _calls_at_once(calls: int) -> int:
    """As many as allowed; fewer if all parts are then alike, so that there is only one kernel."""
    most = min(calls, MOST_CALLS_AT_ONCE)
    even = [count for count in range(math.ceil(most / 4), most + 1) if calls % count == 0]
    return max(even, default=most)


def _birth(model: AnyModel, controller: Controller, state: AnyState) -> _Life:
    zero = jnp.zeros((), model.mass.dtype)
    return _Life(
        state=state,
        control=jnp.zeros(model.present.shape, model.mass.dtype),
        memory=empty_memory(model, controller.senses) if controller.senses else zero,
        height=zero,
        effort=zero,
        failed=mechanics_of(model).broken(state).any() | (model.present.sum() == 0),
    )


def _move(
    model: AnyModel, environment: Environment, state: AnyState, controls: Array, schedule: Schedule, steps: int
) -> tuple[AnyState, Watch]:
    return mechanics_of(model).advance_through(
        model,
        environment,
        state,
        controls,
        substep=schedule.substep,
        count=steps * schedule.substeps,
        implementation=schedule.implementation,
    )


def _call(
    model: AnyModel,
    controller: Controller,
    environment: Environment,
    life: _Life,
    seen: Watch,
    time: Array,
    first_call: Array,
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
    control = _decide(model, controller, time, readings)
    return life._replace(
        control=control,
        memory=memory,
        height=life.height + seen.height.sum(),
        effort=life.effort + _effort(model, control),
        failed=life.failed | seen.broken.any(),
    )


def _decide(model: AnyModel, controller: Controller, time: Array, readings: Array | None) -> Array:
    return jnp.clip(controller.control(time, readings), -1, 1) * model.present


def _effort(model: AnyModel, control: Array) -> Array:
    """Mean squared control over voxels."""
    return (control**2).sum() / jnp.maximum(model.present.sum(), 1)


def _summarise(model: AnyModel, start: AnyState, life: _Life, total_time: float, calls: int) -> Episode:
    mechanics = mechanics_of(model)
    low, high = mechanics.bounding_box(model, start)
    first = mechanics.center(model, start)
    masses = jnp.maximum(2**model.present.ndim * model.present.sum(), 1)
    return Episode(
        start=first,
        end=mechanics.center(model, life.state),
        box=high - low,
        total_time=jnp.asarray(total_time, model.mass.dtype),
        mean_height=life.height / (calls * masses) if calls else first[-1],
        mean_squared_control=life.effort / max(calls, 1),
        failed=life.failed,
        broken_springs=mechanics.broken_springs(model, life.state),
    )
