"""Terrains a researcher can name: each draws its line from its parameters and, where it has one, its seed.

These start and end with a steep wall, so that no robot leaves the world, and begin just right of the left wall. Grounds
given point by point (`polyline`, `heights`) are as they are given: they have neither length nor walls of their own.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from pydantic import Field, field_validator, model_validator

from vsr.spec import Count, Real, Registry, Spec
from vsr.terrain.base import AnyTerrain
from vsr.terrain.field import HeightField
from vsr.terrain.surface import Terrain

Positive = Annotated[Real, Field(gt=0)]
Seed = Annotated[Count, Field(ge=0)]
MOST_CELLS = 1_000_000
"""No segment may be shorter than the whole ground over this (see vsr.terrain.surface)."""


class Load(NamedTuple):
    """What a system of the ground takes of a computer, from its description alone."""

    what: str
    """for people, such as a bed of so many grains"""
    parts: int
    """that move: grains"""
    bytes: float
    """for one robot's world, in single precision"""
    program: float
    """of compiled programs [bytes]"""
    settings: tuple[str, ...]
    """what to reduce, with the values given"""
    setup: tuple[float, float]
    """plain operations, and launches on an accelerator, until it can begin; 0 where it is read from a file"""
    setup_setting: str
    """what to reduce so that it begins sooner, with its value"""


class AnyGround(Spec):
    """What all described terrains have."""

    friction: Annotated[Real, Field(ge=0)] = 0.2
    """friction coefficient of the ground"""
    restitution: Annotated[Real, Field(ge=0, le=1)] = 0.0
    """restitution coefficient of the ground"""
    in_3d: ClassVar[bool] = False
    """whether its height changes along y, so that 2-D robots cannot use it"""
    needs_contact: ClassVar[bool] = False
    """whether robots feel parts of it by contact, as they feel objects"""
    is_loose: ClassVar[bool] = False
    """whether it moves, as a system of its own that has settled in one world"""

    @abstractmethod
    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """The whole line: x (rising), y [m]."""

    def line_at(self, y: float) -> tuple[np.ndarray, np.ndarray]:
        """The line above a given y in 3-D: x and height [m]. Most grounds are the same for all y."""
        return self.points()

    @model_validator(mode="after")
    def _sound(self) -> AnyGround:
        self._check_line()
        return self

    def _check_line(self) -> None:
        x, y = self.points()
        if x.shape != y.shape:
            raise ValueError(f"{x.size} values of x given but {y.size} of y")
        if not (np.diff(x) > 0).all():
            raise ValueError("x must rise from point to point")
        if np.diff(x).min() < (x[-1] - x[0]) / MOST_CELLS:
            raise ValueError(
                f"the shortest segment, {np.diff(x).min():g} m, is too short for {x[-1] - x[0]:g} m of ground"
            )

    def longest_step(self, gravity: float) -> float:
        """In which what moves of it can be moved at once [s]; gravity: [m/s²]."""
        return math.inf

    def checks(self, voxels: Any, size: float, gravity: float) -> list[tuple[tuple[str, ...], str]]:
        """Complaints (field and reason) for robots of such voxels and a size [m], whichever way they lie."""
        return []

    def systems(self, voxels: Any, gravity: float, substep: float, dtype: jnp.dtype | type) -> dict[str, Any]:
        """What moves of it, by name (vsr.world.coupling.System); substep: of robots [s]."""
        return {}

    def load(self, voxels: Any, cells: tuple[int, ...], gravity: float, dtype: jnp.dtype | type) -> Load | None:
        """What its systems take of a computer, for robots of such voxels in a grid of cells; None if there are none."""
        return None

    def build(self, dtype: jnp.dtype | type = jnp.float32) -> AnyTerrain:
        """The array form."""
        x, y = self.points()
        return Terrain.of(x, y, friction=self.friction, restitution=self.restitution, dtype=dtype)


