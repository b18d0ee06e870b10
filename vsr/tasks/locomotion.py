"""Locomotion: travel along x (2D-VSR-Sim paper, section 2.5), over ground that is resampled, or to a target and back.

A search that sees one ground finds robots for that ground. With `FreshGround` every generation has another one, the
same for all of its individuals; grounds of the held-out set, numbered from 0, are never among them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field, model_validator

from vsr.environment import Environment
from vsr.physics.engine import engine_of
from vsr.robot import EngineName
from vsr.spec import Count, Real, Seconds
from vsr.tasks.base import Judged, JudgedTask, Overrides, Task, center_of, never
from vsr.tasks.measures import Summary
from vsr.terrain import Polyline
from vsr.world.state import WorldModel, WorldState


class Locomotion(Task):
    """Move along x for a given time; several measures may be taken at once."""

    type: Literal["locomotion"] = "locomotion"

    def reward(self, account: Any, world: WorldModel, before: WorldState, after: WorldState, action: Array) -> Array:
        """Displacement of the center along x in the step [m]."""
        model = world.robots[0]
        engine = engine_of(model)
        return engine.center(model, after.robots[0])[0] - engine.center(model, before.robots[0])[0]


class Settled(NamedTuple):
    """What counts of a way, and from where."""

    start: Array
    """of the center along x when the robot had settled [m], ()"""
    settle: Array
    """[s], ()"""
    allowance: Array
    """[body lengths], ()"""


def net_velocity(episode: Summary) -> Array:
    """Displacement along x after settling, beyond the allowance, over the time left and the robot's length [1/s]."""
    account: Settled = episode.account
    length = episode.box.max()
    way = episode.end[0] - account.start
    beyond = way - jnp.clip(way, 0, account.allowance * length)
    return beyond / (length * (episode.total_time - account.settle))


class SettledLocomotion(Locomotion):
    """Move along x once settled; the first body length counts nothing, so that falling over forwards pays nothing."""

    type: Literal["settled_locomotion"] = "settled_locomotion"  # pyright: ignore[reportIncompatibleVariableOverride]
    settle: Annotated[Real, Field(ge=0)] = 1.0
    """before distance counts [s]"""
    allowance: Annotated[Real, Field(ge=0)] = 1.0
    """of the way forwards that counts nothing, in lengths of the robot: larger sides of its initial bounding box"""
    measures: tuple[str, ...] = Field(default=("net_velocity", "relative_velocity"), min_length=1)
    """what is measured"""
    own_measures = {"net_velocity": net_velocity}  # noqa: RUF012

    @model_validator(mode="after")
    def _time_is_left(self) -> SettledLocomotion:
        if self.settle >= self.duration:
            raise ValueError(f"settle, {self.settle:g} s, leaves nothing of {self.duration:g} s")
        return self

    def begin(self, world: WorldModel, state: WorldState) -> Settled:
        start = center_of(world, state)[0]
        return Settled(start, jnp.asarray(self.settle, start.dtype), jnp.asarray(self.allowance, start.dtype))

    def accumulate(
        self, account: Settled, world: WorldModel, before: WorldState, after: WorldState, action: Array
    ) -> Settled:
        settling = before.time < self.settle - 1e-4  # the step in which it settles ends there, or a little later
        return account._replace(start=jnp.where(settling, center_of(world, after)[0], account.start))


HELD_OUT, SEARCHED = 0, 1
"""Streams of random numbers."""


class FreshGround(Locomotion):
    """Locomotion over hills resampled for every generation; single scenes have a ground of the held-out set."""

    type: Literal["fresh_ground"] = "fresh_ground"  # pyright: ignore[reportIncompatibleVariableOverride]
    roughness: Annotated[Real, Field(ge=0)] = 1.0
    """standard deviation of heights [m]"""
    spacing: Annotated[Real, Field(gt=0)] = 6.0
    """between two points of the ground [m]"""
    length: Annotated[Real, Field(gt=0)] = 600.0
    """of the ground, beyond which it is level [m]"""
    level: Annotated[Real, Field(ge=0)] = 24.0
    """at the beginning, where robots start [m]"""
    ground: Annotated[Count, Field(ge=0, lt=1_000_000)] = 0
    """number of the held-out ground of a single scene"""

    @model_validator(mode="after")
    def _long_enough(self) -> FreshGround:
        if self.length < self.level + 2 * self.spacing:
            raise ValueError(f"length, {self.length:g} m, leaves no hills beyond {self.level:g} m of level ground")
        return self

    def overrides(self, engine: EngineName, voxel_side: float, dimension: int) -> Overrides:
        x = self._places()
        heights = self._heights(jax.random.fold_in(jax.random.key(HELD_OUT), self.ground), x)
        line = Polyline(x=tuple(x.tolist()), y=tuple(np.asarray(heights, float).round(6).tolist()))
        return Overrides(world={"terrain": line})

    def drawn(self, key: Array, environment: Environment) -> Environment:
        line = environment.terrain and environment.terrain.line
        assert line is not None
        heights = self._heights(jax.random.fold_in(key, SEARCHED), self._places()).astype(line.vertex_y.dtype)
        slope = jnp.diff(heights) / jnp.diff(line.vertex_x)
        size = jnp.sqrt(1 + slope**2)
        drawn = replace(line, vertex_y=heights, slope=slope, normal_x=-slope / size, normal_y=1 / size)
        return replace(environment, terrain=drawn)

    def _places(self) -> np.ndarray:
        """Points of the ground along x [m]."""
        return np.arange(0, self.length + 0.5 * self.spacing, self.spacing)

    def _heights(self, key: Array, x: np.ndarray) -> Array:
        """Of the ground's points [m]."""
        hilly = jnp.asarray((x > self.level) & (x < x[-1] - self.spacing), jnp.float32)
        return self.roughness * hilly * jax.random.normal(key, x.shape)


class Command(NamedTuple):
    """The command that a robot follows."""

    away: Array
    """whether the target is to be gone to, or the start, ()"""
    until: Array
    """when the next command comes [s], ()"""
    start: Array
    """where it began, along x [m], ()"""
    key: Array
    """of further commands"""


class GoAndReturn(JudgedTask):
    """Go to a target and back, on command: by how much the distance from where it should be fell, in sum [m].

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
        over = after.time >= command.until
        following = jax.tree.map(lambda new, old: jnp.where(over, new, old), other, command)
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
