"""Legends: the meaning of colors and overlays, as a strip below pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageDraw

from vsr.drawing.colors import MATERIALS, SCALES, Scale
from vsr.drawing.overlays import (
    CONTACT,
    GROWING,
    INK,
    OVERLAYS,
    PAPER,
    PATH,
    SHRINKING,
    VELOCITY,
    Overlay,
    SensorMark,
    words_of,
)
from vsr.drawing.painter import LEFT, Look, cut, font

ROW, OVERLAY_ROW = 34, 22
"""Heights [pixels]."""
ICON, GAP = 22, 18
"""Room for a sign, and between two of them [pixels]."""
Icon = Callable[[ImageDraw.ImageDraw, float, float], None]
"""Draws a sign at the left and the middle of its height [pixels]."""


def legend(
    look: Look,
    width: int,
    symbols: tuple[str, ...],
    *,
    size: str = "area",
    marks: Sequence[SensorMark] = (),
    grains: Scale | None = None,
    fluid: Scale | None = None,
) -> Image.Image:
    """symbols: of the materials; size: what voxels have, see `size_word`; marks: of the sensors, see `sensor_marks`;
    grains, fluid: their colors, see `grain_scale` and `pressure_scale`."""
    rows = _rows(_signs(look, marks), width)
    other_robots = [scale for scale in (fluid if look.color_by != "material" else None, grains) if scale is not None]
    scales = ROW * (1 + len(other_robots))
    image = Image.new("RGB", (width, scales + OVERLAY_ROW * len(rows)), PAPER)
    draw = ImageDraw.Draw(image)
    if look.color_by == "material":
        _paint_materials(draw, look, symbols)
    else:
        scale = SCALES[look.palette][look.color_by]
        _paint_scale(image, scale, f"{size} over that at rest" if look.color_by == "area" else scale.name, 0)
    for number, scale in enumerate(other_robots, 1):
        _paint_scale(image, scale, scale.name, number * ROW)
    for index, row in enumerate(rows):
        middle = scales + OVERLAY_ROW * (index + 0.5) - 4
        for left, icon, text in row:
            icon(draw, left, middle)
            draw.text((left + ICON, middle), text, fill=INK, font=font(12), anchor="lm")
    return image


def _paint_materials(draw: ImageDraw.ImageDraw, look: Look, symbols: tuple[str, ...]) -> None:
    place, small = LEFT, font(12)
    for index, symbol in enumerate(symbols):
        draw.rectangle([place, 8, place + 16, 24], fill=MATERIALS[look.palette][index % 8], outline=INK)
        draw.text((place + 22, 16), symbol, fill=INK, font=small, anchor="lm")
        place += 36 + int(small.getlength(symbol))


def _paint_scale(image: Image.Image, scale: Scale, name: str, top: int) -> None:
    """Its colors, numbers below them, and its name; top: from where on [pixels]."""
    draw, small = ImageDraw.Draw(image), font(12)
    length = min(150, image.width // 3)
    ramp = scale.colors(np.linspace(*scale.ends, length)).astype(np.uint8)
    image.paste(Image.fromarray(np.repeat(ramp[None], 12, 0)), (LEFT, top + 4))
    for share in (0.0, 0.5, 1.0):
        value = scale.ends[0] + share * (scale.ends[1] - scale.ends[0])
        draw.text((LEFT + share * length, top + 18), f"{value / scale.per:.3g}", fill=INK, font=small, anchor="ma")
    room = image.width - length - LEFT - 30
    draw.text((LEFT + length + 24, top + 10), cut(name, room, small), fill=INK, font=small, anchor="lm")


def _signs(look: Look, marks: Sequence[SensorMark]) -> list[tuple[Icon, str]]:
    """Of the overlays that are on."""
    found: list[tuple[Icon, str]] = []
    for overlay in OVERLAYS:
        if overlay == "sensors" and overlay in look.overlays:
            found += [(_bar_sign(mark.color), mark.words) for mark in marks]
        elif overlay in look.overlays:
            found.append((_SIGNS[overlay], words_of(overlay)))
    return found


def _rows(signs: Sequence[tuple[Icon, str]], width: int) -> list[list[tuple[float, Icon, str]]]:
    """Signs with their places from the left, in as many rows as they need."""
    rows: list[list[tuple[float, Icon, str]]] = []
    place = float(width)
    for icon, text in signs:
        text = cut(text, width - LEFT - ICON, font(12))
        length = ICON + font(12).getlength(text)
        if not rows or place + length > width:
            rows.append([])
            place = float(LEFT)
        rows[-1].append((place, icon, text))
        place += length + GAP
    return rows


def _bar_sign(color: str) -> Icon:
    def icon(draw: ImageDraw.ImageDraw, left: float, middle: float) -> None:
        draw.rectangle([left + 4, middle - 7, left + 12, middle + 7], fill=color, outline=INK)

    return icon


def _control_sign(draw: ImageDraw.ImageDraw, left: float, middle: float) -> None:
    draw.rectangle([left + 4, middle - 7, left + 12, middle], fill=SHRINKING)
    draw.rectangle([left + 4, middle, left + 12, middle + 7], fill=GROWING)
    draw.rectangle([left + 4, middle - 7, left + 12, middle + 7], outline=INK)


def _dot_sign(draw: ImageDraw.ImageDraw, left: float, middle: float) -> None:
    draw.ellipse([left + 3, middle - 5, left + 13, middle + 5], fill=CONTACT)


def _arrow_sign(draw: ImageDraw.ImageDraw, left: float, middle: float) -> None:
    draw.line([left, middle, left + 14, middle], fill=VELOCITY, width=2)
    draw.polygon([left + 17, middle, left + 11, middle - 4, left + 11, middle + 4], fill=VELOCITY)


def _line_sign(draw: ImageDraw.ImageDraw, left: float, middle: float) -> None:
    draw.line([left, middle, left + 17, middle], fill=PATH, width=2)


_SIGNS: dict[Overlay, Icon] = {
    "control": _control_sign,
    "contact": _dot_sign,
    "velocity": _arrow_sign,
    "path": _line_sign,
}
