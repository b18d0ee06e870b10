"""Pictures of a training: its curve, and a film of a bulldozer at work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from vsr.envs.machines.bulldozing import GOAL, Bulldozing, pose_at
from vsr.envs.machines.cameras import Eye, looking, paint
from vsr.experiments.plot.figures import paper_style, save_figure
from vsr.experiments.storage.files import replace_when_closed
from vsr.experiments.train.bulldozer import Film

CAMERA = Eye(pixels=(270, 480), half_angle=0.5, near=3.0, far=14.0)
AT, TARGET = (-0.6, -6.4, 4.2), (0.0, -0.1, 0.0)
"""Where the camera is and looks [m]."""
MOST_FRAMES = 100
TALL = 0.4
"""Height of the brightest grains [m]."""
LINE = np.array([60, 140, 80], np.uint8)
"""Color of the goal's outline."""


def write_film(scenario: Bulldozing, film: Film, target: Path) -> None:
    """A GIF that runs as fast as the episode did, less some frames of long ones."""
    steps = len(film.place)
    stride = max(1, -(-steps // MOST_FRAMES))
    frames = [Image.fromarray(frame(scenario, film, moment)) for moment in range(0, steps, stride)]
    pause = round(1000 * scenario.pace.interval * stride)
    with replace_when_closed(target) as partial:
        frames[0].save(partial, save_all=True, append_images=frames[1:], duration=pause, loop=0)


def frame(scenario: Bulldozing, film: Film, moment: int) -> np.ndarray:
    """Red, green and blue of one moment, (rows, columns, 3)."""
    grains = scenario.grains
    state = replace(grains.start, position=film.position[moment])
    here = pose_at(film.place[moment])
    solids = tuple((body, here) for body in grains.bodies[3:])
    picture = np.array(paint(CAMERA, looking(AT, TARGET), grains, state, solids, tall=TALL))
    rows, columns = _outline()
    picture[rows, columns] = LINE
    return picture


def _outline() -> tuple[np.ndarray, np.ndarray]:
    """Pixels of the goal's outline on the ground."""
    (x, y), (x_end, y_end) = GOAL
    corners = np.array([(x, y), (x_end, y), (x_end, y_end), (x, y_end), (x, y)])
    share = np.linspace(0, 1, 400)[:, None]
    points = np.concatenate([a + share * (b - a) for a, b in pairwise(corners)])
    pose = looking(AT, TARGET)
    place = np.concatenate([points, np.zeros((len(points), 1))], 1) - np.asarray(pose.position)
    ahead, left, up = (place @ np.asarray(pose.rotation)).T
    rows = np.floor(0.5 * CAMERA.pixels[0] - CAMERA.focal * up / ahead).astype(int)
    columns = np.floor(0.5 * CAMERA.pixels[1] - CAMERA.focal * left / ahead).astype(int)
    shown = (rows >= 0) & (rows < CAMERA.pixels[0]) & (columns >= 0) & (columns < CAMERA.pixels[1])
    return rows[shown], columns[shown]


def plot_curve(
    target: Path, rounds: Sequence[float], lines: Mapping[str, Sequence[float | None]], x: str, y: str
) -> None:
    """Lines by their labels over rounds; what is None leaves gaps. x, y: names of the axes."""
    with paper_style():
        figure = Figure()
        axes = figure.add_subplot()
        for label, values in lines.items():
            axes.plot(rounds, [float("nan") if value is None else value for value in values], label=label)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.legend()
        save_figure(figure, target)
