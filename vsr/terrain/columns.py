"""Ground of level columns with steep sides: steps, obstacles, poles, pits and shafts."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from vsr.spec import Real
from vsr.terrain.shapes import AnyGround, Positive

STEEP, WIDEST = 0.02, 0.45
"""Width of a side, which takes it from the higher column, over that of a column: of low ones, and at most."""
LEAN = 0.005
"""Width of a high wall's side over its height. What gets behind a side is under the top, and is lifted all the way up
there: the side of a deep shaft must be wider than anything moves in a substep. Poles stay as thick as they are."""


class Columns(AnyGround):
    """Columns of equal width, each as high as given; beyond both ends the ground goes on at the height of the last."""

    type: Literal["columns"] = "columns"
    heights: Annotated[tuple[Real, ...], Field(min_length=1, max_length=10_000)]
    """of the tops, from left to right, the first column beginning at x = 0 [m]"""
    width: Positive = 3.0
    """of a column [m]"""

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        tops = np.array(self.heights, float)
        beyond = np.concatenate([tops[:1], tops, tops[-1:]])  # a column more at both ends
        x, y = [0.0], [tops[0]]
        for i, (before, after) in enumerate(itertools.pairwise(tops)):
            border = self.width * (i + 1)
            if after > before:
                x, y = [*x, border, border + self._side(before, after, beyond[i + 3])], [*y, before, after]
            elif after < before:
                x, y = [*x, border - self._side(after, before, beyond[i]), border], [*y, before, after]
        return np.array([*x, self.width * len(tops)]), np.array([*y, tops[-1]])

    def _side(self, low: float, high: float, behind: float) -> float:
        """Width [m]; behind: height of the column on the other side of the higher one."""
        lean = LEAN * (high - low) if behind >= high else 0.0
        return min(max(STEEP * self.width, lean), WIDEST * self.width)
