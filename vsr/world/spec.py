"""A robot and the world around it as a researcher describes them: terrain, objects, further robots.

Objects are rigid ones of simple shapes, or soft ones of voxels. Rigid objects are free, or fixed: fixed boxes
are steps, walls, pegs and ceilings. The arrays of all this are made in vsr.world.build.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal, Protocol

import jax.numpy as jnp
import numpy as np
from pydantic import Field, model_validator

from vsr.controllers import CONTROLLERS, Controller, ControllerSpec, Hardware, Sine
from vsr.display import Moving
from vsr.environment import Environment
from vsr.environment.model import Sticking
from vsr.robot import Body, EngineName, Material
from vsr.spec import OneOf, Real, Registry, Spec, Switch, validation_error
from vsr.terrain import TERRAINS, AnyGround, Flat
from vsr.world.placement import Placement

Length = Annotated[Real, Field(gt=0)]
Place = Annotated[tuple[Real, ...], Field(min_length=2, max_length=3)]
MOST_CORNERS = {2: 16, 3: 32}
"""Of a polygon, of a mesh: more make every contact dearer."""
TOUCHED = ("objects", "other_robots", "self_contact", "ground_corners")
"""Fields of a world that need contact beyond that with the ground."""


class VoxelLike(Protocol):
    """A body, or a kind of body that evolves."""

    @property
    def materials(self) -> dict[str, Material]: ...
    @property
    def voxel_side(self) -> float: ...
    @property
    def engine(self) -> EngineName: ...
    @property
    def dimension(self) -> int: ...


class Shape(Spec):
    """What all shapes have. Corners are seen from the center of mass."""

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    """in which it exists"""

    @abstractmethod
    def corners(self, dimension: int) -> np.ndarray:
        """Of its convex hull [m], (corners, dimension); the center alone for what is round."""

    @property
    def rounding(self) -> float:
        """Radius of what is round, 0 for others [m]."""
        return 0.0

    def validation_error(self, dimension: int) -> str | None:
        """Why it cannot be in a world of a dimension, if so."""
        return None if dimension in self.dimensions else f"it exists in {self.dimensions[0]}-D only"


class Box(Shape):
    """A box, in 2-D a rectangle."""

    type: Literal["box"] = "box"
    size: Annotated[tuple[Length, ...], Field(min_length=2, max_length=3)]
    """along x and up, in 3-D along x, y and up [m]"""

    def corners(self, dimension: int) -> np.ndarray:
        ways = np.stack(np.meshgrid(*[(-0.5, 0.5)] * dimension, indexing="ij"), -1).reshape(-1, dimension)
        return ways * np.array(self.size)

    def validation_error(self, dimension: int) -> str | None:
        given = len(self.size)
        return None if given == dimension else f"size: {given} numbers given; {dimension} are needed in {dimension}-D"


class Ball(Shape):
    """A ball, in 2-D a disc."""

    type: Literal["ball"] = "ball"
    radius: Length
    """[m]"""

    @property
    def rounding(self) -> float:
        return self.radius

    def corners(self, dimension: int) -> np.ndarray:
        return np.zeros((1, dimension))


class _Hull(Shape):
    """The convex hull of points."""

    points: tuple[Place, ...]
    """all of them corners of the hull [m]; only their places from each other count, because the center of mass is put
    at the object's position"""

    @model_validator(mode="after")
    def _convex(self) -> _Hull:
        (dimension,) = self.dimensions
        if {len(point) for point in self.points} != {dimension}:
            raise ValueError(f"every point needs {dimension} numbers")
        if not dimension < len(self.points) <= MOST_CORNERS[dimension]:
            raise ValueError(
                f"{len(self.points)} points given; from {dimension + 1} to {MOST_CORNERS[dimension]} are needed"
            )
        corners = np.array(self.points)
        size = float(np.ptp(corners, axis=0).max())
        if np.linalg.matrix_rank(corners - corners[0], tol=1e-4 * size) < dimension:
            raise ValueError("the points lie on one line" if dimension == 2 else "the points lie in one plane")
        from scipy.spatial import ConvexHull

        inner = sorted(set(range(len(corners))) - set(ConvexHull(corners).vertices.tolist()))
        if inner:
            raise ValueError(f"point {inner[0] + 1} is no corner of the hull: leave it out; shapes are convex")
        return self

    def corners(self, dimension: int) -> np.ndarray:
        return np.array(self.points)


class Polygon(_Hull):
    """A convex polygon (2-D)."""

    type: Literal["polygon"] = "polygon"
    dimensions: ClassVar[tuple[int, ...]] = (2,)


class Mesh(_Hull):
    """A convex body with flat faces (3-D)."""

    type: Literal["mesh"] = "mesh"
    dimensions: ClassVar[tuple[int, ...]] = (3,)


SHAPES: Registry[type[Shape]] = Registry("shape", {"box": Box, "ball": Ball, "polygon": Polygon, "mesh": Mesh})
"""Every rigid shape by its name."""


