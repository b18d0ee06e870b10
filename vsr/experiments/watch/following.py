"""How a run stands, from what is in its folder. Nothing is written there, and its lock is never taken."""

from __future__ import annotations

import shlex
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsr.experiments.config import UserError
from vsr.experiments.config.unread import missing_of, why
from vsr.experiments.evolve.display import RECENT
from vsr.experiments.experiment import Experiment
from vsr.experiments.files import without_nan
from vsr.experiments.numbers import in_ranges
from vsr.experiments.runs.folder import is_run
from vsr.experiments.runs.locks import is_being_written
from vsr.experiments.runs.ranks import middle
from vsr.experiments.runs.robot_files import Title, read_title, robot_file
from vsr.experiments.runs.rows import STATISTICS, read_rows, saved_generations, warnings_of
from vsr.experiments.runs.settings import CONFIG, META, read_settings
from vsr.experiments.units import UNITS
from vsr.experiments.watch.statistics import GrowingStatistics

MOST_SEEDS, MOST_NUMBERS = 40, 20_000
"""Limits of the curves: seeds, and values in all; longer runs are shown with fewer generations."""
OVER = ("finished", "stopped")
"""States in which a speed is one of the past."""
QUIET, QUIET_COMPILING = 30.0, 300.0
"""How long a run of another computer may write nothing until it counts as stopped [s]; longer while it compiles."""


UNKNOWN: dict[str, Any] = {"best": None, "median": None, "failed": 0}
"""A line that nothing is left of."""

Stamp = tuple[int, int]
"""Time and size of a file: another one says that it has changed."""


@dataclass(frozen=True)
class Kept:
    """A robot in best/."""

    file: Path
    seed: int
    stamp: Stamp
    title: Title | None
    """what the file says of it"""


class Follower:
    """One run, looked at again and again, from any thread."""

    def __init__(self, path: Path, *, run_plugins: bool = False):
        """run_plugins: whether code that the run brings along is run."""
        self.path, self._run_plugins = path, run_plugins
        self._statistics = GrowingStatistics(path / STATISTICS)
        self._experiment: Experiment | None = None
        self._stamps: list[Stamp] = []
        """of the files with the settings, as they were read"""
        self._doubts: list[str] = []
        """about the settings"""
        self._seen_written = False
        """whether locks of this run can be seen from here"""
        self._titles: dict[int, tuple[Stamp, Title | None]] = {}
        """of each seed's best robot, read again when the file has changed"""
        self._mended: tuple[tuple[int, int, int] | None, list[list[dict[str, Any]]]] = None, []
        """statistics of which lines were lost, and when they were made again"""
        self._losses: list[str] = []
        """about these lines"""
        self._turn = threading.Lock()

    def look(self, known: str = "") -> dict[str, Any]:
        """All that a page shows. known: the version of the curves that it has, which are then left out."""
        with self._turn:
            experiment = self._read_experiment()
            if experiment is None:
                state = "gone" if self._experiment is not None else "waiting"
                return {"name": self.path.resolve().name, "state": state}
            saved = saved_generations(self.path)  # first: a run that goes on writes statistics before its checkpoint
            self._statistics.look()
            return without_nan(self._described(experiment, self._lines(experiment, saved), known))

    @property
    def warnings(self) -> list[str]:
        """What of the folder is lost, damaged or was changed, at the last look."""
        return [*self._doubts, *(self._losses or self._damaged())]

    def _damaged(self) -> list[str]:
        """About lines of the statistics after the last checkpoint, which are not made again before the run goes on."""
        damaged = self._statistics.damaged
        return [f"{self._statistics.path}: {in_ranges('line', damaged)} damaged and left out"] if damaged else []

    def leader(self) -> Kept | None:
        """The best robot that is kept, as `experiments.runs.best_robots.leading` has it; None while there is none."""
        with self._turn:
            if self._experiment is None:
                return None
            kept = [
                (fitness, -seed) for seed in self._experiment.seeds if (fitness := self._kept_fitness(seed)) is not None
            ]
            if not kept:
                return None
            seed = -max(kept)[1]
            stamp, title = self._titles[seed]
            return Kept(robot_file(self.path, seed), seed, stamp, title)

    def _kept_fitness(self, seed: int) -> float | None:
        """Of a seed's robot in best/, by the file's own words, or by the statistics if it has none."""
        assert self._experiment is not None
        file = robot_file(self.path, seed)
        try:
            stamp = _stamp(file)
        except OSError:
            return None
        if seed not in self._titles or self._titles[seed][0] != stamp:
            self._titles[seed] = stamp, read_title(file)
        title, lines = self._titles[seed][1], self._statistics.rows.get(seed)
        if title is not None:
            return self._experiment.fitness.sign * title.value
        return lines[-1]["best"] if lines else None

    def _read_experiment(self) -> Experiment | None:
        """The run's experiment, read again when its files have changed; None while there is no run."""
        if not is_run(self.path):
            return None
        stamps = [_stamp(file) for name in (CONFIG, META) if (file := self.path / name).is_file()]
        if stamps != self._stamps:
            try:
                found = read_settings(self.path, run_plugins=self._run_plugins)
                self._experiment, self._doubts = found.experiment, found.warnings
            except (OSError, UserError):
                if self._experiment is None:
                    raise
            self._stamps = stamps
        return self._experiment

    @property
    def left_out(self) -> str:
        """Why no robot can be shown, if the run's plugins are not run."""
        missing = {} if self._experiment is None else missing_of(self._experiment)
        return why(str(self.path), missing) if missing else ""

    def _lines(self, experiment: Experiment, saved: int) -> list[list[dict[str, Any]]]:
        """The statistics of every seed; where lines were lost, as `vsr plot` makes them again."""
        lines = [self._statistics.rows.get(seed, []) for seed in experiment.seeds]
        if min(map(len, lines)) >= saved:
            self._losses = []
            return lines
        state = saved, self._statistics.beginnings, sum(map(len, lines))
        if self._mended[0] != state:
            rows = read_rows(self.path, experiment)
            whole = [[rows.of.get((s, g), UNKNOWN) for g in range(rows.generations)] for s in experiment.seeds]
            self._mended, self._losses = (state, whole), warnings_of(self.path, rows, "skipped")
        return self._mended[1]

    def _described(self, experiment: Experiment, lines: list[list[dict[str, Any]]], known: str) -> dict[str, Any]:
        done = min(map(len, lines))
        goal, unit = experiment.fitness, UNITS.get(experiment.fitness.measure, "")
        summary: dict[str, Any] = {
            "name": self.path.resolve().name,
            "generations": done,
            "of": experiment.generations,
            "seeds": len(experiment.seeds),
            "measure": goal.measure.replace("_", " "),
            "unit": unit,
            "direction": goal.direction,
            "resume": f"vsr evolve {shlex.quote(str(self.path))} --resume",
            "version": f"{self._statistics.beginnings}.{done}",
            "warnings": self.warnings,
        }
        seconds, quiet = _seconds(lines[0][:done]), self._quiet_seconds()
        state = self._state(experiment, done, quiet, _mean(seconds[-RECENT:]))
        if done:
            pace = _mean(seconds if state in OVER else seconds[-RECENT:])
            summary |= _latest(experiment, lines, done) | _speed(experiment, pace, done)
            summary["secondsTaken"] = sum(seconds)
            if summary["version"] != known:
                summary["curves"] = _curves(experiment, lines, done)
        return summary | {"state": state, "quiet": quiet}

    def _state(self, experiment: Experiment, done: int, quiet: float, pace: float) -> str:
        if done >= experiment.generations:
            return "finished"
        written = is_being_written(self.path)
        patience = max(QUIET, 5 * pace) if done else QUIET_COMPILING
        if written or (not self._seen_written and quiet < patience):
            self._seen_written |= written
            return "running" if done else "starting"
        return "stopped"

    def _quiet_seconds(self) -> float:
        """Since anything was written."""
        times = []
        for name in (STATISTICS, META, CONFIG):
            try:
                times.append((self.path / name).stat().st_mtime)
            except OSError:
                continue  # not there yet, or just being replaced
        return max(time.time() - max(times), 0.0) if times else 0.0


