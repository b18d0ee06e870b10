"""Run folders: written so that a kill loses nothing, read for plots and comparisons."""

from vsr.experiments.runs.folder import RunFolder, is_free, is_run
from vsr.experiments.runs.reading import Curves, Run, read_curves, read_run
from vsr.experiments.runs.settings import check_same_experiment

__all__ = ["Curves", "Run", "RunFolder", "check_same_experiment", "is_free", "is_run", "read_curves", "read_run"]
