"""All that a report tells about a run, gathered from its folder; what is not there is told instead."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.config import load_scene
from experiments.config.problems import UserError
from experiments.experiment import Experiment
from experiments.runs import Run
from experiments.runs.folder import CONFIG, is_being_written
from experiments.runs.lineage import Descent, descent_of_best, read_lineage
from experiments.runs.making import Making, making
from vsr.scene import Scene


@dataclass(frozen=True)
class Findings:
    """What is known of one run."""

    run: Run
    label: str
    """what to call it among others"""
    state: str
    """whether it is finished, and if not, what to do"""
    best: int
    """index of the seed with the best robot"""
    robots: dict[int, Scene]
    """each seed's best, by the seed's index; seeds without one are not there"""
    descent: Descent | None
    """of the best seed's best robot"""
    making: Making
    warnings: tuple[str, ...]

    @property
    def experiment(self) -> Experiment:
        return self.run.experiment

    @property
    def seed(self) -> int:
        """Of the best robot."""
        return self.experiment.seeds[self.best]

    @property
    def scene(self) -> Scene | None:
        """The best robot, if there is one."""
        return self.robots.get(self.best)

    @property
    def config(self) -> str:
        """The settings, as the run folder has them."""
        return (self.run.path / CONFIG).read_text(encoding="utf-8")

    def robot_file(self, index: int) -> Path:
        """Of a seed's best."""
        return self.run.path / "best" / f"seed-{self.experiment.seeds[index]}.yaml"


def find_out(run: Run, label: str) -> Findings:
    """Look at all of a run's files."""
    best = int(np.argmax(run.fitness[:, -1]))
    robots, warnings = _robots(run)
    lineage, more = read_lineage(run.path, best)
    return Findings(
        run=run,
        label=label,
        state=_state(run),
        best=best,
        robots=robots,
        descent=None if lineage is None else descent_of_best(lineage),
        making=making(run.path),
        warnings=(*run.warnings, *warnings, *more),
    )


def _state(run: Run) -> str:
    total = run.experiment.generations
    if run.generations >= total:
        return f"finished: {total} generations"
    if is_being_written(run.path):
        return f"in progress: {run.generations} of {total} generations when this page was written"
    return f"not finished: stopped after {run.generations} of {total} generations; vsr evolve {run.path} --resume"


def _robots(run: Run) -> tuple[dict[int, Scene], list[str]]:
    robots, warnings = {}, []
    for index, seed in enumerate(run.experiment.seeds):
        file = run.path / "best" / f"seed-{seed}.yaml"
        if not file.is_file():
            continue
        try:
            robots[index] = load_scene(file)
        except UserError as error:
            warnings.append(" ".join(str(error).split()))
    return robots, warnings
