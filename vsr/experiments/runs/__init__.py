"""Run folders: written so that a kill loses nothing, read for plots and comparisons."""

from vsr.experiments.runs.folder import RunFolder, is_free, is_run
from vsr.experiments.runs.reading import Run, read_run, read_runs
from vsr.experiments.runs.settings import check_same_experiment

__all__ = ["Run", "RunFolder", "check_same_experiment", "is_free", "is_run", "read_run", "read_runs"]
