"""How a robot does on grounds that no generation of its search has seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vsr.experiments.config import UserError, load_scene
from vsr.experiments.estimate import simulate_within_memory
from vsr.scene import Scene


def run(file: str, count: int, say: Callable[[str], None], trust: bool = False) -> dict[str, np.ndarray]:
    """Measures of a file's robot on the first grounds of the held-out set, (count,) each; NaN for a failure."""
    scene = load_scene(file, run_plugins=trust)
    if not scene.task.draws:
        raise UserError(f"{file}: --held-out is for tasks that draw their ground, such as fresh_ground")
    found: dict[str, list[float]] = {}
    for number in range(count):
        outcome = simulate_within_memory(file, on_ground(scene, number))
        for name, value in outcome.measures.items():
            found.setdefault(name, []).append(value)
        say(f"ground {number}: " + ", ".join(f"{name} {value:.6g}" for name, value in outcome.measures.items()))
    return {name: np.array(values) for name, values in found.items()}


def on_ground(scene: Scene, number: int) -> Scene:
    """The same robot on a ground of the held-out set."""
    body = scene.robot.body
    task = scene.task.model_copy(update={"ground": number})
    brought = task.brings(body.masses, body.voxel_side, body.dimension).world
    return scene.model_copy(update={"task": task, "world": scene.world.model_copy(update=dict(brought))})
