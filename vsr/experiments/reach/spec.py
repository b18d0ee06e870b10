"""The description that `vsr reach` reads: a body with chambers, clamps, obstacles, effectors and their targets."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, ValidationError, model_validator

from vsr.environment import Plane, Sphere
from vsr.environment.obstacles import ball, plane
from vsr.robot import Body, Material
from vsr.robot.corners import corner_steps
from vsr.robot.engine_kinds import ENGINE_KINDS
from vsr.robot.shape import leaks
from vsr.spec import Count, FileSpec, OneOf, Real, Seconds, Spec, validation_error

Point = Annotated[tuple[Real, ...], Field(min_length=2, max_length=3)]
"""[m]; two coordinates in 2-D, three in 3-D, the last one up."""
MOST_TARGETS = 100_000


class Target(Spec):
    """Shared parts of all targets."""

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


Side = Literal["left", "right", "front", "back", "bottom", "top"]
SIDES: dict[Side, tuple[int, int]] = {
    "left": (0, 0),
    "right": (0, 1),
    "front": (1, 0),
    "back": (1, 1),
    "bottom": (-1, 0),
    "top": (-1, 1),
}
"""Axis, x first and up last, and end of each side of a body's grid."""
Complaints = list[tuple[tuple[str, ...], str]]


class BallObstacle(Spec):
    """A ball, in 2-D a disc."""

    type: Literal["ball"] = "ball"
    center: Point
    """[m]"""
    radius: Annotated[Real, Field(gt=0)]
    """[m]"""

    @property
    def dimension(self) -> int:
        return len(self.center)

    def build(self) -> Sphere:
        """The array form."""
        return ball(self.center, self.radius)


class PlaneObstacle(Spec):
    """All that lies behind a plane."""

    type: Literal["plane"] = "plane"
    point: Point
    """on its surface [m]"""
    normal: Point
    """out of it, of any length"""

    @model_validator(mode="after")
    def _turned(self) -> PlaneObstacle:
        if len(self.point) != len(self.normal) or not any(self.normal):
            raise ValueError("the normal needs as many parts as the point, not all 0")
        return self

    @property
    def dimension(self) -> int:
        return len(self.point)

    def build(self) -> Plane:
        """The array form."""
        return plane(self.point, self.normal)


OBSTACLES: dict[str, type[Spec]] = {"ball": BallObstacle, "plane": PlaneObstacle}


class Effector(Spec):
    """A point of the body, and where it is to go."""

    at: Point
    """in the undeformed body, from the lowest corner of its grid [m]: a node, or any point of a voxel"""
    target: Annotated[Target, OneOf(TARGETS)]
    weight: Annotated[Real, Field(gt=0)] = 1.0
    """of its squared distance"""


class Rates(Spec):
    """How fast a target that moves may be followed."""

    pressure: Annotated[Real, Field(gt=0)] | None = None
    """change of any chamber's pressure at most [Pa/s]; any if absent"""
    volume: Annotated[Real, Field(gt=0)] | None = None
    """change of any chamber's volume at most [m³/s]; any if absent"""


