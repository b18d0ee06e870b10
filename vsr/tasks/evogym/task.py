"""A task of EvoGym's table as a task of ours: its world, its rules, its observation.

Observations are EvoGym's V, O, R, F and C, padded to the points of the robot's grid, with a mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field, create_model

from vsr.physics.engine import ENGINES, engine_of
from vsr.robot import EngineName, Material
from vsr.spec import Seconds
from vsr.tasks.base import Overrides, Task
from vsr.tasks.evogym import furnishing
from vsr.tasks.evogym.seen import VOXEL, Part, Seen, orientation, relative, seen, step_seconds
from vsr.tasks.evogym.table import ROWS, Row, corner_points
from vsr.tasks.evogym.terms import Goals, Step
from vsr.tasks.measures import Summary
from vsr.world.placement import Placement
from vsr.world.state import WorldModel, WorldState

UNSTABLE = -3.0
"""Reward of the step in which the robot overlaps itself too much; nothing else counts in it."""
MOST_GOALS = 64
"""Room for goals; a hundred voxels of way need about ten."""
NEAR_ENOUGH = 2.0
"""To have reached a goal [voxels]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Account:
    """What a task remembers of an episode."""

    score: Array
    """sum of rewards so far, ()"""
    reward: Array
    """of the last step, ()"""
    done: Array
    """whether the episode is over before its time, ()"""
    first: Array
    """points of the robot at the start seen from their center, (p, dimension)"""
    first_object: Array | None
    """of the object, likewise"""
    goals: Goals | None


def score(episode: Summary) -> Array:
    """Sum of a task's rewards, in EvoGym's units."""
    return episode.account.score


class NamedTask(Task):
    """One of EvoGym's tasks. Lengths of rewards and observations are 0.1 a voxel in every physics."""

    row: ClassVar[Row]
    duration: Seconds | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    """[s]; if absent, EvoGym's number of control steps"""
    measures: tuple[str, ...] = Field(default=("score",), min_length=1)
    """what is measured"""

    own_measures: ClassVar = {"score": score}

    def issues(self, engine: EngineName, dimension: int, materials: Sequence[Material]) -> list[tuple[str, str]]:
        needs = furnishing.only_evogym(self.row)
        if needs is None or ENGINES[engine].own_contact:
            return []
        return [("type", f"{self.row.name} has {needs}, which only `engine: evogym` knows; the robot's is {engine}")]

    def overrides(self, engine: EngineName, voxel_side: float, dimension: int) -> Overrides:
        inside = ENGINES[engine].own_contact
        objects = () if inside else furnishing.objects_of(self.row, voxel_side, dimension)
        return Overrides(
            world={"terrain": furnishing.ground_of(self.row, voxel_side), "objects": objects},
            physics={"time_step": float(step_seconds(engine, voxel_side)), "control_every": 1},
        )

    def resolved(self, voxel_side: float, interval: float) -> NamedTask:
        x, y = self.row.start
        default = {
            "duration": self.row.steps * interval,
            "placement": Placement(corner=(float(x * voxel_side), float(y * voxel_side))),
        }
        given = {name for name in self.model_fields_set if getattr(self, name) is not None}
        return self.model_copy(update={name: value for name, value in default.items() if name not in given})

    def with_objects(self, model: Any) -> Any:
        if not engine_of(model).own_contact:
            return model
        return furnishing.with_objects(self.row, model)

    @property
    def has_random_state(self) -> bool:
        return self.row.shift is not None or self.row.goals is not None

    # rules

    def start(self, key: Array, world: WorldModel, state: WorldState) -> WorldState:
        model, robot = world.robots[0], state.robots[0]
        engine = engine_of(model)
        own = engine.own_bodies(model, engine.rest_state(model))
        if own:
            state = replace(state, robots=(engine.with_own_bodies(robot, tuple(one.state for one in own)),))
        if self.row.shift is None:
            return state
        by = furnishing.shift_of(self.row, key, model.mass.dtype) * model.voxel_side
        return _shifted(world, state, by)

    def begin(self, world: WorldModel, state: WorldState) -> Account:
        now = self._seen(world, state)
        zero = jnp.zeros((), now.robot.center.dtype)
        return Account(
            score=zero,
            reward=zero,
            done=jnp.zeros((), bool),
            first=relative(now.robot),
            first_object=None if now.object is None else relative(now.object),
            goals=None if self.row.goals is None else drawn_goals(state.key, self.row, zero.dtype),
        )

    def accumulate(
        self, account: Account, world: WorldModel, before: WorldState, after: WorldState, action: Array
    ) -> Account:
        step = self._step(account, self._seen(world, before), self._seen(world, after))
        reward, done = earned(self.row, step)
        return replace(account, score=account.score + reward, reward=reward, done=done, goals=step.goals)

    def reward(
        self, account: Account, world: WorldModel, before: WorldState, after: WorldState, action: Array
    ) -> Array:
        return account.reward

    def ended(self, account: Account, world: WorldModel, state: WorldState) -> Array:
        return account.done

    def observation(self, account: Account, world: WorldModel, state: WorldState) -> tuple[Array, Array]:
        """EvoGym's pieces in its order, padded, and which numbers are there, (numbers,) each."""
        now = self._seen(world, state)
        return pieces(self.row.sees, now, account.first, account.first_object, account.goals, _corners(self.row.name))

    def _seen(self, world: WorldModel, state: WorldState) -> Seen:
        inside = engine_of(world.robots[0]).own_contact
        terrain = furnishing.moving_terrain(self.row, inside)
        return seen(world, state, None if self.row.object is None else self.row.object.name, terrain)

    def _step(self, account: Account, before: Seen, after: Seen) -> Step:
        turn = orientation(account.first, before.robot), orientation(account.first, after.robot)
        goals = account.goals
        return Step(before, after, turn, None if goals is None else after_step(goals, after.robot.x))


