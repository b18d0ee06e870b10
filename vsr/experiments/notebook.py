"""Robots and runs in notebooks: players inline, a run's curve and table, and both live while it evolves.

What draws is imported when something is drawn: a notebook that shows a body must not wait for it.
"""

from __future__ import annotations

import html
import io
import sys
import tempfile
import time
import webbrowser
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from vsr.display import register, register_film
from vsr.drawing.notebook import figure, table
from vsr.drawing.painter import Look
from vsr.experiments.config.problems import UserError
from vsr.experiments.console import say
from vsr.experiments.evolve.display import Display, Pace, Progress, summary
from vsr.experiments.experiment import Experiment
from vsr.experiments.formatting import count
from vsr.experiments.ranks import middle
from vsr.experiments.storage.robots import load_robot, robot_file
from vsr.experiments.storage.runs import Run
from vsr.scene import Outcome, Scene
from vsr.world.spec import Robot

HEIGHT = 460
"""Of a player in a notebook [pixels]."""
LIVE_SECONDS = 8.0
"""How long the best robot's episode is, while others evolve [s]."""
REST = 10.0
"""Time between two robots of a live panel over the time that one takes: at most a tenth of the run."""
CURVE = (460, 150)
"""Size of the live curve [pixels]."""


# Players


@dataclass(frozen=True)
class Player:
    """A robot in motion: a page that needs nothing else."""

    name: str
    html: str
    """the page"""

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts" title="{html.escape(self.name)}" '
            f'style="width:100%;height:{HEIGHT}px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Player({self.name!r})"

    def save(self, file: str | Path) -> Path:
        """Write the page."""
        from vsr.experiments.storage.files import write_text

        write_text(Path(file), self.html)
        return Path(file)

    def shown(self) -> Player:
        """The same, and in a browser where no notebook shows it."""
        if not in_notebook():
            page = self.save(Path(tempfile.mkdtemp(prefix="vsr-")) / "robot.html")
            if not webbrowser.open(page.as_uri()):
                say(f"there is no browser to open here; the page is {page}")
        return self


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this."""
    found = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return found is not None and hasattr(found, "kernel")


def play_scene(scene: Scene, seconds: float | None = None, name: str = "robot") -> Player:
    """Simulate a scene's robot; seconds: by default its task's."""
    from vsr.experiments.play.page import page
    from vsr.experiments.play.recordings import Source, record_robot

    robot = record_robot(Source(name, scene), scene.task.duration if seconds is None else seconds)
    return Player(name, page([robot], Look(), repeat=True))


def play_outcome(outcome: Outcome, seconds: float | None = None) -> Player:
    """As it was simulated, if the trajectory was kept; else again."""
    from vsr.experiments.play.page import page
    from vsr.experiments.play.recordings import robot_from_trajectory

    scene, model, trajectory = outcome.scene, outcome.model, outcome.trajectory
    if scene is None:
        raise UserError("this outcome does not know its scene: simulate it with vsr.simulate")
    if model is None or trajectory is None or seconds is not None:
        return play_scene(scene, seconds)
    robot = robot_from_trajectory("robot", scene, model, trajectory, outcome.measures)
    return Player("robot", page([robot], Look(), repeat=True))


register_film(Robot, lambda robot, seconds: play_scene(Scene(robot=robot), 10.0 if seconds is None else seconds))
register_film(Scene, play_scene)
register_film(Outcome, play_outcome)
register_film(Run, lambda run, seconds: play_scene(run.robot(), seconds, f"{run.name}, the best"))


# Runs


def run_png(run: Run) -> bytes:
    """The best robot's measure per generation."""
    from vsr.experiments.plot.curves import curve_figure
    from vsr.experiments.plot.figures import paper_style

    file = io.BytesIO()
    with paper_style({"savefig.dpi": 110}):
        curve_figure([run]).savefig(file, format="png")
    return file.getvalue()


def run_html(run: Run, picture: bytes | None) -> str:
    """The curve, how far the run is, and what came of it."""
    from vsr.experiments.plot.figures import with_unit

    experiment = run.experiment
    sign, seeds = experiment.fitness.sign, experiment.seeds
    lead = int(np.argmax(run.fitness[:, -1]))
    rows = [
        ("run", str(run.path)),
        ("generations", f"{run.generations} of {experiment.generations}"),
        (
            "robots",
            f"{experiment.optimizer.population_size} a generation, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}",
        ),
        (f"best {with_unit(experiment.fitness.measure)}", f"{_number(run.best[lead, -1])} (seed {seeds[lead]})"),
    ]
    if len(seeds) > 1:
        rows.append(("median over seeds", _number(sign * float(middle(run.fitness[:, -1])))))
    rows.append(("failed in the last generation", f"{int(run.failed[:, -1].sum())}"))
    return figure(picture, rows)


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "none"


