"""All batches of hard robots, one after the other, and the table of what was reported and what was not."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np

from vsr.experiments.validate.trust.batches import batch_of, episodes, schedule_of, surroundings
from vsr.experiments.validate.trust.judging import Judged, judge
from vsr.experiments.validate.trust.robots import Kind, Sample, samples
from vsr.physics.failure import Failure

Scale = Literal["tiny", "quick", "full"]
SILICONE = 0.03
"""Side of voxels with chambers [m]."""

SCALES: dict[Scale, tuple[Kind, ...]] = {
    "tiny": (Kind("points, 2-D", "points", (2, 2), (2,), 24, 2.0),),
    "quick": (
        Kind("squares", "squares", (4, 4), (2, 33), 64, 6.0),
        Kind("points, 2-D", "points", (4, 4), (2, 27), 64, 6.0),
        Kind("points, 3-D", "points", (3, 3, 3), (2, 50), 48, 4.0),
        Kind("chambers, 2-D", "points", (4, 4), (27,), 32, 4.0, side=SILICONE, fluid=True),
        Kind("chambers, 3-D", "points", (2, 2, 3), (50,), 16, 2.0, side=SILICONE, fluid=True),
        Kind("squares on sand", "squares", (3, 3), (9,), 16, 3.0, ground="sand"),
        Kind("squares, ten minutes", "squares", (2, 2), (6,), 16, 600.0),
    ),
    "full": (
        Kind("squares", "squares", (20, 20), (1, 2, 9, 33, 81), 192, 60.0),
        Kind("squares on steps", "squares", (8, 8), (2, 9, 33), 192, 60.0, ground="steps"),
        Kind("squares on sand", "squares", (4, 4), (9, 33), 64, 30.0, ground="sand"),
        Kind("squares, ten minutes", "squares", (20, 20), (2, 33), 64, 600.0),
        Kind("points, 2-D", "points", (20, 20), (1, 2, 9, 27, 53), 192, 60.0),
        Kind("points on sand, 2-D", "points", (4, 4), (9,), 64, 30.0, ground="sand"),
        Kind("points, 3-D", "points", (5, 8, 10), (1, 2, 9, 50, 100), 192, 60.0),
        Kind("points on steps, 3-D", "points", (3, 4, 4), (9,), 192, 60.0, ground="steps"),
        Kind("points on sand, 3-D", "points", (2, 2, 2), (9,), 32, 20.0, ground="sand"),
        Kind("points, 3-D, ten minutes", "points", (5, 8, 10), (9, 50), 64, 600.0),
        Kind("chambers, 2-D", "points", (8, 8), (9, 27), 96, 60.0, side=SILICONE, fluid=True),
        Kind("chambers, 3-D", "points", (3, 4, 4), (50,), 96, 20.0, side=SILICONE, fluid=True),
        Kind("chambers, 2-D, ten minutes", "points", (4, 4), (9,), 32, 600.0, side=SILICONE, fluid=True),
    ),
}
"""What is simulated; `tiny` is for tests, `full` for a GPU."""


@dataclass(frozen=True)
class Batch:
    """What came of robots that share a kind and their substeps."""

    kind: Kind
    substeps: int
    robots: list[Judged]
    seconds: float
    """that their simulation took, without compiling"""

    @property
    def reported(self) -> Counter[Failure]:
        return Counter(robot.reported for robot in self.robots if robot.reported)

    @property
    def unreported(self) -> list[Judged]:
        return [robot for robot in self.robots if robot.unreported]

    @property
    def needlessly(self) -> list[Judged]:
        """Reported, though nothing was seen to be wrong."""
        return [robot for robot in self.robots if robot.reported and not robot.broken]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        doubtful = [described(robot) for robot in self.unreported + self.needlessly]
        return {
            "kind": self.kind.name,
            "grid": list(self.kind.grid),
            "substeps": self.substeps,
            "duration": self.kind.duration,
            "robots": len(self.robots),
            "reported": {reason.name: count for reason, count in sorted(self.reported.items())},
            "broken": dict(Counter(reason for robot in self.robots for reason in robot.broken)),
            "unreported": len(self.unreported),
            "reported_though_fine": len(self.needlessly),
            "creased": sum(robot.creased and not robot.reported for robot in self.robots),
            "seconds": round(self.seconds, 1),
            "doubtful": doubtful,
        }


def described(judged: Judged) -> dict[str, Any]:
    """A robot for JSON, so that it can be found again."""
    robot = judged.robot
    return {
        "reported": judged.reported.name,
        "broken": list(judged.broken),
        "voxels": int((robot.cells >= 0).sum()),
        "cells": robot.cells.tolist(),
        "control": robot.control,
        "start": robot.start,
        "tilt": robot.tilt,
        "seed": robot.seed,
        "materials": [material.model_dump(mode="json", exclude_defaults=True) for material in robot.materials],
        "seen": judged.seen,
    }


def validate_trust(
    scale: Scale = "quick", seed: int = 0, say: Callable[[Batch], None] = lambda batch: None
) -> dict[str, Any]:
    """Simulate and judge all batches of a scale; say: called with each. Returns what `--json` writes."""
    began = time.perf_counter()
    batches = run_batches(SCALES[scale], seed, say)
    rows = [batch.as_dict() for batch in batches]
    total = {name: sum(row[name] for row in rows) for name in ("robots", "unreported", "reported_though_fine")}
    seconds = round(time.perf_counter() - began, 1)
    return {"suite": "trust", "scale": scale, "seed": seed, "seconds": seconds, **total, "batches": rows}


def run_batches(kinds: Sequence[Kind], seed: int, say: Callable[[Batch], None]) -> list[Batch]:
    """One batch after the other; programs of later ones are compiled meanwhile."""
    wanted = [(kind, substeps) for kind in kinds for substeps in kind.substeps]
    done: list[Batch] = []
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        ready: list[Future] = [pool.submit(_compiled, kind, substeps, seed) for kind, substeps in wanted]
        for (kind, substeps), future in zip(wanted, ready, strict=True):
            robots, program, arguments = future.result()
            started = time.perf_counter()
            failure, watch = jax.device_get(program(*arguments))
            took = time.perf_counter() - started
            done.append(Batch(kind, substeps, judge(kind, robots, np.asarray(failure), watch), took))
            say(done[-1])
    return done


def _compiled(kind: Kind, substeps: int, seed: int) -> tuple[list[Sample], Callable[..., Any], tuple[Any, ...]]:
    """The robots of a batch, the program that simulates them, and what it takes."""
    robots = samples(kind, substeps, seed)
    schedule = schedule_of(kind, substeps)
    ground, occupants, floor = surroundings(kind, schedule)
    arguments = batch_of(kind, robots, floor), ground, occupants
    return robots, episodes.lower(*arguments, schedule).compile(), arguments
