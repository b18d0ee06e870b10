"""One moment of an environment as a picture, painted as everywhere here (vsr.drawing.painter)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from vsr.drawing.painter import Look, Painter
from vsr.drawing.recording import recording_of
from vsr.envs.environment import Environment, Params
from vsr.episode import EpisodeState, Trajectory
from vsr.tasks import NamedTask
from vsr.tasks.evogym.seen import OUR_STEP

SIZE = 640, 420
"""Of a picture, width and height [pixels]."""
ROOM = 2.0
"""How many times the robot's grid fits into a picture, at least, either way."""


def picture(env: Environment, state: EpisodeState, params: Params, size: tuple[int, int] = SIZE) -> np.ndarray:
    """The robot on its ground, (height, width, 3), whole numbers from 0 to 255; state, params: of one body."""
    scenario = env.scenario(params)
    world = scenario.world

    def alone(tree):
        return jax.tree.map(lambda leaf: leaf[None], tree)

    other_robots = {name: alone(one.seen(state.world.systems[name])) for name, one in world.systems.items()}
    moment = Trajectory(state.world.time[None], alone(state.world.robots[0]), state.action[None], other_robots or None)
    cells = jnp.where(scenario.model.present > 0, 0, -1)
    recording = recording_of(scenario.model, moment, world.environment, np.asarray(cells), systems=world.systems)
    terrain = env.scene.world.terrain
    ground = None if terrain is None else terrain.line_at(env.task.placement.y)
    painter = Painter(recording, ground, Look(), title=env.name, size=size)
    painter.pixels_per_meter = _scale(env, painter)
    return np.asarray(painter.paint(0))


def frames_per_second(env: Environment) -> int:
    """Of a film with a picture after every step: as fast as it happens; a step of EvoGym's tasks counts as 55 ms."""
    return round(1 / (OUR_STEP if isinstance(env.task, NamedTask) else env.schedule.interval))


def _scale(env: Environment, painter: Painter) -> float:
    """Pixels of a meter: of the whole grid at rest, so that films do not zoom while a robot changes its size."""
    side = env.scene.robot.body.voxel_side
    return float(min(painter.view / (ROOM * np.array([env.cells[-1], env.cells[0]]) * side)))
