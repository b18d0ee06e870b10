"""All that a report tells about a run, gathered from its folder; what is not there is told instead."""

from __future__ import annotations

import math
import re
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
    kept: dict[int, float]
    """the measure of each of these robots, which are those of the last checkpoint: a run that was stopped after it may
    have found better ones"""
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

    def is_surpassed(self, index: int) -> bool:
        """Whether the run found a better robot than the one it kept of this seed; files have six digits."""
        if index not in self.kept:
            return False
        kept, last = self.experiment.fitness.sign * self.kept[index], float(self.run.fitness[index, -1])
        return kept < last and not math.isclose(kept, last, rel_tol=1e-5)

    def robot_file(self, index: int) -> Path:
        """Of a seed's best."""
        return self.run.path / "best" / f"seed-{self.experiment.seeds[index]}.yaml"


def find_out(run: Run, label: str) -> Findings:
    """Look at all of a run's files."""
    best = int(np.argmax(run.fitness[:, -1]))
    robots, kept, warnings = _robots(run)
    lineage, more = read_lineage(run.path, best)
    return Findings(
        run=run,
        label=label,
        state=_state(run),
        best=best,
        robots=robots,
        kept=kept,
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


def _robots(run: Run) -> tuple[dict[int, Scene], dict[int, float], list[str]]:
    robots, kept, warnings = {}, {}, []
    for index, seed in enumerate(run.experiment.seeds):
        file = run.path / "best" / f"seed-{seed}.yaml"
        if not file.is_file():
            continue
        try:
            robots[index] = load_scene(file)
            kept[index] = _told_measure(file, float(run.best[index, -1]))
        except UserError as error:
            warnings.append(" ".join(str(error).split()))
    return robots, kept, warnings


def _told_measure(file: Path, otherwise: float) -> float:
    """What the first line of a best robot's file says that it reached; otherwise: for a file that does not say."""
    with file.open(encoding="utf-8") as text:
        found = re.fullmatch(r"# best of seed \d+: individual \d+, \S+ (\S+)", text.readline().rstrip())
    try:
        return float(found[1]) if found else otherwise
    except ValueError:
        return otherwise