def _stamp(file: Path) -> Stamp:
    stat = file.stat()
    return stat.st_mtime_ns, stat.st_size


def _seconds(lines: list[dict[str, Any]]) -> list[float]:
    """That generations took, as far as it was written down."""
    return [float(line["seconds"]) for line in lines if isinstance(line.get("seconds"), int | float)]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _latest(experiment: Experiment, lines: list[list[dict[str, Any]]], done: int) -> dict[str, Any]:
    """Of the last whole generation: the best of all seeds, the median over seeds, failures."""
    last, sign = [of_seed[done - 1] for of_seed in lines], experiment.fitness.sign
    best = _numbers([line["best"] for line in last])
    failed = [[line["failed"] for line in of_seed[:done]] for of_seed in lines]
    lead = int(np.argmax(best))
    return {
        "best": sign * float(best[lead]),
        "bestSeed": experiment.seeds[lead],
        "bestMiddle": sign * float(middle(best)),
        "median": sign * float(middle(_numbers([line["median"] for line in last]))),
        "failed": sum(of_seed[-1] for of_seed in failed),
        "failedInAll": sum(map(sum, failed)),
        "robots": experiment.ea.n_pop * len(lines),
    }


def _speed(experiment: Experiment, pace: float, done: int) -> dict[str, Any]:
    """pace: mean time of a generation, of the last ones while the run goes on and of all when it is over [s]."""
    robots = experiment.ea.n_pop * len(experiment.seeds)
    rate = robots / pace if pace > 0 else None
    return {
        "evaluations": robots * done,
        "evaluationsPerSecond": rate,
        "robotSecondsPerSecond": None
        if rate is None or missing_of(experiment)
        else rate * experiment.schedule().total_time,
        "secondsPerGeneration": pace,
        "secondsLeft": pace * (experiment.generations - done),
    }


def _curves(experiment: Experiment, lines: list[list[dict[str, Any]]], done: int) -> dict[str, Any]:
    """The measure over generations, for each of the first seeds and the median over all."""
    shown = min(len(lines), MOST_SEEDS)
    most = max(MOST_NUMBERS // (2 * shown + 2), 100)
    chosen = np.unique(np.linspace(0, done - 1, min(done, most)).round().astype(int))
    sign = experiment.fitness.sign
    curves: dict[str, Any] = {"generation": chosen.tolist(), "seed": list(experiment.seeds[:shown])}
    for name in ("best", "median"):
        values = np.stack([_numbers([of_seed[place][name] for place in chosen]) for of_seed in lines])
        curves[name] = [_rounded(sign * row) for row in values[:shown]]
        curves[f"{name}Middle"] = _rounded(sign * middle(values))
    return curves


def _numbers(values: list[float | None]) -> np.ndarray:
    """Fitness, with negative infinity for what failed."""
    return np.array([-np.inf if value is None else value for value in values], float)


def _rounded(values: np.ndarray) -> list[float]:
    """To as many digits as a curve can show."""
    return [float(f"{value:.6g}") for value in values]
