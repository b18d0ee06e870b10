"""The data of a run's report, gathered from its folder, and a list of missing parts."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vsr.experiments.config import dump_yaml
from vsr.experiments.config.problems import UserError
from vsr.experiments.experiment import Experiment
from vsr.experiments.formatting import count
from vsr.experiments.storage.checkpoints import newest_generation
from vsr.experiments.storage.lineage import Descent, descent_of_best, read_lineage
from vsr.experiments.storage.provenance import Provenance, making
from vsr.experiments.storage.robots import BEST, load_robot, robot_file
from vsr.experiments.storage.run_folder import is_being_written
from vsr.experiments.storage.runs import Run, kept_measure, leading
from vsr.scene import Scene

MANY = 4
"""Files that are listed by name; further ones are only counted."""


@dataclass(frozen=True)
class Findings:
    """Data of one run."""

    run: Run
    label: str
    """its name among others"""
    state: str
    """whether it is finished"""
    resume: str
    """the command that goes on with it, if it was stopped"""
    best: int
    """index of the seed whose kept robot is the best"""
    robots: dict[int, Scene]
    """each seed's best, by the seed's index; seeds without one are not there"""
    kept: dict[int, float]
    """the measure of each of these robots, which are those of the last checkpoint: a run that was stopped after it may
    have found better ones"""
    descent: Descent | None
    """of the best seed's best robot"""
    making: Provenance
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
        """The best robot, if there is one that can be simulated."""
        return self.robots.get(self.best)

    @property
    def config(self) -> str:
        """The settings that the run was made with."""
        return dump_yaml(self.experiment)

    @property
    def reached(self) -> float:
        """The best measure in the statistics; not a number if all robots failed."""
        return float(self.run.best[int(np.argmax(self.run.fitness[:, -1])), -1])

    @property
    def is_behind(self) -> bool:
        """Whether the run found a better robot than all that it kept."""
        sign = self.experiment.fitness.sign
        return self.best in self.kept and sign * self.kept[self.best] < sign * self.reached

    @property
    def absence(self) -> str:
        """Why there is no best robot to show."""
        if not np.isfinite(self.reached):
            return "There is no best robot: all robots failed."
        file = self.robot_file(self.best).relative_to(self.run.path)
        if self.robot_file(self.best).exists():
            return f"The best robot cannot be shown: {file} cannot be read."
        if self.is_finished:
            return f"The best robot cannot be shown: nothing was found at {file}, where a finished run keeps it."
        return f"There is no best robot to show yet: the run's next checkpoint brings {file}."

    @property
    def is_finished(self) -> bool:
        return self.run.is_finished

    def is_surpassed(self, index: int) -> bool:
        """Whether the run found a better robot than the one it kept of this seed."""
        sign = self.experiment.fitness.sign
        return index in self.kept and sign * self.kept[index] < float(self.run.fitness[index, -1])

    def robot_file(self, index: int) -> Path:
        """Of a seed's best."""
        return robot_file(self.run.path, self.experiment.seeds[index])


def find_out(run: Run, label: str) -> Findings:
    """Look at all of a run's files."""
    best = leading(run)
    state, resume = _state(run)
    saved = newest_generation(run.path)
    robots, kept, warnings = _robots(run, saved)
    lineage, more = read_lineage(run.path, best, len(run.experiment.seeds), saved)
    made = making(run.path)
    return Findings(
        run=run,
        label=label,
        state=state,
        resume=resume,
        best=best,
        robots=robots,
        kept=kept,
        descent=None if lineage is None else descent_of_best(lineage),
        making=made,
        warnings=(*run.warnings, *made.warnings, *warnings, *more),
    )


def _state(run: Run) -> tuple[str, str]:
    """In words, and the command that goes on with a run that was stopped."""
    total = run.experiment.generations
    if run.generations >= total:
        return f"finished: {count(total)} generations", ""
    done = f"{count(run.generations)} of {count(total)} generations"
    if is_being_written(run.path):
        return f"in progress: {done} when this page was written", ""
    return f"not finished: stopped after {done}", f"vsr evolve {shlex.quote(str(run.path))} --resume"


def _robots(run: Run, saved: int) -> tuple[dict[int, Scene], dict[int, float], list[str]]:
    """Those of every seed, what they reached, and what is wrong; saved: generations of the newest checkpoint."""
    last = min(saved, run.generations) - 1 if saved else -1
    robots, kept, warnings, missing = {}, {}, [], []
    for index, seed in enumerate(run.experiment.seeds):
        file, measure = robot_file(run.path, seed), kept_measure(run, index)
        if not file.is_file():
            if np.isfinite(run.best[index, last]):
                missing.append(file.name)
            continue
        try:
            robots[index] = load_robot(file)
            kept[index] = float(run.best[index, -1]) if measure is None else measure
        except UserError as error:
            warnings.append(" ".join(str(error).split()))
    finished = run.is_finished
    if missing and (finished or saved):
        named = ", ".join(missing[:MANY]) + (" and others" if len(missing) > MANY else "")
        state = "the run is finished" if finished else f"the checkpoint of generation {saved} is there"
        warnings.append(f"{run.path / BEST}: {state}, but there is no {named}")
    return robots, kept, warnings
