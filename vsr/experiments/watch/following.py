"""How a run stands, from what is in its folder. Nothing is written there, and its lock is never taken."""

from __future__ import annotations

import shlex
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsr.arrays import CorruptFileError
from vsr.experiments.config.plugins import require_plugins
from vsr.experiments.config.problems import UserError
from vsr.experiments.config.yaml import read_yaml
from vsr.experiments.evolve.display import RECENT
from vsr.experiments.formatting import UNITS
from vsr.experiments.ranks import middle
from vsr.experiments.storage.checkpoints import newest_generation
from vsr.experiments.storage.files import without_nan
from vsr.experiments.storage.robots import Title, read_title, robot_file
from vsr.experiments.storage.run_folder import is_being_written, is_run
from vsr.experiments.storage.runs import losses_of, rebuilt_by, trust_plugins
from vsr.experiments.storage.settings import CONFIG, META
from vsr.experiments.storage.statistics import STATISTICS, Statistics, read_statistics

MOST_SEEDS, MOST_NUMBERS = 40, 20_000
"""Limits of the curves: seeds, and values in all; longer runs are shown with fewer generations."""
OVER = ("finished", "stopped")
"""States in which a speed is one of the past."""
QUIET, QUIET_COMPILING = 30.0, 300.0
"""How long a run of another computer may write nothing until it counts as stopped [s]; longer while it compiles."""

Stamp = tuple[int, int]
"""Time and size of a file: they differ if it has changed."""


@dataclass(frozen=True)
class BestRobot:
    """A robot in best/."""

    file: Path
    seed: int
    stamp: Stamp
    title: Title | None
    """the file's description of it"""


class Follower:
    """One run, looked at again and again, from any thread."""

    def __init__(self, path: Path, *, run_plugins: bool = False):
        """run_plugins: whether code that the run brings along is run."""
        self.path, self._run_plugins = path, run_plugins
        self._statistics: Statistics | None = None
        self._inode = -1
        """of the file of statistics: resuming may replace it"""
        self._beginnings = 0
        """how often that file was read from its start"""
        self._seen_written = False
        """whether locks of this run can be seen from here"""
        self._titles: dict[int, tuple[Stamp, Title | None]] = {}
        """of each seed's best robot, read again when the file has changed"""
        self.warnings: list[str] = []
        """lost or corrupted parts of the statistics, at the last look"""
        self._turn = threading.Lock()

    def look(self, known: str = "") -> dict[str, Any]:
        """All that a page shows. known: the version of the curves that it has, which are then left out.

        Raises UserError if statistics cannot be read.
        """
        with self._turn:
            statistics = self._read()
            if statistics is None:
                state = "gone" if self._statistics is not None else "waiting"
                return {"name": self.path.resolve().name, "state": state}
            self.warnings = losses_of(self.path, statistics)
            return without_nan(self._described(statistics, known))

    def _read(self) -> Statistics | None:
        """Only what is new of the statistics; None while there are none."""
        saved = newest_generation(self.path)  # first: a run that goes on writes statistics before its checkpoint
        try:
            inode = (self.path / STATISTICS).stat().st_ino if is_run(self.path) else -1
            if inode == -1:
                return None
            before = self._statistics if inode == self._inode else None
            found = read_statistics(self.path / STATISTICS, before)
        except FileNotFoundError:
            if not saved:
                return None
            raise UserError(f"{self.path / STATISTICS}: missing; {rebuilt_by(self.path)}") from None
        except CorruptFileError as error:
            raise UserError(f"{error}; {rebuilt_by(self.path)}") from None
        if self._run_plugins and self._statistics is None:
            trust_plugins([self.path])
        self._beginnings += before is None or found.generations < before.generations
        self._statistics, self._inode = found, inode
        return found

    def leader(self) -> BestRobot | None:
        """The best robot that is kept, as `best_robots.leading` has it; None while there is none."""
        with self._turn:
            statistics = self._statistics
            if statistics is None:
                return None
            kept = [
                (fitness, -seed)
                for index, seed in enumerate(statistics.header.seeds)
                if (fitness := self._kept_fitness(statistics, index)) is not None
            ]
            if not kept:
                return None
            seed = -max(kept)[1]
            stamp, title = self._titles[seed]
            return BestRobot(robot_file(self.path, seed), seed, stamp, title)

    def _kept_fitness(self, statistics: Statistics, index: int) -> float | None:
        """Of a seed's robot in best/, by the file's own words, or by the statistics if it has none."""
        seed = statistics.header.seeds[index]
        file = robot_file(self.path, seed)
        try:
            stamp = _stamp(file)
        except OSError:
            return None
        if seed not in self._titles or self._titles[seed][0] != stamp:
            self._titles[seed] = stamp, read_title(file)
        title = self._titles[seed][1]
        if title is not None:
            return statistics.header.sign * title.value
        return float(statistics.best[index, -1]) if statistics.generations else None

    @property
    def left_out(self) -> str:
        """Why no robot can be shown, if the run's plugins are not run."""
        try:
            require_plugins(read_yaml(self.path / CONFIG))
        except UserError as error:
            return str(error)
        return ""

    def _described(self, statistics: Statistics, known: str) -> dict[str, Any]:
        header, done = statistics.header, statistics.generations
        summary: dict[str, Any] = {
            "name": self.path.resolve().name,
            "generations": done,
            "of": header.generations,
            "seeds": len(header.seeds),
            "measure": header.measure.replace("_", " "),
            "unit": UNITS.get(header.measure, ""),
            "direction": header.direction,
            "resume": f"vsr evolve {shlex.quote(str(self.path))} --resume",
            "version": f"{self._beginnings}.{done}",
            "warnings": self.warnings,
        }
        seconds, quiet = statistics.seconds[~np.isnan(statistics.seconds)], self._quiet_seconds()
        state = self._state(statistics, quiet, _mean(seconds[-RECENT:]))
        if done:
            pace = _mean(seconds if state in OVER else seconds[-RECENT:])
            summary |= _latest(statistics) | _speed(statistics, pace)
            summary["secondsTaken"] = float(seconds.sum())
            if summary["version"] != known:
                summary["curves"] = _curves(statistics)
        return summary | {"state": state, "quiet": quiet}

    def _state(self, statistics: Statistics, quiet: float, pace: float) -> str:
        done = statistics.generations
        if done >= statistics.header.generations:
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


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else 0.0


