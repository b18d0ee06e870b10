"""EvoGym's physics and tasks beside traces of the real program: points, rewards, ends, observations, step by step.

A task's traces are one file (data/evogym/README.md). All its runs are moved at once, from the same start, by the same
actions. Motion is chaotic, so errors grow, in EvoGym too: GROWTH, which the figure shows, is how far two of its own
runs part that differ by 1e-6 in all actions. Rewards, ends and observations are compared as long as the points agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from matplotlib.figure import Figure

from vsr.episode import EpisodeState, Scenario, observe_task, reset, step
from vsr.evidence.validate import ValidateOptions
from vsr.evidence.validate.checks import Findings, Row, absolute, report_of, table_of
from vsr.evidence.validate.command import Report, Suite
from vsr.experiments.config import UserError
from vsr.physics.engine import ENGINES
from vsr.physics.evogym import EvogymModel, springs
from vsr.physics.evogym.assembly import kinds_table
from vsr.physics.evogym.law import SIDE
from vsr.scene import Scene, precision
from vsr.tasks.evogym.table import ROWS

SHIPPED = Path(__file__).parent / "data" / "evogym"
ENGINE = ENGINES["evogym"]
CLOSE = 1e-4
"""Points agree when none is farther off than this [voxels]."""
GROWTH = {1: 2.5e-7, 5: 1.1e-6, 10: 1.7e-6, 20: 3.1e-6}
"""Largest error of a point in EvoGym with actions changed by 1e-6, after so many steps, median over 92 runs of 11 tasks
[voxels]. Half of those runs part between 50 and 100 steps, where nothing is asked."""
NOTE = "largest error of any point of the robot and the object, in voxels; rewards while points agree to 1e-4"


@dataclass(frozen=True)
class Run:
    """One recorded episode."""

    name: str
    body: np.ndarray
    """EvoGym's kinds, the top row first"""
    target: np.ndarray
    """(steps, actuators)"""
    robot: np.ndarray
    """points, (steps + 1, points, 2) [voxels]"""
    object: np.ndarray | None
    """likewise"""
    reward: np.ndarray
    done: np.ndarray
    observation: np.ndarray | None
    """without R, at the start and after as many steps as recorded, (t, numbers)"""


@dataclass(frozen=True)
class Compared:
    """Runs of a task; t stands for steps from 0 on, steps that were not recorded are not a number."""

    error: np.ndarray
    """largest of any point, (runs, t) [voxels]"""
    center: np.ndarray
    """of the robot's center, (runs, t) [voxels]"""
    reward: np.ndarray
    """difference of a step's reward, (runs, t); 0 at the start"""
    ends: np.ndarray
    """1 where one says that the episode is over and the other does not, (runs, t)"""
    observation: np.ndarray
    """largest difference of an observation without R and O, (runs, t)"""
    orientation: np.ndarray
    """of O, of the robot or the object, (runs, t)"""


def runs_of(path: Path, most: int | None = None) -> list[Run]:
    """Runs of a file, and no more steps than these."""
    with np.load(path) as data:
        kept = {name: data[name] for name in data.files}
    found = []
    for name in sorted({key.removesuffix("_actions") for key in kept if key.endswith("_actions")}):
        target = kept[f"{name}_actions"][:most]
        steps = min(len(target), len(kept[f"{name}_reward"]))

        def points(of: str, name: str = name, steps: int = steps) -> np.ndarray | None:
            start = kept.get(f"{name}_{of}_start")
            return None if start is None else (start + kept[f"{name}_{of}_moved"][: steps + 1]).transpose(0, 2, 1)

        robot = points("robot")
        assert robot is not None
        found.append(
            Run(
                name,
                kept[f"{name.split('_')[0]}_body"],
                target[:steps],
                robot,
                points("thing"),
                kept[f"{name}_reward"][:steps],
                kept[f"{name}_done"][:steps],
                kept.get(f"{name}_obs_without_R"),
            )
        )
    return found


