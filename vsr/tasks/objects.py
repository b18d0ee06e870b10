"""Something to push, to carry or to throw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import jax.numpy as jnp
from jax import Array
from pydantic import Field

from vsr.physics.engine import ENGINES, engine_of
from vsr.robot import KINDS, Body, EngineName, Material
from vsr.spec import Count, Real, Seconds
from vsr.tasks.base import JudgedTask, Overrides, center_of, never
from vsr.world.spec import Box, Object
from vsr.world.state import WorldModel, WorldState, motion_of

NAME = "object"
Cells = Annotated[Count, Field(ge=1, le=20)]


class _WithObject(JudgedTask):
    """A task with one object, rigid or soft."""

    kind: Literal["rigid", "soft"] = "rigid"
    """of the object"""
    size: tuple[Cells, Cells] = (2, 2)
    """of the object, along x and up [voxels]; in 3-D it is as deep as wide"""
    at: Annotated[Real, Field(ge=0)] = 30.0
    """where its middle is, along x [m]"""

    def issues(self, engine: EngineName, dimension: int, materials: Sequence[Material]) -> list[tuple[str, str]]:
        if not ENGINES[engine].own_contact:
            return []
        others = " or ".join(name for name, engine in ENGINES.items() if not engine.own_contact)
        return [("type", f"it needs objects beside the robot, which {engine} has in its own tasks only: use {others}")]

    def overrides(self, engine: EngineName, voxel_side: float, dimension: int) -> Overrides:
        if ENGINES[engine].own_contact:
            return Overrides()
        return Overrides(world={"objects": (self._object(voxel_side, dimension),)})

    def _object(self, side: float, dimension: int) -> Object:
        wide, high = self.size
        where = (self.at, 0.5 * high * side) if dimension == 2 else (self.at, 0.0, 0.5 * high * side)
        if self.kind == "rigid":
            cells = (wide, high) if dimension == 2 else (wide, wide, high)
            return Object(name=NAME, shape=Box(size=tuple(side * count for count in cells)), position=where)
        rows = ("s" * wide,) * high
        shape = rows if dimension == 2 else tuple((row,) * wide for row in rows)
        soft = {"s": KINDS["points"]["s"]}
        return Object(
            name=NAME, position=where, body=Body(shape=shape, engine="points", materials=soft, voxel_side=side)
        )

    def object_center(self, world: WorldModel, state: WorldState) -> Array:
        """Center of the object [m], (dimension,)."""
        return motion_of(world, state, NAME).position

    def first(self, world: WorldModel, state: WorldState) -> Array:
        return self.object_center(world, state)


class Push(_WithObject):
    """Push an object: how far it is to the right of where it was [m]."""

    type: Literal["push"] = "push"

    def judged(self, value: Array, kept: Any, world: WorldModel, before: WorldState, after: WorldState) -> Any:
        return self.object_center(world, after)[0] - kept[0], kept, never()


class _OnTop(_WithObject):
    """The object starts on the robot's back."""

    size: tuple[Cells, Cells] = (2, 1)
    """of the object, along x and up [voxels]; in 3-D it is as deep as wide"""

    def start(self, key: Array, world: WorldModel, state: WorldState) -> WorldState:
        model = world.robots[0]
        low, high = engine_of(model).bounding_box(model, state.robots[0])
        over = 0.5 * (low + high)
        over = over.at[-1].set(high[-1] + 0.5 * self.size[1] * model.voxel_side)
        by = over - self.object_center(world, state)
        by = jnp.where(jnp.isfinite(by), by, 0)
        return moved_objects(state, by)


class Carry(_OnTop):
    """Carry an object: how far it got to the right, until it fell [m]."""

    type: Literal["carry"] = "carry"

    def judged(self, value: Array, kept: Any, world: WorldModel, before: WorldState, after: WorldState) -> Any:
        here = self.object_center(world, after)
        fallen = here[-1] < center_of(world, after)[-1]
        return jnp.where(fallen, value, here[0] - kept[0]), kept, fallen


class Throw(_OnTop):
    """Throw an object: how far to the right of its start it has been [m], less the way of the robot's center."""

    type: Literal["throw"] = "throw"
    duration: Seconds = 20.0
    """[s]"""

    def first(self, world: WorldModel, state: WorldState) -> tuple[Array, Array]:
        return self.object_center(world, state)[0], center_of(world, state)[0]

    def judged(self, value: Array, kept: Any, world: WorldModel, before: WorldState, after: WorldState) -> Any:
        start, robot = kept
        walked = jnp.maximum(center_of(world, after)[0] - robot, 0)
        return jnp.maximum(value, self.object_center(world, after)[0] - start - walked), kept, never()


def moved_objects(state: WorldState, by: Array) -> WorldState:
    """With all objects moved [m], (dimension,)."""
    objects = state.systems["objects"]
    solids = None if objects.solids is None else replace(objects.solids, position=objects.solids.position + by)
    voxel_bodies = tuple(replace(one, position=one.position + by) for one in objects.voxel_bodies)
    return replace(
        state, systems={**state.systems, "objects": replace(objects, solids=solids, voxel_bodies=voxel_bodies)}
    )
