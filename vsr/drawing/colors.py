"""Colors of voxels: by area or volume, control value, strain or material; fluid by its pressure; grains by
height or speed.

The original draws shrunk voxels red, those at rest green and enlarged ones yellow. The colors of the other palette,
`safe`, can be distinguished by lightness alone, so that color-blind readers and grey printers lose nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

Quantity = Literal["area", "control", "strain", "material"]
GrainQuantity = Literal["height", "speed", "force"]
Palette = Literal["original", "safe"]
LIGHTNESS = np.array([0.2126, 0.7152, 0.0722])
"""Share of red, green and blue."""
DARK = 70.0
"""Of 255: dark lines cannot be seen on less."""
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
GRAIN_QUANTITIES: tuple[GrainQuantity, ...] = get_args(GrainQuantity)
PALETTES: tuple[Palette, ...] = get_args(Palette)


@dataclass(frozen=True)
class Scale:
    """Colors for a range of values, straight lines between them."""

    name: str
    """what is shown"""
    ends: tuple[float, float]
    """values of the first and the last color; values beyond get these"""
    stops: tuple[str, ...]
    """colors, equally apart, as #rrggbb"""
    per: float = 1.0
    """what values are divided by before they are written: 1000 for thousands"""

    def colors(self, values: np.ndarray) -> np.ndarray:
        """Red, green and blue from 0 to 255, (..., 3)."""
        low, high = self.ends
        place = np.clip((np.asarray(values, float) - low) / (high - low), 0, 1) * (len(self.stops) - 1)
        table = rgb(self.stops)
        return (
            np.stack([np.interp(place, np.arange(len(table)), table[:, i]) for i in range(3)], -1).round().astype(int)
        )


_CONTROL = Scale("control value (+ shrinks)", (-1.0, 1.0), ("#0072b2", "#f4f4f0", "#d55e00"))
_STRAIN = Scale("largest strain of an edge", (0.0, 0.4), ("#440154", "#31688e", "#35b779", "#fde725"))
SCALES: dict[Palette, dict[str, Scale]] = {
    "original": {
        "area": Scale("area over that at rest", (0.75, 1.25), ("#d7301f", "#74c476", "#ffe135")),
        "control": _CONTROL,
        "strain": _STRAIN,
    },
    "safe": {
        "area": Scale("area over that at rest", (0.75, 1.25), ("#00224e", "#7d8290", "#fee838")),
        "control": Scale(_CONTROL.name, _CONTROL.ends, ("#0b2a5b", "#8a8f9c", "#ffd9a0")),
        "strain": _STRAIN,
    },
}
"""Of every palette, for everything that has a range; the lightness of `safe` only rises."""
MATERIALS: dict[Palette, tuple[str, ...]] = {
    "original": ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999"),
    "safe": ("#12345c", "#f0e442", "#a65a2a", "#8fc7ea", "#3b3b3b", "#d8d8d8", "#5a7f3a", "#e6a8c8"),
}
"""One after the other, then again from the first; the first from Okabe and Ito, for all eyes."""
GRAINS: dict[GrainQuantity, Scale] = {
    "height": Scale("height of grains [m]", (-1.0, 0.0), ("#57442f", "#b08d57", "#f0dfb4")),
    "speed": Scale("speed of grains [m/s]", (0.0, 1.0), ("#7d746b", "#d98c3f", "#fff0b0")),
    "force": Scale("forces on grains [N]", (0.0, 1.0), ("#2f3b4d", "#5f8fb8", "#aee0f2")),
}
"""Of both palettes: the lightness only rises. The ends of heights and forces are those of the bed."""

PRESSURE = ("#a9d2f3", "#4a8fd3", "#0b2f6b")
"""Of fluid, in both palettes, from no pressure to the largest: the lightness only falls."""
SUCTION = ("#fff3f9", "#f7d3e9")
"""Before these where a chamber sucks, from the largest suction to half of it: lighter still, and not blue."""


def is_dark(colors: np.ndarray) -> np.ndarray:
    """Whether dark lines are lost on them; colors: red, green and blue from 0 to 255, (..., 3)."""
    return colors @ LIGHTNESS < DARK


def rgb(colors: tuple[str, ...]) -> np.ndarray:
    """#rrggbb as numbers from 0 to 255, (colors, 3)."""
    return np.array([[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in colors])