def compared(task: str, runs: list[Run], dtype: str = "float64") -> Compared:
    """Our physics moves all runs of a task; call it within `precision(dtype)`."""
    scenario = _scenario(task, runs, dtype)
    steps = max(len(run.target) for run in runs)
    controls = np.stack([_controls(run, steps) for run in runs])
    state, number = _begin(scenario, runs)
    places = [_places(scenario, index, run) for index, run in enumerate(runs)]
    shape = len(runs), steps + 1
    error, center, reward, ends, observation, orientation = (np.full(shape, np.nan) for _ in range(6))
    sees = ROWS[task].sees
    for now in range(steps + 1):
        if now > 0:
            state, change = _step(scenario, state, jnp.asarray(controls[:, now - 1], dtype), number)
            earned, over = np.asarray(change.reward), np.asarray(change.terminated)
        if any(run.observation is not None and now < len(run.observation) for run in runs):
            values, masks = (np.asarray(part) for part in _observe(scenario, state, number))
            for index, run in enumerate(runs):
                if run.observation is not None and now < min(len(run.observation), len(run.target) + 1):
                    off = _pieces_off(sees, values[index][masks[index]], run, now)
                    observation[index, now], orientation[index, now] = off
        robots = np.asarray(state.world.robots[0].position)
        objects = [np.asarray(one.position) for one in state.world.robots[0].objects[:1]]
        for index, (run, place) in enumerate(zip(runs, places, strict=True)):
            if now > len(run.target):
                continue
            mine = robots[index].reshape(-1, 2)[place] / SIDE
            error[index, now] = np.abs(mine - run.robot[now]).max()
            center[index, now] = np.abs(mine.mean(0) - run.robot[now].mean(0)).max()
            if run.object is not None:
                there = objects[0][index].reshape(-1, 2)[_object_places(objects[0][index])] / SIDE
                error[index, now] = max(error[index, now], np.abs(there - run.object[now]).max())
            reward[index, now], ends[index, now] = 0, 0
            if now > 0:
                reward[index, now] = abs(earned[index] - run.reward[now - 1])
                ends[index, now] = over[index] != run.done[now - 1]
    return Compared(error, center, reward, ends, observation, orientation)


def _scenario(task: str, runs: list[Run], dtype: str) -> Scenario:
    """That of the task with the bodies of all runs, of which the model has a batch."""
    described = {
        "robot": {"body": {"shape": _shape(runs[0].body), "engine": "evogym"}},
        "task": task,
        "physics": {"precision": dtype},
    }
    scenario, _ = Scene.model_validate(described).build()
    cells = jnp.asarray(np.stack([run.body[::-1].astype(np.int32) - 1 for run in runs]))

    def model(cells: Array) -> EvogymModel:
        table = kinds_table(jnp.dtype(dtype))
        return scenario.task.with_objects(ENGINE.assemble(cells, table, SIDE, layers=ENGINE.most_layers(2)))

    return replace(scenario, world=replace(scenario.world, robots=(jax.vmap(model)(cells),)))


def _shape(body: np.ndarray) -> list[str]:
    return ["".join(".rshv"[kind] for kind in row) for row in body]


def _one(scenario: Scenario, model: EvogymModel) -> Scenario:
    return replace(scenario, world=replace(scenario.world, robots=(model,)))


@jax.jit
def _step(scenario: Scenario, state: EpisodeState, control: Array, number: Array) -> tuple[EpisodeState, Any]:
    """number: of the run, so that all that is batched is known."""

    def one(model: EvogymModel, state: EpisodeState, control: Array, _: Array) -> tuple[EpisodeState, Any]:
        return step(_one(scenario, model), state, control)

    return jax.vmap(one)(scenario.world.robots[0], state, control, number)


