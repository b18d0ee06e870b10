"""The folder of a sweep:

    sweep.json         what varies, and the runs
    base.yaml          what all have in common: the user's file when the sweep was begun, with what was set over it
    configs/           the experiment of every run that was begun
    plugins/           copies of the user's own modules, if any
    NAME/              the runs, each an ordinary run folder
    logs/NAME.txt      output of each run
    summary.csv        a line per run
    fitness.png        their curves
    jobs/, jobs.json   on a cluster: submitit's files, and the number of each run's job

Runs may wait for days: they get what was checked, not what has become of the user's file since.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from vsr.experiments.config import dump_yaml, run_plugins_of
from vsr.experiments.config.loading import load_experiment_alike, load_variants, settled
from vsr.experiments.config.plugins import PLUGINS_FOLDER, modules_of
from vsr.experiments.config.problems import ConfigError, Problem, UserError
from vsr.experiments.config.yaml import parse_yaml
from vsr.experiments.experiment import Experiment
from vsr.experiments.storage.checkpoints import whole_generations
from vsr.experiments.storage.files import write_json, write_text
from vsr.experiments.storage.run_folder import is_run
from vsr.experiments.storage.settings import check_same_experiment
from vsr.experiments.storage.sources import Sources

MOST_RUNS = 10_000
LONGEST_NAME = 120
UNSAFE = "[^A-Za-z0-9._+-]+"
"""Characters left out of names: all that a shell or a file system could misread."""

SIMPLE = re.compile(r"-?[A-Za-z0-9_.][A-Za-z0-9_.+-]*(?:,-?[A-Za-z0-9_.][A-Za-z0-9_.+-]*)*")
"""Numbers and words, which only commas part: thousands of them are split at once."""


@dataclass(frozen=True)
class Axis:
    """One value of the file that varies."""

    path: str
    values: tuple[str, ...]
    """as YAML, as the user wrote them"""


@dataclass(frozen=True)
class Combination:
    """One run of a sweep."""

    name: str
    """of its folder"""
    values: tuple[str, ...]
    """one of every axis"""


def read_axes(sweeps: Sequence[str], settings: Sequence[str]) -> list[Axis]:
    """All that varies; raises ConfigError with every fault. settings: what the command line sets besides."""
    axes: list[Axis] = []
    problems: list[Problem] = []
    fixed = {setting.partition("=")[0].strip() for setting in settings}
    for sweep in sweeps:
        path, equals, text = sweep.partition("=")
        path, where = path.strip(), f"--sweep {sweep}"
        if not equals or not all(path.split(".")):
            problems.append(
                Problem(where, "write it as path=value,value, for example --sweep optimizer.population_size=50,100")
            )
            continue
        try:
            values = split_values(text)
        except ValueError as error:
            problems.append(Problem(where, str(error)))
            continue
        if path in fixed:
            problems.append(Problem(where, f"{path} is set too (--set, --seeds or --seed); give one of them"))
        if path in {axis.path for axis in axes}:
            problems.append(Problem(where, f"{path} is swept twice; give all its values at once"))
        axes.append(Axis(path, values))
    runs = math.prod(len(axis.values) for axis in axes)
    if runs > MOST_RUNS:
        problems.append(Problem("--sweep", f"{runs} combinations; at most {MOST_RUNS} are run in one sweep"))
    if problems:
        raise ConfigError(problems)
    return axes


def split_values(text: str) -> tuple[str, ...]:
    """Values between commas, each as it was written; commas inside lists, mappings and quotes do not count."""
    hint = "write values with commas between them, lists as [a, b]"
    values = tuple(text.split(",")) if SIMPLE.fullmatch(text) else _split_by_yaml(text, hint)
    if not values:
        raise ValueError(f"there are no values; {hint}")
    meanings = [repr(parse_yaml(value).data) for value in values]
    count = Counter(meanings)
    if twice := [value for value, meaning in zip(values, meanings, strict=True) if count[meaning] > 1]:
        raise ValueError(f"{twice[0]} is given twice")
    return values


def _split_by_yaml(text: str, hint: str) -> tuple[str, ...]:
    """Any values; raises ValueError if they are no YAML."""
    listed = f"[{text}]"
    try:
        root = yaml.compose(listed, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        raise ValueError(f"{text!r} is not a list of YAML values; {hint}") from None
    if not isinstance(root, yaml.SequenceNode) or root.end_mark.index != len(listed):
        raise ValueError(f"{text!r} is not a list of YAML values; {hint}")
    return tuple(listed[item.start_mark.index : item.end_mark.index].strip() for item in root.value)


def combine(axes: Sequence[Axis]) -> list[Combination]:
    """Every combination, the last axis varying fastest."""
    keys = [axis.path.split(".")[-1] for axis in axes]
    keys = [key if keys.count(key) == 1 else axis.path for key, axis in zip(keys, axes, strict=True)]
    every = list(itertools.product(*(axis.values for axis in axes)))
    words = [[f"{_safe(key)}={_safe(value)}" for value in axis.values] for key, axis in zip(keys, axes, strict=True)]
    names = [",".join(chosen) for chosen in itertools.product(*words)]
    count = Counter(names)
    return [
        Combination(name if count[name] == 1 and len(name) <= LONGEST_NAME else _shortened(name, values), values)
        for name, values in zip(names, every, strict=True)
    ]


def _safe(text: str) -> str:
    """A text as part of a file name."""
    return re.sub(UNSAFE, "-", re.sub(f"^{UNSAFE}|{UNSAFE}$", "", text)) or "empty"


def _shortened(name: str, values: Sequence[str]) -> str:
    """Short and unlike others, with a hash of all the values."""
    digest = hashlib.sha256("\0".join(values).encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9]}-{digest}"


SWEEP, BASE, JOBS = "sweep.json", "base.yaml", "jobs.json"
CONFIGS, LOGS = "configs", "logs"


@dataclass(frozen=True)
class Sweep:
    """The runs of a sweep."""

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
        """File with the output of a run."""
        return self.path / LOGS / f"{name}.txt"

    def write_config(self, name: str) -> None:
        """Put down a run's experiment before it is begun, unless it is there."""
        if not self.config(name).exists():
            index = next(i for i, combination in enumerate(self.combinations) if combination.name == name)
            with _reporting(self.path):
                write_text(self.config(name), dump_yaml(self.experiments[index]))

    def unfinished(self) -> list[str]:
        """Names of the runs that are still to be done, or to go on with."""
        begun = set(os.listdir(self.path))
        return [
            combination.name
            for combination, experiment in zip(self.combinations, self.experiments, strict=True)
            if combination.name not in begun or saved_generations(self.run(combination.name)) < experiment.generations
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
    if not is_sweep(path):
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise UserError(f"{path}: it exists and is not the folder of a sweep; give another --out")
        return
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


def write_sweep(sweep: Sweep, config: str, settings: Sequence[str] = ()) -> None:
    """Put down what is to be run, before any of it is; without sweep.json, which comes last, it is no sweep."""
    plain = {
        "config": config,
        "axes": {axis.path: list(axis.values) for axis in sweep.axes},
        "runs": {combination.name: list(combination.values) for combination in sweep.combinations},
    }
    with _reporting(sweep.path):
        for name in (CONFIGS, LOGS):
            (sweep.path / name).mkdir(parents=True, exist_ok=True)
        plugins = sorted({name for experiment in sweep.experiments for name in experiment.plugins})
        Sources(modules_of(plugins)).copy_to(sweep.path / PLUGINS_FOLDER)
        write_text(sweep.path / BASE, settled(config, settings))
        write_json(sweep.path / SWEEP, plain)


@contextlib.contextmanager
def _reporting(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}; give another --out") from None


def read_sweep(path: Path, *, run_plugins: bool = False) -> Sweep:
    """The sweep in a folder; run_plugins: whether code that it brings along is run."""
    try:
        plain = json.loads((path / SWEEP).read_text(encoding="utf-8"))
        axes = tuple(Axis(name, tuple(values)) for name, values in plain["axes"].items())
        combinations = tuple(Combination(name, tuple(values)) for name, values in plain["runs"].items())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path / SWEEP}: corrupted ({type(error).__name__}: {error}); repeat the whole command with --resume"
        ) from None
    if run_plugins:
        run_plugins_of(path / BASE)
    return Sweep(path, axes, combinations, tuple(_experiments(path, axes, combinations)))


def _experiments(path: Path, axes: Sequence[Axis], combinations: Sequence[Combination]) -> Iterator[Experiment]:
    """Of runs that were begun as they were put down then, of the others from what all have in common."""
    files = {item.name: path / CONFIGS / f"{item.name}.yaml" for item in combinations}
    waiting = [item for item in combinations if not files[item.name].exists()]
    variants = load_variants(path / BASE, (), [swept(axes, item) for item in waiting]) if waiting else iter(())
    for item in combinations:
        experiment = load_experiment_alike(files[item.name]) if files[item.name].exists() else next(variants)
        if isinstance(experiment, ConfigError):
            raise experiment
        yield experiment.resolved()


def swept(axes: Sequence[Axis], combination: Combination) -> list[str]:
    """The values of a run, as `--set` has them."""
    return [f"{axis.path}={value}" for axis, value in zip(axes, combination.values, strict=True)]


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
