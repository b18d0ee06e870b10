"""How a run stands, from what is in its folder. Nothing is written there, and its lock is never taken."""

from __future__ import annotations

import shlex
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments.config import UserError, load_experiment
from experiments.display import RECENT
from experiments.experiment import Experiment
from experiments.files import without_nan
from experiments.runs.folder import CONFIG, META, STATISTICS, is_being_written, is_run
from experiments.runs.ranks import middle
from experiments.units import UNITS
from experiments.watching.statistics import GrowingStatistics

MOST_SEEDS, MOST_NUMBERS = 40, 20_000
"""Of curves that are told: seeds, and values in all; longer runs are told with fewer generations."""
QUIET, QUIET_COMPILING = 30.0, 300.0
"""A run of another computer that writes nothing for so long has stopped [s]; longer while it compiles."""


class Follower:
    """One run, looked at again and again, from any thread."""

    def __init__(self, path: Path):
        self.path = path
        self._statistics = GrowingStatistics(path / STATISTICS)
        self._experiment: Experiment | None = None
        self._config_stamp: tuple[int, int] | None = None
        self._seen_written = False
        """whether locks of this run can be seen from here"""
        self._turn = threading.Lock()

    def look(self, known: str = "") -> dict[str, Any]:
        """All that a page shows. known: the version of the curves that it has, which are then left out."""
        with self._turn:
            experiment = self._read_experiment()
            if experiment is None:
                state = "gone" if self._experiment is not None else "waiting"
                return {"name": self.path.resolve().name, "state": state}
            self._statistics.look()
            return without_nan(self._told(experiment, known))

    def leader(self) -> int | None:
        """The seed with the best robot so far; None before the first generation, or if all robots failed."""
        with self._turn:
            rows = self._statistics.rows
            last = {seed: lines[-1]["best"] for seed, lines in rows.items() if lines and lines[-1]["best"] is not None}
        return max(last, key=lambda seed: last[seed]) if last else None

    def _read_experiment(self) -> Experiment | None:
        """The run's experiment, read again when its file has changed; None while there is no run."""
        if not is_run(self.path):
            return None
        try:
            stat = (self.path / CONFIG).stat()
            stamp = stat.st_mtime_ns, stat.st_size
            if stamp != self._config_stamp:
                self._experiment, self._config_stamp = load_experiment(self.path / CONFIG), stamp
        except (OSError, UserError):
            if self._experiment is None:
                raise
        return self._experiment

    def _told(self, experiment: Experiment, known: str) -> dict[str, Any]:
        lines = [self._statistics.rows.get(seed, []) for seed in experiment.seeds]
        done = min(map(len, lines))
        goal, unit = experiment.fitness, UNITS.get(experiment.fitness.measure, "")
        told: dict[str, Any] = {
            "name": self.path.resolve().name,
            "generations": done,
            "of": experiment.generations,
            "seeds": len(experiment.seeds),
            "measure": goal.measure.replace("_", " "),
            "unit": unit,
            "resume": f"vsr evolve {shlex.quote(str(self.path))} --resume",
            "version": f"{self._statistics.beginnings}.{done}",
        }
        pace = 0.0
        if done:
            pace = _seconds_per_generation(lines[0][:done])
            told |= _latest(experiment, lines, done) | _speed(experiment, pace, done)
            if told["version"] != known:
                told["curves"] = _curves(experiment, lines, done)
        quiet = self._quiet_seconds()
        return told | {"state": self._state(experiment, done, quiet, pace), "quiet": quiet}

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


def _seconds_per_generation(lines: list[dict[str, Any]]) -> float:
    """Mean of the last ones."""
    known = [float(line["seconds"]) for line in lines[-RECENT:] if isinstance(line.get("seconds"), int | float)]
    return sum(known) / len(known) if known else 0.0


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
    robots = experiment.ea.n_pop * len(experiment.seeds)
    rate = robots / pace if pace > 0 else None
    return {
        "evaluations": robots * done,
        "evaluationsPerSecond": rate,
        "robotSecondsPerSecond": None if rate is None else rate * experiment.schedule().total_time,
        "secondsPerGeneration": pace,
        "secondsLeft": pace * (experiment.generations - done),
    }


def _curves(experiment: Experiment, lines: list[list[dict[str, Any]]], done: int) -> dict[str, Any]:
    """The measure over generations, for each of the first seeds and the median over all."""
    shown = min(len(lines), MOST_SEEDS)
    most = max(MOST_NUMBERS // (2 * shown + 2), 100)
    chosen = np.unique(np.linspace(0, done - 1, min(done, most)).round().astype(int))
    sign = experiment.fitness.sign
    told: dict[str, Any] = {"generation": chosen.tolist(), "seed": list(experiment.seeds[:shown])}
    for name in ("best", "median"):
        values = np.stack([_numbers([of_seed[place][name] for place in chosen]) for of_seed in lines])
        told[name] = [_rounded(sign * row) for row in values[:shown]]
        told[f"{name}Middle"] = _rounded(sign * middle(values))
    return told


def _numbers(values: list[float | None]) -> np.ndarray:
    """Fitness, with negative infinity for what failed."""
    return np.array([-np.inf if value is None else value for value in values], float)


def _rounded(values: np.ndarray) -> list[float]:
    """To as many digits as a curve can show."""
    return [float(f"{value:.6g}") for value in values]
