"""The work of `vsr simulate`: run one described scene, report its measures, draw it if asked."""

from __future__ import annotations

import json
import math
from pathlib import Path

from experiments.config import load_scene
from experiments.devices import check_implementation
from experiments.files import replacing, target_file
from vsr.scene import Outcome, Scene, simulate

DRAWINGS = (".gif", ".png")


def run(file: str, out: str | None) -> tuple[Scene, Outcome]:
    """Simulate a file's scene and, if asked, draw it."""
    target = None if out is None else target_file("--out", out, DRAWINGS)
    scene = load_scene(file)
    check_implementation(scene.physics)
    outcome = simulate(scene, keep_trajectory=target is not None)
    if target is not None:
        draw(Path(file).stem, scene, outcome, target)
    return scene, outcome


def as_json(scene: Scene, outcome: Outcome) -> str:
    """Measures and how they were got; a failed episode's measures are null, as are broken springs where none can."""
    schedule = outcome.schedule
    return json.dumps(
        {
            "measures": {name: value if math.isfinite(value) else None for name, value in outcome.measures.items()},
            "failed": outcome.failed,
            "failure": outcome.failure.name if outcome.failed else None,
            "broken_springs": outcome.broken_springs,
            "voxels": int(scene.robot.body.present.sum()),
            "duration_s": schedule.total_time,
            "time_step_s": schedule.time_step,
            "substeps": schedule.substeps,
            "precision": scene.physics.precision,
        },
        indent=2,
    )


def draw(name: str, scene: Scene, outcome: Outcome, target: Path) -> None:
    """A GIF of the whole episode, or a PNG strip of a few moments, as `vsr play` draws them."""
    from experiments.play.film import GIF_RATE, Film, write_gif, write_strip
    from experiments.play.recordings import robot_from_trajectory
    from vsr.drawing.painter import Look

    assert outcome.model is not None
    assert outcome.trajectory is not None
    robot = robot_from_trajectory(name, scene, outcome.model, outcome.trajectory)
    with replacing(target) as partial:
        if target.suffix.lower() == ".gif":
            write_gif(Film([robot], Look(), GIF_RATE), partial, lambda: None)
        else:
            write_strip([robot], Look(), partial, lambda: None)
