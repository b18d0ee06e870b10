"""Plain pictures of a recorded life: voxels filled by their area, masses, ground. Needs no display.

`strip` draws a few moments of a life side by side as one PNG, `stride` some that follow closely on each other;
`animate` draws a GIF whose camera follows the robot.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from PIL import Image

from vsr.drawing.outlines import RECEDES, Outlines, outlines
from vsr.physics.mechanics import AnyModel
from vsr.rollout import Trajectory

AREA_COLOURS = LinearSegmentedColormap.from_list("area", ["#d7301f", "#74c476", "#ffe135"])
"""Shrunk red, at rest green, enlarged yellow, as the original draws them."""
AREA_RANGE = Normalize(0.75, 1.25)
GROUND_COLOUR = "#5a5a5a"
GROUND_FROM_ABOVE = "#b8b8b8"
FRAMES_PER_SECOND = 15


class Picture:
    """Polygons of every moment of a life, as numpy arrays; robots in space are seen from the front, above and right."""

    def __init__(self, model: AnyModel, trajectory: Trajectory, ground: tuple[np.ndarray, np.ndarray] | None):
        self.time = np.asarray(trajectory.time)
        self.ground = ground
        seen: Outlines = outlines(model, trajectory)
        self.voxels, self.masses, self.area, self.shade = seen
        self.in_space = model.present.ndim == 3
        self.center = self.voxels.mean((1, 2))
        low, high = self.voxels[0].min((0, 1)), self.voxels[0].max((0, 1))
        self.reach = float(max(high - low))

    def frames(self, rate: float) -> np.ndarray:
        """Indices of the moments nearest to equal times apart."""
        wanted = np.arange(0, self.time[-1] + 1e-9, 1 / rate)
        return np.unique(np.searchsorted(self.time, wanted - 1e-6).clip(0, len(self.time) - 1))

    def draw(self, axes: Axes, moment: int, half_width: float, height: float) -> None:
        """Draw one moment, the camera on the robot's centre."""
        middle = self.center[moment]
        if not np.isfinite(middle).all():
            axes.text(0.5, 0.5, "failed", ha="center", transform=axes.transAxes)
            return
        bottom = middle[1] - 0.5 * height
        if self.ground is not None:
            x, y = self.ground
            window = np.unique(np.concatenate([x, np.linspace(middle[0] - half_width, middle[0] + half_width, 200)]))
            level = np.interp(window, x, y)
            bottom = np.interp(middle[0], x, y) - (0.3 if self.in_space else 0.12) * height
            # In space the ground is seen from as far in front of the robot's middle as behind it.
            slant = 0.6 * RECEDES[1] * self.reach if self.in_space else 0.0
            axes.fill_between(window, level + slant, level - slant, color=GROUND_FROM_ABOVE, lw=0)
            axes.fill_between(window, level - slant, level.min() - 1000, color=GROUND_COLOUR, lw=0)
        colours = AREA_COLOURS(AREA_RANGE(self.area[moment]))
        colours[:, :3] *= self.shade[moment][:, None]
        axes.add_collection(
            PolyCollection(self.voxels[moment], facecolors=colours, edgecolors="#303030", linewidths=0.8)
        )
        axes.add_collection(
            PolyCollection(self.masses[moment], facecolors="#00000028", edgecolors="#00000060", linewidths=0.5)
        )
        axes.set(xlim=(middle[0] - half_width, middle[0] + half_width), ylim=(bottom, bottom + height), aspect="equal")


def strip(picture: Picture, path: Path, moments: int = 5) -> None:
    """A few moments, equally apart in time, as one PNG."""
    chosen = np.linspace(0, len(picture.time) - 1, moments).round().astype(int)
    half_width, height = 0.75 * picture.reach + 1, 1.2 * picture.reach + 2
    figure = Figure(figsize=(3 * moments, 3 * height / (2 * half_width) + 0.5), layout="constrained")
    for axes, moment in zip(np.atleast_1d(figure.subplots(1, moments)), chosen, strict=True):
        picture.draw(axes, moment, half_width, height)
        axes.set(title=f"t = {picture.time[moment]:.1f} s", xlabel="x [m]")
        axes.tick_params(labelsize=7)
    figure.savefig(path, dpi=110)


def stride(picture: Picture, path: Path, begin: float, end: float, moments: int = 6) -> None:
    """A few moments between two times [s], equally apart, seen from one place, as one PNG."""
    chosen = np.searchsorted(picture.time, np.linspace(begin, end, moments) - 1e-6).clip(0, len(picture.time) - 1)
    seen = picture.voxels[chosen].reshape(-1, 2)
    seen = seen[np.isfinite(seen).all(1)] if np.isfinite(seen).any() else np.zeros((1, 2))
    margin = 0.1 * picture.reach
    low, high = seen.min(0) - margin, seen.max(0) + margin
    if picture.ground is not None:
        low[1] = min(low[1], np.interp(np.linspace(low[0], high[0], 50), *picture.ground).min() - margin)
    width, height = high - low
    figure = Figure(figsize=(2.2 * moments, 2.2 * height / width + 0.6), layout="constrained")
    frames = np.atleast_1d(figure.subplots(1, moments, sharey=True))
    for axes, moment in zip(frames, chosen, strict=True):
        picture.draw(axes, moment, width, height)
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
        axes.set_title(f"t = {picture.time[moment]:.2f} s", fontsize=9)
        axes.tick_params(labelsize=7)
    frames[0].set_ylabel("y [m]", fontsize=8)
    figure.supxlabel("x [m]", fontsize=8)
    figure.savefig(path, dpi=110)


def animate(picture: Picture, path: Path, rate: float = FRAMES_PER_SECOND) -> None:
    """All moments as a GIF in real time."""
    half_width, height = 1.5 * picture.reach, 1.5 * picture.reach + 1
    figure = Figure(figsize=(6, 6 * height / (2 * half_width) + 0.4), dpi=70)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.07, 0.09, 0.91, 0.83))
    images = []
    for moment in picture.frames(rate):
        axes.clear()
        picture.draw(axes, moment, half_width, height)
        axes.set_title(f"t = {picture.time[moment]:.1f} s, x = {picture.center[moment][0]:.1f} m", fontsize=9)
        axes.tick_params(labelsize=7)
        canvas.draw()
        images.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").quantize(64))
    images[0].save(path, save_all=True, append_images=images[1:], duration=round(1000 / rate), loop=0)
