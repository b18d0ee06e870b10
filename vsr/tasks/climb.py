"""Up: jump, climb between walls, stay on a pole, get out of a hole."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import jax.numpy as jnp
from jax import Array
from pydantic import Field

from vsr.physics.engine import engine_of
from vsr.robot import EngineName
from vsr.spec import Count, Seconds
from vsr.tasks.base import JudgedTask, Overrides, center_of, never
from vsr.terrain import Columns
from vsr.world.placement import move_rigidly
from vsr.world.state import WorldModel, WorldState

Voxels = Annotated[Count, Field(ge=1, le=1000)]
BESIDE = 20
"""Columns of level ground at either side [voxels]."""


def put_over(world: WorldModel, state: WorldState, x: Array | float) -> WorldState:
    """With the middle of the robot's box over a place along x [m]."""
    model, robot = world.robots[0], state.robots[0]
    low, high = engine_of(model).bounding_box(model, robot)
    by = jnp.zeros_like(low).at[0].set(x - 0.5 * (low[0] + high[0]))
    by = jnp.where(jnp.isfinite(by), by, 0)
    return replace(state, robots=(move_rigidly(model, robot, shift=by), *state.robots[1:]))


class Jump(JudgedTask):
    """Jump: how much higher than at the start the center has been [m]."""

    type: Literal["jump"] = "jump"
    duration: Seconds = 10.0
    """[s]"""

    def first(self, world: WorldModel, state: WorldState) -> Array:
        return center_of(world, state)[-1]

    def judged(self, value: Array, kept: Any, world: WorldModel, before: WorldState, after: WorldState) -> Any:
        return jnp.maximum(value, center_of(world, after)[-1] - kept), kept, never()


class _OnColumns(JudgedTask):
    """A task with ground of its own, the robot in the middle of it."""

    def heights(self) -> tuple[int, ...]:
        """Of the columns [voxels]."""
        raise NotImplementedError

    def middle(self) -> float:
        """Where the robot starts [voxels]."""
        return 0.5 * len(self.heights())

    def overrides(self, engine: EngineName, voxel_side: float, dimension: int) -> Overrides:
        tops = tuple(float(voxel_side * height) for height in self.heights())
        return Overrides(world={"terrain": Columns(heights=tops, width=voxel_side)})

    def resolved(self, voxel_side: float, interval: float) -> _OnColumns:
        if "placement" in self.model_fields_set:
            return self
        # Anywhere over the middle: where exactly is settled when the robot's width is known.
        start = self.placement.model_copy(update={"left": float(voxel_side * self.middle()), "clearance": 0.0})
        return self.model_copy(update={"placement": start})

    def start(self, key: Array, world: WorldModel, state: WorldState) -> WorldState:
        return put_over(world, state, world.robots[0].voxel_side * self.middle())


class Climb(_OnColumns):
    """Climb up between two walls: how much higher than at the start the center has been [m]."""

    type: Literal["climb"] = "climb"
    duration: Seconds = 30.0
    """[s]"""
    width: Voxels = 6
    """of the shaft [voxels]"""
    walls: Voxels = 40
    """how high they are [voxels]"""

    def heights(self) -> tuple[int, ...]:
        return (*(self.walls,) * 3, *(0,) * self.width, *(self.walls,) * 3)

    def first(self, world: WorldModel, state: WorldState) -> Array:
        return center_of(world, state)[-1]

    def judged(self, value: Array, kept: Any, world: WorldModel, before: WorldState, after: WorldState) -> Any:
        up = center_of(world, after)[-1]
        return jnp.maximum(value, up - kept), kept, up > self.walls * world.robots[0].voxel_side


class Balance(_OnColumns):
    """Stay on a pole: time until the center is lower than its top [s]."""

    type: Literal["balance"] = "balance"
    duration: Seconds = 30.0
    """[s]"""
    width: Voxels = 1
    """of the pole [voxels]"""
    height: Voxels = 4
    """of the pole [voxels]"""

    def heights(self) -> tuple[int, ...]:
        return (*(0,) * BESIDE, *(self.height,) * self.width, *(0,) * BESIDE)

    def judged(self, value: Array, kept: Any, world: WorldModel, before: WorldState, after: WorldState) -> Any:
        fallen = center_of(world, after)[-1] < self.height * world.robots[0].voxel_side
        return jnp.where(fallen, value, value + after.time - before.time), kept, fallen


class Escape(_OnColumns):
    """Get out of a hole: the share of its depth that the center has risen by, 1 at most, and 1 more outside."""

    type: Literal["escape"] = "escape"
    duration: Seconds = 30.0
    """[s]"""
    width: Voxels = 8
    """of the hole [voxels]"""
    depth: Voxels = 2
    """of the hole [voxels]"""

    def heights(self) -> tuple[int, ...]:
        return (*(self.depth,) * BESIDE, *(0,) * self.width, *(self.depth,) * BESIDE)

    def first(self, world: WorldModel, state: WorldState) -> Array:
        return center_of(world, state)

    def judged(self, value: Array, kept: Any, world: WorldModel, before: WorldState, after: WorldState) -> Any:
        here, side = center_of(world, after), world.robots[0].voxel_side
        risen = jnp.clip((here[-1] - kept[-1]) / (self.depth * side), 0, 1)
        beside = jnp.abs(here[0] - side * self.middle()) > 0.5 * self.width * side
        out = beside & (here[-1] > self.depth * side)
        return jnp.maximum(value, jnp.where(out, 2, risen)), kept, out
