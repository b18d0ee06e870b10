"""Ground with vertical steps, walls, overhangs and ceilings: solid cells over a level floor.

Cells are columns of one width, cut at any heights. In 3-D they are the same for all y. The floor is like any
other ground; cells are contact bodies (vsr.physics.contact.voxels), so they need a world that is coupled.

Level columns with steep sides (`Columns`) are steps, obstacles, poles, pits and shafts.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field, field_validator, model_validator

from vsr.spec import Real
from vsr.terrain.base import Solid
from vsr.terrain.field import check_restitution
from vsr.terrain.shapes import AnyGround, Positive
from vsr.terrain.surface import Terrain

WAYS = ((0, -1), (0, 1), (-1, 0), (1, 0))
"""Steps over rows and columns through the sides of a cell: left, right, down, up."""
BEYOND = 1000.0
"""How far the floor goes on beyond the first and the last column [m]."""
MOST_COLUMNS = 100_000


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Blocks(Terrain):
    """A level floor and the solid cells over it. Beyond both ends the first and the last column go on."""

    start: Array
    """left edge of the first column [m], ()"""
    width: Array
    """of a column [m], ()"""
    level: Array
    """heights between rows of cells, rising from the floor [m], (rows + 1,)"""
    solid: Array
    """True where a cell is solid, the lowest row first, (rows, columns)"""
    leads_out: Array
    """True for sides of solid cells through which the outside is nearer, in the order of WAYS, (4, rows, columns)"""
    top: Array
    """of what stands on the floor, or the floor itself [m], (columns,)"""
    corner: Array
    """convex corners, x and up [m], (corners, 2)"""

    @property
    def floor(self) -> Terrain:
        """Without what stands on it."""
        return Terrain(**{part.name: getattr(self, part.name) for part in fields(Terrain)})

    @staticmethod
    def over_floor(
        solid: np.ndarray,
        level: np.ndarray,
        start: float,
        width: float,
        *,
        friction: float = 0.2,
        restitution: float = 0.0,
        dtype: jnp.dtype | type = jnp.float32,
    ) -> Blocks:
        """solid: the lowest row first, (rows, columns); level: [m], rising, (rows + 1,); start, width: [m]."""
        solid, level = np.asarray(solid, bool), np.asarray(level, float)
        if solid.ndim != 2 or level.shape != (solid.shape[0] + 1,) or not (np.diff(level) > 0).all():
            raise ValueError("blocks need rows and columns of cells, and rising heights between the rows")
        check_restitution(restitution)
        end = start + width * solid.shape[1]
        floor = Terrain.of(
            np.array([start - BEYOND, start, end, end + BEYOND]),
            np.full(4, level[0]),
            friction=friction,
            restitution=restitution,
            dtype=dtype,
        )
        parts: dict[str, Any] = {part.name: getattr(floor, part.name) for part in fields(Terrain)}
        parts |= {
            "start": jnp.asarray(start, dtype),
            "width": jnp.asarray(width, dtype),
            "level": jnp.asarray(level, dtype),
            "top": jnp.asarray(level[_standing(solid)], dtype),
            "corner": jnp.asarray(convex_corners(solid, level, start, width), dtype),
        }
        return Blocks(**parts, solid=jnp.asarray(solid), leads_out=jnp.asarray(_outward(solid)))

    @property
    def blocks(self) -> Blocks:
        return self

    def is_inside(self, point: Array) -> Array:
        above = point[..., -1, None] >= self.level
        row = above.sum(-1) - 1
        rows = self.solid.shape[0]
        in_cell = self.solid[jnp.clip(row, 0, rows - 1), self._column(point)] & (row < rows)
        return (row < 0) | in_cell

    def height_over(self, point: Array) -> Array:
        up, solid = point[..., -1], self.solid[:, self._column(point)]
        bottom, top = (part.reshape(-1, *(1,) * up.ndim) for part in (self.level[:-1], self.level[1:]))
        return up - jnp.where(solid & (bottom <= up), top, self.level[0]).max(0)

    def highest(self, low: Array, high: Array) -> Array:
        """The highest top of what stands on the floor there [m]."""
        edge = self.start + self.width * jnp.arange(self.top.shape[0])
        last = edge.shape[0] - 1
        # The first and the last column go on.
        begins = jnp.where(jnp.arange(last + 1) == 0, -jnp.inf, edge)
        ends = jnp.where(jnp.arange(last + 1) == last, jnp.inf, edge + self.width)
        return jnp.where((ends > low[0]) & (begins < high[0]), self.top, -jnp.inf).max()

    def corners(self) -> tuple[Array, Array] | None:
        place = jnp.swapaxes(self.corner, 0, 1)
        return (place, jnp.ones(place.shape[1:], bool)) if place.shape[1] else None

    def _column(self, point: Array) -> Array:
        """Numbers of the columns that points are in; beyond both ends the first and the last go on."""
        column = jnp.floor((point[..., 0] - self.start) / self.width)
        # A failed robot may be nowhere: NaN must not become an index.
        column = jnp.where(jnp.isfinite(column), jnp.clip(column, 0, self.solid.shape[1] - 1), 0)
        return column.astype(jnp.int32)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Cells(Solid):
    """Solid cells in empty space, in 2-D, the lowest left one at the origin."""

    solid: Array
    """True where a cell is solid, the lowest row first, (rows, columns)"""
    side: Array
    """of a cell [m], ()"""

    def is_inside(self, point: Array) -> Array:
        column, row = (jnp.floor(point[..., axis] / self.side) for axis in (0, -1))
        rows, columns = self.solid.shape
        known = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        row, column = (jnp.where(known, number, 0).astype(jnp.int32) for number in (row, column))
        return known & self.solid[row, column]

    def height_over(self, point: Array) -> Array:
        up, (rows, columns) = point[..., -1], self.solid.shape
        column = jnp.floor(point[..., 0] / self.side)
        known = (column >= 0) & (column < columns)
        solid = self.solid[:, jnp.where(known, column, 0).astype(jnp.int32)] & known
        bottom = (self.side * jnp.arange(rows)).reshape(-1, *(1,) * up.ndim)
        return up - jnp.where(solid & (bottom <= up), bottom + self.side, 0).max(0)


def _outward(solid: np.ndarray) -> np.ndarray:
    """Which sides of solid cells lead to the outside the shortest way, (4, rows, columns)."""
    far = solid.size + 1
    depth = np.where(solid, far, 0)
    while True:
        around = np.stack([_across(depth, way, far) for way in WAYS])
        deeper = np.where(solid, np.minimum(around.min(0) + 1, far), 0)
        if (deeper == depth).all():
            return solid & (around < depth)
        depth = deeper


def _across(depth: np.ndarray, way: tuple[int, int], below: int) -> np.ndarray:
    """Values of the next cells; the floor is below all, nothing is above, and columns go on at both ends."""
    padded = np.pad(np.pad(depth, ((0, 0), (1, 1)), mode="edge"), ((1, 1), (0, 0)))
    padded[0] = below
    rows, columns = depth.shape
    return padded[1 + way[0] : 1 + way[0] + rows, 1 + way[1] : 1 + way[1] + columns]


def convex_corners(solid: np.ndarray, level: np.ndarray, start: float, width: float) -> np.ndarray:
    """Where an odd number of the four cells around is solid, and that one, x and up [m], (corners, 2)."""
    padded = np.pad(np.pad(solid, ((0, 0), (1, 1)), mode="edge"), ((1, 1), (0, 0)))
    padded[0] = True
    around = [padded[:-1, :-1], padded[:-1, 1:], padded[1:, :-1], padded[1:, 1:]]
    count = np.sum(around, 0)
    opposite = (count == 2) & (around[0] == around[3])
    row, column = np.nonzero((count == 1) | opposite)
    return np.stack([start + width * column, level[row]], 1)


Runs = Annotated[tuple[Real, ...], Field(min_length=1, max_length=MOST_COLUMNS)]


def _read_runs(value: Any) -> Any:
    """`3x20 6x9 4.5` as numbers: twenty times 3, nine times 6, once 4.5."""
    if not isinstance(value, str):
        return value
    found: list[float] = []
    for word in value.split():
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:x(\d+))?", word)
        if not match:
            raise ValueError(f"'{word}' is no run of columns: write a height, or height x number such as 6x9")
        found += [float(match[1])] * int(match[2] or 1)
        if len(found) > MOST_COLUMNS:
            raise ValueError(f"more than {MOST_COLUMNS:,} columns")
    return tuple(found)


class BlockGround(AnyGround):
    """Vertical steps, walls, gaps, overhangs and ceilings: `heights` of columns, or a `shape` drawn cell by cell."""

    type: Literal["blocks"] = "blocks"
    needs_contact: ClassVar[bool] = True
    heights: Runs | None = None
    """of the columns [m], the lowest is the floor; also as text of runs: `3x20 6x9` is 3 m over twenty columns, then
    6 m over nine"""
    ceiling: Runs | None = None
    """height of what hangs above each column [m], likewise; none if absent"""
    shape: tuple[str, ...] | None = None
    """instead of heights: rows of square cells, the top row first: '#' is solid, '.' is empty; the floor is below the
    lowest row, at height 0"""
    width: Positive = 3.0
    """of a column, and the side of a drawn cell [m]"""
    start: Real = 0.0
    """left edge of the first column [m]"""

    @field_validator("heights", "ceiling", mode="before", json_schema_input_type=Runs | str | None)
    @classmethod
    def _runs(cls, value: Any) -> Any:
        return _read_runs(value)

    @field_validator("shape", mode="before", json_schema_input_type=tuple[str, ...] | str | None)
    @classmethod
    def _rows(cls, value: Any) -> Any:
        return tuple(value.strip("\n").split("\n")) if isinstance(value, str) else value

    @field_validator("shape")
    @classmethod
    def _rectangular(cls, rows: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if rows is None:
            return None
        width = max(map(len, rows), default=0)
        wrong = sorted({symbol for row in rows for symbol in row} - set("#. "))
        if wrong:
            raise ValueError(f"'{wrong[0]}' means nothing here: '#' is solid, '.' is empty")
        if not 0 < width <= MOST_COLUMNS:
            raise ValueError(f"rows need from 1 to {MOST_COLUMNS:,} cells; the longest has {width}")
        return tuple(row.replace(" ", ".").ljust(width, ".") for row in rows)

    @model_validator(mode="after")
    def _one_way(self) -> BlockGround:
        if (self.heights is None) == (self.shape is None):
            raise ValueError("give either `heights` of columns or a `shape` drawn cell by cell")
        if self.ceiling is not None:
            if self.heights is None or len(self.ceiling) != len(self.heights):
                raise ValueError("a ceiling needs `heights`, and as many numbers")
            pairs = zip(self.heights, self.ceiling, strict=True)
            closed = [place for place, (low, high) in enumerate(pairs) if high <= low]
            if closed:
                raise ValueError(f"at column {closed[0] + 1} the ceiling is not above the ground")
        return self

    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        """Solid cells, the lowest row first, and the heights between rows [m]."""
        if self.shape is not None:
            solid = np.array([[symbol == "#" for symbol in row] for row in reversed(self.shape)])
            return solid, self.width * np.arange(len(solid) + 1.0)
        low = np.array(self.heights)
        high = np.array(self.ceiling) if self.ceiling is not None else np.zeros(0)
        # One more row, so that the highest ceiling has a thickness and the lowest ground a row above it.
        highest = float(max(low.max(), high.max(initial=-np.inf)))
        level = np.unique(np.concatenate([low, high, [highest + self.width]]))
        solid = level[1:, None] <= low
        if self.ceiling is not None:
            solid |= level[:-1, None] >= high
        return solid, level

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """Along the tops of what stands on the floor; x does not fall, and stays where there is a step."""
        solid, level = self.cells()
        top = level[_standing(solid)]
        edges = self.start + self.width * np.arange(len(top) + 1)
        return np.repeat(edges, 2)[1:-1], np.repeat(top, 2)

    def _check_line(self) -> None:
        """Any heights will do; what is given may still be wrong."""

    def build(self, dtype: jnp.dtype | type = jnp.float32) -> Blocks:
        solid, level = self.cells()
        options: dict[str, Any] = {"friction": self.friction, "restitution": self.restitution, "dtype": dtype}
        return Blocks.over_floor(solid, level, self.start, self.width, **options)


def _standing(solid: np.ndarray) -> np.ndarray:
    """Rows that stand on the floor, in every column."""
    return np.where(solid.all(0), len(solid), solid.argmin(0))


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
