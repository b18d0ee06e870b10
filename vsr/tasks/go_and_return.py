"""Go to a target and back, on command."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field, model_validator

from vsr.physics.engine import engine_of
from vsr.spec import Real, Seconds
from vsr.tasks.score import Judged, JudgedTask, center_of, never
from vsr.world.state import WorldModel, WorldState


class Command(NamedTuple):
    """What a robot is told."""

    away: Array
    """whether the target is to be gone to, or the start, ()"""
    until: Array
    """when the next command comes [s], ()"""
    start: Array
    """where it began, along x [m], ()"""
    key: Array
    """of further commands"""


class GoAndReturn(JudgedTask):
    """Go to a target and back, as often as told: by how much the distance from where it should be fell, in sum [m].

    Commands come at random times, so that a robot must listen: its observation begins with the way that is left.
    """

    type: Literal["go_and_return"] = "go_and_return"
    distance: Annotated[Real, Field(gt=0)] = 15.0
    """of the target, to the right of the start [m]"""
    shortest: Seconds = 10.0
    """between two commands [s]"""
    longest: Seconds = 20.0
    """between two commands [s]"""

    @model_validator(mode="after")
    def _ordered(self) -> GoAndReturn:
        if self.shortest > self.longest:
            raise ValueError(f"shortest, {self.shortest:g} s, is longer than longest, {self.longest:g} s")
        return self

    def first(self, world: WorldModel, state: WorldState) -> Command:
        return self._next(jnp.ones((), bool), state.time, center_of(world, state)[0], state.key)

    def _next(self, away: Array, time: Array, start: Array, key: Array) -> Command:
        key, drawing = jax.random.split(key)
        wait = jax.random.uniform(drawing, (), time.dtype, self.shortest, self.longest)
        return Command(away, time + wait, start, key)

    def _target(self, command: Command) -> Array:
        return command.start + jnp.where(command.away, self.distance, 0)

    def judged(self, value: Array, kept: Any, world: WorldModel, before: WorldState, after: WorldState) -> Any:
        command: Command = kept
        target = self._target(command)
        left = [jnp.abs(target - center_of(world, state)[0]) for state in (before, after)]
        other = self._next(~command.away, after.time, command.start, command.key)
        told = after.time >= command.until
        following = jax.tree.map(lambda new, old: jnp.where(told, new, old), other, command)
        return value + left[0] - left[1], following, never()

    def observation(self, account: Judged, world: WorldModel, state: WorldState) -> tuple[Array, Array]:
        """The way that is left along x over a voxel's side, then positions of all points from the center, likewise."""
        model, robot = world.robots[0], state.robots[0]
        points = engine_of(model).vertices(model, robot)
        center = center_of(world, state)
        seen = (points.position - center).reshape(-1, center.shape[0]) / model.voxel_side
        there = points.exists.reshape(-1)
        way = (self._target(account.kept) - center[0]) / model.voxel_side
        values = jnp.concatenate([way[None], jnp.where(there[:, None], seen, 0).T.reshape(-1)])
        return values, jnp.concatenate([jnp.ones(1, bool), jnp.tile(there, center.shape[0])])
