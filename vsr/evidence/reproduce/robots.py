"""An experiment's best robots: simulated again from their files, to see what is luck, and drawn.

Gaits are chaotic: the best of thousands of episodes is partly the luckiest. So each seed's best robot is simulated
several times: first from the same start, where only round-off can differ, then dropped from up to a millimeter higher.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.arrays import CorruptFileError
from vsr.drawing.painter import Look
from vsr.episode import reset
from vsr.experiments.config.yaml import read_text
from vsr.experiments.formatting import number
from vsr.experiments.play.film import write_strip
from vsr.experiments.play.recordings import RecordedRobot, robot_from_trajectory
from vsr.experiments.population import record_population, repeat
from vsr.experiments.ranks import middle
from vsr.experiments.refine import Robustness, robustness_of, stamp, stored_refinement
from vsr.experiments.storage.files import (
    read_checked_json,
    replace_when_closed,
    without_nan,
    write_checked_json,
    write_text,
)
from vsr.experiments.storage.provenance import describe_session
from vsr.experiments.storage.robots import load_robot, read_title, robot_file
from vsr.experiments.storage.runs import Run
from vsr.physics.engine import AnyModel, AnyState
from vsr.scene import Scene, precision
from vsr.world.placement import move_rigidly

HIGHER = 1e-3
"""Largest difference in start height between repeats [m]."""
TRIALS = 8
"""Repeats with smaller time steps and changed parameters, at most."""
SPAN = 1.0
"""Time from the first to the last frame of a strip [s]: a period of the drive."""


def keep_best(run: Run, folder: Path, name: str, repeats: int, factors: Sequence[int]) -> None:
    """Leave NAME.yaml, NAME.png and NAME.json in a folder: the best robot, its strip of frames, all seeds' repeats.

    factors: how many times smaller steps are in further repeats.

    Files that fit the run are kept.
    """
    known = read_robustness(run, folder, name)
    if known is not None and known.factors == tuple(factors):
        return
    if tuple(factors) == (1,) and read_repeats(run, folder, name) is not None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    best = int(np.argmax(run.fitness[:, -1]))
    measured: list[list[float]] = []
    scenes: dict[int, Scene] = {}
    for i, seed in enumerate(run.experiment.seeds):
        file = robot_file(run.path, seed)
        if not file.exists():  # all of its robots failed
            measured.append([float("nan")] * repeats)
            continue
        scene = scenes[i] = load_robot(file)
        shown = f"{name}, seed {seed}" if i == best else None
        values, robot = simulate_again(scene, run.experiment.fitness.measure, repeats, shown)
        measured.append(values)
        if robot is not None:
            draw_strip(robot, folder / f"{name}.png")
    robust = _robustness(run, scenes, factors, min(repeats, TRIALS))
    stored = {**stamp(run), "best_seed": run.experiment.seeds[best], "repeats": measured, "made": describe_session(0)}
    if robust is not None:
        stored["robustness"] = robust.to_plain()
    if best in scenes:
        title = title_of(run, best, measured[best], robust)
        write_text(folder / f"{name}.yaml", title + own_file(run, best))
    write_checked_json(folder / f"{name}.json", without_nan(stored))


def _robustness(run: Run, scenes: dict[int, Scene], factors: Sequence[int], trials: int) -> Robustness | None:
    """Of every seed's best, not a number for seeds without one; None without robots or smaller time steps."""
    if not scenes or tuple(factors) == (1,):
        return None
    goal = run.experiment.fitness.measure
    found = _refined_already(run, len(scenes), factors, trials) or robustness_of(
        list(scenes.values()),
        [goal] * len(scenes),
        factors=factors,
        trials=trials,
        variants=(),
    )

    def spread(values: np.ndarray) -> np.ndarray:
        whole = np.full((len(run.experiment.seeds), *values.shape[1:]), np.nan)
        whole[list(scenes)] = values
        return whole

    minimized = run.experiment.fitness.sign < 0
    return Robustness(found.factors, spread(found.refined), found.changes, spread(found.changed), minimized)


