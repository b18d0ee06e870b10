"""Parts of rewards, ends of episodes: small functions of a step. Lengths are in EvoGym's units, arguments in voxels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.tasks.evogym.seen import VOXEL, Part, Seen, relative

Of = Literal["robot", "object"]
Axis = Literal["x", "up"]


class Step(NamedTuple):
    """One step of an episode."""

    before: Seen
    after: Seen
    turn: tuple[Array, Array]
    """orientation of the robot before and after, ()"""
    goals: Goals | None
    """places to go to, one after the other; None for most tasks"""


class Goals(NamedTuple):
    """Where to go."""

    place: Array
    """along x, (most,)"""
    count: Array
    """how many there are, ()"""
    reached: Array
    """how many were reached, ()"""
    observed: Array
    """how many the observation knows of: EvoGym makes it before it counts"""


Term = Callable[[Step], Array]
"""Reward of a step, ()."""
Done = Callable[[Step], Array]
"""Whether an episode is over, ()."""


class End(NamedTuple):
    """What ends an episode, and what that is worth."""

    when: Done
    worth: float


def _part(seen: Seen, of: Of) -> Part:
    part = seen.robot if of == "robot" else seen.object
    assert part is not None
    return part


def _place(seen: Seen, of: Of, axis: Axis) -> Array:
    return _part(seen, of).x if axis == "x" else _part(seen, of).up


def _gained(step: Step, of: Of, axis: Axis) -> Array:
    return _place(step.after, of, axis) - _place(step.before, of, axis)


def gain(weight: float = 1.0, of: Of = "robot", axis: Axis = "x") -> Term:
    """Change of a center's coordinate."""
    return lambda step: weight * _gained(step, of, axis)


def travel(weight: float, of: Of = "robot", axis: Axis = "x") -> Term:
    """The same either way."""
    return lambda step: weight * jnp.abs(_gained(step, of, axis))


def gain_below(height: float, weight: float, of: Of = "object", beyond: tuple[float, float] | None = None) -> Term:
    """Change of height while the center is lower than this; beyond: a place, and the height that counts right of it."""

    def term(step: Step) -> Array:
        part = _part(step.after, of)
        limit = height if beyond is None else jnp.where(part.x > VOXEL * beyond[0], beyond[1], height)
        return jnp.where(part.up < VOXEL * limit, weight * _gained(step, of, "up"), 0)

    return term


def nearer(to: float, weight: float = 1.0, of: Of = "robot", axis: Axis = "x") -> Term:
    """Decrease of the distance from a place."""

    def distance(seen: Seen) -> Array:
        return jnp.abs(VOXEL * to - _place(seen, of, axis))

    return lambda step: weight * (distance(step.before) - distance(step.after))


def together() -> Term:
    """Decrease of the distance of robot and object along x."""

    def distance(seen: Seen) -> Array:
        return jnp.abs(_place(seen, "robot", "x") - _place(seen, "object", "x"))

    return lambda step: distance(step.before) - distance(step.after)


def staying(weight: float) -> Term:
    """A penalty for walking away, either way from x = 0 on: its sign turns round left of it, as EvoGym has it."""

    def term(step: Step) -> Array:
        return -jnp.where(step.after.robot.x < 0, -weight, weight) * _gained(step, "robot", "x")

    return term


def turning() -> Term:
    """Change of the orientation, whole turns counted."""

    def term(step: Step) -> Array:
        before, after = step.turn
        third = jnp.pi / 3
        forward = (before > 5 * third) & (after < third)
        backward = (before < third) & (after > 5 * third)
        return after - before + 2 * jnp.pi * (forward.astype(after.dtype) - backward.astype(after.dtype))

    return term


def spread(weight: float = 1.0, axis: Axis = "x") -> Term:
    """Change of the extent."""

    def extent(part: Part) -> Array:
        along = part.point[:, 0 if axis == "x" else -1]
        high, low = (jnp.where(part.exists, along, sign * jnp.inf) for sign in (-1, 1))
        return high.max() - low.min()

    return lambda step: weight * (extent(step.after.robot) - extent(step.before.robot))


def area(weight: float) -> Term:
    """Change of the area of the convex hull, in 3-D of what is seen from the side."""

    def of(part: Part) -> Array:
        return hull_area(relative(part)[:, jnp.array([0, part.point.shape[1] - 1])], part.exists)

    return lambda step: weight * (of(step.after.robot) - of(step.before.robot))


def next_goal() -> Term:
    """Decrease of the distance from the current goal; of the next one where a goal was reached."""

    def term(step: Step) -> Array:
        assert step.goals is not None
        goal = step.goals.place[jnp.minimum(step.goals.reached, step.goals.count - 1)]
        return jnp.abs(goal - step.before.robot.x) - jnp.abs(goal - step.after.robot.x)

    return term


def beyond(place: float, of: Of = "robot", axis: Axis = "x") -> Done:
    """The center is farther than a place."""
    return lambda step: _place(step.after, of, axis) > VOXEL * place


def short_of(place: float, of: Of = "robot", axis: Axis = "x") -> Done:
    """The center is less far than a place."""
    return lambda step: _place(step.after, of, axis) < VOXEL * place


def turned_over(degrees: float = 90.0) -> Done:
    """The robot is turned by more than this, either way."""

    def done(step: Step) -> Array:
        angle, limit = step.turn[1], jnp.radians(degrees)
        return (angle > limit) & (angle < 2 * jnp.pi - limit)

    return done


def all_goals() -> Done:
    """Every goal was reached."""

    def done(step: Step) -> Array:
        assert step.goals is not None
        return step.goals.reached >= step.goals.count

    return done


def hull_area(points: Array, exists: Array) -> Array:
    """Of the points that exist, (), in squared units of theirs; points: (p, 2); exists: (p,); at least one exists."""
    # What does not exist lies upon a point that does, and changes nothing.
    first = points[jnp.argmax(exists)]
    points = jnp.where(exists[:, None], points, first)
    points = points[jnp.lexsort((points[:, 1], points[:, 0]))]
    return 0.5 * (_chain(points) + _chain(-points[::-1]))


def _chain(points: Array) -> Array:
    """Twice the signed area between the origin and the hull's lower side; points: sorted by x, then y, (p, 2).

    A point is a corner if every line to it from the left is less steep than every line from it to the right. No loop:
    on a GPU each turn of one would be a launch.
    """
    x, y = points.T
    place = jnp.arange(len(x))
    right = x[None] - x[:, None]
    slope = jnp.where(right > 0, (y[None] - y[:, None]) / jnp.where(right > 0, right, 1), jnp.inf)
    ahead = place[:, None] < place[None]
    steepest = jnp.where(ahead, slope, -jnp.inf).max(0)
    flattest = jnp.where(ahead, slope, jnp.inf).min(1)
    corner = (steepest < flattest) | (place == len(x) - 1)
    last = jax.lax.cummax(jnp.where(corner, place, 0))
    before = jnp.concatenate([place[:1], last[:-1]])
    return jnp.where(corner, x[before] * y - y[before] * x, 0).sum()