def _begin(scenario: Scenario, runs: list[Run]) -> tuple[EpisodeState, Array]:
    """The start of every run, with objects where they are in it."""

    def one(model: EvogymModel) -> EpisodeState:
        return reset(jax.random.key(0), _one(scenario, model))

    state = jax.jit(jax.vmap(one))(scenario.world.robots[0])
    robot = state.world.robots[0]
    if runs[0].object is not None:
        corner = np.stack([run.object[0].min(0) for run in runs if run.object is not None]) * SIDE
        position = robot.objects[0].position
        shift = jnp.asarray(corner, position.dtype) - position[:, 0, 0, 0]
        moved = tuple(replace(one, position=one.position + shift[:, None, None, None]) for one in robot.objects)
        robot = replace(robot, objects=moved)
        state = replace(state, world=replace(state.world, robots=(robot,)))
    return state, jnp.arange(len(runs))


def _controls(run: Run, steps: int) -> np.ndarray:
    """(steps, rows, columns), the lowest first; 0 where nothing drives."""
    rows, columns = run.body.shape
    control = np.zeros((steps, rows, columns))
    row, column = np.nonzero(run.body >= 3)
    control[: len(run.target), row, column] = springs.control_of_target(jnp.asarray(run.target))
    return control[:, ::-1]


def _places(scenario: Scenario, index: int, run: Run) -> np.ndarray:
    """Our numbers of EvoGym's points: voxels row by row from the top left, of each the corners that are new."""
    model = jax.tree.map(lambda leaf: leaf[index], scenario.world.robots[0])
    node = np.asarray(ENGINE.vertex_indices(model))
    rows = len(run.body)
    found: dict[int, None] = {}
    for row in range(rows):
        for column in np.flatnonzero(run.body[row]):
            for corner in (2, 3, 0, 1):
                found.setdefault(int(node[corner, rows - 1 - row, column]))
    return np.array(list(found))


def _object_places(position: np.ndarray) -> np.ndarray:
    """The same for a full rectangle; position: (1, rows, columns, 2) of its nodes."""
    _, rows, columns, _ = position.shape
    found: dict[int, None] = {}
    for row in range(rows - 2, -1, -1):
        for column in range(columns - 1):
            for up, right in ((1, 0), (1, 1), (0, 0), (0, 1)):
                found.setdefault((row + up) * columns + column + right)
    return np.array(list(found))


@jax.jit
def _observe(scenario: Scenario, state: EpisodeState, number: Array) -> tuple[Array, Array]:
    """Observations and which of their numbers are there."""

    def one(model: EvogymModel, state: EpisodeState, _: Array) -> tuple[Array, Array]:
        return observe_task(_one(scenario, model), state)

    return jax.vmap(one)(scenario.world.robots[0], state, number)


def _pieces_off(sees: tuple[str, ...], mine: np.ndarray, run: Run, now: int) -> tuple[float, float]:
    """How far pieces of an observation are off, but R, and how far those that are orientations, around a circle.

    A beam has a point in its middle, whose direction at the start is rounding, and in EvoGym that decides which way the
    beam turned: its orientation counts without direction.
    """
    assert run.observation is not None
    theirs, off, turned = list(run.observation[now]), [0.0], [0.0]
    for piece in sees:
        count = _numbers(piece, 2 * len(run.robot[0]))
        here, mine = mine[:count], mine[count:]
        if piece != "R":
            there, theirs = np.array(theirs[:count]), theirs[count:]
            if piece.startswith("O"):
                undirected = piece != "O" and run.object is not None and len(run.object[0]) % 2 > 0
                sides = (here - there, here + there) if undirected else (here - there,)
                turned.append(min(np.abs((side + np.pi) % (2 * np.pi) - np.pi).max() for side in sides))
            else:
                off.append(np.abs(here - there).max())
    return max(off), max(turned)


def _numbers(piece: str, points: int) -> int:
    """How long a piece of an observation is; points: of R."""
    if piece == "R":
        return points
    if piece[0] in "FC" and piece[1:].isdigit():
        return 2 * int(piece[1:]) + 1
    return {"V": 2, "O": 1, "goal": 3, "object from robot": 2, "V of object": 2, "O of object": 1}[piece]


# The suite

