"""An experiment's best robots: simulated again from their files, to see what is luck, and drawn.

Gaits are chaotic: the best of thousands of lives is partly the luckiest. So each seed's best robot lives again several
times: first from the same start, where only round-off can differ, then dropped from up to a millimetre higher.
"""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.config import load_scene
from experiments.files import replacing, without_nan, write_json
from experiments.play.film import write_strip
from experiments.play.recordings import Life, life_of
from experiments.population import record_population, repeat
from experiments.runs import Run
from experiments.runs.folder import robot_file
from experiments.runs.meta import describe_start
from vsr.drawing.painter import Look
from vsr.episode import reset
from vsr.physics.engine import AnyModel, AnyState
from vsr.scene import Scene, precision
from vsr.tasks import move_rigidly

HIGHER = 1e-3
"""Largest difference in height between lives [m]."""
SPAN = 1.0
"""Time from the first to the last frame of a strip [s]: a period of the drive."""


def keep_best(run: Run, folder: Path, name: str, lives: int) -> None:
    """Leave NAME.yaml, NAME.png and NAME.json in a folder: the best robot, its strip of frames, all seeds' lives.

    What is there already and fits the run is kept.
    """
    if read_lives(run, folder, name) is not None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    best = int(np.argmax(run.fitness[:, -1]))
    measured: list[list[float]] = []
    for i, seed in enumerate(run.experiment.seeds):
        file = robot_file(run.path, seed)
        if not file.exists():  # all of its robots failed
            measured.append([float("nan")] * lives)
            continue
        scene = load_scene(file)
        shown = f"{name}, seed {seed}" if i == best else None
        values, life = live_again(scene, run.experiment.fitness.measure, lives, shown)
        measured.append(values)
        if life is not None:
            shutil.copyfile(file, folder / f"{name}.yaml")
            _draw(life, folder / f"{name}.png")
    told = {**_stamp(run), "best_seed": run.experiment.seeds[best], "lives": measured, "made": describe_start(0)}
    write_json(folder / f"{name}.json", without_nan(told))


def read_lives(run: Run, folder: Path, name: str) -> dict[str, Any] | None:
    """What `keep_best` has found for this very run, or None."""
    try:
        told = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        fits = {key: told[key] for key in ("generations", "final")} == without_nan(_stamp(run))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {**told, "lives": np.array(told["lives"], dtype=float)} if fits else None


def live_again(scene: Scene, measure: str, lives: int, shown: str | None) -> tuple[list[float], Life | None]:
    """The measure in each of several lives, not a number for a failure, and the first of them if it is to be shown.

    shown: what to call it.
    """
    with precision(scene.physics.precision):
        scenario, controller = scene.build()
        model = scenario.model
        state = jax.jit(reset)(jax.random.key(0), scenario).world.robots[0]
        heights = jnp.linspace(0, HIGHER, lives, dtype=state.position.dtype)
        states = jax.jit(jax.vmap(lambda height: _raised(model, state, height)))(heights)
        episodes, trajectories = record_population(
            repeat(model, lives), repeat(controller, lives), scenario.world.environment, states, scene.schedule()
        )
        values = jax.vmap(partial(scene.task.evaluate, names=(measure,)))(episodes)[measure]
        first = jax.device_get(jax.tree.map(lambda leaf: leaf[0], trajectories))
        life = life_of(shown, scene, model, first) if shown else None
    return [float(value) for value in values], life


def _raised(model: AnyModel, state: AnyState, height: Array) -> AnyState:
    return move_rigidly(model, state, shift=jnp.zeros(state.position.shape[-1]).at[-1].set(height))


def _stamp(run: Run) -> dict[str, Any]:
    """What tells a run's state from any other."""
    return {"generations": run.generations, "final": run.best[:, -1].tolist()}


def _draw(life: Life, target: Path) -> None:
    """A strip from the middle of the life."""
    end = float(life.recording.time[-1])
    with replacing(target) as partial_file:
        write_strip([life], Look(), partial_file, lambda: None, (end / 2, min(end / 2 + SPAN, end)))
