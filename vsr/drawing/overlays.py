"""Overlays on robots: control values, contact, velocities, sensor values, the path of the center.

In a voxel every overlay has a place of its own, so that none covers another; only arrows, which begin in the middle,
may cross them. Viewers on pages draw them alike, from
`description`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from PIL import ImageDraw

from vsr.drawing.recording import Felt, Recording

Overlay = Literal["control", "contact", "velocity", "sensors", "path"]
OVERLAYS: tuple[Overlay, ...] = get_args(Overlay)
PAPER, INK = "#ffffff", "#222222"
CONTACT, VELOCITY, PATH = "#d40078", "#0050c8", "#222222"
SHRINKING, GROWING = "#d55e00", "#0072b2"
"""Of control values above and below 0."""
SENSOR_COLORS = ("#0072b2", "#e69f00", "#222222", "#9a2ff0", "#b5b592", "#1c1c9a", "#aa3300", "#00c4d6")
"""Of sensor values: one sensor after the other, then again from the first; any two differ for color-blind eyes too."""
SCALE_3D = 0.6
"""Size of overlays on 3-D voxels, of which several are seen behind each other, over that on 2-D ones."""
ARROW_SECONDS = 0.3
"""An arrow reaches as far as the voxel would get in this time."""


@dataclass(frozen=True)
class Box:
    """A part of a voxel, in its sides from its middle, upwards and to the right."""

    left: float
    right: float
    bottom: float
    top: float


CONTROL = Box(-0.44, -0.24, -0.4, 0.4)
SENSORS = Box(-0.17, 0.44, -0.16, 0.4)
"""As wide as this for many sensors, less for few."""
WIDEST_BAR = 0.16
"""Of a sensor value, in sides of a voxel."""
DOT = 0.28, -0.3, 0.11
"""Place and radius of the dot on voxels that touch the ground, in sides of a voxel from its middle."""


@dataclass(frozen=True)
class SensorMark:
    """How the values of one sensor are drawn, in all robots that have it: a bar up or down from the value at rest."""

    label: str
    unit: str
    at_rest: float
    reach: float
    """distance from the value at rest that makes the longest bars; more than 0"""
    color: str

    @property
    def words(self) -> str:
        """'velocity x: ±3.2 m/s'"""
        rest = f"{self.at_rest:g} " if self.at_rest else ""
        space = " " if self.at_rest else ""
        reach = float(f"{self.reach:.2g}")  # two digits, and no power of ten before a million
        return f"{self.label}: {rest}±{space}{reach:g}{' ' if self.unit else ''}{self.unit}"


def sensor_marks(recordings: Iterable[Recording]) -> tuple[SensorMark, ...]:
    """One for every sensor of these robots; bars of robots side by side are to be comparable."""
    same: dict[str, list[Felt]] = {}
    for sensor in (sensor for recording in recordings for sensor in recording.felt):
        same.setdefault(sensor.label, []).append(sensor)
    return tuple(
        SensorMark(
            label,
            sensors[0].unit,
            sensors[0].at_rest,
            max(sensor.reach for sensor in sensors) or 1.0,
            SENSOR_COLORS[index % len(SENSOR_COLORS)],
        )
        for index, (label, sensors) in enumerate(same.items())
    )


def words_of(overlay: Overlay) -> str:
    """What is seen where an overlay is on; sensor values have their own words."""
    return {
        "control": "control value, from -1 to 1; up shrinks",
        "contact": "touches the ground",
        "velocity": f"velocity: the way in {ARROW_SECONDS:g} s",
        "sensors": "sensor values",
        "path": "path of the center",
    }[overlay]


def description() -> dict[str, Any]:
    """Everything that viewers need to draw as `VoxelPen` does, as plain data."""
    return {
        "words": {overlay: words_of(overlay) for overlay in OVERLAYS},
        "colors": {"contact": CONTACT, "velocity": VELOCITY, "shrinking": SHRINKING, "growing": GROWING},
        "control": asdict(CONTROL),
        "sensors": asdict(SENSORS),
        "widestBar": WIDEST_BAR,
        "dot": DOT,
        "scale3d": SCALE_3D,
        "arrowSeconds": ARROW_SECONDS,
    }


class VoxelPen:
    """Paints overlays into the voxels of one robot at one moment."""

    def __init__(
        self,
        draw: ImageDraw.ImageDraw,
        recording: Recording,
        moment: int,
        *,
        middle: np.ndarray,
        order: np.ndarray,
        side: float,
        line: int,
    ):
        """middle: of the voxels [pixels], (voxels, 2); order: in which they are painted, the nearest last; side: of a
        voxel, line: width of thin lines [pixels]."""
        self.draw, self.recording, self.moment = draw, recording, moment
        self.middle, self.order, self.side, self.line = middle.tolist(), order.tolist(), side, line

    def paint_control(self) -> None:
        """A bar up or down from the middle."""
        values = self.recording.control[self.moment].tolist()
        for voxel in self.order:
            value = values[voxel]
            left, top, right, bottom = self._panel(self.middle[voxel], CONTROL)
            fill = SHRINKING if value > 0 else GROWING
            self._bar([left + 1, right - 1], (top + bottom) / 2, value * (bottom - top) / 2, fill)

    def paint_sensors(self, marks: Sequence[SensorMark]) -> None:
        """A bar for each sensor that a voxel has, up or down from the value at rest."""
        found = {mark.label: mark for mark in marks}
        sensors = [(sensor, found[sensor.label]) for sensor in self.recording.felt]
        for voxel in self.order:
            here = [(mark, sensor.value[self.moment, voxel]) for sensor, mark in sensors if sensor.has[voxel]]
            if not here:
                continue
            wide = min((SENSORS.right - SENSORS.left) / len(here), WIDEST_BAR)
            panel = replace(SENSORS, right=SENSORS.left + wide * len(here))
            left, top, right, bottom = self._panel(self.middle[voxel], panel)
            zero, half, width = (top + bottom) / 2, (bottom - top) / 2, wide * self.side
            for index, (mark, value) in enumerate(here):
                share = float(np.clip((value - mark.at_rest) / mark.reach, -1, 1))
                start = left + index * width
                self._bar([start + 1, start + width - 1], zero, share * half, mark.color)
            self.draw.line([left, zero, right, zero], fill=INK, width=1)

    def paint_contact(self) -> None:
        """A dot on voxels that touch the ground."""
        across, up, radius = (part * self.side for part in DOT)
        contact = self.recording.contact[self.moment].tolist()
        for voxel in self.order:
            if contact[voxel]:
                x, y = self.middle[voxel][0] + across, self.middle[voxel][1] - up
                self.draw.ellipse(
                    [x - radius, y - radius, x + radius, y + radius], fill=CONTACT, outline=PAPER, width=self.line
                )

    def paint_arrows(self, ways: np.ndarray) -> None:
        """ways: from the voxels' middles [pixels], (voxels, 2); the shortest are left out."""
        arrows = ways.tolist()
        for voxel in self.order:
            start, arrow = self.middle[voxel], arrows[voxel]
            length = math.hypot(*arrow)
            if length < 3 * self.line:
                continue
            end = start[0] + arrow[0], start[1] + arrow[1]
            along = np.array(arrow) / length * 5 * self.line
            side = np.array([-along[1], along[0]]) * 0.5
            back = np.array(end) - along
            self.draw.line([*start, *end], fill=PAPER, width=2 * self.line + 2)
            self.draw.line([*start, *end], fill=VELOCITY, width=self.line + 1)
            self.draw.polygon([*end, *(back + side), *(back - side)], fill=VELOCITY)

    def _panel(self, place: list[float], box: Box) -> tuple[float, float, float, float]:
        """A white panel with a frame; left, top, right, bottom [pixels]."""
        x, y = place
        corners = (
            x + box.left * self.side,
            y - box.top * self.side,
            x + box.right * self.side,
            y - box.bottom * self.side,
        )
        self.draw.rectangle(corners, fill=PAPER, outline=INK)
        return corners

    def _bar(self, sides: list[float], zero: float, height: float, fill: str) -> None:
        """Up for positive heights [pixels]."""
        end = zero - height
        self.draw.rectangle([sides[0], min(zero, end), max(sides), max(zero, end)], fill=fill)
