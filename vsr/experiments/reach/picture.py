"""Pictures of poses: voxels from the side, in 3-D from below too, with targets, effectors and obstacles."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from PIL import Image

from vsr.drawing.outlines import FACES
from vsr.drawing.painter import Look
from vsr.drawing.recording import Recording, at_rest
from vsr.experiments.play.page import page
from vsr.experiments.play.recordings import RecordedRobot
from vsr.experiments.reach.solving import VariantResult
from vsr.experiments.reach.spec import BallObstacle, PlaneObstacle, Reach
from vsr.experiments.storage.files import write_text
from vsr.scene import Physics, Scene
from vsr.world.spec import Robot, World

SOLID, FLUID, EDGE = "#c9b8a8", "#7fb0d8", "#5b5048"
REACHED, MISSED = "#2b8a3e", "#c92a2a"
MOST_PANELS = 5
MOST_FRAMES = 120
Views = tuple[tuple[int, int, int], ...]
"""Axes to the right, up and towards the eye (with its sign) of each view."""


def write_png(name: str, spec: Reach, found: Sequence[VariantResult], target: Path) -> None:
    """Some poses of every variant, and where all targets and effectors are."""
    matplotlib.use("Agg")
    rows = [_rows(one) for one in found]
    views = _views(spec)
    across = max(map(len, rows)) + (1 if len(found[0].target) > 1 else 0)
    figure = Figure(figsize=(3.2 * across, 2.9 * len(found) * len(views)), layout="constrained")
    axes = figure.subplots(len(found) * len(views), across, squeeze=False)
    for number, one in enumerate(found):
        for which, view in enumerate(views):
            line = axes[number * len(views) + which]
            limits = _limits(found, view)
            for column, row in enumerate(rows[number]):
                _pose(line[column], spec, one, row, view, limits)
                line[column].set_title(_title(one, row), fontsize=8)
            for panel in line[len(rows[number]) :]:
                panel.set_axis_off()
            if len(one.target) > 1:
                line[-1].set_axis_on()
                _overview(line[-1], spec, one, view, limits)
    figure.savefig(target, dpi=110)


def write_gif(name: str, spec: Reach, found: Sequence[VariantResult], target: Path) -> None:
    """All poses one after the other; targets that move as fast as they do."""
    matplotlib.use("Agg")
    views, count = _views(spec), max(len(one.position) for one in found)
    stride = max(1, -(-count // MOST_FRAMES))
    frames = []
    for moment in range(0, count, stride):
        figure = Figure(figsize=(4.2 * len(found), 3.6 * len(views)), layout="constrained")
        axes = figure.subplots(len(views), len(found), squeeze=False)
        for column, one in enumerate(found):
            row = min(moment, len(one.position) - 1)
            for which, view in enumerate(views):
                _pose(axes[which][column], spec, one, row, view, _limits(found, view))
                axes[which][column].set_title(_title(one, row), fontsize=8)
        buffer = io.BytesIO()
        figure.savefig(buffer, dpi=80)
        frames.append(Image.open(buffer).convert("P", palette=Image.Palette.ADAPTIVE))
    pause = 1000 * stride / spec.frequency if spec.moves else 800
    frames[0].save(target, save_all=True, append_images=frames[1:], duration=max(20, round(pause)), loop=0)


def write_html(name: str, spec: Reach, found: Sequence[VariantResult], target: Path) -> None:
    """A page in which poses follow each other and the body can be turned; without targets and obstacles."""
    robots = [_recorded(name, spec, one) for one in found]
    write_text(target, page(robots, Look(color_by="material"), repeat=True))


def _recorded(name: str, spec: Reach, found: VariantResult) -> RecordedRobot:
    still = at_rest(found.body)
    corner = _corners(found)
    poses, voxels = corner.shape[:2]
    step = 1 / spec.frequency if spec.moves else 1.0
    recording = Recording(
        time=step * np.arange(poses),
        position=corner.reshape(poses, -1, found.body.dimension),
        angle=None,
        ratio=np.ones((poses, voxels)),
        control=np.zeros((poses, voxels)),
        contact=np.zeros((poses, voxels), bool),
        velocity=np.zeros((poses, voxels, found.body.dimension)),
        part=still.part,
        offset=still.offset,
        half_side=still.half_side,
        springs=still.springs,
        spring_ends=still.spring_ends,
        material=still.material,
        place=still.place,
        voxel_side=still.voxel_side,
        failed=False,
    )
    scene = Scene.model_construct(
        robot=Robot(body=found.body), world=World(terrain=None, gravity=spec.gravity), physics=Physics()
    )
    return RecordedRobot(f"{name} {found.name}".strip(), scene, recording, {})


def _views(spec: Reach) -> Views:
    """From the front, and from below in 3-D."""
    return ((0, 1, 1),) if spec.body.dimension == 2 else ((0, 2, -2), (0, 1, -3))


def _rows(found: VariantResult) -> list[int]:
    given, targets = len(found.names), len(found.target)
    some = np.unique(np.linspace(0, targets - 1, min(targets, MOST_PANELS - min(given, MOST_PANELS - 1))).astype(int))
    return [*range(min(given, MOST_PANELS)), *(given + some)][:MOST_PANELS] if targets else list(range(given))


def _title(found: VariantResult, row: int) -> str:
    given = len(found.names)
    label = found.names[row] if row < given else f"target {row - given}"
    gap = "" if row < given else f", {1e3 * found.distance[row - given].max():.2g} mm off"
    angle = "" if found.angle is None else f", {found.angle[row]:.1f}°"
    return f"{found.name} {label}{gap}{angle}".strip()


def _limits(found: Sequence[VariantResult], view: tuple[int, int, int]) -> np.ndarray:
    """Lowest and highest in view [mm], (2, 2)."""
    parts = []
    for one in found:
        there = np.asarray(one.model.node_mass) > 0
        parts += [one.position[:, there].reshape(-1, one.body.dimension), one.target.reshape(-1, one.body.dimension)]
    points = 1e3 * np.concatenate(parts)[:, view[:2]]
    low, high = points.min(0), points.max(0)
    margin = 0.06 * (high - low).max()
    return np.stack([low - margin, high + margin])


def _corners(found: VariantResult) -> np.ndarray:
    """Of every voxel in every pose [m], (poses, voxels, corners, dimension)."""
    model, dimension = found.model, found.body.dimension
    present = np.asarray(model.present) > 0
    layer = np.asarray(model.layer).argmax(0)
    cells = np.argwhere(present)
    flat = found.position.reshape(len(found.position), -1, dimension)
    nodes = [size + 1 for size in present.shape]
    corners = []
    for corner in range(2**dimension):
        steps = np.array([corner >> (dimension - 1 - axis) & 1 for axis in range(dimension)])
        place = np.ravel_multi_index(tuple((cells + steps).T), nodes)
        corners.append(flat[:, layer[corner][present] * int(np.prod(nodes)) + place])
    return np.stack(corners, 2)


def _pose(
    axes: Axes, spec: Reach, found: VariantResult, row: int, view: tuple[int, int, int], limits: np.ndarray
) -> None:
    _obstacles(axes, spec, view, limits)
    corner = 1e3 * _corners(found)[row]
    fluid = np.array([material.fluid is not None for material in found.body.materials.values()])
    is_fluid = fluid[found.body.cells[found.body.present]]
    if found.body.dimension == 2:
        faces, colors = corner[:, [0, 1, 3, 2]], np.where(is_fluid, FLUID, SOLID)
    else:
        sides = np.array(list(FACES.values()))
        faces = corner[:, sides].reshape(-1, 4, 3)
        colors = np.repeat(np.where(is_fluid, FLUID, SOLID), len(sides))
        towards = abs(view[2]) - 1
        order = np.argsort(np.sign(view[2]) * faces[..., towards].mean(1))
        faces, colors = faces[order], colors[order]
    axes.add_collection(
        PolyCollection(list(faces[..., view[:2]]), facecolors=list(colors), edgecolors=EDGE, linewidths=0.4)
    )
    index = row - len(found.names)
    if index >= 0:
        for target, effector in zip(found.target[index], found.effector[index], strict=True):
            line = 1e3 * np.stack([target, effector])[:, view[:2]]
            color = REACHED if found.reached[index] else MISSED
            axes.plot(*line.T, color=color, linewidth=0.8, zorder=3)
            axes.plot(*line[0], "o", color="#f2c230", markeredgecolor=color, markersize=7, zorder=4)
            axes.plot(*line[1], ".", color="black", markersize=3, zorder=5)
    _frame(axes, limits)


def _overview(axes: Axes, spec: Reach, found: VariantResult, view: tuple[int, int, int], limits: np.ndarray) -> None:
    """All targets, and the way to where effectors came."""
    _obstacles(axes, spec, view, limits)
    for effector in range(found.target.shape[1]):
        target, end = (1e3 * part[:, effector][:, view[:2]] for part in (found.target, found.effector))
        axes.plot(*np.stack([target, end], 1).T, color="#999999", linewidth=0.4)
        axes.scatter(*target.T, s=8, color=np.where(found.reached, REACHED, MISSED), zorder=3)
        axes.scatter(*end.T, s=3, color="black", zorder=4)
    axes.set_title(f"{found.name} {found.reached.sum()} of {len(found.target)} reached".strip(), fontsize=8)
    _frame(axes, limits)


def _obstacles(axes: Axes, spec: Reach, view: tuple[int, int, int], limits: np.ndarray) -> None:
    first, second = view[:2]
    for obstacle in spec.obstacles:
        if isinstance(obstacle, BallObstacle):
            angle = np.linspace(0, 2 * np.pi, 100)
            x, y = (1e3 * obstacle.center[axis] for axis in (first, second))
            radius = 1e3 * obstacle.radius
            axes.fill(x + radius * np.cos(angle), y + radius * np.sin(angle), color="#8f8f8f")
        elif isinstance(obstacle, PlaneObstacle):
            normal = np.array(obstacle.normal)[[first, second]]
            if np.linalg.norm(normal) < 1e-9:
                continue
            normal = normal / np.linalg.norm(normal)
            along, reach = np.array([-normal[1], normal[0]]), 2 * np.ptp(limits, axis=0).max()
            point = 1e3 * np.array(obstacle.point)[[first, second]]
            corners = [point - reach * along, point + reach * along]
            axes.fill(
                *np.array([*corners, corners[1] - reach * normal, corners[0] - reach * normal]).T, color="#8f8f8f"
            )


def _frame(axes: Axes, limits: np.ndarray) -> None:
    axes.set_xlim(*limits[:, 0])
    axes.set_ylim(*limits[:, 1])
    axes.set_aspect("equal")
    axes.tick_params(labelsize=6)
