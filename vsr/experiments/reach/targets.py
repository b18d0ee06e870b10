"""Where effectors are to go, as described in a file: points one by one, or a target that moves."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from vsr.spec import Count, Real, Spec

Point = Annotated[tuple[Real, ...], Field(min_length=2, max_length=3)]
"""[m]; two coordinates in 2-D, three in 3-D, the last one up."""
MOST_TARGETS = 100_000


class Target(Spec):
    """What all described targets have."""

    moves: ClassVar[bool] = False
    """whether targets follow each other in time, so that each is reached from the one before"""

    @abstractmethod
    def at(self, time: np.ndarray) -> np.ndarray:
        """Targets [m], (targets, dimension); time: of each [s], which only targets that move heed."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """2 or 3."""


class _OfPoints(Target):
    """A target that is given by points."""

    points: tuple[Point, ...]
    """[m]"""

    @model_validator(mode="after")
    def _alike(self) -> _OfPoints:
        _require_alike(self.points)
        return self

    @property
    def dimension(self) -> int:
        return len(self.points[0])


class Points(_OfPoints):
    """Points, each reached on its own."""

    type: Literal["points"] = "points"
    points: Annotated[tuple[Point, ...], Field(min_length=1, max_length=MOST_TARGETS)]
    """[m]"""

    def at(self, time: np.ndarray) -> np.ndarray:
        return np.array(self.points, float)


class Grid(Target):
    """A grid of points, each reached on its own: what can be reached at all."""

    type: Literal["grid"] = "grid"
    low: Point
    """lowest corner [m]"""
    high: Point
    """highest corner [m]"""
    counts: Annotated[tuple[Annotated[Count, Field(ge=1, le=1000)], ...], Field(min_length=2, max_length=3)]
    """points along each axis"""

    @model_validator(mode="after")
    def _fits(self) -> Grid:
        if not len(self.low) == len(self.high) == len(self.counts):
            raise ValueError(
                f"low, high and counts have {len(self.low)}, {len(self.high)}, {len(self.counts)} parts: give as many"
            )
        if np.prod(self.counts) > MOST_TARGETS:
            raise ValueError(f"{np.prod(self.counts)} points; at most {MOST_TARGETS}")
        return self

    @property
    def dimension(self) -> int:
        return len(self.low)

    def at(self, time: np.ndarray) -> np.ndarray:
        axes = [np.linspace(*ends) for ends in zip(self.low, self.high, self.counts, strict=True)]
        return np.array(list(itertools.product(*axes)))


class Path(_OfPoints):
    """A target that moves evenly along straight lines from point to point."""

    type: Literal["path"] = "path"
    moves: ClassVar[bool] = True
    points: Annotated[tuple[Point, ...], Field(min_length=2, max_length=MOST_TARGETS)]
    """[m]"""

    def at(self, time: np.ndarray) -> np.ndarray:
        corners = np.array(self.points, float)
        far = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(corners, axis=0), axis=1))])
        share = time / max(time[-1], 1e-12) * far[-1]
        return np.stack([np.interp(share, far, column) for column in corners.T], 1)


class Sinusoid(Target):
    """A target that moves as center + amplitude sin(2 π (frequency t + phase)), axis by axis."""

    type: Literal["sinusoid"] = "sinusoid"
    moves: ClassVar[bool] = True
    center: Point
    """[m]"""
    amplitude: Point
    """[m]"""
    frequency: Annotated[Real, Field(gt=0)] = 1.0
    """[Hz]"""
    phase: Point | None = None
    """of each axis, in periods; none if absent"""

    @model_validator(mode="after")
    def _fits(self) -> Sinusoid:
        for name in ("amplitude", "phase"):
            value = getattr(self, name)
            if value is not None and len(value) != len(self.center):
                raise ValueError(f"{name} has {len(value)} parts and center {len(self.center)}: give as many")
        return self

    @property
    def dimension(self) -> int:
        return len(self.center)

    def at(self, time: np.ndarray) -> np.ndarray:
        phase = np.zeros(self.dimension) if self.phase is None else np.array(self.phase)
        turn = 2 * np.pi * (self.frequency * time[:, None] + phase)
        return np.array(self.center) + np.array(self.amplitude) * np.sin(turn)


def _require_alike(points: tuple[tuple[float, ...], ...]) -> None:
    if len({len(point) for point in points}) > 1:
        raise ValueError("some points have two coordinates and others three: give all as many")


TARGETS: dict[str, type[Target]] = {"points": Points, "grid": Grid, "path": Path, "sinusoid": Sinusoid}
"""By their type."""
