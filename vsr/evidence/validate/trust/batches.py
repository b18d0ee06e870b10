"""From hard robots to arrays, and their episodes, many at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.controllers.time_functions import TimeFunctions
from vsr.environment import Environment
from vsr.episode import EpisodeState, begin, scenario_of, step, summarize
from vsr.evidence.validate.trust.robots import GRAVITY, SAND, SHAKEN, THROWN, TIME_STEP, Kind, Sample
from vsr.evidence.validate.trust.watching import Watch, WatchedLocomotion, masses_of
from vsr.experiments.population import on_all_devices, robots_at_once, stack
from vsr.physics.engine import ENGINES, AnyModel, AnyState
from vsr.physics.granular.bed import sand_bed
from vsr.robot import EngineName, Material
from vsr.terrain import Flat, Steppy
from vsr.world.placement import move_rigidly
from vsr.world.schedule import Schedule

LEFT = 40.0
"""Where robots begin along x [m]: away from walls."""
FLOATING = 20.0
"""Height at which robots float, in sides of voxels."""
LIFT = 1 / 3
"""Height from which robots are dropped, in sides of voxels."""
GROUND = {"flat": Flat(), "steps": Steppy(height=1.0, width=6.0)}

Batch = tuple[AnyModel, TimeFunctions, AnyState, Array]
"""Models, controllers, states at the start and gravity [m/s²], each with a leading axis of robots."""


def schedule_of(substeps: int) -> Schedule:
    """Of all batches with these substeps, however long they last; energy is accounted for, as some robots need it."""
    return Schedule(duration=2 * TIME_STEP, time_step=TIME_STEP, substeps=substeps, monitor_energy=True)


def calls_of(kind: Kind) -> int:
    """Control steps of an episode."""
    return replace(schedule_of(1), duration=kind.duration).calls


def layers_of(kind: Kind, robots: Sequence[Sample]) -> int:
    """Layers of masses that the bodies of a batch need."""
    return max(ENGINES[kind.engine].layers_needed(robot.cells >= 0) for robot in robots)


def batch_of(
    kind: Kind, robots: Sequence[Sample], floor: float = 0.0, dtype: Any = jnp.float32, layers: int | None = None
) -> Batch:
    """Robots as arrays; floor: the highest ground below them, with what lies on it [m]; layers: as many as needed."""
    engine = ENGINES[kind.engine]
    # Tables have a column of forces only if some material has them, and a batch needs tables that are alike.
    strange = Material(actuation="force", max_force=1.0)
    tables = [engine.table([*robot.materials, strange], kind.side, kind.dimension, dtype) for robot in robots]
    cells = jnp.asarray(np.stack([robot.cells for robot in robots]))
    models = _assembled(cells, stack(tables), kind.engine, kind.side, layers or layers_of(kind, robots))
    floating = jnp.array([robot.start == "floating" for robot in robots])
    thrown = jnp.array([THROWN * slower(kind.side) if robot.start == "thrown" else 0.0 for robot in robots], dtype)
    tilt = jnp.array([robot.tilt for robot in robots], dtype)
    seeds = jnp.array([robot.seed for robot in robots])
    states = _all_placed(models, tilt, thrown, floating, seeds, kind.engine, kind.side, floor)
    controllers = stack([_controller(robot, dtype) for robot in robots])
    return models, controllers, states, jnp.where(floating, 0.0, GRAVITY).astype(dtype)


@partial(jax.jit, static_argnames=("masses", "side", "layers"))
def _assembled(cells: Array, tables: Any, masses: EngineName, side: float, layers: int) -> AnyModel:
    engine = ENGINES[masses]
    return jax.vmap(lambda cells, table: engine.assemble(cells, table, side, layers=layers))(cells, tables)


@partial(jax.jit, static_argnames=("masses", "side", "floor"))
def _all_placed(
    models: AnyModel,
    tilt: Array,
    thrown: Array,
    floating: Array,
    seeds: Array,
    masses: EngineName,
    side: float,
    floor: float,
) -> AnyState:
    place = partial(_placed, masses, side, floor)
    return jax.vmap(place)(models, tilt, thrown, floating, jax.vmap(jax.random.key)(seeds))


def slower(side: float) -> float:
    """Speeds of small robots over those of voxels of 3 m: falls of as many sides of a voxel take as long."""
    return (side / 3) ** 0.5


def _placed(
    masses: EngineName,
    side: float,
    floor: float,
    model: AnyModel,
    tilt: Array,
    thrown: Array,
    floating: Array,
    key: Array,
) -> AnyState:
    """Over the ground, thrown at it, or far from it and shaken with no momentum in all."""
    engine, dtype, dimension = ENGINES[masses], model.mass.dtype, model.present.ndim
    state = move_rigidly(model, engine.rest_state(model), tilt=tilt)
    low, _ = engine.bounding_box(model, state)
    up = jnp.where(floating, FLOATING, LIFT) * side + floor
    shift = jnp.zeros(dimension, dtype).at[0].set(LEFT - low[0]).at[-1].set(up - low[-1])
    down = jnp.zeros(dimension, dtype).at[-1].set(-thrown)
    state = move_rigidly(model, state, shift=shift, velocity=down)
    mass, free = masses_of(model), (model.inverse_mass > 0)[..., None]
    shaken = SHAKEN * slower(side) * jax.random.normal(key, state.velocity.shape, dtype) * free
    drift = (mass[..., None] * shaken).sum(tuple(range(mass.ndim))) / mass.sum()
    return replace(state, velocity=state.velocity + jnp.where(floating, (shaken - drift) * free, 0))


def _controller(robot: Sample, dtype: Any) -> TimeFunctions:
    grid = robot.cells.shape
    whole, none = np.ones(grid), np.zeros(grid)
    calls = 1 / (2 * TIME_STEP)  # per second, with a control interval of 1
    if robot.control == "sine":
        amplitude, frequency = whole, whole
        phase = np.random.default_rng(robot.seed).uniform(0, 2 * math.pi, grid)
    else:
        chess = np.indices(grid).sum(0) % 2 if robot.control == "chess" else none
        # More than full, and cut: so rounding of the time changes nothing.
        amplitude, frequency = (2 * whole, calls / 2 * whole) if robot.control != "passive" else (none, none)
        phase = math.pi / 2 + math.pi * chess
    numbers = (jnp.asarray(values, dtype) for values in (amplitude, frequency, phase, none, none, 1.0))
    return TimeFunctions(*numbers)


def surroundings(kind: Kind, schedule: Schedule, dtype: Any = jnp.float32) -> tuple[Any, dict[str, Any], float]:
    """The ground, what else moves, and the highest place below robots [m]."""
    if kind.ground != "sand":
        x, y = GROUND[kind.ground].points()
        below = (x > LEFT - 20) & (x < LEFT + 1.5 * max(kind.grid) * kind.side + 20)
        return GROUND[kind.ground].build(dtype), {}, float(y[below].max(initial=0.0))
    sand = SAND[kind.dimension]
    bed = sand_bed(sand, kind.dimension, GRAVITY, kind.side, dtype)
    stride = max(1, int(sand.longest_step(GRAVITY) / schedule.substep + 1e-6))
    return sand.build(dtype), {"sand": replace(bed, stride=stride)}, bed.cover


@partial(jax.jit, static_argnames="schedule")
def episodes(
    batch: Batch, ground: Any, systems: dict[str, Any], calls: int | Array, schedule: Schedule
) -> tuple[Array, Watch]:
    """Reported failure of each robot's episode (vsr.physics.failure), and the monitor's observations, (robots,).

    calls: control steps of the episodes, instead of the schedule's: batches of different durations share a program.
    """
    task = WatchedLocomotion(substep=schedule.substep)

    def episode_of(robot: Batch) -> tuple[Array, Watch]:
        model, controller, state, gravity = robot
        scenario = scenario_of(model, Environment(gravity=gravity, terrain=ground), schedule, task, (), systems)
        start = begin(scenario, state)

        def interval(_: Array, now: tuple[EpisodeState, Array]) -> tuple[EpisodeState, Array]:
            after = step(scenario, *now)[0]
            return after, controller.control(after.world.time, None)

        last, _ = jax.lax.fori_loop(0, calls, interval, (start, start.action))
        return summarize(scenario, start, last).failure, last.account.watch

    robots, *grid = batch[0].present.shape
    return on_all_devices(episode_of, batch, robots_at_once(robots, math.prod(grid)))
