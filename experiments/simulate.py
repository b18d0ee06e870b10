"""The work of `vsr simulate`: run one described scene, tell its measures, draw it if asked."""

from __future__ import annotations

import json
import math
from pathlib import Path

from experiments.config import UserError, load_scene
from experiments.devices import check_implementation
from experiments.files import target_file
from vsr.scene import Outcome, Scene, simulate

DRAWINGS = (".gif", ".png")


def run(file: str, out: str | None) -> tuple[Scene, Outcome]:
    """Simulate a file's scene and, if asked, draw it."""
    target = None if out is None else target_file("--out", out, DRAWINGS)
    scene = load_scene(file)
    check_implementation(scene.physics)
    outcome = simulate(scene, keep_trajectory=target is not None)
    if target is not None:
        draw(scene, outcome, target)
    return scene, outcome


def as_json(scene: Scene, outcome: Outcome) -> str:
    """Measures and how they were got; a failed life's measures are null."""
    schedule = outcome.schedule
    return json.dumps(
        {
            "measures": {name: value if math.isfinite(value) else None for name, value in outcome.measures.items()},
            "failed": outcome.failed,
            "voxels": int(scene.robot.body.present.sum()),
            "duration_s": schedule.total_time,
            "time_step_s": schedule.time_step,
            "substeps": schedule.substeps,
            "precision": scene.physics.precision,
        },
        indent=2,
    )


def draw(scene: Scene, outcome: Outcome, target: Path) -> None:
    """A GIF of the whole life, or a PNG strip of five moments."""
    from vsr.drawing import Picture, animate, strip

    assert outcome.model is not None
    assert outcome.trajectory is not None
    ground = None if scene.world.terrain is None else scene.world.terrain.points()
    picture = Picture(outcome.model, outcome.trajectory, ground)
    partial = target.with_name(f".{target.stem}.partial{target.suffix}")
    try:
        (animate if target.suffix == ".gif" else strip)(picture, partial)
        partial.replace(target)
    except OSError as error:
        raise UserError(f"{target}: cannot be written: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)
