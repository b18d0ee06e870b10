"""An episode: reset, then observe, decide and step until it is over. Pure arrays; `jit` and `vmap` it at will.

`reset`, `observe`, `step` and `finish` are for anyone's learner. `rollout` is a scan of `step` under one of our
controllers, and `record` also keeps the states on the way. As in the original, the first control call comes after the
first control interval; until then all control values are 0. An action counts as control effort when it is decided: the
last one too, which is in force only if time remains. A policy (vsr.controllers.policy) acts as a learner does: it
decides at the start too, and no more when the last step is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.loops import ready
from vsr.controllers import (
    Controller,
    decide,
    first_memory,
    is_policy,
    knows_time_alone,
    observes_task,
    rate_limit,
)
from vsr.environment import Environment
from vsr.physics.energy_monitor import EnergyMonitor, begin_monitor, can_give, follow_monitor
from vsr.physics.engine import AnyModel, AnyState, engine_of
from vsr.physics.failure import Failure, first_of, most_severe
from vsr.physics.telemetry import Telemetry
from vsr.sensors import Sensor, empty_memory, readings, remember
from vsr.tasks import Locomotion, Summary, Task
from vsr.tasks.gait import Gait, begin_gait, follow_gait
from vsr.world.placement import has_left, place
from vsr.world.schedule import Schedule
from vsr.world.state import WorldModel, WorldState, advance, buried, failure, pierced, prepared, touched, world_state

FARTHEST = 100.0
"""Numbers of observations end here, either way, as in EvoGym; what is not finite is 0."""
MOST_CALLS_AT_ONCE = 128
"""Control values of this many calls are made at once for a kernel that takes them (controllers without sensors)."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scenario:
    """All that stays as it is during an episode: one robot, its world, its task."""

    world: WorldModel
    schedule: Schedule = field(metadata={"static": True})
    task: Task = field(default=Locomotion(), metadata={"static": True})
    sensors: tuple[Sensor, ...] = field(default=(), metadata={"static": True})
    """what is observed of every voxel"""

    @property
    def model(self) -> AnyModel:
        """Of the robot."""
        (model,) = self.world.robots
        return model

    @property
    def limit(self) -> int:
        """Control steps until the time is up."""
        return self.schedule.calls


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EpisodeState:
    """All that changes during an episode."""

    world: WorldState
    action: Array
    """control values in force, *cells"""
    memory: Array | None
    """of the sensors; None if there are none"""
    calls: Array
    """control steps taken, ()"""
    height: Array
    """sum over control steps and masses of their centers' heights [m], ()"""
    effort: Array
    """sum over control steps of the mean squared control value, ()"""
    failure: Array
    """the first that befell anything, 0 if none did (vsr.physics.failure), ()"""
    ended: Array
    """whether the task is over before its time, ()"""
    account: Any
    """what the task accumulates"""
    gait: Gait | None = None
    """how it walks; None if no measure asks for it"""
    energy_monitor: EnergyMonitor | None = None
    """None if spurious energy gain is not looked for"""
    pending: Array | None = None
    """actions not yet in force, the newest first, (actions, *cells): of environments whose actions may be delayed"""

    @property
    def failed(self) -> Array:
        """Whether the simulation is no use, ()."""
        return self.failure > 0


class Transition(NamedTuple):
    """What came of one control step."""

    reward: Array
    """of the task, 0 after a failure, ()"""
    terminated: Array
    """whether the task ended or the simulation failed, ()"""
    truncated: Array
    """whether the time is up, or would be within another control step, ()"""


class Trajectory(NamedTuple):
    """States after every control interval, the initial one first; leading axis (calls + 1,)."""

    time: Array
    """[s]"""
    state: AnyState
    """of the robot"""
    control: Array
    """values in force during the interval that ends here, (calls + 1, *cells)"""
    systems: dict[str, Any] | None = None
    """of whatever else moves, by name"""


def scenario_of(
    model: AnyModel,
    environment: Environment,
    schedule: Schedule,
    task: Task | None = None,
    sensors: tuple[Sensor, ...] = (),
    systems: dict[str, Any] | None = None,
) -> Scenario:
    """One robot on its ground, with what else moves there and whatever the task adds; without a task, locomotion."""
    task = Locomotion() if task is None else task
    model = task.with_objects(model)
    systems = {**(systems or {}), **task.systems(model.present.ndim, model.mass.dtype)}
    return Scenario(WorldModel((model,), environment, systems), schedule, task, sensors)