def _refined_already(run: Run, robots: int, factors: Sequence[int], trials: int) -> Robustness | None:
    """The results of `vsr refine` for this very run, if they are of these factors and trials."""
    stored = stored_refinement(run)
    if stored is None:
        return None
    try:
        found = Robustness.of_plain(stored)
    except (ValueError, KeyError, TypeError):
        return None
    wanted = tuple(factors), (robots, len(factors), trials)
    return found if (found.factors, found.refined.shape) == wanted else None


def title_of(run: Run, index: int, repeats: list[float], robust: Robustness | None) -> str:
    """The first line of a best robot's file: a number that repeats, and its spread."""
    goal, values = run.experiment.fitness, np.array(repeats, float)
    said = read_title(robot_file(run.path, run.experiment.seeds[index]))
    who = f"# best of seed {run.experiment.seeds[index]}" + ("" if said is None else f": individual {said.individual}")
    kept = values[np.isfinite(values)]
    median = float(middle(np.nan_to_num(goal.sign * values, nan=-np.inf))) * goal.sign
    if not np.isfinite(median):
        return f"{who}, {goal.measure} failed\n"
    failed = f", {len(values) - len(kept)} failed" if len(kept) < len(values) else ""
    spread = f"median of {len(values)} trials, {kept.min():.6g} to {kept.max():.6g}{failed}"
    smaller_steps = ""
    if robust is not None:
        last = robust.factors[-1]
        smaller_steps = f"; {number(float(robust.at(last)[index]))} with time steps {last} times smaller"
    return f"{who}, {goal.measure} {median:.6g} ({spread}{smaller_steps})\n"


def own_file(run: Run, index: int) -> str:
    """The file of a seed's best robot as the run has it, for `vsr verify`, without its title and checksum."""
    lines = read_text(robot_file(run.path, run.experiment.seeds[index])).splitlines(keepends=True)
    return "".join(line for number, line in enumerate(lines) if number > 1 or not line.startswith("#"))


def read_robustness(run: Run, folder: Path, name: str) -> Robustness | None:
    """The results of `keep_best` for this very run, or None."""
    if read_repeats(run, folder, name) is None:
        return None
    stored = read_checked_json(folder / f"{name}.json").get("robustness")
    try:
        return None if stored is None else Robustness.of_plain(stored)
    except (ValueError, KeyError, TypeError):
        return None


def read_repeats(run: Run, folder: Path, name: str) -> np.ndarray | None:
    """The measures that `keep_best` has stored for this very run, (seeds, repeats), or None."""
    try:
        stored = read_checked_json(folder / f"{name}.json")
        fits = {key: stored[key] for key in ("generations", "final")} == stamp(run)
        return np.array(stored["repeats"], dtype=float) if fits else None
    except (CorruptFileError, ValueError, KeyError, TypeError):
        return None


def simulate_again(
    scene: Scene, measure: str, repeats: int, shown: str | None
) -> tuple[list[float], RecordedRobot | None]:
    """The measure in each of several repeats, not a number for a failure, and the first of them if it is to be shown.

    shown: what to call it.
    """
    with precision(scene.physics.precision):
        scenario, controller = scene.build()
        model = scenario.model
        state = jax.jit(reset)(jax.random.key(0), scenario).world.robots[0]
        heights = jnp.linspace(0, HIGHER, repeats, dtype=state.position.dtype)
        states = jax.jit(jax.vmap(lambda height: _raised(model, state, height)))(heights)
        episodes, trajectories = record_population(
            repeat(model, repeats),
            repeat(controller, repeats),
            scenario.world.environment,
            states,
            scene.schedule(),
            scene.task,
            scene.systems(),
        )
        values = jax.vmap(partial(scene.task.evaluate, names=(measure,)))(episodes)[measure]
        first = jax.device_get(jax.tree.map(lambda leaf: leaf[0], trajectories))
        robot = robot_from_trajectory(shown, scene, model, first) if shown else None
    return [float(value) for value in values], robot


def _raised(model: AnyModel, state: AnyState, height: Array) -> AnyState:
    return move_rigidly(model, state, shift=jnp.zeros(state.position.shape[-1]).at[-1].set(height))


def draw_strip(robot: RecordedRobot, target: Path) -> None:
    """A strip from the middle of the episode."""
    end = float(robot.recording.time[-1])
    with replace_when_closed(target) as partial_file:
        write_strip([robot], Look(), partial_file, lambda: None, (end / 2, min(end / 2 + SPAN, end)))
