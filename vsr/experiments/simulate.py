"""The work of `vsr simulate`: run one described scene, report its measures, draw it if asked."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsr.drawing.chambers import chambers_of
from vsr.experiments.config import UserError, load_scene
from vsr.experiments.console import warn
from vsr.experiments.devices import check_implementation
from vsr.experiments.memory import simulate_within_memory
from vsr.experiments.shipped import SCENE, find_config
from vsr.experiments.storage.files import replace_when_closed, target_file
from vsr.experiments.storage.robots import is_changed, read_title
from vsr.experiments.storage.runs import SIX_DIGITS
from vsr.scene import Outcome, Scene, precision

DRAWINGS = (".gif", ".png")


def run(
    file: str, out: str | None, settings: Sequence[str] = (), *, run_plugins: bool = False
) -> tuple[Scene, Outcome]:
    """Simulate a file's scene and, if asked, draw it.

    It is recorded in any case: a program that does not record is another one, and may round differently.
    """
    target = None if out is None else target_file("--out", out, DRAWINGS)
    found = find_config(file, SCENE)
    if is_changed(found):
        warn([f"{found}: it is not as the run wrote it"])
    scene = load_scene(found, settings, run_plugins=run_plugins)
    check_implementation(scene.physics)
    outcome = simulate_within_memory(file, scene, keep_trajectory=True)
    if target is not None:
        draw(Path(file).stem, scene, outcome, target)
    return scene, outcome


def run_held_out(
    file: str, count: int, say: Callable[[str], None], settings: Sequence[str] = (), *, run_plugins: bool = False
) -> dict[str, np.ndarray]:
    """Measures of a file's robot on the first grounds of the held-out set, (count,) each; NaN for a failure."""
    scene = load_scene(find_config(file, SCENE), settings, run_plugins=run_plugins)
    if not scene.task.resamples:
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
    brought = task.overrides(body.engine, body.voxel_side, body.dimension).world
    return scene.model_copy(update={"task": task, "world": scene.world.model_copy(update=dict(brought))})


@dataclass(frozen=True)
class StoredScore:
    """The stored score of a robot that is simulated again."""

    measure: str
    value: float
    meaning: str
    """how the value was computed, if it is more than one episode"""
    again: float
    """the measure now"""
    file: str
    """of the robot"""

    @property
    def difference(self) -> float | None:
        """Change of the score, as a share of the stored one; None if there is none."""
        known = math.isfinite(self.again) and math.isfinite(self.value) and self.value
        return self.again / self.value - 1 if known else None

    def explained(self) -> str:
        """In a sentence or two."""
        meaning = f" ({self.meaning})" if self.meaning else ""
        said = f"when it evolved: {self.measure} {self.value:.6g}{meaning}"
        change = self.difference
        if change is None or abs(change) < SIX_DIGITS:
            return said
        share = f"{said}; here {100 * abs(change):.2g} % {'more' if change > 0 else 'less'}"
        if self.meaning:
            return f"{share}: this is one undisturbed trial with the default time step"
        return f"{share}; vsr verify {shlex.quote(self.file)} replays it as it evolved and checks the score"


def evolved(file: str, outcome: Outcome) -> StoredScore | None:
    """The stored score in a robot's file, None if it has none."""
    title = read_title(Path(file))
    if title is None or title.measure not in outcome.measures:
        return None
    return StoredScore(title.measure, title.value, title.meaning, outcome.measures[title.measure], file)


@dataclass(frozen=True)
class ChamberRange:
    """Motion of one chamber of fluid in an episode; ranges from the lowest to the highest."""

    rest_volume: float
    """[m³]"""
    pressure: tuple[float, float]
    """at the port, above that outside [Pa]"""
    volume: tuple[float, float]
    """over that at rest"""


def chamber_ranges(scene: Scene, outcome: Outcome) -> list[ChamberRange] | None:
    """Of all chambers, as long as their numbers are finite; None without fluid."""
    if outcome.model is None or outcome.trajectory is None:
        return None
    with precision(scene.physics.precision):
        chambers = chambers_of(outcome.model, outcome.trajectory)
    if chambers is None:
        return None
    known = np.isfinite(chambers.pressure).all(1) & np.isfinite(chambers.volume).all(1)
    pressure, volume = chambers.pressure[known], chambers.volume[known]
    return [
        ChamberRange(
            float(size),
            (float(pressure[:, number].min()), float(pressure[:, number].max())),
            (float(volume[:, number].min()), float(volume[:, number].max())),
        )
        for number, size in enumerate(chambers.rest_volume if known.any() else ())
    ]


def as_plain(scene: Scene, outcome: Outcome, evolution: StoredScore | None = None) -> dict[str, Any]:
    """Measures and how they were got; a failed episode's measures are null, as are broken springs where none can,
    chambers where there is no fluid, and the stored score of a robot that did not evolve."""
    schedule, chambers = outcome.schedule, chamber_ranges(scene, outcome)
    return {
        "measures": {name: value if math.isfinite(value) else None for name, value in outcome.measures.items()},
        "failed": outcome.failed,
        "failure": outcome.failure.name if outcome.failed else None,
        "broken_springs": outcome.broken_springs,
        "chambers": None
        if chambers is None
        else [
            {"rest_volume_m3": one.rest_volume, "pressure_pa": one.pressure, "volume_ratio": one.volume}
            for one in chambers
        ],
        "evolved": None
        if evolution is None
        else {
            "measure": evolution.measure,
            "value": evolution.value,
            "meaning": evolution.meaning or None,
            "relative_difference": evolution.difference,
        },
        "voxels": int(scene.robot.body.present.sum()),
        "duration_s": schedule.total_time,
        "time_step_s": schedule.time_step,
        "substeps": schedule.substeps,
        "precision": scene.physics.precision,
    }


def draw(name: str, scene: Scene, outcome: Outcome, target: Path) -> None:
    """A GIF of the whole episode, or a PNG strip of a few moments, as `vsr play` draws them."""
    from vsr.drawing.painter import Look
    from vsr.experiments.play.film import GIF_RATE, Film, write_gif, write_strip
    from vsr.experiments.play.recordings import robot_from_trajectory

    assert outcome.model is not None
    assert outcome.trajectory is not None
    robot = robot_from_trajectory(name, scene, outcome.model, outcome.trajectory)
    with replace_when_closed(target) as partial:
        if target.suffix.lower() == ".gif":
            write_gif(Film([robot], Look(), GIF_RATE), partial, lambda: None)
        else:
            write_strip([robot], Look(), partial, lambda: None)