register(Run, png=run_png, html=run_html)


# While a run evolves


class LivePanel:
    """Progress, the curve so far and the best robot so far in motion, redrawn after generations."""

    def __init__(self, experiment: Experiment, path: Path, outputs: tuple[Any, Any]):
        """outputs: of the notebook, for the panel and for the robot; each has `update(object with _repr_html_)`."""
        self.experiment, self.path, self.pace = experiment, path, Pace(experiment)
        self.panel, self.robot = outputs
        self.best: list[float] = []
        self.lines: list[str] = []
        self._leader = 0
        """index of the seed whose best robot is the best so far"""
        self._shown: tuple[Path, int] | None = None
        self._again = 0.0

    def say(self, text: str) -> None:
        self.lines = [*self.lines, text][-3:]
        self._draw(None)

    def show(self, progress: Progress) -> None:
        self.pace.note(progress)
        if alarm := self.pace.alarm(progress):
            self.say(alarm)
        sign = self.experiment.fitness.sign
        fitness = np.nan_to_num(sign * progress.best, nan=-np.inf)
        self._leader = int(np.argmax(fitness))
        self.best.append(float(progress.best[self._leader]) if np.isfinite(fitness[self._leader]) else np.nan)
        self._draw(progress)
        if time.monotonic() >= self._again:
            self._play()

    def close(self) -> None:
        """With the last robot, if there is one."""
        self._play()

    def _draw(self, progress: Progress | None) -> None:
        rows = [] if progress is None else self._rows(progress)
        said = "".join(f"<div>{html.escape(line)}</div>" for line in self.lines)
        self.panel.update(_Markup(f"<div>{curve_svg(self.best)}{table(rows)}<small>{said}</small></div>"))

    def _rows(self, progress: Progress) -> list[tuple[str, ...]]:
        return [
            ("generation", f"{count(progress.generation + 1)} of {count(self.pace.total)}"),
            (f"best {self.experiment.fitness.measure}", summary(progress.best)),
            ("population median", summary(progress.median)),
            ("failed", progress.failed_and_why),
            ("evaluations/s", count(self.pace.evaluations_per_second())),
            ("time left", self.pace.time_left(progress.generation)),
        ]

    def _play(self) -> None:
        """Show the best robot so far, if it is new and its file is written; a fault must not end the run."""
        file = robot_file(self.path, self.experiment.seeds[self._leader])
        stamp = (file, file.stat().st_mtime_ns) if file.is_file() else None
        if stamp in (None, self._shown):
            return
        began, self._shown = time.monotonic(), stamp
        try:
            self.robot.update(play_scene(load_robot(file), LIVE_SECONDS, file.stem))
        except (UserError, ValueError, RuntimeError, OSError) as error:
            self.lines = [*self.lines, f"the robot is not shown: {error}"][-3:]
        self._again = time.monotonic() + REST * (time.monotonic() - began)


def open_panel(experiment: Experiment, path: Path) -> Display:
    """In the cell that runs."""
    shown = import_module("IPython.display")  # a notebook's kernel has it; nothing else needs it
    panel, robot = (shown.display(_Markup(""), display_id=True) for _ in range(2))
    return LivePanel(experiment, path, (panel, robot))


def curve_svg(values: list[float]) -> str:
    """A curve over generations, its ends in numbers; nothing for less than two."""
    known = [(index, value) for index, value in enumerate(values) if np.isfinite(value)]
    if len(known) < 2:
        return ""
    (width, height), margin = CURVE, 14
    low, high = min(value for _, value in known), max(value for _, value in known)
    across = max(len(values) - 1, 1)

    def place(index: int, value: float) -> str:
        up = (value - low) / (high - low) if high > low else 0.5
        return (
            f"{margin + index / across * (width - 2 * margin):.1f},{height - margin - up * (height - 3 * margin):.1f}"
        )

    line = " ".join(place(*point) for point in known)
    text = 'font-size="11" font-family="sans-serif" fill="currentColor"'
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="best so far">'
        f'<polyline points="{line}" fill="none" stroke="#0072b2" stroke-width="2"/>'
        f'<text x="{margin}" y="{margin - 2}" {text}>best so far: {known[0][1]:.4g} to {known[-1][1]:.4g}</text>'
        f'<text x="{margin}" y="{height - 1}" {text}>generation 1</text>'
        f'<text x="{width - margin}" y="{height - 1}" text-anchor="end" {text}>{len(values)}</text></svg>'
    )


@dataclass(frozen=True)
class _Markup:
    text: str

    def __repr__(self) -> str:
        return "progress of the run"  # where no markup is shown

    def _repr_html_(self) -> str:
        return self.text
