"""The best robots that a run folder keeps. They are those of the last checkpoint: a run that was killed after it may
have found better ones, of which only statistics tell."""

from __future__ import annotations

import math

import numpy as np

from vsr.experiments.runs.reading import Run
from vsr.experiments.runs.robot_files import read_title, robot_file

SIX_DIGITS = 1e-5
"""How far what files say may be from what statistics say of the same robot, relatively."""


def kept_measure(run: Run, index: int) -> float | None:
    """What the kept robot of a seed, given by its index, reached; None without a file."""
    file, last = robot_file(run.path, run.experiment.seeds[index]), float(run.best[index, -1])
    if not file.is_file():
        return None
    title = read_title(file)
    return last if title is None or math.isclose(title.value, last, rel_tol=SIX_DIGITS) else title.value


def leading(run: Run) -> int:
    """Index of the seed whose kept robot is the best; of the best in the statistics where none is kept."""
    sign = run.experiment.fitness.sign
    kept = [kept_measure(run, index) for index in range(len(run.experiment.seeds))]
    fitness = [-math.inf if value is None or math.isnan(value) else sign * value for value in kept]
    return int(np.argmax(fitness if max(fitness) > -math.inf else run.fitness[:, -1]))
