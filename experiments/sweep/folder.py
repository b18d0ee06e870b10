"""The folder of a sweep:

    sweep.json         what varies, and the runs
    configs/           every run's experiment, as checked when the sweep was begun
    plugins/           copies of the user's own modules, if any
    NAME/              the runs, each an ordinary run folder
    logs/NAME.txt      what each run said
    summary.csv        a line per run
    fitness.png        their curves
    jobs/, jobs.json   on a cluster: submitit's files, and the number of each run's job

Jobs may wait in a queue for days: they read what was checked, not what has become of the user's file since.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vsr.experiments.config import dump_yaml, load_experiment
from vsr.experiments.config.plugins import PLUGINS_FOLDER, plugin_modules
from vsr.experiments.config.problems import UserError
from vsr.experiments.experiment import Experiment
from vsr.experiments.files import write_json, write_text
from vsr.experiments.runs import check_same_experiment, is_run
from vsr.experiments.runs.checkpoints import whole_generations
from vsr.experiments.runs.folder import copy_plugins
from vsr.experiments.sweep.axes import Axis, Combination

SWEEP, JOBS = "sweep.json", "jobs.json"
CONFIGS, LOGS = "configs", "logs"


@dataclass(frozen=True)
class Sweep:
    """What is to be run."""

    path: Path
    axes: tuple[Axis, ...]
    combinations: tuple[Combination, ...]
    experiments: tuple[Experiment, ...]
    """of every combination"""

    def run(self, name: str) -> Path:
        """A run's folder."""
        return self.path / name

    def config(self, name: str) -> Path:
        """A run's experiment."""
        return self.path / CONFIGS / f"{name}.yaml"

    def log(self, name: str) -> Path:
        """What a run says."""
        return self.path / LOGS / f"{name}.txt"

    def unfinished(self) -> list[str]:
        """Names of the runs that are still to be done, or to go on with."""
        return [
            combination.name
            for combination, experiment in zip(self.combinations, self.experiments, strict=True)
            if saved_generations(self.run(combination.name)) < experiment.generations
        ]


def is_sweep(path: Path) -> bool:
    """Whether a folder holds a sweep."""
    return (path / SWEEP).is_file()


def saved_generations(run: Path) -> int:
    """How many generations of a run are safe in a checkpoint."""
    return whole_generations(run / "checkpoints")


def check_place(sweep: Sweep, resume: bool) -> None:
    """Raises UserError if a sweep may not be made or go on where it is to be; changes nothing."""
    path = sweep.path
    if is_sweep(path) and not resume:
        raise UserError(f"{path}: it already holds a sweep; add --resume to go on with it, or give another --out")
    if path.exists() and not is_sweep(path) and not (path.is_dir() and not any(path.iterdir())):
        raise UserError(f"{path}: it exists and is not the folder of a sweep; give another --out")
    faults = []
    for combination, experiment in zip(sweep.combinations, sweep.experiments, strict=True):
        run = sweep.run(combination.name)
        try:
            if is_run(run):
                check_same_experiment(run, experiment)
        except UserError as error:
            faults.append(str(error))
    if faults:
        raise UserError("\n".join(faults))


def write_sweep(sweep: Sweep, config: str) -> None:
    """Put down what is to be run, before any of it is."""
    plain = {
        "config": config,
        "axes": {axis.path: list(axis.values) for axis in sweep.axes},
        "runs": {combination.name: list(combination.values) for combination in sweep.combinations},
    }
    try:
        for name in (CONFIGS, LOGS):
            (sweep.path / name).mkdir(parents=True, exist_ok=True)
        write_json(sweep.path / SWEEP, plain)
        plugins = sorted({name for experiment in sweep.experiments for name in experiment.plugins})
        copy_plugins(plugin_modules(plugins), sweep.path / PLUGINS_FOLDER)
        for combination, experiment in zip(sweep.combinations, sweep.experiments, strict=True):
            write_text(sweep.config(combination.name), dump_yaml(experiment))
    except OSError as error:
        raise UserError(f"{sweep.path}: cannot be written: {error.strerror or error}; give another --out") from None


def read_sweep(path: Path) -> Sweep:
    """The sweep in a folder."""
    try:
        plain = json.loads((path / SWEEP).read_text(encoding="utf-8"))
        axes = tuple(Axis(name, tuple(values)) for name, values in plain["axes"].items())
        combinations = tuple(Combination(name, tuple(values)) for name, values in plain["runs"].items())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path / SWEEP}: damaged ({type(error).__name__}: {error}); repeat the whole command with --resume"
        ) from None
    experiments = tuple(load_experiment(path / CONFIGS / f"{item.name}.yaml") for item in combinations)
    return Sweep(path, axes, combinations, experiments)


def read_jobs(path: Path) -> dict[str, str]:
    """The cluster's number of every run that was handed to it."""
    try:
        jobs = json.loads((path / JOBS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(job) for name, job in jobs.items()} if isinstance(jobs, dict) else {}


def write_jobs(path: Path, jobs: dict[str, str]) -> None:
    """Remember which jobs were handed to the cluster."""
    write_json(path / JOBS, jobs)


def evolve_arguments(sweep: Sweep, name: str, more: Sequence[str]) -> list[str]:
    """The command line of a run, which begins it or goes on with it."""
    config, run = sweep.config(name).resolve(), sweep.run(name).resolve()
    return ["evolve", str(config), "--out", str(run), "--resume", "--no-report", *more]