class Ground(AnyGround):
    """Ground between two walls."""

    length: Annotated[Real, Field(gt=40)] = 2000.0
    """from end to end, walls included [m]"""
    wall_height: Positive = 100.0
    """height of the walls at both ends [m]"""
    wall_width: Positive = 10.0
    """horizontal width of each wall [m]"""

    @abstractmethod
    def profile(self) -> tuple[np.ndarray, np.ndarray]:
        """The ground between the walls: points x (rising, from wall to wall) and y [m]."""

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """The whole line with its walls: x, y [m]; its first point is at x = 0."""
        x, y = self.profile()
        return (
            np.concatenate([[0.0], x, [self.length]]),
            np.concatenate([[y[0] + self.wall_height], y, [y[-1] + self.wall_height]]),
        )

    def _check_line(self) -> None:
        if self.length <= 2 * self.wall_width + 10:
            raise ValueError(f"a length of {self.length:g} m leaves no ground between walls of {self.wall_width:g} m")
        count = self.length / getattr(self, "width", self.length)
        if count > MOST_CELLS:  # reported before they are made
            raise ValueError(f"{count:.3g} points are too many; at most {MOST_CELLS:,}: make them wider apart")
        super()._check_line()

    def _between_walls(self) -> tuple[float, float]:
        return self.wall_width, self.length - self.wall_width


class GivenGround(AnyGround):
    """Ground given point by point."""

    @model_validator(mode="before")
    @classmethod
    def _without_walls(cls, data: Any) -> Any:
        """Files that a run wrote when these grounds still had walls' keys, at defaults that meant nothing, are read."""
        if isinstance(data, dict) and all(data.get(name) == value for name, value in _WRITTEN_OUT.items()):
            return {name: value for name, value in data.items() if name not in _WRITTEN_OUT}
        return data


_WRITTEN_OUT = {"length": 2000.0, "wall_height": 100.0, "wall_width": 10.0}


class Flat(Ground):
    """Level ground at y = 0."""

    type: Literal["flat"] = "flat"

    def profile(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self._between_walls()), np.zeros(2)


class Uneven(Ground):
    """The original's uneven ground: equally spaced points of random height, lowest at y = 0."""

    type: Literal["uneven"] = "uneven"
    roughness: Annotated[Real, Field(ge=0)] = 5.0
    """heights are uniform in [0, roughness] [m]"""
    seed: Count = 1
    """of java.util.Random, as in the original, which always uses 1"""
    points_between: Annotated[Count, Field(ge=2, le=10_000)] = 50
    """number of points between the walls"""
    wall_width: Positive = 1.0
    """horizontal width of each wall [m]"""

    def profile(self) -> tuple[np.ndarray, np.ndarray]:
        count = self.points_between
        # The original's spacing leaves the last point one spacing short of the right wall.
        x = self.wall_width + np.arange(count) * (self.length - 2 * self.wall_width) / count
        y = java_random(self.seed, count) * self.roughness
        return x, y - y.min()

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """As the original builds it: both walls end wall_height above the zero of the random heights."""
        x, y = self.profile()
        lowest = java_random(self.seed, self.points_between).min() * self.roughness
        top = self.wall_height - lowest
        return np.concatenate([[0.0], x, [self.length]]), np.concatenate([[top], y, [top]])


class Hilly(Ground):
    """Slopes between points of random distance and height."""

    type: Literal["hilly"] = "hilly"
    height: Annotated[Real, Field(ge=0)] = 1.0
    """standard deviation of the heights [m]"""
    width: Annotated[Real, Field(ge=0.1)] = 10.0
    """mean distance of the points [m]"""
    seed: Seed = 0
    """of the heights and distances"""

    def profile(self) -> tuple[np.ndarray, np.ndarray]:
        x, y = _random_points(self.seed, self.width, self.height, *self._between_walls())
        return x, y


class Steppy(Ground):
    """Level steps of random width and height, joined by short steep risers."""

    type: Literal["steppy"] = "steppy"
    height: Annotated[Real, Field(ge=0)] = 1.0
    """standard deviation of the heights [m]"""
    width: Annotated[Real, Field(gt=2)] = 10.0
    """mean width of a step [m]"""
    riser: Annotated[Real, Field(gt=0, le=0.5)] = 0.5
    """horizontal width of a riser [m]"""
    seed: Seed = 0
    """of the heights and widths"""

    def profile(self) -> tuple[np.ndarray, np.ndarray]:
        left, y = _random_points(self.seed, self.width, self.height, *self._between_walls())
        right = np.append(left[1:] - self.riser, left[-1] + self.riser)
        steps = np.stack([left, right], 1)[:-1].ravel()
        return np.append(steps, left[-1]), np.append(np.repeat(y[:-1], 2), y[-1])