def earned(row: Row, step: Step) -> tuple[Array, Array]:
    """Reward of a step, with what its end is worth, and whether it is the last, () each."""
    reward, over = jnp.zeros_like(step.after.robot.x), jnp.zeros((), bool)
    for term in row.reward:
        reward = reward + term(step)
    for end in row.ends:
        ended = end.when(step)
        reward, over = reward + jnp.where(ended, end.worth, 0), over | ended
    unstable = step.after.unstable
    return jnp.where(unstable, UNSTABLE, reward), over | unstable


def drawn_goals(key: Array, row: Row, dtype: jnp.dtype) -> Goals:
    """Places drawn until their way, from the middle of a full 5x5 body on, is long enough."""
    assert row.goals is not None
    low, high, far = row.goals
    place = jax.random.randint(key, (MOST_GOALS,), low, high)
    way = jnp.abs(jnp.diff(place, prepend=row.start[0] + 2)).cumsum()
    count = jnp.minimum((way < far).sum() + 1, MOST_GOALS)
    nothing = jnp.zeros((), jnp.int32)
    return Goals(VOXEL * place.astype(dtype), count.astype(jnp.int32), nothing, nothing)


def after_step(goals: Goals, x: Array) -> Goals:
    """Goals that the robot is near enough to are reached, one after the other."""

    number = jnp.arange(MOST_GOALS)
    far = jnp.abs(goals.place - x) >= NEAR_ENOUGH * VOXEL
    reached = jnp.where((number >= goals.reached) & far, number, MOST_GOALS).min()
    reached = jnp.maximum(jnp.minimum(reached, goals.count), goals.reached).astype(goals.reached.dtype)
    return goals._replace(reached=reached, observed=goals.reached)


def _shifted(world: WorldModel, state: WorldState, by: Array) -> WorldState:
    """With everything but the robot and the ground moved [m], right and up, (2,)."""
    engine = engine_of(world.robots[0])
    own = [one.state for one in engine.own_bodies(world.robots[0], state.robots[0])]
    if own:
        moved = tuple(replace(one, position=one.position + by) for one in own)
        return replace(state, robots=(engine.with_own_bodies(state.robots[0], moved),))
    objects = state.systems["objects"]
    moved = [
        None if one is None else replace(one, position=one.position + _in_3d(by, one.position))
        for one in (objects.solids, *objects.voxel_bodies)
    ]
    objects = replace(objects, solids=moved[0], voxel_bodies=tuple(moved[1:]))
    return replace(state, systems={**state.systems, "objects": objects})


def _in_3d(by: Array, position: Array) -> Array:
    """Right and up as a vector of a world's dimension."""
    nowhere = jnp.zeros(position.shape[-1] - 2, by.dtype)
    return jnp.concatenate([by[:1], nowhere, by[1:]])


_CORNERS: dict[str, np.ndarray] = {}


def _corners(name: str) -> np.ndarray:
    """Corners of the ground's voxels of a task that never move."""
    if name not in _CORNERS:
        _CORNERS[name] = corner_points(furnishing.still_cells(ROWS[name]))
    return _CORNERS[name]


def _task(row: Row) -> type[NamedTask]:
    """The class of a row."""
    known: Any = Literal[row.name]  # pyright: ignore[reportInvalidTypeForm]
    about = f"{row.about} EvoGym's, {row.difficulty}, {row.steps} steps."
    name = row.name.replace("-", "").capitalize()
    kind = create_model(name, __base__=NamedTask, __doc__=about, type=(known, row.name))
    kind.row = row
    return kind


EVOGYM_TASKS: dict[str, type[NamedTask]] = {name: _task(row) for name, row in ROWS.items()}
"""EvoGym's tasks by their names."""


