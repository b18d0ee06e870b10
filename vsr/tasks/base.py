"""Tasks: one class that says what the world holds, what counts, and when it is over.

Tasks of our own (`JudgedTask`) have one number that says how far an episode has come, and whose rise is rewarded. So
the sum of rewards is the number at the end, and the number is the task's measure.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field, field_validator

from vsr.environment import Environment
from vsr.physics.engine import engine_of
from vsr.robot import EngineName, Material
from vsr.spec import Seconds, Spec, unknown_names
from vsr.tasks.measures import DEFAULT_MEASURES, MEASURES, NEED_GAIT, Combined, Measure, Summary, with_inputs
from vsr.world.placement import Placement
from vsr.world.state import WorldModel, WorldState


class Overrides(NamedTuple):
    """What a task brings along, field by field."""

    world: Mapping[str, Any] = {}
    """of the world: these are the task's own, and nothing else may be given for them"""
    physics: Mapping[str, Any] = {}
    """of physics, where nothing is given"""


class Task(Spec):
    """A described task. Its rules are pure functions of arrays; its fields are known before tracing.

    A subclass names itself with a field `type` and enters vsr.tasks.TASKS. It must give a reward; what else it changes
    is its choice. Rules see the world before and after every control step.
    """

    duration: Seconds = 20.0
    """[s]"""
    placement: Placement = Placement()
    """where the robot starts"""
    measures: tuple[str, ...] = Field(default=DEFAULT_MEASURES, min_length=1)
    """what is measured"""

    own_measures: ClassVar[Mapping[str, Measure]] = {}
    """measures that only this task has"""

    @field_validator("measures")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known = cls.known_measures()
        unknown = [name for name in names if name not in known]
        if unknown:
            raise unknown_names(unknown, known, "measure")
        return names

    @classmethod
    def known_measures(cls) -> dict[str, Measure]:
        """Every measure that this task has, by its name."""
        return {**MEASURES, **cls.own_measures}

    def issues(self, engine: EngineName, dimension: int, materials: Sequence[Material]) -> list[tuple[str, str]]:
        """Fields that do not fit robots of such masses and materials, each with the reason."""
        return []

    def overrides(self, engine: EngineName, voxel_side: float, dimension: int) -> Overrides:
        """What the world and physics of its episodes are, for robots of such voxels [m]."""
        return Overrides()

    def resolved(self, voxel_side: float, interval: float) -> Task:
        """With what it leaves open filled in, for voxels [m] and a control interval [s]."""
        return self

    def with_objects(self, model: Any) -> Any:
        """The robot's model with what is in its world, where an engine keeps that with the robot."""
        return model

    def drawn(self, key: Array, environment: Environment) -> Environment:
        """The environment of all episodes of one generation of a search; key: that generation's. Pure."""
        return environment

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickled by name where it is registered, because a class that was made on the fly cannot be imported."""
        from vsr.tasks import TASKS

        name = str(getattr(self, "type", ""))
        if TASKS.get(name) is not type(self):
            return super().__reduce_ex__(protocol)
        return _unpickled, (type(self).__module__, name), self.__getstate__()

    # rules

    def systems(self, dimension: int, dtype: jnp.dtype | type) -> dict[str, Any]:
        """What the world holds at the start besides the robot and its ground (vsr.world.coupling.System)."""
        return {}

    def start(self, key: Array, world: WorldModel, state: WorldState) -> WorldState:
        """The world at the start: what the task draws at random or puts onto the ground is changed here."""
        return state

    def begin(self, world: WorldModel, state: WorldState) -> Any:
        """What `accumulate` starts from: any pytree."""
        return None

    def accumulate(self, account: Any, world: WorldModel, before: WorldState, after: WorldState, action: Array) -> Any:
        """The account after one more control step, or after what time remains behind the last."""
        return account

    @abstractmethod
    def reward(self, account: Any, world: WorldModel, before: WorldState, after: WorldState, action: Array) -> Array:
        """For one control step, (); account: with this step."""

    def ended(self, account: Any, world: WorldModel, state: WorldState) -> Array:
        """Whether the episode is over before its time, (); reaching the time limit does not count."""
        return jnp.zeros((), bool)

    def observation(self, account: Any, world: WorldModel, state: WorldState) -> tuple[Array, Array]:
        """What a learner sees, and which of the numbers are there, (numbers,) each. Not every task has one."""
        raise ValueError(
            f"'{type(self).__name__}' has no observation of its own: give the scenario sensors, and `observe`"
        )

    # what follows from the rules

    @property
    def follows_gait(self) -> bool:
        """Whether some measure depends on how the robot walks."""
        return not NEED_GAIT.isdisjoint(with_inputs(self.measures, self.known_measures()))

    @property
    def needs_every_step(self) -> bool:
        """Whether measures or the end depend on single control steps, so that none can be left out."""
        kind = type(self)
        return self.follows_gait or any(
            getattr(kind, rule) is not getattr(Task, rule) for rule in ("begin", "accumulate", "ended")
        )

    @property
    def resamples(self) -> bool:
        """Whether every generation of a search has an environment of its own."""
        return type(self).drawn is not Task.drawn

    @property
    def has_random_state(self) -> bool:
        """Whether episodes with other keys may start otherwise."""
        kind = type(self)
        return kind.start is not Task.start or kind.begin is not Task.begin

    def evaluate(self, episode: Summary, names: tuple[str, ...] | None = None) -> dict[str, Array]:
        """The named measures, or all that the task asks for; not a number where the episode failed."""
        known = self.known_measures()

        def value(name: str) -> Array:
            measure = known[name]
            if isinstance(measure, Combined):
                return measure.function({one: value(one) for one in sorted(measure.reads)})
            return measure(episode)

        chosen = self.measures if names is None else names
        return {name: jnp.where(episode.failed, jnp.nan, value(name)) for name in chosen}


def _unpickled(module: str, name: str) -> Task:
    """A task without its fields, of a module that registers it."""
    from vsr.tasks import TASKS

    import_module(module)
    return TASKS[name].__new__(TASKS[name])


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