class Object(Spec):
    """An object with a name. Give it a `shape` (rigid) or a `body` (soft, made of voxels)."""

    name: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$")]
    """by which tasks find it"""
    shape: Annotated[Shape, OneOf(SHAPES)] | None = None
    """of a rigid object"""
    body: Body | None = None
    """of a soft object: voxels and their materials; it is passive"""
    position: Place
    """of its center of mass at the start, x and up, in 3-D x, y and up [m]; of a soft one the middle of its box"""
    tilt: Real = 0.0
    """turned about its center [degrees], counter-clockwise; in 3-D from x to up"""
    yaw: Real = 0.0
    """turned about the vertical through its center, after tilting [degrees], from x towards y (in 3-D only)"""
    velocity: Place | None = None
    """at the start [m/s]; 0 if absent"""
    density: Length | None = None
    """of a rigid object [kg/m³], in 2-D [kg/m²]; if absent, that of a default voxel: 0.444 in 2-D, 0.296 in 3-D"""
    mass: Length | None = None
    """of a rigid object [kg], instead of density"""
    friction: Annotated[Real, Field(ge=0)] | None = None
    """coefficient of a rigid object, combined with others' by the geometric mean; 0.5 if absent"""
    restitution: Annotated[Real, Field(ge=0, le=1)] | None = None
    """coefficient of a rigid object, combined with others' by the larger of both; 0 if absent"""
    fixed: Switch = False
    """whether a rigid object is fixed: a step, a wall, a peg, a ceiling"""

    @model_validator(mode="after")
    def _one_kind(self) -> Object:
        if (self.shape is None) == (self.body is None):
            raise ValueError("give either `shape` (rigid) or `body` (soft)")
        if self.mass is not None and self.density is not None:
            raise ValueError("give either mass or density")
        if self.body is not None:
            given = [name for name in ("density", "mass", "friction", "restitution") if getattr(self, name) is not None]
            if given or self.fixed:
                what = given[0] if given else "fixed"
                raise ValueError(f"{what} is for rigid objects; of a soft one the materials of its voxels say that")
        if self.fixed and (self.velocity is not None or self.mass is not None or self.density is not None):
            raise ValueError("what is fixed has neither velocity nor mass: leave them out")
        return self

    def issues(self, dimension: int) -> list[tuple[str, str]]:
        """Fields that do not fit a world of a dimension, each with the reason."""
        found = []
        for name in ("position", "velocity"):
            value: Any = getattr(self, name)
            if value is not None and len(value) != dimension:
                found.append((name, f"{len(value)} numbers given; {dimension} are needed in {dimension}-D"))
        if dimension == 2 and self.yaw:
            found.append(("yaw", "it is for 3-D; in 2-D there is only a tilt: leave it out"))
        if self.shape is not None and (text := self.shape.validation_error(dimension)):
            found.append(("shape", text))
        if self.body is not None and self.body.dimension != dimension:
            found.append(("body", f"it is in {self.body.dimension}-D, and the robot in {dimension}-D"))
        return found


class Robot(Moving, Spec):
    """A body and what controls it."""

    body: Body
    controller: Annotated[ControllerSpec, OneOf(CONTROLLERS)] = Sine(amplitude=0.0)
    """how control values are made; by default the robot is passive"""
    hardware: Hardware | None = None
    """noise, delay and rate limit of sensors and actuators; null for none of it"""

    @model_validator(mode="after")
    def _fits(self) -> Robot:
        issues = self.controller.check(self.body)
        if issues:
            raise validation_error([(("controller", *path), reason) for path, reason in issues])
        return self

    def build_controller(self, dtype: Any = jnp.float32) -> Controller:
        """Its controller as arrays, behind its hardware."""
        controller = self.controller.build(self.body, dtype)
        return controller if self.hardware is None else self.hardware.around(controller, self.body.cells.shape, dtype)


class OtherRobot(Spec):
    """Another robot in the same world."""

    name: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$")]
    """by which tasks find it"""
    robot: Robot
    """its controller is a function of time"""
    placement: Placement = Placement()
    """where it starts"""


class World(Spec):
    """What surrounds the robot."""

    terrain: Annotated[AnyGround, OneOf(TERRAINS, default="flat")] | None = Flat()
    """the ground; null for free space"""
    gravity: Annotated[Real, Field(ge=0)] = 9.8
    """downwards [m/s²]; 110 for evogym masses"""
    objects: tuple[Object, ...] = ()
    """objects that robots touch, rigid or soft, free or fixed"""
    other_robots: tuple[OtherRobot, ...] = ()
    """further robots, which touch the robot and all objects"""
    self_contact: Switch = False
    """whether parts of a robot touch each other; if not, a body that is folded passes through itself"""
    ground_corners: Switch = False
    """whether corners of the ground touch the sides of voxels (2-D); if not, a spike passes between masses; those of
    terrain blocks always do"""
    sticking: Sticking = "resting"
    """which corners of square masses friction may hold on the ground where they could also leave it: those that were
    resting on it before the forces of the substep acted, all that touch it, or only those still approaching"""

    @model_validator(mode="after")
    def _named_once(self) -> World:
        names = [one.name for one in (*self.objects, *self.other_robots)]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(
                f"'{twice[0]}' is the name of {names.count(twice[0])} objects or robots: they need one each"
            )
        return self

    @property
    def is_touched(self) -> bool:
        """Whether there is more to touch than a line of ground."""
        return (self.terrain is not None and self.terrain.needs_contact) or any(getattr(self, name) for name in TOUCHED)

    @property
    def is_loose(self) -> bool:
        """Whether its ground moves, as sand does."""
        return self.terrain is not None and self.terrain.is_loose

    @property
    def bodies(self) -> list[Body]:
        """Of soft objects and further robots."""
        soft = [one.body for one in self.objects if one.body is not None]
        return soft + [one.robot.body for one in self.other_robots]

    def build(self, dtype: jnp.dtype | type = jnp.float32) -> Environment:
        """The array form."""
        return Environment(
            gravity=jnp.asarray(self.gravity, dtype),
            terrain=None if self.terrain is None else self.terrain.build(dtype),
            sticking=self.sticking,
        )

    @property
    def longest_step(self) -> float:
        """In which what moves here besides robots can be moved at once [s]; infinite if nothing does."""
        return math.inf if self.terrain is None else self.terrain.longest_step(self.gravity)
