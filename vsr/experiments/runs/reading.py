"""A run folder as curves, for plots and comparisons."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from vsr.display import Displayed
from vsr.experiments.config.problems import UserError
from vsr.experiments.experiment import Experiment
from vsr.experiments.lines import FIGURES
from vsr.experiments.runs.checkpoints import checkpoint_files
from vsr.experiments.runs.columns import read_columns
from vsr.experiments.runs.folder import check_run
from vsr.experiments.runs.lineage import LINEAGE
from vsr.experiments.runs.rows import STATISTICS, Row, figures_in, read_rows, saved_generations, warnings_of
from vsr.experiments.runs.settings import RunSettings, read_settings, run_tag
from vsr.physics.failure import REASONS


@dataclass(frozen=True)
class Run(Displayed):
    """What a run came to so far."""

    path: Path
    experiment: Experiment
    best: np.ndarray
    """the measure of the best robot so far, not a number where all had failed, (seeds, generations)"""
    median: np.ndarray
    """the measure's median over the population, (seeds, generations)"""
    failed: np.ndarray
    """failed robots, (seeds, generations)"""
    failures: dict[str, np.ndarray]
    """failed robots by reason (vsr.physics.failure.REASONS), not a number where it was not written down, as in runs of
    older versions; each (seeds, generations)"""
    spread: np.ndarray
    """standard deviation of a gene over the population, averaged over genes; not a number where it was not written
    down, as in runs of older versions, (seeds, generations)"""
    bodies: np.ndarray
    """different bodies in the population; not a number where it was not written down, (seeds, generations)"""
    warnings: tuple[str, ...] = ()
    """what could not be read, was lost or was changed"""
    figures: dict[str, np.ndarray] = field(default_factory=dict)
    """what the search tells of itself, by name, such as coverage of archives; not a number where it does not, (seeds,
    generations)"""

    @property
    def name(self) -> str:
        return self.path.resolve().name

    def index_of(self, seed: int | None) -> int:
        """The place of a seed among the run's, 0 for none; raises UserError for one that it does not have."""
        seeds = self.experiment.seeds
        if seed is not None and seed not in seeds:
            raise UserError(f"{self.path}: there is no seed {seed}; its seeds are {', '.join(map(str, seeds))}")
        return 0 if seed is None else seeds.index(seed)

    @property
    def generations(self) -> int:
        """How many are finished."""
        return self.best.shape[1]

    @property
    def fitness(self) -> np.ndarray:
        """Best fitness so far: larger is better, negative infinity where all had failed, (seeds, generations)."""
        return np.nan_to_num(self.experiment.fitness.sign * self.best, nan=-np.inf)


def read_run(path: str | Path) -> Run:
    """Read a run's statistics; the last generations are left out if some seed lacks them."""
    (run,) = read_runs([path])
    return run


def read_runs(paths: Sequence[str | Path]) -> list[Run]:
    """Many of them: first what all were made with, while others may still read statistics (vsr.experiments.lines)."""
    return [_with_statistics(settings) for settings in [_settings_of(Path(path)) for path in paths]]


def _settings_of(path: Path) -> RunSettings:
    check_run(path)
    return read_settings(path)


def _with_statistics(settings: RunSettings) -> Run:
    path, experiment, doubts = settings.path, settings.experiment, tuple(settings.warnings)
    saved = saved_generations(path)  # first: a run that goes on writes statistics before its checkpoint
    columns = read_columns(path / STATISTICS, experiment.seeds, run_tag(settings.begun))
    if columns is None or columns["best"].shape[1] < saved:
        return _read_by_lines(path, experiment, doubts)
    return _run(path, experiment, columns, doubts)


def _run(path: Path, experiment: Experiment, columns: dict[str, np.ndarray], warnings: tuple[str, ...]) -> Run:
    sign = experiment.fitness.sign
    return Run(
        path,
        experiment,
        best=sign * columns["best"],
        median=sign * columns["median"],
        failed=columns["failed"],
        failures={reason.name: columns[f"failures.{reason.name}"] for reason in REASONS},
        spread=columns["spread"],
        bodies=columns["bodies"],
        warnings=warnings,
        figures={name.removeprefix(FIGURES): own for name, own in columns.items() if name.startswith(FIGURES)},
    )


def _read_by_lines(path: Path, experiment: Experiment, warnings: tuple[str, ...]) -> Run:
    """With a warning for every line that is not whole or was lost."""
    rows = read_rows(path, experiment)
    length = rows.generations
    if not length:
        raise UserError(_nothing_known(path))

    def row(seed: int, generation: int) -> Row:
        return rows.of.get((seed, generation), {})

    def collect(name: str) -> np.ndarray:
        table = [[row(seed, generation).get(name) for generation in range(length)] for seed in experiment.seeds]
        return np.array(table, dtype=float)  # null becomes not a number

    def by_reason(name: str) -> np.ndarray:
        def known(row: Row) -> float | None:
            return row["failures"].get(name, 0) if isinstance(row.get("failures"), dict) else None

        table = [[known(row(seed, generation)) for generation in range(length)] for seed in experiment.seeds]
        return np.array(table, dtype=float)

    def by_figure(name: str) -> np.ndarray:
        told = [[figures_in(row(seed, generation)) for generation in range(length)] for seed in experiment.seeds]
        return np.array([[one.get(name) for one in of_seed] for of_seed in told], dtype=float)

    names = dict.fromkeys(name for one in rows.of.values() for name in figures_in(one))
    columns = {name: collect(name) for name in ("best", "median", "failed", "spread", "bodies")}
    columns |= {f"failures.{reason.name}": by_reason(reason.name) for reason in REASONS}
    columns |= {FIGURES + name: by_figure(name) for name in names}
    return _run(path, experiment, columns, (*warnings, *warnings_of(path, rows, "skipped")))


def _nothing_known(path: Path) -> str:
    if not checkpoint_files(path / "checkpoints"):
        return f"{path}: no generation is finished yet"
    return (
        f"{path}: nothing is known of its generations: {STATISTICS} and {LINEAGE}/ are lost or damaged; "
        f"vsr evolve {shlex.quote(str(path))} --resume goes on from its checkpoint"
    )
