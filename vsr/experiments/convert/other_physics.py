"""A robot for one of EvoGym's tasks in another physics: the same kinds of voxels, the same control values in a step.

Does a robot that evolved in EvoGym's physics keep its score in ours? A control step has other seconds there, so
frequencies and durations of the controller follow. A policy reads EvoGym's units in every physics and stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vsr.experiments.config import UserError
from vsr.experiments.convert.evogym_files import ConvertedRobot, body_of, given, structure_of
from vsr.experiments.experiment import Experiment
from vsr.robot import ENGINE_KINDS, KINDS, Body, EngineName
from vsr.scene import Scene
from vsr.tasks.evogym.seen import step_seconds
from vsr.tasks.evogym.task import NamedTask

PER_SECOND = "frequency", "coupling", "rate_limit"
SECONDS = "duration"


def in_other_physics(scene: Scene, engine: str, where: str) -> ConvertedRobot:
    """A robot as one of another engine; raises UserError for what cannot be."""
    body, task, controller = scene.robot.body, scene.task, scene.robot.controller
    if body.engine == engine:
        raise UserError(f"--engine {engine}: the robot of {where} is of this engine already")
    if not isinstance(task, NamedTask):
        name = getattr(task, "type", type(task).__name__)
        raise UserError(f"{where}: task {name} is none of EvoGym's, whose steps and units both engines share")
    if issues := task.issues(engine, 2, ()):  # pyright: ignore[reportArgumentType]
        raise UserError(f"{where}: {issues[0][1]}")
    if getattr(controller, "sensors", ()):
        raise UserError(f"{where}: the controller reads sensors, which have other units in other engines")
    new = body_of(structure_of(body, where), engine)
    step = step_seconds(body.engine, body.voxel_side)
    slower = float(step / step_seconds(engine, Body.model_validate(new).voxel_side))
    plain = _timed({} if controller is None else controller.to_plain(), slower)
    steps = task.row.steps if task.duration is None else round(float(task.duration / step))
    there: Any = task.row.name
    if steps != task.row.steps:
        there = {"type": there, "duration": float(task.duration or 0) / slower}
    lost = [] if scene.robot.hardware is None else ["hardware"]
    return ConvertedRobot({"robot": {"body": new, "controller": plain}, "task": there}, lost)


def settings_in(engine: EngineName, experiment: Experiment) -> tuple[str, ...]:
    """What makes an experiment on a task of EvoGym's one in another engine, as values for `--set`.

    Frequencies per control step stay as they are. Raises UserError for a task that the engine cannot have.
    """
    body, task, controller = experiment.robot.body, experiment.task, experiment.robot.controller
    if body.engine == engine:
        return ()
    if engine not in KINDS or not isinstance(task, NamedTask):
        raise UserError(f"--engine {engine}: only tasks of EvoGym's change engines, to {' or '.join(KINDS)}")
    if issues := task.issues(engine, 2, ()):  # pyright: ignore[reportArgumentType]
        raise UserError(f"--engine {engine}: {issues[0][1]}")
    materials = {symbol: given(material) for symbol, material in KINDS[engine].items()}
    settings = [f"robot.body.engine={engine}", f"robot.body.materials={json.dumps(materials)}"]
    if (frequencies := getattr(controller, "frequencies", None)) is not None:
        side = ENGINE_KINDS[engine].default_side
        slower = float(step_seconds(body.engine, body.voxel_side) / step_seconds(engine, side))
        settings.append(f"robot.controller.frequencies={[slower * end for end in frequencies]}")
    return tuple(settings)


def _timed(value: Any, slower: float) -> Any:
    """The plain form of a controller whose every second is another number of seconds."""
    if not isinstance(value, Mapping):
        return value
    factors = {**dict.fromkeys(PER_SECOND, slower), SECONDS: 1 / slower}
    return {key: _scaled(part, factors[key]) if key in factors else _timed(part, slower) for key, part in value.items()}


def _scaled(value: Any, factor: float) -> Any:
    """A number, or the numbers of a grid."""
    if isinstance(value, list):
        return [_scaled(part, factor) for part in value]
    return None if value is None else factor * value