def reset(key: Array, scenario: Scenario) -> EpisodeState:
    """The robot at its start; key: of whatever is random in the episode."""
    model, terrain = scenario.model, scenario.world.environment.terrain
    return begin(scenario, place(model, terrain, scenario.task.placement, scenario.world.cover), key)


def begin(scenario: Scenario, robot: AnyState, key: Array | None = None) -> EpisodeState:
    """As `reset`, with the robot in a given state."""
    model, world = scenario.model, scenario.world
    for_world, for_task = jax.random.split(jax.random.key(0) if key is None else key)
    first = scenario.task.start(for_task, world, world_state(world, (robot,), for_world))
    zero = jnp.zeros((), model.mass.dtype)
    memory = None
    if scenario.sensors:  # so that there is something to observe; the first call begins the memory again
        memory = empty_memory(model, scenario.sensors)
        felt = touched(world, first.systems)
        memory = remember(scenario.sensors, model, world.environment, first.robots[0], memory, jnp.ones((), bool), felt)
    action = jnp.zeros(model.present.shape, model.mass.dtype)
    monitor = _begin_monitor(scenario, first, action)
    if monitor is not None and any(map(can_give, world.systems.values())):
        first = replace(first, given=jnp.zeros(1, model.mass.dtype))
    return EpisodeState(
        world=first,
        action=action,
        memory=memory,
        calls=jnp.zeros((), jnp.int32),
        height=zero,
        effort=zero,
        failure=first_of(
            engine_of(model).flaw(model),
            most_severe(jnp.stack([failure(world, first, scenario.schedule.substep), buried(world, first)])),
        ),
        ended=jnp.zeros((), bool),
        account=scenario.task.begin(world, first),
        gait=begin_gait(world, first, scenario.schedule.interval) if scenario.task.follows_gait else None,
        energy_monitor=monitor,
    )


def observe(scenario: Scenario, state: EpisodeState) -> Array:
    """What every voxel reads now, (sensors, *cells); raises ValueError for a scenario without sensors."""
    if state.memory is None:
        raise ValueError("this scenario has no sensors, so there is nothing to observe")
    return readings(scenario.sensors, state.memory)


def observe_task(scenario: Scenario, state: EpisodeState) -> tuple[Array, Array]:
    """What the task shows to a learner, and which of the numbers are there, (numbers,) each.

    There are as many numbers for all bodies of a grid: what a body does not have is 0 and masked out. EvoGym's tasks
    have EvoGym's observations (docs/reference/tasks.md); raises ValueError for a task that has none.
    """
    seen, there = scenario.task.observation(state.account, scenario.world, state.world)
    return within_bounds(seen), there


def within_bounds(observation: Array) -> Array:
    """An observation that any learner can use, also of a simulation that failed."""
    return jnp.clip(jnp.where(jnp.isfinite(observation), observation, 0), -FARTHEST, FARTHEST)


def read(scenario: Scenario, controller: Controller, state: EpisodeState) -> Array | None:
    """What a controller is given at a call: what the task shows, readings of its sensors, or nothing."""
    if observes_task(controller):
        return observe_task(scenario, state)[0]
    if not controller.sensors:
        return None
    return within_bounds(observe(scenario, state)) if is_policy(controller) else observe(scenario, state)


def step(scenario: Scenario, state: EpisodeState, action: Array) -> tuple[EpisodeState, Transition]:
    """One control interval under an action: control values of all voxels, clipped to [-1, 1], *cells."""
    action = jnp.clip(action, -1, 1) * scenario.model.present
    after = _advanced(scenario, with_effort(scenario, state, action), action[None], scenario.schedule.control_every)
    after = _judged(scenario, state, _felt(scenario, after), action)
    reward = scenario.task.reward(after.account, scenario.world, state.world, after.world, action)
    return after, Transition(
        reward=jnp.where(after.failed, 0, reward),
        terminated=after.failed | after.ended,
        truncated=after.calls >= scenario.limit,
    )


def finish(scenario: Scenario, start: EpisodeState, last: EpisodeState, action: Array | None = None) -> Summary:
    """The summary of an episode that was taken step by step, as `rollout` gives it under the same actions.

    last: after the last control step. action: decided then, *cells; it is in force while time remains, and counts as
    control effort even if none does. If absent, the one in force stays, and does not count again.
    """
    if action is None:
        return _concluded(scenario, start, RolloutCarry(last, last.action, None))
    return _concluded(scenario, start, RolloutCarry(with_effort(scenario, last, action), action, None))


def rollout(scenario: Scenario, controller: Controller, start: EpisodeState) -> Summary:
    """The summary of an episode under a controller, which begins with its first memory."""
    return _roll(scenario, controller, start, keep_frames=False)[0]


