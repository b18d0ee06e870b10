"""Ground of level columns with vertical sides: steps, obstacles, poles, pits and shafts."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from vsr.spec import Real
from vsr.terrain.shapes import AnyGround, Positive

STEEP, WIDEST = 0.02, 0.45
"""Width of a side, which takes it from the higher column, over that of a column: of low ones, and at most."""
LEAN = 0.005
"""Width of high sides over their height. What gets behind a side is under the top, and is lifted all the way up there:
the side of a deep shaft must be wider than anything moves in a substep."""


class Columns(AnyGround):
    """Columns of equal width, each as high as given; beyond both ends the ground goes on at the height of the last."""

    type: Literal["columns"] = "columns"
    heights: Annotated[tuple[Real, ...], Field(min_length=1, max_length=10_000)]
    """of the tops, from left to right, the first column beginning at x = 0 [m]"""
    width: Positive = 3.0
    """of a column [m]"""

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        tops = np.array(self.heights, float)
        borders = self.width * np.arange(1, len(tops))
        x, y = [0.0], [tops[0]]
        for border, before, after in zip(borders, tops[:-1], tops[1:], strict=True):
            side = min(max(STEEP * self.width, LEAN * abs(after - before)), WIDEST * self.width)
            if after > before:
                x, y = [*x, border, border + side], [*y, before, after]
            elif after < before:
                x, y = [*x, border - side, border], [*y, before, after]
        return np.array([*x, self.width * len(tops)]), np.array([*y, tops[-1]])