class Reach(FileSpec):
    """All that one search needs."""

    kind: Literal["reach"] = "reach"
    """what this file describes"""
    body: Body
    """of point masses, with chambers (materials with `fluid`)"""
    clamped: Annotated[tuple[Side, ...], Field(min_length=1)] = ("left",)
    """sides of the body's grid whose nodes do not move"""
    place: Point | None = None
    """of the lowest corner of the body's grid in the world [m]; the origin if absent"""
    gravity: Annotated[Real, Field(ge=0)] = 9.81
    """downwards [m/s²]"""
    obstacles: tuple[Annotated[Any, OneOf(OBSTACLES)], ...] = ()
    """obstacles that the body cannot enter"""
    effectors: tuple[Effector, ...] = ()
    """effectors that are brought to targets"""
    poses: dict[str, dict[str, Real]] = Field(default_factory=dict)
    """equilibria under given drives besides: by name, for every symbol of a fluid its pressure [Pa], or the volume
    added over that at rest"""
    axis: tuple[Point, Point] | None = None
    """two points of the undeformed body, as for effectors, whose line's angle with the horizontal is reported"""
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """the same with other fluids, compared: by name, what to change of every material's `fluid`"""
    duration: Seconds = 1.0
    """of targets that move [s]"""
    frequency: Annotated[Real, Field(gt=0, le=10_000)] = 60.0
    """targets per second of those that move [Hz]"""
    rates: Rates = Rates()
    restarts: Annotated[Count, Field(ge=1, le=64)] = 3
    """from how many poses targets that do not move are searched; the nearest end counts"""
    precision: Literal["float32", "float64"] = "float64"
    """kind of floating-point number"""
    plugins: tuple[str, ...] = ()
    """Python modules to import before reading the rest"""

    @model_validator(mode="after")
    def _sound(self) -> Reach:
        issues = [*self._body(), *self._dimensions(), *self._targets(), *self._poses(), *self._variants()]
        if issues:
            raise validation_error(issues)
        return self

    @property
    def moves(self) -> bool:
        """Whether targets follow each other in time."""
        return any(effector.target.moves for effector in self.effectors)

    @property
    def time(self) -> np.ndarray:
        """Of every target that moves [s], (targets,)."""
        count = round(self.duration * self.frequency) if self.moves else 0
        return np.arange(count + 1) / self.frequency

    def targets(self) -> np.ndarray:
        """[m], (targets, effectors, dimension)."""
        found = [effector.target.at(self.time) for effector in self.effectors]
        most = max(map(len, found))
        return np.stack([np.broadcast_to(one, (most, self.body.dimension)) for one in found], 1)

    @property
    def fluids(self) -> dict[str, Material]:
        """Materials that are fluids and that the body has, by their symbols."""
        used = {list(self.body.materials)[index] for index in np.unique(self.body.cells[self.body.present])}
        return {s: m for s, m in self.body.materials.items() if m.fluid is not None and s in used}

    def bodies(self) -> dict[str, Body]:
        """Every variant's, by name; one without a name if there are none."""
        if not self.variants:
            return {"": self.body}
        return {name: self._varied(changes) for name, changes in self.variants.items()}

    def _varied(self, changes: dict[str, Any]) -> Body:
        plain = self.body.to_plain()
        for material in plain["materials"].values():
            if material.get("fluid") is not None:
                material["fluid"] = {**material["fluid"], **changes}
        return Body.model_validate(plain)

    def anchored(self) -> np.ndarray:
        """True for corners whose node is clamped, (corners, *cells)."""
        cells, dimension = self.body.cells.shape, self.body.dimension
        clamped = np.zeros((2**dimension, *cells), bool)
        for side in self.clamped:
            axis, end = SIDES[side]
            along = dimension - 1 - axis if axis >= 0 else 0
            for corner, steps in enumerate(corner_steps(dimension)):
                if steps[along] == end:
                    where = [slice(None)] * dimension
                    where[along] = slice(-1, None) if end else slice(0, 1)
                    clamped[(corner, *where)] = True
        return clamped

    def _body(self) -> Complaints:
        found: Complaints = []
        if ENGINE_KINDS[self.body.engine].turns:
            return [
                (("body", "engine"), f"'{self.body.engine}' given; only bodies of points can be at rest here: points")
            ]
        if not self.fluids:
            found.append((("body", "shape"), "no voxel holds fluid, so nothing drives it: give a material `fluid`"))
        if open_chamber := leaks(self.body):
            found.append((("body", "shape"), open_chamber))
        if any(material.actuation == "force" for material in self.body.materials.values()):
            found.append((("body", "materials"), "actuation by force has no energy; use area"))
        if not (self.anchored() & self.body.present).any():
            found.append(
                (("clamped",), f"no voxel lies at the {' or '.join(self.clamped)} of the grid, so nothing is clamped")
            )
        if self.body.dimension == 2 and {"front", "back"} & set(self.clamped):
            found.append((("clamped",), "a 2-D body has no front and back; choose from left, right, bottom, top"))
        return found

    def _dimensions(self) -> Complaints:
        """Points with too few or too many coordinates."""
        given: list[tuple[tuple[str, ...], int]] = []
        if self.place is not None:
            given.append((("place",), len(self.place)))
        for number, effector in enumerate(self.effectors):
            path = ("effectors", str(number))
            given += [((*path, "at"), len(effector.at)), ((*path, "target"), effector.target.dimension)]
        given += [(("obstacles", str(number)), one.dimension) for number, one in enumerate(self.obstacles)]
        given += [(("axis", str(number)), len(point)) for number, point in enumerate(self.axis or ())]
        wanted = self.body.dimension
        wrong = [
            (path, f"{count} coordinates given; the body is in {wanted}-D: give {wanted}")
            for path, count in given
            if count != wanted
        ]
        return wrong or self._places()

    def _places(self) -> Complaints:
        """Points that are not in the body."""
        named = [(("effectors", str(number), "at"), one.at) for number, one in enumerate(self.effectors)]
        named += [(("axis", str(number)), point) for number, point in enumerate(self.axis or ())]
        found = [(path, point) for path, point in named if voxel_at(self.body, point) is None]
        size = np.array(self.body.cells.shape[::-1]) * self.body.voxel_side
        text = "no voxel is there; the body's grid goes from 0 to " + " x ".join(f"{part:g}" for part in size) + " m"
        return [(path, f"{list(point)} given; {text}") for path, point in found]

    def _targets(self) -> Complaints:
        if not self.effectors and not self.poses:
            return [(("effectors",), "none given, and no poses: give at least one of either")]
        if not self.effectors:
            return []
        kinds = {effector.target.moves for effector in self.effectors}
        if self.moves and self.duration * self.frequency > MOST_TARGETS:
            count = self.duration * self.frequency
            return [
                (("duration",), f"{count:.3g} targets in all; at most {MOST_TARGETS}: shorter, or a lower frequency")
            ]
        lone = [len(effector.target.at(self.time)) for effector in self.effectors]
        found: Complaints = []
        if len({count for count in lone if count > 1}) > 1:
            text = f"effectors have {', '.join(map(str, lone))} targets: give all as many, or one"
            found.append((("effectors",), text))
        if len(kinds) == 2 and any(
            count > 1 and not e.target.moves for count, e in zip(lone, self.effectors, strict=True)
        ):
            found.append((("effectors",), "some targets move and others are several points: a single point can stay"))
        if not self.moves and (self.rates.pressure is not None or self.rates.volume is not None):
            found.append((("rates",), "rates concern targets that move (path, swing), and none does: leave them out"))
        return found

    def _poses(self) -> Complaints:
        symbols = list(self.fluids)
        found: Complaints = []
        for name, drives in self.poses.items():
            wrong = [symbol for symbol in drives if symbol not in symbols]
            missing = [symbol for symbol in symbols if symbol not in drives]
            found += [
                (("poses", name, one), f"no fluid has this symbol; allowed: {', '.join(symbols)}") for one in wrong
            ]
            found += [(("poses", name), f"there is no value for {', '.join(missing)}")] if missing else []
            found += self._beyond(name, drives)
        return found

    def _beyond(self, name: str, drives: dict[str, float]) -> Complaints:
        found: Complaints = []
        for symbol, value in drives.items():
            fluid = self.fluids[symbol].fluid if symbol in self.fluids else None
            if fluid is None:
                continue
            limits = fluid.volume_limits if fluid.drive == "volume" else fluid.pressure_limits
            if limits is not None and not limits[0] <= value <= limits[1]:
                text = f"{value:g} given; the fluid's limits are {limits[0]:g} to {limits[1]:g}"
                found.append((("poses", name, symbol), text))
        return found

    def _variants(self) -> Complaints:
        found: Complaints = []
        for name, changes in self.variants.items():
            if "drive" in changes and self.poses:
                found.append(
                    (("variants", name, "drive"), "poses name drives, which then mean something else: one or the other")
                )
            try:
                if open_chamber := leaks(self._varied(changes)):
                    found.append((("variants", name, "membrane"), open_chamber))
            except ValidationError as error:
                for fault in error.errors():
                    path = tuple(str(part) for part in fault["loc"][3:])
                    known = "" if fault["type"] != "extra_forbidden" else f"; allowed: {', '.join(_fluid_fields())}"
                    found.append((("variants", name, *path), fault["msg"] + known))
        return list(dict.fromkeys(found))


def _fluid_fields() -> list[str]:
    from vsr.robot.fluid import Fluid

    return list(Fluid.model_fields)


def voxel_at(body: Body, point: tuple[float, ...]) -> tuple[tuple[int, ...], np.ndarray] | None:
    """A voxel that holds a point of the undeformed body, and where in it, x first, from 0 to 1; None if none does."""
    scaled = np.array(point)[::-1] / body.voxel_side
    best = None
    for shift in np.ndindex(*(2,) * len(scaled)):
        # A point between voxels belongs to all of them: any that is there will do.
        near = np.clip(scaled, -1, np.add(body.cells.shape, 1))  # what is far away is in no voxel, and no whole number
        cell = np.floor(near + np.where(np.array(shift) == 1, -1e-9, 1e-9)).astype(int)
        if (cell >= 0).all() and (cell < body.cells.shape).all() and body.present[tuple(cell)]:
            best = tuple(int(part) for part in cell)
            break
    return None if best is None else (best, np.clip(scaled - best, 0, 1)[::-1])