def record(scenario: Scenario, controller: Controller, start: EpisodeState) -> tuple[Summary, Trajectory]:
    """The summary and all states on the way."""
    episode, frames = _roll(scenario, controller, start, keep_frames=True)
    first = _seen(scenario, start.world), start.action
    (robot, others), controls = jax.tree.map(lambda now, later: jnp.concatenate([now[None], later]), first, frames)
    time = jnp.arange(controls.shape[0]) * scenario.schedule.interval
    return episode, Trajectory(time, robot, controls, others or None)


def _seen(scenario: Scenario, state: WorldState) -> tuple[AnyState, dict[str, Any]]:
    """What a recording keeps of a world: the robot's state, and what others show of theirs."""
    others = {name: system.seen(state.systems[name]) for name, system in scenario.world.systems.items()}
    return state.robots[0], others


def summarize(scenario: Scenario, first: EpisodeState, last: EpisodeState) -> Summary:
    """What is known of an episode, or of a part of it, from its first and its last state."""
    return _summary(scenario, first, last, last.world.time - first.world.time)


def _summary(scenario: Scenario, first: EpisodeState, last: EpisodeState, total_time: Array) -> Summary:
    model, calls = scenario.model, last.calls - first.calls
    engine = engine_of(model)
    low, high = engine.bounding_box(model, first.world.robots[0])
    start = engine.center(model, first.world.robots[0])
    masses = jnp.maximum(2**model.present.ndim * model.present.sum(), 1)
    made = jnp.maximum(calls, 1).astype(masses.dtype)
    return Summary(
        start=start,
        end=engine.center(model, last.world.robots[0]),
        box=high - low,
        total_time=total_time,
        mean_height=jnp.where(calls > 0, (last.height - first.height) / (made * masses), start[-1]),
        mean_squared_control=(last.effort - first.effort) / made,
        failure=_first_or(last, _failure_at_the_end(scenario, last)),
        broken_springs=engine.broken_springs(model, last.world.robots[0]),
        ended=last.ended if scenario.task.needs_every_step else None,
        gait=last.gait,
        account=last.account,
    )


class RolloutCarry(NamedTuple):
    """What goes from one control call to the next."""

    state: EpisodeState
    action: Array
    """decided at the call, not yet in force"""
    memory: Any
    """of the controller; None if it has none"""


def _roll(scenario: Scenario, controller: Controller, start: EpisodeState, keep_frames: bool) -> tuple[Summary, Any]:
    """The summary, and the worlds and controls of all intervals if they are to be kept."""
    if scenario.sensors != controller.sensors:
        raise ValueError("the scenario observes other sensors than the controller has; give it the controller's")
    schedule = scenario.schedule
    scenario = replace(scenario, world=prepared(scenario.world, schedule.substep, schedule.implementation))
    if schedule.calls and not keep_frames and _runs_open_loop(scenario, controller):
        now = RolloutCarry(start, start.action, None)
        return _concluded(scenario, start, _rollout_open_loop(scenario, controller, now)), None
    now = init_carry(scenario, controller, start)

    def interval(now: RolloutCarry) -> tuple[RolloutCarry, Any]:
        following = control_step(scenario, controller, now)
        return following, ((_seen(scenario, following.state.world), now.action) if keep_frames else None)

    turn, now = ready(rematerialize(schedule, interval), now)
    scan = engine_of(scenario.model).kernel.scan(scenario.model, schedule.implementation)
    now, frames = scan(lambda now, _: turn(now), now, length=schedule.calls)
    return finish(scenario, start, now.state, None if is_policy(controller) else now.action), frames


def init_carry(scenario: Scenario, controller: Controller, start: EpisodeState) -> RolloutCarry:
    """Before any control call; the action in force was counted as effort when it was decided.

    A policy decides now, and that counts when it is in force.
    """
    if is_policy(controller):
        seen = read(scenario, controller, start)
        decided, memory = _decide(scenario, controller, first_memory(controller), start.world.time, seen)
        return RolloutCarry(start, _limited(scenario, controller, start, decided), memory)
    counted = replace(start, effort=start.effort - _effort(scenario.model, start.action))
    return RolloutCarry(counted, start.action, first_memory(controller))


def control_step(scenario: Scenario, controller: Controller, now: RolloutCarry) -> RolloutCarry:
    """One control interval under what was decided at its beginning, and the decision at its end."""
    after = step(scenario, now.state, now.action)[0]
    seen = read(scenario, controller, after)
    decided, memory = _decide(scenario, controller, now.memory, after.world.time, seen)
    following = RolloutCarry(after, _limited(scenario, controller, after, decided), memory)
    return _unless(now.state.ended, following, now) if scenario.task.needs_every_step else following


