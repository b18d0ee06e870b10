"""How an evolution shows its progress: a live panel in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from vsr.experiments.console import say
from vsr.experiments.experiment import Experiment
from vsr.experiments.formatting import clock, count
from vsr.physics.failure import Failure, failure_summary, remedies

SPARKS = "▁▂▃▄▅▆▇█"
SECONDS_BETWEEN_LINES = 2.0
RECENT = 20
"""generations over which the speed is averaged"""


@dataclass(frozen=True)
class Progress:
    """One finished generation."""

    generation: int
    best: np.ndarray
    """the measure of each seed's best robot so far, (seeds,)"""
    median: np.ndarray
    """the measure's median over each seed's population, (seeds,)"""
    failed: int
    """robots that failed in this generation, all seeds together"""
    seconds: float
    """how long the generation took"""
    failures: Mapping[Failure, int] = field(default_factory=dict)
    """how many of these robots failed for each reason"""

    @property
    def failed_and_why(self) -> str:
        """'3 (inverted 2, exploded 1)'."""
        by_number = sorted(self.failures.items(), key=lambda item: -item[1])
        reasons = ", ".join(f"{reason.label} {count(number)}" for reason, number in by_number)
        return f"{count(self.failed)} ({reasons})" if reasons else count(self.failed)


class Display(Protocol):
    """Where progress goes."""

    def say(self, text: str) -> None:
        """A line that stays."""
        ...

    def show(self, progress: Progress) -> None:
        """A finished generation."""
        ...

    def close(self) -> None:
        """No more will come."""
        ...


class Pace:
    """Speed over the last generations."""

    def __init__(self, experiment: Experiment):
        self.robots = experiment.optimizer.population_size * len(experiment.seeds)
        self.total = experiment.generations
        self.recent: deque[float] = deque(maxlen=RECENT)

    def note(self, progress: Progress) -> None:
        self.recent.append(progress.seconds)

    def alarm(self, progress: Progress) -> str | None:
        """The warning if no individual of the first generation could be simulated."""
        if progress.generation or progress.failed < self.robots:
            return None
        reasons = f": {failure_summary(progress.failures, self.robots)}" if progress.failures else ""
        advice = f"; what mostly helps: {remedies(progress.failures)}" if progress.failures else ""
        return f"warning: all robots of the first generation failed{reasons}{advice}; evolution goes on"

    def evaluations_per_second(self) -> float:
        return self.robots * len(self.recent) / max(sum(self.recent), 1e-9)

    def time_left(self, generation: int) -> str:
        return clock(sum(self.recent) / len(self.recent) * (self.total - generation - 1))


class PlainLines:
    """For logs and pipes: a line now and then, always the first and the last."""

    def __init__(self, experiment: Experiment, console: Console):
        self.console, self.pace = console, Pace(experiment)
        self.last_line = -SECONDS_BETWEEN_LINES

    def say(self, text: str) -> None:
        say(text, self.console)

    def show(self, progress: Progress) -> None:
        self.pace.note(progress)
        if alarm := self.pace.alarm(progress):
            self.say(alarm)
        last = progress.generation == self.pace.total - 1
        if last or time.monotonic() - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = time.monotonic()
            speed, left = self.pace.evaluations_per_second(), self.pace.time_left(progress.generation)
            self.say(
                f"generation {count(progress.generation + 1)}/{count(self.pace.total)}  "
                f"best {summary(progress.best)}  median {summary(progress.median)}  "
                f"failed {progress.failed_and_why}  {count(speed)} evaluations/s  {left} left"
            )

    def close(self) -> None:
        pass


class LivePanel:
    """For a terminal: one panel that is redrawn."""

    def __init__(self, experiment: Experiment, console: Console, title: str):
        self.console, self.pace, self.title = console, Pace(experiment), title
        self.measure = experiment.fitness.measure
        self.history: list[float] = []
        self.live: Live | None = None

    def say(self, text: str) -> None:
        say(text, self.console)

    def show(self, progress: Progress) -> None:
        self.pace.note(progress)
        if alarm := self.pace.alarm(progress):
            self.say(alarm)
        self.history.append(float(np.nanmedian(progress.best)) if np.isfinite(progress.best).any() else np.nan)
        if self.live is None:
            self.live = Live(console=self.console, auto_refresh=False)
            self.live.start()
        self.live.update(self._panel(progress), refresh=True)

    def close(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def _panel(self, progress: Progress) -> Panel:
        table = Table(box=None, show_header=False, pad_edge=False)
        rows = {
            "generation": f"{count(progress.generation + 1)} of {count(self.pace.total)}",
            f"best {self.measure}": summary(progress.best),
            "population median": summary(progress.median),
            "failed": progress.failed_and_why,
            "evaluations/s": count(self.pace.evaluations_per_second()),
            "time left": self.pace.time_left(progress.generation),
            "best so far": sparkline(self.history, max(10, min(60, self.console.width - 30))),
        }
        for name, value in rows.items():
            table.add_row(name, value)
        return Panel(table, title=escape(self.title), expand=False)


def open_display(experiment: Experiment, title: str, console: Console | None = None) -> Display:
    """The display that suits where the output goes."""
    console = console or Console()
    return LivePanel(experiment, console, title) if console.is_terminal else PlainLines(experiment, console)


def summary(values: np.ndarray) -> str:
    """One seed's value, or the median and range of several."""
    known = values[np.isfinite(values)]
    if not known.size:
        return "none"
    if values.size == 1:
        return f"{known[0]:.4g}"
    return f"{np.median(known):.4g} ({known.min():.4g} to {known.max():.4g} over {values.size} seeds)"


def sparkline(values: list[float], width: int) -> str:
    """A curve in one line of text, at most a number of characters wide."""
    known = np.array([value for value in values if np.isfinite(value)])
    if not known.size:
        return ""
    chosen = known[np.linspace(0, known.size - 1, min(width, known.size)).round().astype(int)]
    span = chosen.max() - chosen.min()
    level = (chosen - chosen.min()) / span if span > 0 else np.zeros_like(chosen)
    return "".join(SPARKS[round(x * (len(SPARKS) - 1))] for x in level)
