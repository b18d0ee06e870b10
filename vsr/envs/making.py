"""`make`: from a task's name and a body to an environment; `register`: every task by the name `vsr/NAME` in
gymnasium."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from vsr.envs.environment import Environment, refuse_forked
from vsr.envs.randomization import Randomization
from vsr.robot import KINDS, Body, EngineName
from vsr.robot.kinds import SYMBOLS
from vsr.scene import Physics, Scene
from vsr.sensors import Sensor
from vsr.spec import suggest
from vsr.tasks import TASKS, Task
from vsr.world.spec import Robot, World

DEFAULT_BODY = ("aaaaa", "aaaaa", "aaaaa", "aa.aa", "aa.aa")
"""For whoever names none."""
DEFAULT_SENSORS = ("area_ratio", "contact", "rotated_velocity_x", "rotated_velocity_y")
"""What every voxel reads where a task shows nothing of its own."""

Drawn = Body | Sequence[Any] | np.ndarray | str
"""A body, or what is as good: its shape, or EvoGym's array of kinds; or several bodies."""


def make(
    name: str,
    body: Drawn | None = None,
    *,
    engine: EngineName | None = None,
    sensors: Sequence[Sensor | str] | None = None,
    world: World | Mapping[str, Any] | None = None,
    physics: Physics | Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    randomize: Randomization | Mapping[str, Any] | None = None,
    **task: Any,
) -> Environment:
    """The environment of a task, by its name in `vsr.tasks.TASKS`, for a body or several.

    body: a Body, a shape as Body has it, or EvoGym's array of kinds (0 to 4, the top row first); several as a sequence
    of Bodies or an array with one more axis. engine: of what is no Body yet. sensors: observed of every voxel, instead
    of what the task shows. world, physics: as in a Scene. max_episode_steps: if fewer than the task's `duration` has.
    randomize: intervals from which `Environment.randomized` draws (vsr.envs.randomization). All others are fields of
    the task, such as `duration`.
    Raises ValueError for what does not fit together.
    """
    refuse_forked()
    if name not in TASKS:
        raise ValueError(f"there is no task '{name}'{suggest(name, TASKS)}")
    _check_names(name, task)
    bodies, several = _bodies(DEFAULT_BODY if body is None else body, engine)
    described = TASKS[name].model_validate(task)
    scene = Scene.model_validate(
        {
            "robot": Robot(body=bodies[0]),
            "world": {} if world is None else world,
            "task": described,
            "physics": {} if physics is None else physics,
        }
    )
    varied = Randomization.model_validate({} if randomize is None else randomize)
    return Environment(name, scene, bodies, _sensors(sensors, scene.task), several, max_episode_steps, varied)


def body_of_kinds(kinds: np.ndarray, engine: EngineName = "points") -> Body:
    """EvoGym's array of kinds as a body: 0 empty, 1 rigid, 2 soft, 3 and 4 actuators; (rows, columns), top first."""
    kinds = np.asarray(kinds)
    wrong = sorted(set(np.unique(kinds).tolist()) - set(range(len(SYMBOLS) + 1)))
    if kinds.ndim != 2 or wrong:
        given = f"{wrong[0]:g} among them" if wrong else f"{kinds.ndim} axes"
        raise ValueError(f"kinds of voxels are numbers from 0 to {len(SYMBOLS)} in rows and columns; given: {given}")
    rows = ["".join((".", *SYMBOLS)[int(kind)] for kind in row) for row in kinds]
    return Body(shape=tuple(rows), engine=engine, materials=KINDS[engine])


def _check_names(name: str, given: Mapping[str, Any]) -> None:
    """Raise ValueError for an argument that neither `make` nor the task has."""
    own = [argument for argument in inspect.signature(make).parameters if argument not in ("name", "task")]
    allowed = [*own, *(field for field in TASKS[name].model_fields if field != "type")]
    for argument in given:
        if argument not in allowed:
            near = difflib.get_close_matches(argument, allowed, n=1)
            hint = f", did you mean '{near[0]}'?" if near else ""
            raise ValueError(f"{argument}: no such argument{hint}; '{name}' has {', '.join(allowed)}")


def _bodies(given: Drawn, engine: EngineName | None) -> tuple[list[Body], bool]:
    """Bodies, and whether several were given."""
    if isinstance(given, Body):
        if engine not in (None, given.engine):
            raise ValueError(f"engine: {engine} given, and the body has {given.engine}: say it once, in the body")
        return [given], False
    if isinstance(given, list | tuple) and given:
        first = given[0]
        if isinstance(first, Body | np.ndarray):
            return [body for one in given for body in _bodies(one, engine)[0]], True
        in_3d = isinstance(first, list | tuple) and first and isinstance(first[0], str)
        for rows in given if in_3d else [given]:
            _check_widths(rows)
        if isinstance(first, list | tuple) and not in_3d:
            given = np.array(given)
    if isinstance(given, np.ndarray):
        kind: EngineName = engine or "points"
        if kind not in KINDS:
            raise ValueError(f"engine: {kind} given; EvoGym's kinds of voxels are for {' and '.join(KINDS)}")
        several = given.ndim == 3
        return [body_of_kinds(one, kind) for one in (given if several else given[None])], several
    return [Body.model_validate({"shape": given, **({} if engine is None else {"engine": engine})})], False


def _check_widths(rows: Sequence[Any]) -> None:
    """Raise ValueError if a list of rows is ragged; in a text, short rows are filled with blanks."""
    widths = sorted({len(row) for row in rows if isinstance(row, str | list | tuple) and "\n" not in row})
    if len(widths) > 1:
        cells = " and ".join(map(str, widths))
        raise ValueError(f"body: rows of {cells} cells given; all need as many: fill short ones with empty cells")


def _sensors(given: Sequence[Sensor | str] | None, task: Task) -> tuple[Sensor, ...]:
    """What is observed of voxels; nothing if the task shows its own observation."""
    if given is None:
        shows = type(task).observation is not Task.observation
        given = () if shows else DEFAULT_SENSORS
    return tuple(Sensor.model_validate(one) for one in given)


NAMESPACE = "vsr"


def register() -> list[str]:
    """Register all tasks with gymnasium, if it is installed; returns the names that are new to it."""
    if find_spec("gymnasium") is None:
        return []
    import gymnasium

    new = [name for name in TASKS if f"{NAMESPACE}/{name}" not in gymnasium.registry]
    for name in new:
        gymnasium.register(
            id=f"{NAMESPACE}/{name}",
            entry_point="vsr.envs.gymnasium:SoftRobotEnv",
            vector_entry_point="vsr.envs.gymnasium:SoftRobotVectorEnv",
            kwargs={"name": name},
        )
    return new
