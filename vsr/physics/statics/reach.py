"""Inverse statics of voxel robots with chambers: the drives that bring points of the body nearest to targets.

With x(u) the equilibrium under drives u and e(x) the effectors, least squares within bounds

    min ½ Σ weight |e(x(u)) - target|²,   low ≤ u ≤ high,   lowest ≤ q(x(u), u) ≤ highest

where q is what is not driven: volumes where pressures are, pressures where volumes are. Gauss and Newton's steps with
Levenberg's damping: the derivative of x(u) comes from the implicit function theorem (vsr.physics.statics), every step
is the minimum of the squares within the bounds as they look from here, and only steps to an equilibrium that is nearer
and within all bounds are taken. The next equilibrium starts where the derivative expects it. Contact with ground and
obstacles is part of the energy.

The end is a point from which no small step leads nearer. There may be others: give other trials. One body and one
target; use `vmap` for many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.linear import LIBRARY, PLAIN, exactly
from vsr.physics.fluid.law import NO_LIMIT
from vsr.physics.points.model import PointModel
from vsr.physics.statics.newton import Settings, settle
from vsr.physics.statics.quadratic import minimize
from vsr.physics.statics.voxels import (
    Resting,
    chamber_pressures,
    chamber_volumes,
    energy,
    free_coordinates,
    voxel_system,
)


class Effectors(NamedTuple):
    """Points of a body, each between some nodes."""

    node: Array
    """numbers of nodes, of all layers, (effectors, nodes)"""
    share: Array
    """of those nodes, adding up to 1, (effectors, nodes)"""
    weight: Array
    """in the sum of squares, (effectors,)"""

    def at(self, position: Array) -> Array:
        """Where they are [m], (effectors, dimension); position: (layers, n, dimension)."""
        nodes = position.reshape(-1, position.shape[-1])[self.node]
        return (self.share[..., None] * nodes).sum(1)


class Bounds(NamedTuple):
    """Lowest and highest, each (m,)."""

    low: Array
    """of drives: pressures [Pa] or volumes [m³]"""
    high: Array
    low_other: Array
    """of what is not driven: added volumes over those at rest where pressure is, pressures [Pa] where volume is"""
    high_other: Array


def bounds_of(model: PointModel) -> Bounds:
    """As the fluids of a model say; empty places for chambers have none."""
    chambers = model.chambers
    assert chambers is not None
    numbers, rest = chambers.numbers, chambers.rest_volume
    volume = numbers.by_volume > 0
    return Bounds(
        low=jnp.where(volume, rest * (1 + numbers.low_added), numbers.low_pressure),
        high=jnp.where(volume, rest * (1 + numbers.high_added), numbers.high_pressure),
        low_other=jnp.where(rest > 0, jnp.where(volume, numbers.low_pressure, numbers.low_added), -NO_LIMIT),
        high_other=jnp.where(rest > 0, jnp.where(volume, numbers.high_pressure, numbers.high_added), NO_LIMIT),
    )


@dataclass(frozen=True)
class ReachSettings:
    """When to stop; lengths in sizes of the body."""

    tolerance: float | None = None
    """targets this near are reached; None for 1e-7, or 1e-5 in float32"""
    standstill: float | None = None
    """effectors that would move less have arrived; None for 1e-7, or 1e-5 in float32"""
    most_iterations: int = 50
    settled: float | None = None
    """the last step of an equilibrium may be as long, which leaves about its square; None for 1e-4"""
    most_steps: int = 100
    """of Newton's method for one equilibrium"""
    many: bool = False
    """whether it is one of many searches at once (vsr.compute.linear)"""
    trust: float = 0.1
    """see vsr.physics.statics.Settings"""


class Pose(NamedTuple):
    """An equilibrium and how it changes with the drives."""

    position: Array
    """[m], (layers, n, dimension)"""
    drive: Array
    """(m,)"""
    gradient: Array
    """of the position with each drive, (m, layers, n, dimension)"""
    residual: Array
    """largest force on a free coordinate [N], ()"""
    converged: Array
    """whether it is a minimum of the energy, ()"""


class Reached(NamedTuple):
    """What came of it."""

    pose: Pose
    effector: Array
    """[m], (effectors, dimension)"""
    distance: Array
    """of every effector from its target [m], (effectors,)"""
    iterations: Array
    """equilibria tried, ()"""
    arrived: Array
    """whether no small step leads nearer, ()"""
    reached: Array
    """whether all effectors are at their targets, ()"""