def _latest(statistics: Statistics) -> dict[str, Any]:
    """Of the last generation: the best of all seeds, the median over seeds, failures."""
    header, failed = statistics.header, np.nan_to_num(statistics.column("failed"))
    best, median = (_fitness(values[:, -1]) for values in (statistics.best, statistics.column("median")))
    lead = int(np.argmax(best))
    return {
        "best": header.sign * float(best[lead]),
        "bestSeed": header.seeds[lead],
        "bestMiddle": header.sign * float(middle(best)),
        "median": header.sign * float(middle(median)),
        "failed": int(failed[:, -1].sum()),
        "failedInAll": int(failed.sum()),
        "robots": header.population_size * len(header.seeds),
    }


def _speed(statistics: Statistics, pace: float) -> dict[str, Any]:
    """pace: mean time of a generation, of the last ones while the run goes on and of all when it is over [s]."""
    header, done = statistics.header, statistics.generations
    robots = header.population_size * len(header.seeds)
    rate = robots / pace if pace > 0 else None
    return {
        "evaluations": robots * done,
        "evaluationsPerSecond": rate,
        "robotSecondsPerSecond": None if rate is None else rate * header.episode_seconds,
        "secondsPerGeneration": pace,
        "secondsLeft": pace * (header.generations - done),
    }


def _curves(statistics: Statistics) -> dict[str, Any]:
    """The measure over generations, for each of the first seeds and the median over all."""
    header, done = statistics.header, statistics.generations
    shown = min(len(header.seeds), MOST_SEEDS)
    most = max(MOST_NUMBERS // (2 * shown + 2), 100)
    chosen = np.unique(np.linspace(0, done - 1, min(done, most)).round().astype(int))
    curves: dict[str, Any] = {"generation": chosen.tolist(), "seed": list(header.seeds[:shown])}
    for name in ("best", "median"):
        values = _fitness(statistics.column(name)[:, chosen])
        curves[name] = [_rounded(header.sign * row) for row in values[:shown]]
        curves[f"{name}Middle"] = _rounded(header.sign * middle(values))
    return curves


def _fitness(values: np.ndarray) -> np.ndarray:
    """With negative infinity for what failed."""
    return np.nan_to_num(values, nan=-np.inf)


def _rounded(values: np.ndarray) -> list[float]:
    """To as many digits as a curve can show."""
    return [float(f"{value:.6g}") for value in values]
