"""The best robots of experiments whose winners were exchanged: their files, strips of frames, all bodies, a film."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from vsr.body import Body
from vsr.drawing.painter import Look
from vsr.experiments.config import dump_yaml
from vsr.experiments.estimate import simulate_within_memory
from vsr.experiments.play.film import GIF_RATE, Film, write_gif
from vsr.experiments.play.recordings import RecordedRobot, robot_from_trajectory
from vsr.experiments.plot.figures import paper_style, save_figure
from vsr.experiments.report.bodies import COLOURS, polygons
from vsr.experiments.reproduce.exchange import Exchange, moved, robots_of
from vsr.experiments.reproduce.robots import draw_strip, title_of
from vsr.experiments.storage.files import replacing, write_text
from vsr.experiments.storage.runs import Run
from vsr.scene import Scene

BODIES, FILM = "bodies.png", "exchange.gif"
PANEL, SECONDS = (300, 200), 6.0
"""Size of one robot's picture in the film [pixels], and how long the film is at most [s]: it is to be a small file."""


def keep_winners(
    runs: Mapping[str, Run], found: Exchange, labels: Mapping[str, str], film: Sequence[str], folder: Path, best: Path
) -> None:
    """Leave in `best` every experiment's best robot as NAME.yaml and NAME.png, and in `folder` bodies and the film.

    film: experiments whose best robots are shown in each other's worlds; labels: what people call experiments.
    """
    scenes = robots_of(runs)
    chosen = {name: scene for name in runs if (scene := scenes[_place(found, name)]) is not None}
    best.mkdir(parents=True, exist_ok=True)
    for name, scene in chosen.items():
        robust, index = found.robustness(name), found.best(name)
        title = title_of(runs[name], index, robust.refined[index, 0].tolist(), robust)
        write_text(best / f"{name}.yaml", title + dump_yaml(scene))
        shown = f"{labels[name]}, seed {runs[name].experiment.seeds[index]}"
        draw_strip(_recorded(scene, shown), best / f"{name}.png")
    filmed = [name for name in film if name in chosen]
    if filmed:
        robots = [
            _recorded(moved(chosen[name], runs[world].experiment), f"{name} on {world}")
            for name in filmed
            for world in filmed
        ]
        with replacing(folder / FILM) as partial_file:
            write_gif(Film(robots, Look(), GIF_RATE, panel=PANEL, seconds=SECONDS), partial_file, lambda: None)
    draw_bodies(runs, found, labels, folder / BODIES)  # last: it tells that all of this is done


def draw_bodies(runs: Mapping[str, Run], found: Exchange, labels: Mapping[str, str], target: Path) -> None:
    """All winners, a row for each experiment, the best on its left."""
    scenes = robots_of(runs)
    columns = max(len(run.experiment.seeds) for run in runs.values())
    with paper_style():
        figure = Figure(figsize=(1.2 + 0.8 * columns, 0.9 * len(runs)), layout="constrained")
        grid = figure.subplots(len(runs), columns, squeeze=False)
        for axes in grid.flat:
            axes.set_axis_off()
        for row, name in zip(grid, runs, strict=True):
            fitness = found.fitness(name, name)
            own = [scene for scene, home in zip(scenes, found.home, strict=True) if found.names[home] == name]
            row[0].set_axis_on()
            row[0].set(xticks=[], yticks=[], frame_on=False)
            row[0].set_ylabel(labels[name], rotation=0, ha="right", va="center")
            for axes, index in zip(row, np.argsort(-fitness), strict=False):
                scene = own[index]
                if scene is not None:
                    _draw_body(axes, scene.robot.body)
                    axes.set_title(f"{fitness[index]:.3f}" if np.isfinite(fitness[index]) else "failed", fontsize=7)
        save_figure(figure, target)


def _draw_body(axes, body: Body) -> None:
    for outline, material, _ in polygons(body):
        axes.add_patch(Polygon(outline, facecolor=COLOURS[material % len(COLOURS)], edgecolor="white", linewidth=0.5))
    rows, columns = body.cells.shape
    low = int(np.flatnonzero(body.present.any(1))[0])
    axes.set(xlim=(0, columns), ylim=(low, low + rows), aspect="equal")


def _place(found: Exchange, name: str) -> int:
    """Of an experiment's best robot among all."""
    return int(np.flatnonzero(found.home == found.names.index(name))[found.best(name)])


def _recorded(scene: Scene, name: str) -> RecordedRobot:
    outcome = simulate_within_memory(name, scene, keep_trajectory=True)
    assert outcome.model is not None
    assert outcome.trajectory is not None
    return robot_from_trajectory(name, scene, outcome.model, outcome.trajectory, outcome.measures)
