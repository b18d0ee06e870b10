"""Simulates what is to be looked at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.devices import check_implementation
from experiments.play.sources import Source
from vsr.drawing.recording import Recording, watch
from vsr.episode import Trajectory
from vsr.physics.engine import AnyModel
from vsr.scene import Scene, precision, simulate


@dataclass(frozen=True)
class Life:
    """One robot's life, ready to be shown."""

    name: str
    scene: Scene
    recording: Recording
    measures: dict[str, float]

    @property
    def ground(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Its line [m], in space at the y where the robot starts; None for free space."""
        terrain = self.scene.world.terrain
        return None if terrain is None else terrain.line_at(self.scene.task.placement.y)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Of the materials."""
        return tuple(self.scene.robot.body.materials)


def live(source: Source, seconds: float) -> Life:
    """Simulate a robot for so long, whatever its task says, and keep what can be seen."""
    task = source.scene.task.model_copy(update={"duration": seconds})
    scene = source.scene.model_copy(update={"task": task})
    check_implementation(scene.physics)
    outcome = simulate(scene, keep_trajectory=True)
    assert outcome.model is not None
    assert outcome.trajectory is not None
    return life_of(source.name, scene, outcome.model, outcome.trajectory, outcome.measures)


def life_of(
    name: str, scene: Scene, model: AnyModel, trajectory: Trajectory, measures: dict[str, float] | None = None
) -> Life:
    """What can be seen of a life that was simulated already."""
    with precision(scene.physics.precision):
        body, dtype = scene.robot.body, np.dtype(scene.physics.precision)
        environment = scene.world.build(dtype)
        controller = scene.robot.controller.build(body, dtype)
        recording = watch(model, trajectory, environment, body.cells, controller)
    return Life(name, scene, recording, measures or {})