def with_effort(scenario: Scenario, state: EpisodeState, action: Array) -> EpisodeState:
    """With the control effort of an action that is decided now."""
    return replace(state, effort=state.effort + _effort(scenario.model, action))


def _concluded(scenario: Scenario, start: EpisodeState, now: RolloutCarry) -> Summary:
    """The summary of an episode after its last control call; what was decided then is counted."""
    schedule, task, last = scenario.schedule, scenario.task, now.state
    if schedule.remainder:
        after = _advanced(scenario, last, now.action[None], schedule.remainder)
        if task.needs_every_step:
            after = _unless(last.ended, _judged(scenario, last, after, now.action), last)
        last = after
    total_time = jnp.asarray(schedule.total_time, scenario.model.mass.dtype)
    if task.needs_every_step:
        total_time = jnp.where(last.ended, last.world.time - start.world.time, total_time)
    return _summary(scenario, start, last, total_time)


def rematerialize(schedule: Schedule, interval: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of one control interval; where gradients are wanted, its inside is computed again for them.

    Only the states between intervals are then kept for the way back, not those of all substeps.
    """
    if schedule.implementation != "differentiable":
        return interval
    return jax.checkpoint(interval, prevent_cse=False)  # pyright: ignore[reportPrivateImportUsage]


def _advanced(scenario: Scenario, state: EpisodeState, controls: Array, time_steps: int) -> EpisodeState:
    """After intervals of some time steps each; controls: in force, (intervals, *cells).

    Of whole control intervals, calls and heights are counted; of what remains behind the last call they are not.
    """
    schedule = scenario.schedule
    world, (seen,) = advance(
        scenario.world,
        state.world,
        (controls,),
        substep=schedule.substep,
        count=time_steps * schedule.substeps,
        implementation=schedule.implementation,
    )
    later = replace(state, action=controls[-1], failure=_failure(scenario, state, world, seen))
    if time_steps == schedule.control_every:
        calls = state.calls + controls.shape[0]
        # Times are products, because sums of many steps would drift.
        world = replace(world, time=calls.astype(scenario.model.mass.dtype) * schedule.interval)
        later = replace(later, calls=calls, height=state.height + seen.height.sum())
    return _monitored(scenario, state, replace(later, world=world), controls[-1])


def _felt(scenario: Scenario, state: EpisodeState) -> EpisodeState:
    """With what sensors and gait keep of the control interval that ends now."""
    memory, gait, world = state.memory, state.gait, state.world
    if memory is None and gait is None:
        return state
    felt = touched(scenario.world, world.systems)
    if gait is not None:
        gait = follow_gait(gait, scenario.world, world, felt)
    if memory is not None:
        model, environment = scenario.model, scenario.world.environment
        memory = remember(scenario.sensors, model, environment, world.robots[0], memory, state.calls == 1, felt)
    return replace(state, memory=memory, gait=gait)


def _judged(scenario: Scenario, before: EpisodeState, after: EpisodeState, action: Array) -> EpisodeState:
    """With what the task accumulates, and whether it is over."""
    task, world = scenario.task, scenario.world
    account = task.accumulate(before.account, world, before.world, after.world, action)
    return replace(after, account=account, ended=before.ended | task.ended(account, world, after.world))


def _begin_monitor(scenario: Scenario, first: WorldState, action: Array) -> EnergyMonitor | None:
    schedule, world, model = scenario.schedule, scenario.world, scenario.model
    if not schedule.monitor_energy:
        return None
    return begin_monitor(engine_of(model), model, world.environment, first.robots[0], action, schedule.substep)


def _monitored(scenario: Scenario, before: EpisodeState, after: EpisodeState, action: Array) -> EpisodeState:
    """With the energy of an interval as its monitor sees it, if there is one, and a failure if it was spurious.

    action: in force meanwhile.
    """
    if before.energy_monitor is None:
        return after
    model, environment = scenario.model, scenario.world.environment
    states = before.world.robots[0], after.world.robots[0]
    given = 0.0 if after.world.given is None else after.world.given[0]
    monitor = follow_monitor(
        before.energy_monitor, engine_of(model), model, environment, *states, action, scenario.schedule.substep, given
    )
    gained = jnp.where(monitor.gained, int(Failure.gained_energy), 0)
    return replace(after, energy_monitor=monitor, failure=first_of(after.failure, gained))


def _failure(scenario: Scenario, state: EpisodeState, world: WorldState, seen: Telemetry) -> Array:
    """The first failure so far: of the robot at the end of some interval, or now of anything else."""
    deep = jnp.where(_is_gone(scenario, world), 0, pierced(scenario.world, world))
    found = [most_severe(seen.failure), deep]
    if scenario.world.is_coupled:
        found.append(failure(scenario.world, world, scenario.schedule.substep))
    return _first_or(state, most_severe(jnp.stack(found)))


def _first_or(state: EpisodeState, found: Array) -> Array:
    """What befell a robot first. Whatever befalls it says more than that its energy had grown before."""
    if state.energy_monitor is None:
        return first_of(state.failure, found)
    grown = state.failure == int(Failure.gained_energy)
    return jnp.where(grown & (found == 0), state.failure, first_of(jnp.where(grown, 0, state.failure), found))


def _failure_at_the_end(scenario: Scenario, last: EpisodeState) -> Array:
    """What is looked for only in the last state: robots that are gone."""
    return jnp.where(_is_gone(scenario, last.world), int(Failure.left_world), 0)


def _is_gone(scenario: Scenario, world: WorldState) -> Array:
    """Whether the robot is below all ground, ()."""
    model, terrain = scenario.model, scenario.world.environment.terrain
    return has_left(terrain, engine_of(model).center(model, world.robots[0]), model.voxel_side)


def _runs_open_loop(scenario: Scenario, controller: Controller) -> bool:
    """Whether control values of many calls can be made at once for a kernel that takes them."""
    model = scenario.model
    fused = engine_of(model).kernel.takes_many_controls(scenario.schedule.implementation, model.mass.dtype)
    alone = not (scenario.world.is_coupled or scenario.task.needs_every_step or scenario.schedule.monitor_energy)
    return fused and alone and knows_time_alone(controller) and not scenario.sensors


def _rollout_open_loop(scenario: Scenario, controller: Controller, now: RolloutCarry) -> RolloutCarry:
    """All calls of an episode whose controller has neither sensors nor memory, and whose task needs no single steps.

    What is decided at the last call is counted.
    """
    schedule, model = scenario.schedule, scenario.model
    at_once = _calls_at_once(schedule.calls)

    def several(now: RolloutCarry, count: int) -> RolloutCarry:
        """`count` intervals and the calls at their ends."""
        times = (now.state.calls + 1 + jnp.arange(count)).astype(model.mass.dtype) * schedule.interval
        decided = jax.vmap(lambda time: _decide(scenario, controller, None, time, None)[0])(times)
        in_force = jnp.concatenate([now.action[None], decided[:-1]])
        state = _advanced(scenario, now.state, in_force, schedule.control_every)
        effort = now.state.effort + jax.vmap(partial(_effort, model))(decided).sum()
        return RolloutCarry(replace(state, effort=effort), decided[-1], None)

    whole, rest = divmod(schedule.calls, at_once)
    now, _ = jax.lax.scan(lambda now, _: (several(now, at_once), None), now, length=whole)
    return several(now, rest) if rest else now


def _calls_at_once(calls: int) -> int:
    """As many as allowed; fewer if all parts are then alike, so that there is only one kernel."""
    most = min(calls, MOST_CALLS_AT_ONCE)
    even = [count for count in range(math.ceil(most / 4), most + 1) if calls % count == 0]
    return max(even, default=most)


def _decide(
    scenario: Scenario, controller: Controller, memory: Any, time: Array, seen: Array | None
) -> tuple[Array, Any]:
    """Control values that can be applied, and what the controller remembers."""
    values, memory = decide(controller, memory, time, seen)
    return jnp.clip(values, -1, 1) * scenario.model.present, memory


def _limited(scenario: Scenario, controller: Controller, state: EpisodeState, decided: Array) -> Array:
    """What is decided, or as near to it as can be reached from the action in force within a control interval."""
    limit = rate_limit(controller)
    if limit is None:
        return decided
    most = limit * scenario.schedule.interval
    return jnp.clip(decided, state.action - most, state.action + most)


def _effort(model: AnyModel, action: Array) -> Array:
    """Mean squared control value over voxels."""
    return (action**2).sum() / jnp.maximum(model.present.sum(), 1)


def _unless(condition: Array, value: Any, otherwise: Any) -> Any:
    """The value, or the other where the condition holds; equal pytrees."""

    def choose(now: Array, kept: Array) -> Array:
        return jnp.where(condition, kept, now)

    return jax.tree.map(choose, value, otherwise)
