"""A run folder as curves, for plots and comparisons, and as a whole with its settings and best robots."""

from __future__ import annotations

import csv
import io
import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsr.arrays import CorruptFileError
from vsr.display import Displayed, Moving
from vsr.experiments.config import load_scene, run_plugins_of
from vsr.experiments.config.problems import UserError
from vsr.experiments.experiment import Experiment
from vsr.experiments.formatting import in_ranges
from vsr.experiments.storage.checkpoints import newest_generation
from vsr.experiments.storage.files import refuse_links
from vsr.experiments.storage.robots import read_title, robot_file
from vsr.experiments.storage.run_folder import check_run, is_run
from vsr.experiments.storage.settings import RunSettings, fingerprint, read_meta, read_settings
from vsr.experiments.storage.statistics import FAILURES, METRICS, STATISTICS, Header, Statistics, read_statistics
from vsr.scene import Scene

if TYPE_CHECKING:
    from vsr.experiments.storage.archives import ArchiveRead
    from vsr.experiments.verify import Verdict

NOTHING = "no generation is finished yet"


@dataclass(frozen=True)
class Curves(Displayed):
    """Results of a run so far, from its statistics alone: none of its plugins is needed."""

    path: Path
    header: Header
    """goal, seeds and sizes"""
    best: np.ndarray
    """the measure of the best robot so far, not a number where all had failed, (seeds, generations); of the last
    generation of a finished run it is the one that fresh trials confirmed, which is what the run reports"""
    search_best: np.ndarray
    """the same as the search has it in all generations: what it selects by, (seeds, generations)"""
    quartiles: np.ndarray
    """of the reported measure in fresh trials, that of less fitness first: negative infinity for a failure (positive
    where less is better), not a number where there are none, (2, seeds)"""
    median: np.ndarray
    """the measure's median over the population, (seeds, generations)"""
    best_id: np.ndarray
    """of the best robot so far, (seeds, generations)"""
    failed: np.ndarray
    """failed robots, (seeds, generations)"""
    failures: dict[str, np.ndarray]
    """failed robots by reason (vsr.physics.failure.REASONS), not a number where it is not known; each (seeds,
    generations)"""
    spread: np.ndarray
    """standard deviation of a gene over the population, averaged over genes; not a number where it is not known,
    (seeds, generations)"""
    bodies: np.ndarray
    """different bodies in the population; not a number where it is not known, (seeds, generations)"""
    seconds: np.ndarray
    """wall-clock time of a generation, not a number where it is not known [s], (generations,)"""
    metrics: dict[str, np.ndarray] = field(default_factory=dict)
    """metrics that the search reports about itself, by name, such as coverage of archives; not a number where there is
    none, (seeds, generations)"""
    warnings: tuple[str, ...] = ()
    """parts that could not be read, were lost or were changed"""

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.header.seeds

    def index_of(self, seed: int | None) -> int:
        """The place of a seed among the run's, 0 for none; raises UserError for one that it does not have."""
        if seed is not None and seed not in self.seeds:
            raise UserError(f"{self.path}: there is no seed {seed}; its seeds are {', '.join(map(str, self.seeds))}")
        return 0 if seed is None else self.seeds.index(seed)

    @property
    def generations(self) -> int:
        """How many are finished."""
        return self.best.shape[1]

    @property
    def is_finished(self) -> bool:
        return self.generations >= self.header.generations

    @property
    def fitness(self) -> np.ndarray:
        """Best fitness so far: larger is better, negative infinity where all had failed, (seeds, generations)."""
        return np.nan_to_num(self.header.sign * self.best, nan=-np.inf)

    @property
    def search_fitness(self) -> np.ndarray:
        """The same as the search has it in all generations, (seeds, generations)."""
        return np.nan_to_num(self.header.sign * self.search_best, nan=-np.inf)

    @property
    def is_confirmed(self) -> bool:
        """Whether the last generation's best are those of fresh trials."""
        return not np.array_equal(self.best[:, -1:], self.search_best[:, -1:], equal_nan=True)


@dataclass(frozen=True, repr=False)
class Run(Moving, Curves):
    """A run with its settings, as `vsr.evolve` and `vsr.load` return it."""

    settings: RunSettings = field(kw_only=True)

    def __repr__(self) -> str:
        return f"Run('{self.path}', {self.generations} of {self.experiment.generations} generations)"

    @property
    def experiment(self) -> Experiment:
        return self.settings.experiment

    @property
    def is_finished(self) -> bool:
        """By its settings, which may ask for more generations than the run was begun with."""
        return self.generations >= self.experiment.generations

    def robot(self, seed: int | None = None) -> Scene:
        """The best robot in its scene, of a seed or of all; raises UserError if the run keeps none yet."""
        index = leading(self) if seed is None else self.index_of(seed)
        file = robot_file(self.path, self.seeds[index])
        if not file.is_file():
            raise UserError(f"{file}: there is no robot yet; it is written at the first checkpoint")
        return load_scene(file)

    def table(self) -> Any:
        """Statistics as columns, an entry for every generation and seed.

        A pandas.DataFrame if pandas is there, else arrays by name.
        """
        (_, *names), *rows = csv.reader(io.StringIO(as_csv([self])))
        _, *columns = zip(*rows, strict=True)
        return as_frame(dict(zip(names, map(_numbers, columns), strict=True)))

    def archives(self, seed: int | None = None) -> list[ArchiveRead]:
        """Archives of a seed, by default of the first: fitness, descriptors and genes of every cell. None if the search
        keeps none."""
        from vsr.experiments.storage.archives import read_archives

        return read_archives(self.path, self.experiment, self.index_of(seed))

    def plot(self, file: str | Path) -> Path:
        """Draw the fitness curve into a PNG, PDF or SVG."""
        from vsr.experiments.plot.curves import plot_runs

        plot_runs([self], Path(file))
        return Path(file)

    def verify(self, tolerance: float = 0.01) -> list[Verdict]:
        """Replay every seed's best robot, as `vsr verify` does.

        tolerance: largest relative difference from the score in its file.
        """
        from vsr.experiments.verify import judge, read_all

        return judge(read_all([str(self.path)]), tolerance)

    def report(self, file: str | Path | None = None) -> Path:
        """Write the page about the run, by default into its folder."""
        from vsr.experiments.report.command import REPORT, write_report

        target = self.path / REPORT if file is None else Path(file)
        write_report([self], target)
        return target


