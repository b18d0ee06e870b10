"""A robot as it is described, and what surrounds it: ground, objects, further robots."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any, Protocol

import jax.numpy as jnp
from pydantic import Field, model_validator

from vsr.body import Body, Masses, Material
from vsr.compute.implementation import Implementation
from vsr.controllers import CONTROLLERS, Controller, ControllerSpec, Hardware, Sine
from vsr.display import Displayed
from vsr.environment import Environment
from vsr.environment.model import Sticking
from vsr.episode import Schedule
from vsr.inhabitants import other_robot, rigid_things, soft_things
from vsr.objects import Object
from vsr.physics.grains.bed import sand_bed
from vsr.physics.objects import Objects
from vsr.spec import OneOf, Real, Spec, Switch, misfit
from vsr.tasks import Placement
from vsr.terrain import TERRAINS, AnyGround, BlockGround, Flat, Sand

TOUCHED = ("objects", "others", "self_contact", "ground_corners")
"""Fields of a world that need contact beyond that with the ground."""


class Robot(Displayed, Spec):
    """A body and what controls it."""

    body: Body
    controller: Annotated[ControllerSpec, OneOf(CONTROLLERS)] = Sine(amplitude=0.0)
    """how control values are made; by default the robot is passive"""
    hardware: Hardware | None = None
    """noise, delay and rate limit of sensors and actuators; null for none of it"""

    @model_validator(mode="after")
    def _fits(self) -> Robot:
        complaints = self.controller.check(self.body)
        if complaints:
            raise misfit([(("controller", *path), reason) for path, reason in complaints])
        return self

    def build_controller(self, dtype: Any = jnp.float32) -> Controller:
        """Its controller as arrays, behind its hardware."""
        controller = self.controller.build(self.body, dtype)
        return controller if self.hardware is None else self.hardware.around(controller, self.body.cells.shape, dtype)


class Other(Spec):
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
    """things that robots touch, rigid or soft, free or fixed"""
    others: tuple[Other, ...] = ()
    """further robots, which touch the robot and all objects"""
    self_contact: Switch = False
    """whether parts of a robot touch each other; if not, a body that is folded passes through itself"""
    ground_corners: Switch = False
    """whether corners of the ground touch the sides of voxels (2-D); if not, a spike passes between masses; those of
    terrain blocks always do"""
    sticking: Sticking = "resting"
    """which corners of square masses friction may hold on the ground where they could also leave it: those that were
    resting on it before the forces of the substep acted, all that are touching it, or only those still approaching"""

    @model_validator(mode="after")
    def _named_once(self) -> World:
        names = [one.name for one in (*self.objects, *self.others)]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(
                f"'{twice[0]}' is the name of {names.count(twice[0])} objects or robots: they need one each"
            )
        return self

    @property
    def is_touched(self) -> bool:
        """Whether there is more to touch than a line of ground."""
        return isinstance(self.terrain, BlockGround) or any(getattr(self, name) for name in TOUCHED)

    @property
    def bodies(self) -> list[Body]:
        """Of soft things and further robots."""
        soft = [one.body for one in self.objects if one.body is not None]
        return soft + [one.robot.body for one in self.others]

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
        return self.terrain.longest_step(self.gravity) if isinstance(self.terrain, Sand) else math.inf

    def occupants(self, voxels: Voxels, schedule: Schedule, dtype: jnp.dtype | type = jnp.float32) -> dict[str, Any]:
        """What moves here besides robots, for robots of such voxels (vsr.physics.coupled.Occupant)."""
        found: dict[str, Any] = {}
        if self.is_touched:
            found["objects"] = self._things(voxels.dimension, schedule, dtype)
        if not isinstance(self.terrain, Sand):
            return found
        bed = sand_bed(self.terrain, voxels.dimension, self.gravity, voxels.voxel_side, dtype)
        # Finer steps are finer for grains too: as many substeps as usual are in one of theirs.
        stride = max(1, int(self.longest_step / schedule.substep + 1e-6))
        return {"sand": replace(bed, stride=stride, implementation=_implementation(schedule)), **found}

    def _things(self, dimension: int, schedule: Schedule, dtype: jnp.dtype | type) -> Objects:
        terrain = None if self.terrain is None else self.terrain.build(dtype)
        others = tuple(
            other_robot(one.name, one.robot, one.placement, terrain, schedule.interval, dtype) for one in self.others
        )
        return Objects(
            rigid_things(self.objects, dimension, dtype),
            soft_things(self.objects, dtype) + others,
            self_contact=self.self_contact,
            ground_corners=dimension == 2 and (self.ground_corners or isinstance(self.terrain, BlockGround)),
            implementation=_implementation(schedule),
        )


def _implementation(schedule: Schedule) -> Implementation:
    """Of what occupants do."""
    return "xla" if schedule.implementation == "xla" else "auto"


class Voxels(Protocol):
    """What a body and a kind of body that evolves have in common."""

    @property
    def materials(self) -> dict[str, Material]: ...
    @property
    def voxel_side(self) -> float: ...
    @property
    def masses(self) -> Masses: ...
    @property
    def dimension(self) -> int: ...