@exactly
def pose_at(
    given: Resting, start: Array, drive: Array, *, size: Array | float, settings: ReachSettings | None = None
) -> Pose:
    """The equilibrium under drives, (m,), next to a start [m], (layers, n, dimension)."""
    settings, kind = settings or ReachSettings(), start.dtype
    now = given._replace(drive=drive)

    def pushes(position: Array) -> Array:
        """Forces of one more unit of each drive."""

        def force(value: Array) -> Array:
            return -jax.grad(energy)(position, now._replace(drive=value))

        return jax.vmap(lambda one: jax.jvp(force, (drive,), (one,))[1])(jnp.eye(len(drive), dtype=kind))

    tolerance = _of(settings.settled, kind, 1e-4, 1e-4)
    found, gradient = settle(
        voxel_system(PLAIN if settings.many else LIBRARY),
        start,
        free_coordinates(given.model),
        now,
        size=size,
        settings=Settings(tolerance=tolerance, most_iterations=settings.most_steps, trust=settings.trust),
        pushes=pushes,
    )
    return Pose(found.position, drive, gradient, found.residual, found.converged)


class _Search(NamedTuple):
    pose: Pose
    cost: Array
    damping: Array
    overshoot: Array
    """by how much the last step brought what is not driven beyond what its derivative said, in ranges, (2 m,)"""
    iterations: Array
    done: Array


@exactly
def reach(
    given: Resting,
    effectors: Effectors,
    target: Array,
    bounds: Bounds,
    start: Pose,
    *,
    size: Array | float,
    settings: ReachSettings | None = None,
) -> Reached:
    """The pose nearest to a target [m], (effectors, dimension), from a pose within the bounds.

    size: of the body [m], ().
    """
    settings, kind = settings or ReachSettings(), target.dtype
    size = jnp.asarray(size, kind)
    near = size * _of(settings.tolerance, kind, 1e-7, 1e-5)
    still = size * _of(settings.standstill, kind, 1e-7, 1e-5)
    # Only ratios of weights matter.
    root = jnp.sqrt(effectors.weight / effectors.weight.max())[:, None]
    span = jnp.maximum(bounds.high - bounds.low, jnp.finfo(kind).tiny)

    def off(pose: Pose) -> Array:
        return root * (effectors.at(pose.position) - target)

    def step(now: _Search) -> _Search:
        pose = now.pose
        moves = jax.vmap(effectors.at)(pose.gradient) * span[:, None, None]
        gradients = (root * moves).reshape(len(span), -1)
        matrix = gradients @ gradients.T
        damped = matrix + jnp.diag(now.damping * jnp.trace(matrix) + jnp.finfo(kind).tiny * jnp.ones_like(span))
        sides, room = _room(given, pose, bounds, span)
        room = room - jnp.concatenate([jnp.zeros_like(room[: len(span) * 2]), now.overshoot])
        move = minimize(damped, gradients @ off(pose).reshape(-1), sides, room, PLAIN if settings.many else LIBRARY)
        drive = jnp.clip(pose.drive + span * move, bounds.low, bounds.high)
        expected = pose.position + jnp.tensordot(drive - pose.drive, pose.gradient, 1)
        there = pose_at(given, expected, drive, size=size, settings=settings)
        cost = 0.5 * (off(there) ** 2).sum()
        within = _within(given, there, bounds)
        better = there.converged & (cost < now.cost)
        good = better & within
        far = jnp.sqrt((jnp.tensordot(move, moves, 1) ** 2).sum(-1)).max()
        # Close to the end rounding decides whether a step is an improvement.
        arrived = (far <= still) & (now.damping <= 1) | (~good & (far <= 30 * still))
        # Far from a target the last steps go along a curve about it, and bring next to nothing.
        arrived = arrived | (good & (jnp.sqrt(2 * now.cost) - jnp.sqrt(2 * cost) <= LITTLE * still))
        kept = jax.tree.map(lambda new, old: jnp.where(good, new, old), there, pose)
        gap = jnp.sqrt(((effectors.at(kept.position) - target) ** 2).sum(-1)).max()
        eased = jnp.where(now.damping > LEAST_DAMPING, now.damping / 10, LEAST_DAMPING)
        return _Search(
            pose=kept,
            cost=jnp.where(good, cost, now.cost),
            damping=jnp.where(
                good, eased, jnp.where(better, 2 * now.damping, jnp.maximum(10 * now.damping, FIRST_DAMPING))
            ),
            overshoot=jnp.where(there.converged, _overshoot(given, pose, there, bounds, sides, move), 0),
            iterations=now.iterations + 1,
            done=arrived | (gap <= near) | (now.damping > 1e8),
        )

    def go_on(now: _Search) -> Array:
        return ~now.done & (now.iterations < settings.most_iterations)

    first = start._replace(drive=jnp.clip(start.drive, bounds.low, bounds.high))
    begun = 0.5 * (off(first) ** 2).sum()
    gap = jnp.sqrt(((effectors.at(first.position) - target) ** 2).sum(-1)).max()
    search = _Search(
        pose=first,
        cost=begun,
        damping=jnp.full((), LEAST_DAMPING, kind),
        overshoot=jnp.zeros(2 * len(span), kind),
        iterations=jnp.zeros((), jnp.int32),
        done=(gap <= near) | ~start.converged,
    )
    last = jax.lax.while_loop(go_on, step, search)
    effector = effectors.at(last.pose.position)
    distance = jnp.sqrt(((effector - target) ** 2).sum(-1))
    return Reached(
        pose=last.pose,
        effector=effector,
        distance=distance,
        iterations=last.iterations,
        arrived=last.done & last.pose.converged,
        reached=(distance <= near).all() & last.pose.converged,
    )