class Uphill(Ground):
    """Ground that rises at a constant angle."""

    type: Literal["uphill"] = "uphill"
    angle: Annotated[Real, Field(ge=0, lt=80)] = 10.0
    """[degrees]"""

    def profile(self) -> tuple[np.ndarray, np.ndarray]:
        x = np.array(self._between_walls())
        return x, (x - x[0]) * np.tan(np.radians(self.angle))


class Downhill(Ground):
    """Ground that falls at a constant angle."""

    type: Literal["downhill"] = "downhill"
    angle: Annotated[Real, Field(ge=0, lt=80)] = 10.0
    """[degrees]"""

    def profile(self) -> tuple[np.ndarray, np.ndarray]:
        x = np.array(self._between_walls())
        return x, (x - x[-1]) * -np.tan(np.radians(self.angle))


class Polyline(GivenGround):
    """Ground through given points, walls and all; y is height, x rises."""

    type: Literal["polyline"] = "polyline"
    x: tuple[Real, ...] = Field(min_length=2)
    """horizontal positions [m]"""
    y: tuple[Real, ...] = Field(min_length=2)
    """heights [m]"""

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.x, float), np.array(self.y, float)


class Bumpy(Ground):
    """3-D ground with bumps and hollows both ways; walls at both ends of x, none along y."""

    type: Literal["bumpy"] = "bumpy"
    length: Annotated[Real, Field(gt=40, le=5000)] = 400.0
    """from end to end along x, walls included [m]"""
    breadth: Annotated[Real, Field(gt=0, le=5000)] = 200.0
    """along y, half of it on either side of y = 0 [m]; beyond, the border's height goes on"""
    height: Annotated[Real, Field(ge=0)] = 0.5
    """standard deviation of the heights [m]"""
    width: Annotated[Real, Field(ge=0.5)] = 5.0
    """distance of the points whose heights are drawn [m]"""
    wall_width: Positive = 5.0
    """horizontal width of each wall [m], rounded to a whole number of distances, at least one"""
    seed: Seed = 0
    """of the heights"""
    in_3d: ClassVar[bool] = True

    @model_validator(mode="before")
    @classmethod
    def _countable(cls, data: Any) -> Any:
        """Reported here, because the line at y = 0 is drawn before any other check."""
        if not isinstance(data, dict):
            return data
        names = ("length", "breadth", "width", "wall_width")
        given = {name: data.get(name, cls.model_fields[name].default) for name in names}
        if all(isinstance(value, int | float) and value > 0 for value in given.values()):
            columns, rows = (given[name] / given["width"] + 1 for name in ("length", "breadth"))
            wall = _wall_cells(given["wall_width"], given["width"])
            if columns < 2 * wall + 3:
                raise ValueError(
                    f"a length of {given['length']:g} m leaves no ground between walls of {wall * given['width']:g} m"
                )
            if columns * rows > MOST_CELLS:
                raise ValueError(
                    f"{columns * rows:.3g} points are too many; at most {MOST_CELLS:,}: make them wider apart"
                )
        return data

    def heights(self) -> np.ndarray:
        """At all points [m], (points along y, points along x), walls included; the lowest between the walls is 0."""
        columns, rows = (max(2, round(size / self.width) + 1) for size in (self.length, self.breadth))
        wall = _wall_cells(self.wall_width, self.width)
        inner = np.random.default_rng(self.seed).normal(0, 1, (rows, columns)) * self.height
        inner -= inner[:, wall:-wall].min()
        ramp = self.wall_height * np.arange(wall, 0, -1) / wall
        inner[:, :wall] = inner[:, [wall]] + ramp
        inner[:, -wall:] = inner[:, [-wall - 1]] + ramp[::-1]
        return inner

    def profile(self) -> tuple[np.ndarray, np.ndarray]:
        x, y = self.points()
        return x[1:-1], y[1:-1]

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """The line at y = 0."""
        return self.line_at(0.0)

    def line_at(self, y: float) -> tuple[np.ndarray, np.ndarray]:
        heights = self.heights()
        return np.arange(heights.shape[1]) * self.width, _row_at(heights, (len(heights) - 1) / 2 + y / self.width)

    def build(self, dtype: jnp.dtype | type = jnp.float32) -> HeightField:
        heights = self.heights()
        start = 0.0, -self.width * (len(heights) - 1) / 2
        return HeightField.of(
            heights,
            start,
            (self.width, self.width),
            friction=self.friction,
            restitution=self.restitution,
            begin=_wall_cells(self.wall_width, self.width) * self.width,
            dtype=dtype,
        )


