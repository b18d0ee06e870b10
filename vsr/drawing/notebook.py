"""Robots, scenes and outcomes in notebooks: pictures as PNG, and small tables with them as HTML."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from vsr.display import register
from vsr.drawing.legend import legend
from vsr.drawing.overlays import PAPER
from vsr.drawing.painter import Look, Painter
from vsr.drawing.recording import at_rest, recording_of, size_word
from vsr.robot import Body
from vsr.scene import Outcome, Scene, precision
from vsr.spec import Spec
from vsr.tasks import MEASURES
from vsr.world.spec import Robot

BODY_PANEL, MOMENT_PANEL = (420, 280), (260, 200)
"""Sizes of a body's picture, and of one moment of an episode [pixels]."""
MOMENTS = 4
Rows = Sequence[tuple[str, ...]]


def body_png(body: Body) -> bytes:
    """At rest, a color per material."""
    look = Look(color_by="material")
    count = int(body.present.sum())
    size = " x ".join(map(str, body.cells.shape[::-1]))
    title = f"{count} voxel{'s' if count > 1 else ''} in {size}"
    panel = Painter(at_rest(body), None, look, title=title, size=BODY_PANEL, timed=False).paint(0)
    return png([[panel], [legend(look, BODY_PANEL[0], tuple(body.materials))]])


def body_html(body: Body, picture: bytes | None) -> str:
    """The picture, and what it is made of."""
    return figure(_needed(picture), _about_body(body))


def robot_html(robot: Robot, picture: bytes | None) -> str:
    """Its body, and what it is made of."""
    return figure(_needed(picture), _about_robot(robot))


def scene_html(scene: Scene, picture: bytes | None) -> str:
    """Its robot, and where it is."""
    terrain = scene.world.terrain
    about = [
        *_about_robot(scene.robot),
        ("ground", "none" if terrain is None else _kind(terrain)),
        ("task", f"{_kind(scene.task)}, {scene.task.duration:g} s"),
        ("time step", f"{scene.physics.time_step:.4g} s, {scene.schedule().substeps} substeps"),
    ]
    return figure(_needed(picture), about)


def outcome_png(outcome: Outcome) -> bytes | None:
    """Some moments of the episode, if its trajectory was kept."""
    scene, model, trajectory = outcome.scene, outcome.model, outcome.trajectory
    if scene is None or model is None or trajectory is None:
        return None
    with precision(scene.physics.precision):
        environment = scene.world.build(np.dtype(scene.physics.precision))
        cells, systems = scene.robot.body.cells, scene.systems()
        recording = recording_of(model, trajectory, environment, cells, systems=systems)
    terrain, look = scene.world.terrain, Look()
    ground = None if terrain is None else terrain.line_at(scene.task.placement.y)
    painter = Painter(recording, ground, look, title="", size=MOMENT_PANEL)
    chosen = np.linspace(0, len(recording.time) - 1, MOMENTS).round().astype(int)
    panels = [painter.paint(int(moment)) for moment in chosen]
    symbols, width = tuple(scene.robot.body.materials), MOMENTS * MOMENT_PANEL[0]
    key = legend(
        look,
        width,
        symbols,
        size=size_word([recording]),
        grains=painter.grain_colors,
        fluid=painter.fluid_colors,
    )
    return png([panels, [key]])


def outcome_html(outcome: Outcome, picture: bytes | None) -> str:
    """The measures with what they mean, and a picture where there is one."""
    rows = [(name, f"{value:.6g}", _meaning(name)) for name, value in outcome.measures.items()]
    if outcome.failed:
        rows.append(("failed", "", f"{outcome.failure.label}."))
    return figure(picture, rows)


def _needed(picture: bytes | None) -> bytes:
    """What is shown only with its picture."""
    if picture is None:
        raise ValueError("it could not be drawn")
    return picture


def figure(picture: bytes | None, rows: Rows) -> str:
    """A picture and below it a table without a head; the first column names."""
    drawn = ""
    if picture is not None:
        data = base64.b64encode(picture).decode()
        drawn = f'<img alt="" style="max-width:100%" src="data:image/png;base64,{data}">'
    return f"<div>{drawn}{table(rows)}</div>"


def table(rows: Rows) -> str:
    """Rows of text; the first column names the row."""
    lines = (
        f'<tr><th style="text-align:left">{html.escape(first)}</th>'
        + "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in cells)
        + "</tr>"
        for first, *cells in rows
    )
    return f"<table>{''.join(lines)}</table>"


def png(rows: Sequence[Sequence[Image.Image]]) -> bytes:
    """Pictures side by side and below each other."""
    width = max(sum(image.width for image in row) for row in rows)
    heights = [max(image.height for image in row) for row in rows]
    sheet = Image.new("RGB", (width, sum(heights)), PAPER)
    top = 0
    for row, height in zip(rows, heights, strict=True):
        left = 0
        for image in row:
            sheet.paste(image, (left, top))
            left += image.width
        top += height
    file = io.BytesIO()
    sheet.save(file, format="png", optimize=True)
    return file.getvalue()


def _about_body(body: Body) -> list[tuple[str, str]]:
    return [
        ("voxels", f"{int(body.present.sum())} of {body.voxel_side:g} m"),
        ("materials", ", ".join(body.materials)),
    ]


def _about_robot(robot: Robot) -> list[tuple[str, str]]:
    return [*_about_body(robot.body), ("controller", _kind(robot.controller))]


def _kind(spec: Spec) -> str:
    """The name it has in files."""
    return str(spec.to_plain().get("type", type(spec).__name__))


def _meaning(measure: str) -> str:
    """From the measure's own words; those of plugins may have none."""
    words = (getattr(MEASURES.get(measure), "__doc__", None) or "").strip()
    return words.partition("\n")[0]


register(Body, png=body_png, html=body_html)
register(Robot, png=lambda robot: body_png(robot.body), html=robot_html)
register(Scene, png=lambda scene: body_png(scene.robot.body), html=scene_html)
register(Outcome, png=outcome_png, html=outcome_html)