STORED = 1e-7
"""Traces are stored with 32 bits, which is an error of up to 6e-8 voxels for motion of less than two voxels."""
LATE = 1e-5
"""The same for the median over runs after 100 steps, when packages have fallen far and errors have grown."""
REWARD = 1e-6
OBSERVATION = 1e-6
NOISE = 2e-3
"""EvoGym's orientation of a body that has not turned is noise of that size (docs/reference/tasks.md)."""
AFTER = (1, 5, 20, 100)
"""Steps after which errors are reported."""


def findings_of(task: str, found: Compared) -> Findings:
    """Judged: points and centers after the first steps, growth, rewards and ends while points agree."""
    steps = found.error.shape[1] - 1
    rows: list[Row] = []
    for after in (after for after in AFTER if after <= steps):
        at, bound = found.error[:, after], STORED if after < 100 else None
        rows.append(absolute(f"worst point after {after} steps", np.nanmax(at), 0, bound, "voxels", NOTE))
        median = np.nanmedian(at)
        rows.append(absolute(f"median over runs after {after} steps", median, 0, bound or LATE, "voxels", NOTE))
        worst = np.nanmax(found.center[:, after])
        rows.append(absolute(f"center after {after} steps", worst, 0, bound, "voxels", NOTE))
    agrees = np.cumprod(np.nan_to_num(found.error, nan=np.inf) <= CLOSE, axis=1) > 0
    rows.append(absolute("steps of the shortest agreement", agrees.sum(1).min() - 1, steps, None, "steps", NOTE))
    noisy = task.startswith("Flipper")  # a step's reward is how far the robot turned, the first time from noise
    rows.append(absolute("reward of the first step", found.reward[:, 1].max(), 0, NOISE if noisy else REWARD, "", NOTE))
    rows.append(absolute("reward of a step", found.reward[:, 2:][agrees[:, 2:]].max(initial=0), 0, REWARD, "", NOTE))
    # Of a step in which the robot overlaps itself too much EvoGym gives the points before.
    ended = found.ends[:, 1:][agrees[:, :-1]]
    rows.append(absolute("ends that differ", np.nansum(ended), 0, 0, "", NOTE))
    observed = agrees & np.isfinite(found.observation)
    if observed.any():
        worst = found.observation[observed].max()
        rows.append(absolute("observation without R and O", worst, 0, OBSERVATION, "", NOTE))
        rows.append(absolute("orientation O", found.orientation[observed].max(), 0, NOISE, "radians", NOTE))
    return Findings(rows, {task: np.nanmedian(found.error, 0).tolist()})


class Evogym(Suite):
    """All tasks that there are traces of, in the folder's order."""

    takes = ("reference", "plots")

    def run(self, options: ValidateOptions, show: Callable[[Any], None], keep: Callable[[Report], None]) -> Report:
        folder = SHIPPED if options.reference is None else Path(options.reference)
        files = [path for path in sorted(folder.glob("*.npz")) if path.stem in ROWS]
        if not files:
            raise UserError(f"--reference {folder}: no file is called after one of EvoGym's tasks, as Walker-v0.npz is")
        began, found, report = time.perf_counter(), {}, {}
        for path in files:
            with precision("float64"):
                found[path.stem] = findings_of(path.stem, compared(path.stem, runs_of(path)))
            show(table_of(path.stem, found[path.stem]))
            report = report_of("evogym", found, time.perf_counter() - began)
            keep(report)
        show(f"{report['passed']} of {report['judged']} metrics within bounds in {report['seconds']:.0f} s")
        for missed in report["missed"]:
            show(f"[red]missed[/red] {missed}")
        return report

    def figures(self, report: Report, options: ValidateOptions) -> Iterator[tuple[str, Figure]]:
        figure = Figure(figsize=(5, 3.4), layout="constrained")
        panel = figure.subplots()
        for task, curve in report["series"].items():
            panel.semilogy(np.maximum(curve, 1e-16), label=task, linewidth=1)
        panel.semilogy([*GROWTH], [*GROWTH.values()], "k:", label="EvoGym, actions changed by 1e-6")
        panel.set(xlabel="steps", ylabel="largest error of a point [voxels]")
        panel.legend(fontsize=5, ncols=2)
        yield "evogym_traces", figure


SUITE = Evogym()