class Heights(GivenGround):
    """3-D ground through given heights, walls and all; beyond its borders it goes on level."""

    type: Literal["heights"] = "heights"
    heights: tuple[tuple[Real, ...], ...]
    """rows of heights [m]: each row along x, one row after the other along y; at least 2 x 2"""
    spacing: tuple[Positive, Positive] = (1.0, 1.0)
    """of the points along x and along y [m]; one number for both"""
    start: tuple[Real, Real] | None = None
    """x and y of the first row's first height [m]; if absent, x = 0 and half of the rows on either side of y = 0"""
    in_3d: ClassVar[bool] = True

    @field_validator("heights")
    @classmethod
    def _rectangular(cls, heights: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
        rows, columns = len(heights), min(map(len, heights), default=0)
        for number, row in enumerate(heights, 1):
            if len(row) != len(heights[0]):
                raise ValueError(
                    f"row {number} has {len(row)} heights, row 1 has {len(heights[0])}: give as many in each"
                )
        if min(rows, columns) < 2:
            raise ValueError(f"{rows} x {columns} heights are no surface: give 2 rows of 2 or more")
        if rows * columns > MOST_CELLS:
            raise ValueError(f"{rows} x {columns} heights are too many: at most {MOST_CELLS:,}")
        return heights

    @field_validator("spacing", mode="before", json_schema_input_type=tuple[Positive, Positive] | Positive)
    @classmethod
    def _both_ways(cls, value: Any) -> Any:
        return (value, value) if isinstance(value, int | float) else value

    def first(self) -> tuple[float, float]:
        """x and y of the first point [m]."""
        return (0.0, -self.spacing[1] * (len(self.heights) - 1) / 2) if self.start is None else self.start

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """The line at y = 0, or at the border nearest to it."""
        return self.line_at(0.0)

    def line_at(self, y: float) -> tuple[np.ndarray, np.ndarray]:
        first, heights = self.first(), np.array(self.heights, float)
        x = first[0] + self.spacing[0] * np.arange(heights.shape[1])
        return x, _row_at(heights, (y - first[1]) / self.spacing[1])

    def build(self, dtype: jnp.dtype | type = jnp.float32) -> HeightField:
        return HeightField.of(
            np.array(self.heights, float),
            self.first(),
            self.spacing,
            friction=self.friction,
            restitution=self.restitution,
            dtype=dtype,
        )


TERRAINS: Registry[type[AnyGround]] = Registry(
    "terrain",
    {
        kind.model_fields["type"].default: kind
        for kind in (Flat, Uneven, Hilly, Steppy, Uphill, Downhill, Polyline, Bumpy, Heights)
    },
)
"""Every described terrain by its name."""


def java_random(seed: int, count: int) -> np.ndarray:
    """The first doubles in [0, 1) of java.util.Random(seed): Knuth's 48-bit linear congruential generator."""
    multiplier, mask = 0x5DEECE66D, (1 << 48) - 1
    state = (seed ^ multiplier) & mask
    doubles = []
    for _ in range(count):
        words = []
        for bits in (26, 27):
            state = (state * multiplier + 0xB) & mask
            words.append(state >> (48 - bits))
        doubles.append(((words[0] << 27) + words[1]) / (1 << 53))
    return np.array(doubles)


def _random_points(seed: int, width: float, height: float, left: float, right: float) -> tuple[np.ndarray, np.ndarray]:
    """Points from left to right, normal distances (never under a quarter of the mean) and normal heights."""
    random = np.random.default_rng(seed)
    distance = width * np.maximum(0.25, random.normal(1, 0.25, int(np.ceil(4 * (right - left) / width)) + 1))
    x = left + np.concatenate([[0.0], np.cumsum(distance)])
    inside = x[x <= right - 0.25 * width]
    y = random.normal(0, height, x.size)[: inside.size + 1] if height > 0 else np.zeros(inside.size + 1)
    return np.append(inside, right), y - y.min()


def _wall_cells(wall_width: float, width: float) -> int:
    """Cells of a field that a wall takes."""
    return max(1, round(wall_width / width))


def _row_at(heights: np.ndarray, place: float) -> np.ndarray:
    """Heights at a place between two rows, counted from the first; the nearest row's beyond them."""
    place = min(max(place, 0.0), len(heights) - 1.0)
    below = min(int(place), len(heights) - 2)
    return heights[below] + (place - below) * (heights[below + 1] - heights[below])