@exactly
def track(
    given: Resting,
    effectors: Effectors,
    targets: Array,
    bounds: Bounds,
    start: Pose,
    *,
    change: Array,
    change_of_others: Array,
    size: Array | float,
    settings: ReachSettings | None = None,
) -> Reached:
    """One target after the other [m], (targets, effectors, dimension), each from the pose before.

    change, change_of_others: of drives and of what is not driven, at most, from one target to the next, each (m,).
    """

    def one(pose: Pose, target: Array) -> tuple[Pose, Reached]:
        within = limited(bounds, pose.drive, change)
        here = others(given, pose)
        within = within._replace(
            low_other=jnp.maximum(bounds.low_other, here - change_of_others),
            high_other=jnp.minimum(bounds.high_other, here + change_of_others),
        )
        found = reach(given, effectors, target, within, pose, size=size, settings=settings)
        return found.pose, found

    return jax.lax.scan(one, start, targets)[1]


def limited(bounds: Bounds, drive: Array, change: Array) -> Bounds:
    """Bounds of drives that may not change by more than this."""
    return bounds._replace(low=jnp.maximum(bounds.low, drive - change), high=jnp.minimum(bounds.high, drive + change))


LEAST_DAMPING, FIRST_DAMPING = 1e-9, 1e-4
"""Over the sum of curvatures."""
LITTLE = 1e-2
"""Of what counts as standing still: a search ends with a step that brings its effectors no nearer than this."""
MARGIN = 1e-6
"""Searches keep this share of the range away from bounds of what is not driven, and are allowed to err as much."""


def others(given: Resting, pose: Pose) -> Array:
    """What is not driven: added volume over that at rest, or pressure [Pa], (m,)."""
    return _others(given, pose.position, pose.drive)


def _others(given: Resting, position: Array, drive: Array) -> Array:
    chambers = given.model.chambers
    assert chambers is not None
    rest = jnp.where(chambers.rest_volume > 0, chambers.rest_volume, 1)
    added = chamber_volumes(given.model, position) / rest - 1
    pressure = chamber_pressures(given.model, position, drive)
    return jnp.where(chambers.numbers.by_volume > 0, pressure, added)


def _room(given: Resting, pose: Pose, bounds: Bounds, span: Array) -> tuple[Array, Array]:
    """Sides A and bounds b of A v ≤ b for moves in units of the drives' ranges."""

    def along(position: Array, drive: Array) -> tuple[Array, Array]:
        here = pose.position, pose.drive
        return jax.jvp(lambda *place: _others(given, *place), here, (position, drive))

    stretched = span.reshape(-1, *(1,) * (pose.gradient.ndim - 1)) * pose.gradient
    value, gradient = jax.vmap(along, out_axes=(None, 1))(stretched, jnp.diag(span))
    low, high, range_ = _inner(bounds)
    unit = jnp.eye(len(span), dtype=span.dtype)
    sides = jnp.concatenate([unit, -unit, gradient / range_[:, None], -gradient / range_[:, None]])
    room = jnp.concatenate(
        [
            (bounds.high - pose.drive) / span,
            (pose.drive - bounds.low) / span,
            (high - value) / range_,
            (value - low) / range_,
        ]
    )
    return sides, jnp.clip(room, 0, FAR)


FAR = 1e3
"""Ranges: no step goes as far."""


def _overshoot(given: Resting, pose: Pose, there: Pose, bounds: Bounds, sides: Array, move: Array) -> Array:
    """By how much a step brought what is not driven nearer to its bounds than the derivative said, in ranges, (2 m,).

    Bounds are curved, so a step within them as they look from here can end beyond them. The next step then leaves as
    much more room.
    """
    range_ = _inner(bounds)[2]
    change = (others(given, there) - others(given, pose)) / range_
    count = len(range_)
    expected = sides[2 * count :] @ move
    return jnp.maximum(jnp.concatenate([change, -change]) - expected, 0)


def _within(given: Resting, pose: Pose, bounds: Bounds) -> Array:
    low, high, range_ = _inner(bounds)
    value = others(given, pose)
    allowed = MARGIN * range_
    return ((value <= high + allowed) & (value >= low - allowed)).all()


def _inner(bounds: Bounds) -> tuple[Array, Array, Array]:
    """Bounds of what is not driven, a little inside, and their range, which is never too large for a number."""
    range_ = jnp.clip(bounds.high_other - bounds.low_other, 1e-9, 1e12)
    return bounds.low_other + MARGIN * range_, bounds.high_other - MARGIN * range_, range_


def _of(value: float | None, kind: jnp.dtype, double: float, single: float) -> float:
    if value is not None:
        return value
    return double if kind == jnp.float64 else single