SIGHT = 5
"""Farther than this up or down nothing is seen [voxels]."""
ON_BORDER = 1e-5
"""How near to the border of a column counts as on it [voxels]: float32 far from the origin resolves no less."""


def pieces(
    sees: tuple[str, ...], now: Seen, first: Array, first_object: Array | None, goals: Goals | None, corners: np.ndarray
) -> tuple[Array, Array]:
    """An observation and its mask, True for numbers that are there, both (numbers,).

    first: points of the robot seen from their center at the start, (p, dimension), and of the object; corners: True for
    corners of the ground's voxels, (rows, columns) of their lattice.
    """
    found = [_piece(name, now, first, first_object, goals, corners) for name in sees]
    values, masks = (jnp.concatenate(parts) for parts in zip(*found, strict=True))
    return jnp.where(masks, values, 0), masks


def _piece(
    name: str, now: Seen, first: Array, first_object: Array | None, goals: Goals | None, corners: np.ndarray
) -> tuple[Array, Array]:
    robot, other = now.robot, now.object
    if name == "R":
        return relative_positions(robot)
    if name[0] in "FC" and name[1:].isdigit():
        reach = int(name[1:])
        values = (floor if name[0] == "F" else ceiling)(robot, corners, reach, now.terrain)
    elif name == "V":
        values = robot.velocity
    elif name == "O":
        values = orientation(first, robot)[None]
    elif name == "goal":
        assert goals is not None
        goal = goals.place[jnp.minimum(goals.observed, goals.count - 1)]
        values = jnp.stack([goals.observed.astype(goal.dtype), goal, goal - robot.x])
    else:
        assert other is not None
        assert first_object is not None
        chosen = {
            "object from robot": lambda: other.center - robot.center,
            "V of object": lambda: other.velocity,
            "O of object": lambda: orientation(first_object, other)[None],
        }
        values = chosen[name]()
    return values, jnp.ones(values.shape, bool)


def relative_positions(part: Part) -> tuple[Array, Array]:
    """R: all points seen from their center, all x, then all y (in 3-D all y and all z), and which are there."""
    dimension = part.point.shape[1]
    return relative(part).T.reshape(-1), jnp.tile(part.exists, dimension)


def floor(part: Part, corners: np.ndarray, reach: int, moving: Part | None = None) -> Array:
    """F: how far below the center the ground is, in 2 reach + 1 columns of a voxel's width around it, (columns,).

    Only corners of the ground's voxels are seen, and no farther than five voxels. corners: (rows, columns); moving:
    corners that leave the lattice.
    """
    rows, below = _columns(part, corners, reach)
    high = jnp.where(below & (rows < part.up / VOXEL), rows, -jnp.inf).max(0)
    if moving is not None:
        up, below = _moving_columns(part, moving, reach)
        high = jnp.maximum(high, jnp.where(below & (up < part.up / VOXEL), up, -jnp.inf).max(0))
    return VOXEL * jnp.clip(part.up / VOXEL - high, 0, SIGHT)


def ceiling(part: Part, corners: np.ndarray, reach: int, moving: Part | None = None) -> Array:
    """C: the same upwards."""
    rows, above = _columns(part, corners, reach)
    low = jnp.where(above & (rows > part.up / VOXEL), rows, jnp.inf).min(0)
    if moving is not None:
        up, above = _moving_columns(part, moving, reach)
        low = jnp.minimum(low, jnp.where(above & (up > part.up / VOXEL), up, jnp.inf).min(0))
    return VOXEL * jnp.clip(low - part.up / VOXEL, 0, SIGHT)


def _moving_columns(part: Part, moving: Part, reach: int) -> tuple[Array, Array]:
    """As `_columns`, of points: their heights, (p, 1), and which are in every column, (p, columns)."""
    place = part.x / VOXEL + jnp.arange(-reach, reach + 1)
    x, up = moving.point[:, :1] / VOXEL, moving.point[:, -1:] / VOXEL
    return up, moving.exists[:, None] & (jnp.abs(x - place) < 0.5 - ON_BORDER)


def _columns(part: Part, corners: np.ndarray, reach: int) -> tuple[Array, Array]:
    """Heights of the lattice's rows, (rows, 1), and the corners in every column that is seen, (rows, columns)."""
    rows, width = corners.shape
    place = part.x / VOXEL + jnp.arange(-reach, reach + 1)
    nearest = jnp.where(jnp.isfinite(place), jnp.round(place), -1)
    # A corner exactly between two columns is in neither, as at the start of some tasks.
    inside = (nearest >= 0) & (nearest < width) & (jnp.abs(place - nearest) < 0.5 - ON_BORDER)
    number = jnp.where(inside, nearest, 0).astype(jnp.int32)
    return jnp.arange(rows, dtype=place.dtype)[:, None], jnp.asarray(corners)[:, number] & inside
