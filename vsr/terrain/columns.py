"""Ground of level columns with steep sides: steps, obstacles, poles, pits and shafts."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from vsr.spec import Real
from vsr.terrain.shapes import AnyGround, Positive

SIDE = 0.02
"""Width of a side, which takes it from the higher column, over that of a column."""


class Columns(AnyGround):
    """Columns of equal width, each as high as given; beyond both ends the ground goes on at the height of the last."""

    type: Literal["columns"] = "columns"
    heights: Annotated[tuple[Real, ...], Field(min_length=1, max_length=10_000)]
    """of the tops, from left to right, the first column beginning at x = 0 [m]"""
    width: Positive = 3.0
    """of a column [m]"""

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        x, y = [0.0], [self.heights[0]]
        for i, (before, after) in enumerate(itertools.pairwise(self.heights)):
            border, side = self.width * (i + 1), SIDE * self.width
            if after > before:
                x, y = [*x, border, border + side], [*y, before, after]
            elif after < before:
                x, y = [*x, border - side, border], [*y, before, after]
        return np.array([*x, self.width * len(self.heights)]), np.array([*y, self.heights[-1]])
