"""The work of `vsr play`: simulate robots and show them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from vsr.drawing.painter import Look
from vsr.experiments.config.problems import UserError
from vsr.experiments.console import busy, warn
from vsr.experiments.options import PlayOptions
from vsr.experiments.play.film import (
    GIF_RATE,
    MP4_RATE,
    STRIP_MOMENTS,
    Film,
    require_ffmpeg,
    write_gif,
    write_mp4,
    write_strip,
)
from vsr.experiments.play.page import page
from vsr.experiments.play.recordings import RecordedRobot, read_sources, record_robot
from vsr.experiments.storage.files import replace_when_closed, target_file, write_text
from vsr.experiments.storage.runs import trust_plugins

FORMATS = (".html", ".mp4", ".gif", ".png")


def play(options: PlayOptions) -> Path:
    """Simulate all robots and write the file; returns where it is."""
    target = target_file("--out", options.out or _default_name(options.given), FORMATS)
    suffix = target.suffix.lower()
    if suffix == ".mp4":
        require_ffmpeg(target)
    overlays = frozenset(options.overlays)
    look = Look(options.color, options.palette, overlays, options.grain_color)  # pyright: ignore[reportArgumentType]
    if options.trust_plugins:
        trust_plugins(options.given)
    sources = read_sources(
        options.given,
        seed=options.seed,
        generations=options.generations,
        cells=options.cells,
        settings=options.settings,
    )
    warn(list(dict.fromkeys(warning for source in sources for warning in source.warnings)))
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    shown = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with shown as progress, busy("simulating and drawing", counting=False):
        simulating = progress.add_task("simulating", total=len(sources))
        robots = []
        for source in sources:
            robots.append(record_robot(source, options.seconds))
            progress.advance(simulating)
        _require_sensors(robots, look)
        _write(robots, look, target, suffix, progress)
    return target


def _write(robots: Sequence[RecordedRobot], look: Look, target: Path, suffix: str, progress: Progress) -> None:
    with replace_when_closed(target) as partial:
        if suffix == ".html":
            write_text(partial, page(robots, look))
        elif suffix == ".png":
            task = progress.add_task("painting", total=STRIP_MOMENTS * len(robots))
            write_strip(robots, look, partial, lambda: progress.advance(task))
        else:
            film = Film(robots, look, GIF_RATE if suffix == ".gif" else MP4_RATE)
            task = progress.add_task("painting", total=film.moments)
            (write_gif if suffix == ".gif" else write_mp4)(film, partial, lambda: progress.advance(task))


def _require_sensors(robots: Sequence[RecordedRobot], look: Look) -> None:
    if "sensors" in look.overlays and not any(robot.recording.felt for robot in robots):
        raise UserError(
            "--show sensors: "
            + (
                "this robot's controller reads none"
                if len(robots) == 1
                else "none of these robots' controllers reads any"
            )
            + "; show a robot whose controller has sensors (type: mlp), or leave it out"
        )


def _default_name(given: Sequence[str]) -> str:
    """A page in the current folder, named after the robot."""
    if len(given) > 1:
        return "robots.html"
    path = Path(given[0])
    return f"{path.resolve().name if path.is_dir() else path.stem}.html"
