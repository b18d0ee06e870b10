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
    order = jnp.lexsort((points[:, 1], points[:, 0]))
    lower, upper = _chain(points[order]), _chain(points[order[::-1]])
    return 0.5 * (lower + upper)


def _chain(points: Array) -> Array:
    """Twice the signed area between the origin and the hull's lower side, for points sorted by x; or its upper side."""
    count = points.shape[0]

    def add(number: int, now: tuple[Array, Array]) -> tuple[Array, Array]:
        point = points[number]

        def turns_right(now: tuple[Array, Array]) -> Array:
            stack, size = now
            return (size >= 2) & (_turn(stack[size - 2], stack[size - 1], point) <= 0)

        stack, size = jax.lax.while_loop(turns_right, lambda now: (now[0], now[1] - 1), now)
        return stack.at[size].set(point), size + 1

    start = jnp.zeros_like(points), jnp.zeros((), jnp.int32)
    stack, size = jax.lax.fori_loop(0, count, add, start)
    following = jnp.roll(stack, -1, 0)
    inside = jnp.arange(count) < size - 1
    cross = stack[:, 0] * following[:, 1] - stack[:, 1] * following[:, 0]
    return jnp.where(inside, cross, 0).sum()


def _turn(a: Array, b: Array, c: Array) -> Array:
    """Positive if the way from a over b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
