"""What tasks of our own have in common: one number that says how far an episode has come, and whose rise is rewarded.

So the sum of rewards is the number at the end, and the number is the task's measure.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field

from vsr.physics.engine import engine_of
from vsr.tasks.base import Task
from vsr.tasks.summary import Summary
from vsr.world.state import WorldModel, WorldState


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Judged:
    """An episode so far."""

    value: Array
    """what counts, ()"""
    reward: Array
    """by which it rose in the last step, ()"""
    over: Array
    """whether the episode is over before its time, ()"""
    kept: Any
    """what else the task remembers"""


def achieved(episode: Summary) -> Array:
    """What the task counts at the end, in the unit that its description says."""
    return episode.account.value


class JudgedTask(Task):
    """A task of one number. It says what it is at the start and after a step."""

    measures: tuple[str, ...] = Field(default=("achieved",), min_length=1)
    """what is measured"""
    own_measures = {"achieved": achieved}  # noqa: RUF012

    def first(self, world: WorldModel, state: WorldState) -> Any:
        """What is remembered at the start, where the number is 0."""
        return None

    @abstractmethod
    def judged(
        self, value: Array, kept: Any, world: WorldModel, before: WorldState, after: WorldState
    ) -> tuple[Array, Any, Array]:
        """The number after a step, what is remembered, and whether the episode is over."""

    def begin(self, world: WorldModel, state: WorldState) -> Judged:
        nothing = jnp.zeros_like(state.time)
        return Judged(nothing, nothing, jnp.zeros((), bool), self.first(world, state))

    def accumulate(
        self, account: Judged, world: WorldModel, before: WorldState, after: WorldState, action: Array
    ) -> Judged:
        value, kept, over = self.judged(account.value, account.kept, world, before, after)
        return Judged(value, value - account.value, over, kept)

    def reward(self, account: Judged, world: WorldModel, before: WorldState, after: WorldState, action: Array) -> Array:
        """By which the number rose."""
        return account.reward

    def ended(self, account: Judged, world: WorldModel, state: WorldState) -> Array:
        return account.over


def center_of(world: WorldModel, state: WorldState) -> Array:
    """The robot's center [m], (dimension,)."""
    model = world.robots[0]
    return engine_of(model).center(model, state.robots[0])


def never() -> Array:
    """No end before its time."""
    return jnp.zeros((), bool)
