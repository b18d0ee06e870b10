"""Simulates and records the robots to be shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vsr.drawing.recording import Recording, recording_of
from vsr.episode import Trajectory
from vsr.experiments.devices import check_implementation
from vsr.experiments.estimate import simulate_within_memory
from vsr.experiments.play.sources import Source
from vsr.physics.engine import AnyModel
from vsr.scene import Scene, precision


@dataclass(frozen=True)
class RecordedRobot:
    """One robot with its scene and a recording of one episode, ready to be shown."""

    name: str
    scene: Scene
    recording: Recording
    measures: dict[str, float]

    @property
    def ground(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Its line [m], in 3-D at the y where the robot starts; None without ground."""
        terrain = self.scene.world.terrain
        return None if terrain is None else terrain.line_at(self.scene.task.placement.y)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Of the materials."""
        return tuple(self.scene.robot.body.materials)


def record_robot(source: Source, seconds: float) -> RecordedRobot:
    """Simulate a robot for some time [s], whatever its task says, and record it."""
    task = source.scene.task.model_copy(update={"duration": seconds})
    scene = source.scene.model_copy(update={"task": task})
    check_implementation(scene.physics)
    outcome = simulate_within_memory(source.name, scene, keep_trajectory=True)
    assert outcome.model is not None
    assert outcome.trajectory is not None
    return robot_from_trajectory(source.name, scene, outcome.model, outcome.trajectory, outcome.measures)


def robot_from_trajectory(
    name: str, scene: Scene, model: AnyModel, trajectory: Trajectory, measures: dict[str, float] | None = None
) -> RecordedRobot:
    """The recording of an episode that was simulated already."""
    with precision(scene.physics.precision):
        body, dtype = scene.robot.body, np.dtype(scene.physics.precision)
        environment = scene.world.build(dtype)
        controller = scene.robot.build_controller(dtype)
        recording = recording_of(model, trajectory, environment, body.cells, controller, scene.systems())
    return RecordedRobot(name, scene, recording, measures or {})