def as_frame(columns: dict[str, np.ndarray]) -> Any:
    """A pandas.DataFrame if pandas is there, else the same columns."""
    try:
        pandas = import_module("pandas")
    except ImportError:
        return columns
    return pandas.DataFrame(columns)


def read_curves(path: str | Path) -> Curves:
    """Read a run's statistics; raises UserError if there are none."""
    path = Path(path)
    try:
        refuse_links(path)
        found = read_statistics(path / STATISTICS)
    except CorruptFileError as error:
        check_run(path)
        begun = newest_generation(path) or (path / STATISTICS).exists()
        raise UserError(f"{error}; {rebuilt_by(path)}" if begun else f"{path}: {NOTHING}") from None
    made_by = read_meta(path)[0].get("experiment")
    if isinstance(made_by, dict) and fingerprint(made_by) != found.header.run:
        raise UserError(f"{path / STATISTICS}: it was made by a run with other settings; {rebuilt_by(path)}")
    if not found.generations:
        begun = newest_generation(path)
        lost = f"{path / STATISTICS}: its records are lost; {rebuilt_by(path)}"
        raise UserError(lost if begun else f"{path}: {NOTHING}")
    sign = found.header.sign
    return Curves(
        path,
        found.header,
        best=sign * found.best,
        search_best=sign * found.column("best"),
        quartiles=sign * found.quartiles,
        median=sign * found.column("median"),
        best_id=found.column("best_id"),
        failed=found.column("failed"),
        failures=found.columns(FAILURES),
        spread=found.column("spread"),
        bodies=found.column("bodies"),
        seconds=found.seconds,
        metrics=found.columns(METRICS),
        warnings=tuple(losses_of(path, found)),
    )


def read_run(path: str | Path) -> Run:
    """Read a run's statistics and settings; raises UserError, or PluginRequiredError if its plugins may not run."""
    check_run(Path(path))
    settings, curves = read_settings(Path(path)), read_curves(path)
    known = {one.name: getattr(curves, one.name) for one in fields(curves)}
    return Run(**{**known, "warnings": (*settings.warnings, *curves.warnings)}, settings=settings)


def losses_of(path: Path, found: Statistics) -> list[str]:
    """Warnings about incomplete statistics."""
    file, warnings, saved = path / STATISTICS, [], newest_generation(path)
    if found.corrupted:
        warnings.append(f"{file}: {in_ranges('generation', found.corrupted)} corrupted; {rebuilt_by(path)}")
    if found.generations < saved:
        missing = range(found.generations, saved)
        warnings.append(f"{file}: {in_ranges('generation', missing)} missing; {rebuilt_by(path)}")
    if found.unknown:
        warnings.append(f"{file}: {in_ranges('generation', found.unknown)} lost: nothing is known of them")
    return warnings


def rebuilt_by(path: Path) -> str:
    """Advice where statistics are lost."""
    return f"vsr evolve {shlex.quote(str(path))} --resume rebuilds statistics from lineage/"


def as_csv(runs: Sequence[Curves]) -> str:
    """All statistics as a table with a line for every run, generation and seed; empty where a number is not known."""
    metrics = list(dict.fromkeys(name for run in runs for name in run.metrics))
    reasons = list(dict.fromkeys(name for run in runs for name in run.failures))
    names = ("best", "search_best", "median", "failed", "spread", "bodies", "best_id")
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    titles = (*(f"{FAILURES}{name}" for name in reasons), *(f"{METRICS}{name}" for name in metrics))
    table.writerow(["run", "generation", "seed", "evaluations", "seconds", *names, *titles])
    for run in runs:
        nothing = np.full(run.best.shape, np.nan)
        columns = [getattr(run, name) for name in names]
        columns += [run.failures.get(name, nothing) for name in reasons]
        columns += [run.metrics.get(name, nothing) for name in metrics]
        for generation in range(run.generations):
            evaluations, seconds = (generation + 1) * run.header.population_size, _cell(run.seconds[generation])
            for index, seed in enumerate(run.seeds):
                numbers = (_cell(column[index, generation]) for column in columns)
                table.writerow([run.path, generation, seed, evaluations, seconds, *numbers])
    return text.getvalue()


def _numbers(cells: Iterable[str]) -> np.ndarray:
    """A column of a table; not a number where a cell is empty."""
    return np.array([float(cell) if cell else np.nan for cell in cells])


def _cell(value: float) -> str:
    """All digits; a whole number without a point."""
    return "" if np.isnan(value) else repr(int(value) if value == int(value) else float(value))


SIX_DIGITS = 1e-5
"""Largest relative difference between a robot's score in its file and in the statistics."""


def kept_measure(run: Run, index: int) -> float | None:
    """Score of the stored robot of a seed, given by its index; None without a file."""
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


def trust_plugins(given: Iterable[str | Path]) -> None:
    """Run the plugins of run folders and files, so that all that is read of them from now on is read as a whole.

    Missing parts are left to the readers.
    """
    for path in map(Path, given):
        if path.is_file():
            run_plugins_of(path)
        elif is_run(path):
            read_settings(path, run_plugins=True)
